"""The command ``webhooks new``: creates a policy with cases, a test and a configuration. All of them pass unchanged."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import click

from webhooks.errors import ConfigurationError, unwritable

if TYPE_CHECKING:
    from webhooks.reviews.kinds import Kind

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_IGNORED_PREFIXES = ("test_", "conftest")  # of files that are not loaded from a folder of policies


@click.command(epilog="Example: webhooks new owner_label --dir policies && pytest policies")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["validating", "mutating", "authorizing", "authenticating", "image_policy"]),
    default="validating",
    show_default=True,
    help="The kind of policy.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="The folder for the files; created if it does not exist.",
)
def new(name: str, kind: Kind, folder: Path) -> None:
    """Create a policy with cases, a test and a configuration.

    NAME is the name of the policy. An existing webhooks.yaml is not changed; the entry for it is printed.
    """
    created = create(name, kind, folder)
    for file in created.files:
        click.echo(file)
    if created.entry:
        click.echo(
            f"webhooks: {created.configuration} exists already: add this to its policies:\n{created.entry}",
            nl=False,
            err=True,
        )


@dataclass(frozen=True, slots=True)
class Created:
    """A new policy.

    Attributes:
        files: the files that were created.
        configuration: the configuration file in the same folder.
        entry: the entry to add to the configuration file if it existed before; else empty.
    """

    files: Sequence[Path]
    configuration: Path
    entry: str


def create(name: str, kind: Kind, folder: Path) -> Created:
    """Create the files of a new policy, and a configuration file unless one exists.

    Args:
        name: the name of the policy and of its files.
        kind: the kind of policy.
        folder: the folder for the files; created if it does not exist.

    Raises:
        ConfigurationError: the name is invalid, a file exists already (no file is written then), or a file cannot be
            written.
    """
    _check_name(name)
    files = {
        folder / f"{name}.py": _render(f"{kind}/policy.py", name),
        folder / f"{name}_cases.yaml": _render(f"{kind}/cases.yaml", name),
        folder / f"test_{name}.py": _render(f"{kind}/test.py", name),
    }
    existing = [str(file) for file in files if file.exists()]
    if existing:
        raise ConfigurationError(f"{', '.join(existing)}: exists already and is not overwritten: choose another name")
    configuration, entry = folder / "webhooks.yaml", _render(f"{kind}/entry.yaml", name)
    has_configuration = configuration.exists()
    if not has_configuration:
        files[configuration] = _render("webhooks.yaml", name) + entry
    _write(folder, files)
    return Created(list(files), configuration, entry if has_configuration else "")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name.startswith(_IGNORED_PREFIXES):
        raise ConfigurationError(
            f"{name!r} is not a valid name for a policy: use lower-case letters, digits and '_', beginning with a "
            "letter; not a Python keyword, and not beginning with test_ or conftest"
        )
    if find_spec(name) is not None:
        raise ConfigurationError(f"{name!r} is the name of a module, so tests could not import it: choose another name")


def _render(template: str, name: str) -> str:
    file = resources.files("webhooks.cli").joinpath("templates", f"{template}.tmpl")
    return Template(file.read_text(encoding="utf-8")).substitute(name=name)


def _write(folder: Path, files: dict[Path, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        raise unwritable(error.filename, error) from None
