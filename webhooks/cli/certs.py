"""``webhooks certs``: issue certificates, and show those that are there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webhooks import certificates
from webhooks.settings import Settings

if TYPE_CHECKING:
    from webhooks.certificates.inventory import Entry

_DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.group()
def certs() -> None:
    """Issue certificates for the server and its callers, and show them."""


@certs.command(
    epilog="For a Service and a caller: webhooks certs issue webhooks.default.svc --client apiserver",
)
@click.argument("names", nargs=-1, metavar="[DNS_NAME_OR_ADDRESS]...")
@click.option(
    "--client", "clients", multiple=True, metavar="NAME", help="Issue a pair for a caller. Repeat it for more."
)
@click.option(
    "--certs-dir", type=_DIRECTORY, default=Settings.certs_dir, show_default=True, help="Where the files are kept."
)
def issue(names: tuple[str, ...], clients: tuple[str, ...], certs_dir: Path) -> None:
    """Issue a certificate for a server.

    It is for the DNS names and addresses that the server is called by; without any, and without callers, for those of
    the one that was issued before, or else localhost and this host's name. It takes the place of that one, and a server
    that runs takes it over. The authority is made if there is none; files that somebody else made are not replaced.
    """
    ca = certs_dir / "ca.pem"
    before = ca.read_bytes() if ca.is_file() else b""
    written = []
    if names or not clients:
        written.append(certificates.issue(certs_dir, names=names).certificate)
    written += [certificates.issue_client(certs_dir, client).certificate for client in clients]
    _tell("kept" if ca.read_bytes() == before else "wrote", ca, "what callers trust")
    for certificate in written:
        _tell("wrote", certificate, f"key: {certificate.with_name(f'{certificate.stem}-key.pem')}")


def _tell(what: str, file: Path, note: str) -> None:
    from webhooks.certificates.inventory import inventory

    entry = inventory([file]).entries[0]
    click.echo(f"{what} {file} ({note})")
    click.echo(f"  for     {', '.join(entry.names or [entry.subject])}")
    click.echo(f"  ends    {entry.ends:%Y-%m-%d %H:%M} UTC, in {_remaining(entry)}")
    click.echo(f"  SHA-256 {entry.fingerprint}")


@certs.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE_OR_FOLDER]...")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="How.")
def show(paths: tuple[Path, ...], output: str) -> None:
    """Show the certificates in files and folders.

    Without any, those in certs. A key is found in what is shown, or beside it.
    """
    from webhooks.certificates.inventory import inventory

    found = inventory(paths or [Settings.certs_dir])
    if output == "json":
        click.echo(json.dumps([_described(entry) for entry in found.entries], indent=2))
    else:
        click.echo("\n".join(_table(found.entries)))
    for fault in found.faults:
        click.echo(f"webhooks: {fault}", err=True)
    sys.exit(2 if found.faults else 0)


def _described(entry: Entry) -> dict[str, Any]:
    return {
        "file": str(entry.file),
        "subject": entry.subject,
        "names": entry.names,
        "issuer": entry.issuer,
        "not_after": f"{entry.ends:%Y-%m-%dT%H:%M:%SZ}",
        "remaining_seconds": int((entry.ends - datetime.now(UTC)).total_seconds()),
        "key_type": entry.key_type,
        "key_file": None if entry.key_file is None else str(entry.key_file),
        "sha256": entry.fingerprint,
    }


_HEADINGS = ("FILE", "SUBJECT", "NAMES", "ISSUER", "NOT AFTER (UTC)", "REMAINING", "KEY TYPE", "MATCHING KEY")


def _table(entries: Iterable[Entry]) -> list[str]:
    """Lines with a column a heading; a certificate takes a line for each of its names."""
    lines: list[Sequence[str]] = [_HEADINGS]
    for entry in entries:
        ends, key = f"{entry.ends:%Y-%m-%d %H:%M}", entry.key_file.name if entry.key_file else "none"
        first = [str(entry.file), entry.subject, "", entry.issuer, ends, _remaining(entry), entry.key_type, key]
        for head, name in zip_longest([first], entry.names or ["-"], fillvalue=None):
            cells = list(head or [""] * len(_HEADINGS))
            cells[2] = name or ""
            lines.append(cells)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _remaining(entry: Entry) -> str:
    left = entry.ends - datetime.now(UTC)
    if left <= timedelta():
        return "ended"
    if left < timedelta(days=2):
        return f"{left // timedelta(hours=1)} hours"
    return f"{left.days} days"
