"""Draws the README's animation of a denial: `python -m tests.generate.terminal`.

`tests/e2e/test_readme.py` runs the commands of the scene against a real API server and compares their output.
"""

from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "denial.svg"

WIDTH = 104  # columns
_COLUMN, _LINE, _MARGIN, _BAR = 8.43, 20, 18, 34  # pixels
_READING = 0.35  # seconds for each line of output
_TYPING = 0.04  # seconds for each character of a command


@dataclass(frozen=True)
class Command:
    """A command and its output."""

    line: str
    output: str = ""


POLICY = """\
from webhooks import AdmissionReview, Allow, Decision, Deny, validating


@validating("pods", operations=["CREATE", "UPDATE"])
def owner_label(review: AdmissionReview) -> Decision:
    if "owner" not in review.labels:
        return Deny(f"Pod {review.name} has no label 'owner'")
    return Allow()
"""

SCENE = (
    Command("cat labels.py", POLICY),
    Command("webhooks serve --policies labels.py &", "ready https://0.0.0.0:8443\n"),
    Command(
        "kubectl run web --image=nginx",
        'Error from server (Forbidden): admission webhook "validate.webhooks.svc.io" denied the request:\n'
        "Pod web has no label 'owner'\n",
    ),
    Command("kubectl run web --image=nginx --labels=owner=shop", "pod/web created\n"),
)

_STYLE = """\
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d0d7de;
  white-space: pre; animation: appear 0.01s linear backwards; }
.command { fill: #ffffff; font-weight: bold; }
.denied { fill: #ff7b72; }
.allowed { fill: #7ee787; }
@keyframes appear { from { opacity: 0; } }
@media (prefers-reduced-motion: reduce) { text { animation-delay: 0s !important; } }
"""


def draw() -> str:
    """Return the picture as SVG, in which the lines appear one after the other."""
    lines: list[str] = []
    seconds = 0.5
    for command in SCENE:
        lines.append(_text(len(lines), f"$ {command.line}", "command", seconds))
        seconds += _TYPING * len(command.line)
        for line in command.output.splitlines():
            lines.append(_text(len(lines), line, _color(command), seconds))
            seconds += _READING
        seconds += 2 * _READING
    width, height = round(WIDTH * _COLUMN + 2 * _MARGIN), _BAR + len(lines) * _LINE + _MARGIN
    dots = "".join(
        f'<circle cx="{20 + 20 * number}" cy="17" r="6" fill="{color}"/>'
        for number, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        f"<title>A pod without an owner label is denied by a policy</title>\n<style>\n{_STYLE}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>\n{dots}\n' + "\n".join(lines) + "\n</svg>\n"
    )


def _text(number: int, line: str, style: str, seconds: float) -> str:
    place = f'x="{_MARGIN}" y="{_BAR + number * _LINE + 14}"'
    return f'<text {place} class="{style}" style="animation-delay:{seconds:.2f}s">{escape(line, quote=False)}</text>'


def _color(command: Command) -> str:
    if command.output.startswith("Error"):
        return "denied"
    return "allowed" if command.output.endswith("created\n") else "output"


if __name__ == "__main__":
    PICTURE.write_text(draw())
