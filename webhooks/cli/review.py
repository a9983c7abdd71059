"""``webhooks review``: from files to a report and an exit code."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from webhooks.config import file
from webhooks.errors import ConfigurationError
from webhooks.offline import sources as streams
from webhooks.offline.evaluation import Reviewer, ReviewResult
from webhooks.offline.reports import FORMATS, exit_code, printable
from webhooks.offline.requests import Operation, Requests
from webhooks.offline.sources import Manifest, Problem
from webhooks.policy.loader import load

_MUCH = 1024 * 1024  # bytes; below that it is over before a bar is seen


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be reviewed, by what, and how it is told.

    Attributes:
        sources: files and folders of manifests; ``-`` is standard input.
        config: a configuration that has policies too; None for none.
        policies: where policies come from, as `loading.load` takes it.
        operation: of the requests; see `Requests`.
        user: of the requests.
        groups: of the requests.
        old: a file or folder of the stored objects.
        output: one of `FORMATS`.
    """

    sources: Sequence[str]
    config: Path | None
    policies: Sequence[str]
    operation: Operation | None
    user: str
    groups: Sequence[str]
    old: Sequence[str]
    output: str


def run(job: Job) -> int:
    """Review, print what was found, and return the exit code.

    Raises:
        ConfigurationError: the policies do not load, or what is asked for does not fit together.
    """
    if job.operation == "UPDATE" and not job.old:
        raise ConfigurationError("an UPDATE needs the objects that are stored: give them by --old")
    if job.operation == "CREATE" and job.old:
        raise ConfigurationError("a CREATE finds nothing stored: leave out --old")
    policies = [*load(job.policies), *([] if job.config is None else file.read(job.config).load())]
    old = list(streams.read(job.old))
    found: list[ReviewResult | Problem] = [each for each in old if isinstance(each, Problem)]
    stored = [each for each in old if isinstance(each, Manifest)]
    reviewer = Reviewer(policies, Requests(job.operation, job.user, job.groups, stored))
    gc.set_threshold(50_000, 20, 20)  # what is found is kept, so that looking for garbage takes ever longer
    with _progress(job.sources) as advance:
        found += asyncio.run(_review(reviewer, job.sources, advance))
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    click.echo(FORMATS[job.output](found), nl=False, color=colour)
    _tell(found, denials=job.output == "patched")
    code = exit_code(found)
    if reviewer.runner.busy:
        sys.stdout.flush()
        os._exit(code)  # a thread that a policy does not give back would keep the process for ever
    return code


async def _review(
    reviewer: Reviewer, sources: Sequence[str], advance: Callable[[int], object]
) -> list[ReviewResult | Problem]:
    await reviewer.runner.start()
    try:
        return [
            each if isinstance(each, Problem) else await reviewer.review(each)
            for each in streams.read(sources, advance)
        ]
    finally:
        await reviewer.runner.close()


def _progress(sources: Sequence[str]) -> AbstractContextManager[Callable[[int], object]]:
    total = streams.size(sources)
    if total < _MUCH or not sys.stderr.isatty():
        return nullcontext(lambda _: None)
    return _Bar(total)


class _Bar(AbstractContextManager[Callable[[int], object]]):
    def __init__(self, total: int) -> None:
        self._bar = click.progressbar(length=total, label="Reviewing", file=sys.stderr, update_min_steps=total // 200)

    def __enter__(self) -> Callable[[int], object]:
        return self._bar.__enter__().update

    def __exit__(self, *raised: Any) -> None:
        self._bar.__exit__(*raised)


def _tell(found: Sequence[ReviewResult | Problem], *, denials: bool) -> None:
    """Say what went wrong where it is in nobody's way."""
    for each in found:
        if isinstance(each, Problem):
            click.echo(f"webhooks: {printable(str(each))}", err=True)
        elif denials:
            where = streams.place(each.manifest.file, each.manifest.line)
            for remark in each.denials:
                told = printable(f"{where}: {each.kind} {each.name} is denied: {remark}")
                click.echo(f"webhooks: {told}", err=True)
