"""The work of ``webhooks review``: from manifests to a report and an exit code."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

import click

from webhooks.config import file
from webhooks.errors import ConfigurationError, printable
from webhooks.offline import reports
from webhooks.offline.evaluation import ReportItem, Reviewer
from webhooks.offline.requests import Operation, RequestBuilder
from webhooks.offline.sources import Manifest, Problem, format_location, read_manifests, total_size
from webhooks.offline.table import render_table
from webhooks.policy.loader import load

FORMATS: Mapping[str, Callable[[Sequence[ReportItem]], str]] = {
    "table": partial(render_table, style=click.style),
    **reports.FORMATS,
}
_PROGRESS_SIZE = 1024 * 1024  # bytes; the review of fewer is done before a progress bar is visible


@dataclass(frozen=True, kw_only=True)
class Job:
    """A review of manifests.

    Attributes:
        sources: files and folders of manifests; ``-`` is standard input.
        config: a configuration file with policies; None for none.
        policies: further policies, as `webhooks.policy.loader.load` takes them.
        operation: the operation of the requests. See `RequestBuilder`.
        user: the user of the requests.
        groups: the groups of the user.
        old: files and folders of the stored objects.
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
    """Review manifests, print the report, and return the exit code.

    Raises:
        ConfigurationError: the policies cannot be loaded, or options contradict each other.
    """
    if job.operation == "UPDATE" and not job.old:
        raise ConfigurationError("--operation UPDATE requires the stored objects: give --old")
    if job.operation == "CREATE" and job.old:
        raise ConfigurationError("--operation CREATE and --old contradict each other: give only one")
    policies = [*load(job.policies), *([] if job.config is None else file.read(job.config).load())]
    old = list(read_manifests(job.old))
    items: list[ReportItem] = [item for item in old if isinstance(item, Problem)]
    stored = [item for item in old if isinstance(item, Manifest)]
    reviewer = Reviewer(policies, RequestBuilder(job.operation, job.user, job.groups, stored))
    gc.set_threshold(50_000, 20, 20)  # all results are kept, so each garbage collection would take longer than the last
    with _progress_bar(job.sources) as on_progress:
        items += asyncio.run(_review(reviewer, job.sources, on_progress))
    has_color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    click.echo(FORMATS[job.output](items), nl=False, color=has_color)
    _print_errors(items, denials=job.output == "patched")
    code = reports.exit_code(items)
    if reviewer.executor.is_busy:
        sys.stdout.flush()
        os._exit(code)  # a policy that never returns keeps its thread, for which the interpreter would wait
    return code


async def _review(reviewer: Reviewer, sources: Sequence[str], on_progress: Callable[[int], object]) -> list[ReportItem]:
    await reviewer.executor.start()
    try:
        return [
            item if isinstance(item, Problem) else await reviewer.review(item)
            for item in read_manifests(sources, on_progress)
        ]
    finally:
        await reviewer.executor.close()


def _progress_bar(sources: Sequence[str]) -> AbstractContextManager[Callable[[int], object]]:
    """Return a context that shows progress on a terminal. Its value is called with numbers of bytes."""
    size = total_size(sources)
    if size < _PROGRESS_SIZE or not sys.stderr.isatty():
        return nullcontext(lambda _: None)
    return _ProgressBar(size)


class _ProgressBar(AbstractContextManager[Callable[[int], object]]):
    def __init__(self, size: int) -> None:
        self._bar = click.progressbar(length=size, label="Reviewing", file=sys.stderr, update_min_steps=size // 200)

    def __enter__(self) -> Callable[[int], object]:
        return self._bar.__enter__().update

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.__exit__(type_, error, traceback)


def _print_errors(items: Sequence[ReportItem], *, denials: bool) -> None:
    """Print problems, and denials if requested, to standard error: standard output contains the report."""
    for item in items:
        if isinstance(item, Problem):
            click.echo(f"webhooks: {printable(str(item))}", err=True)
        elif denials:
            location = format_location(item.manifest.file, item.manifest.line)
            for denial in item.denials:
                message = printable(f"{location}: {item.kind} {item.name} is denied: {denial}")
                click.echo(f"webhooks: {message}", err=True)
