"""Writes the page of results, with all figures and failures."""

import os
import platform
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from .figures import Row

_PAGE = """\
# Reliability

These items must hold when clients, files, policies and the machine misbehave. Each is a test in
`tests/reliability` that runs `webhooks serve` as its own process, over TLS on the loopback interface, and fails if its
condition does not hold. The server and its clients shared one machine in this run:

{date}, {machine}.

| | test | condition | measured | passed |
|---|---|---|---|---|
{rows}

This command runs all items and writes this page. `--ci` runs them at a reduced size, as `pytest` does, and
`--only 5,6` runs only these items; both print the page instead:

```sh
.venv/bin/python -m tests.reliability
```
"""


def page(rows: Iterable[Row]) -> str:
    """Format the page in Markdown."""
    ordered = sorted(rows, key=lambda row: row.item)
    return _PAGE.format(date=datetime.now(UTC).date(), machine=_machine(), rows="\n".join(map(_line, ordered)))


def _line(row: Row) -> str:
    cells = str(row.item), row.claim, row.condition, row.measured, "yes" if row.passed else "**no**"
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "&#124;").split())


def _machine() -> str:
    kilobytes = int(_first("/proc/meminfo", "MemTotal").split()[0])
    return ", ".join(
        (
            f"{os.cpu_count()} cores ({_first('/proc/cpuinfo', 'model name')})",
            f"{kilobytes / 1024**2:.0f} GiB of memory",
            f"Python {platform.python_version()}",
            " ".join(ssl.OPENSSL_VERSION.split()[:2]),
            f"Linux {platform.release()}",
        )
    )


def _first(file: str, name: str) -> str:
    """Return the first value of a name in a file of /proc; `0` if it is missing."""
    lines = Path(file).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "0")
