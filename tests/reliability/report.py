"""The page that shows the scorecard, figures and failures as they were."""

import os
import platform
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from .figures import Row

_PAGE = """\
# Reliability

What must hold when callers, files, policies and the machine behave badly, tried on `webhooks serve` as a process of its
own, over TLS on the loopback. Each line is a test in `tests/reliability`, which fails where its condition is not met.
Figures and failures are those of one run, on a machine that server and callers shared:

{date}, {machine}.

| | what is tried | wanted | measured | passed |
|---|---|---|---|---|
{rows}

The command tries all of it again and writes this page. With `--ci` it tries less of everything, as `pytest` does, and
with `--only 5,6` only these; either prints the page instead.

```sh
.venv/bin/python -m tests.reliability
```
"""


def page(rows: Iterable[Row]) -> str:
    """The page, in Markdown."""
    ordered = sorted(rows, key=lambda row: row.item)
    return _PAGE.format(date=datetime.now(UTC).date(), machine=_machine(), rows="\n".join(map(_line, ordered)))


def _line(row: Row) -> str:
    cells = str(row.item), row.claim, row.wanted, row.measured, "yes" if row.passed else "**no**"
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
    """What a file of the system says by a name, the first time that it does; `0` if it does not."""
    lines = Path(file).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "0")
