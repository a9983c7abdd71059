"""``webhooks certs``: issue and show certificates."""

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
    from webhooks.certificates.inventory import CertificateEntry

_DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.group()
def certs() -> None:
    """Issue and show certificates of the server and its clients."""


@certs.command(
    epilog="Example: webhooks certs issue webhooks.default.svc --client apiserver",
)
@click.argument("names", nargs=-1, metavar="[DNS_NAME_OR_ADDRESS]...")
@click.option("--client", "clients", multiple=True, metavar="NAME", help="Issue a client certificate. Repeatable.")
@click.option(
    "--certs-dir", type=_DIRECTORY, default=Settings.certs_dir, show_default=True, help="The folder of the files."
)
def issue(names: tuple[str, ...], clients: tuple[str, ...], certs_dir: Path) -> None:
    """Issue a serving certificate, or client certificates.

    Give the DNS names and IP addresses of the server. Without names and clients, the new certificate has the names of
    the previous one, or else localhost and the name of this host. A running server reloads it. The CA is created if
    absent. Files that were not issued here are not replaced.
    """
    ca = certs_dir / "ca.pem"
    previous_ca = ca.read_bytes() if ca.is_file() else b""
    issued = []
    if names or not clients:
        issued.append(certificates.issue(certs_dir, names=names).certificate)
    issued += [certificates.issue_client(certs_dir, client).certificate for client in clients]
    _report("kept" if ca.read_bytes() == previous_ca else "wrote", ca, "the CA that clients trust")
    for certificate in issued:
        _report("wrote", certificate, f"key: {certificate.with_name(f'{certificate.stem}-key.pem')}")


def _report(action: str, path: Path, note: str) -> None:
    from webhooks.certificates.inventory import Inventory

    entry = Inventory.from_paths([path]).entries[0]
    click.echo(f"{action} {path} ({note})")
    click.echo(f"  for     {', '.join(entry.names or [entry.subject])}")
    click.echo(f"  expires {entry.not_after:%Y-%m-%d %H:%M} UTC, in {_format_remaining(entry)}")
    click.echo(f"  SHA-256 {entry.fingerprint}")


@certs.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE_OR_FOLDER]...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="The output format.",
)
def show(paths: tuple[Path, ...], output: str) -> None:
    """Show the certificates in files and folders.

    The default is the folder certs. Keys are searched in these files, and in the usual files next to them.
    """
    from webhooks.certificates.inventory import Inventory

    inventory = Inventory.from_paths(paths or [Settings.certs_dir])
    if output == "json":
        click.echo(json.dumps([_to_json(entry) for entry in inventory.entries], indent=2))
    elif inventory.entries:
        click.echo("\n".join(_format_table(inventory.entries)))
    for error in inventory.errors:
        click.echo(f"webhooks: {error}", err=True)
    sys.exit(2 if inventory.errors else 0)


def _to_json(entry: CertificateEntry) -> dict[str, Any]:
    return {
        "file": str(entry.path),
        "subject": entry.subject,
        "names": entry.names,
        "issuer": entry.issuer,
        "not_after": f"{entry.not_after:%Y-%m-%dT%H:%M:%SZ}",
        "remaining_seconds": int((entry.not_after - datetime.now(UTC)).total_seconds()),
        "key_type": entry.key_type,
        "key_file": None if entry.key_path is None else str(entry.key_path),
        "sha256": entry.fingerprint,
    }


_HEADINGS = ("FILE", "SUBJECT", "NAMES", "ISSUER", "NOT AFTER (UTC)", "REMAINING", "KEY TYPE", "MATCHING KEY")


def _format_table(entries: Iterable[CertificateEntry]) -> list[str]:
    """Return the lines of a table. Each name of a certificate is on its own line."""
    lines: list[Sequence[str]] = [_HEADINGS]
    for entry in entries:
        not_after, key = f"{entry.not_after:%Y-%m-%d %H:%M}", entry.key_path.name if entry.key_path else "none"
        row = [
            str(entry.path),
            entry.subject,
            "",
            entry.issuer,
            not_after,
            _format_remaining(entry),
            entry.key_type,
            key,
        ]
        for first_row, name in zip_longest([row], entry.names or ["-"], fillvalue=None):
            cells = list(first_row or [""] * len(_HEADINGS))
            cells[2] = name or ""
            lines.append(cells)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _format_remaining(entry: CertificateEntry) -> str:
    remaining = entry.not_after - datetime.now(UTC)
    if remaining <= timedelta():
        return "expired"
    if remaining < timedelta(days=2):
        return f"{remaining // timedelta(hours=1)} hours"
    return f"{remaining.days} days"
