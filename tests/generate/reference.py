"""Write the generated regions of the reference pages: ``python -m tests.generate.reference``.

A region lies between ``<!-- generated: NAME -->`` and ``<!-- /generated: NAME -->``. The text around it is
written by hand.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from . import api, commands, metrics, settings

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
COMMAND = "python -m tests.generate.reference"

REGIONS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "cli.md": {"commands": commands.sections},
    "configuration.md": {"server": settings.server, "limits": settings.limits},
    "metrics.md": {"metrics": metrics.table_of_metrics},
    "policy-api.md": api.regions(),
}

_REGION = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- /generated: \2 -->\n)", re.DOTALL)


def generate(page: str) -> str:
    """Return the text of a page with its regions generated anew.

    Raises:
        ValueError: the regions of the page are not those of `REGIONS`.
    """
    text, regions = (FOLDER / page).read_text(), REGIONS[page]
    present = [name for _, name, _ in _REGION.findall(text)]
    if sorted(present) != sorted(regions):
        raise ValueError(f"{page}: has the regions {present}, not {sorted(regions)}")
    return _REGION.sub(lambda match: f"{match[1]}\n{regions[match[2]]()}\n{match[3]}", text)


def main() -> None:
    """Write all pages."""
    for page in REGIONS:
        (FOLDER / page).write_text(generate(page))


if __name__ == "__main__":
    main()
