"""The reviews that are posted: of a Pod, a Deployment and an Event, and two made of them."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "bodies"
SMALL, LARGE, EVENT = HERE / "small.json", HERE / "large.json", HERE / "event.json"
OBJECT_BYTES = 30_000


def denied() -> bytes:
    """The small review, with an image that the rules refuse."""
    review = json.loads(SMALL.read_bytes())
    review["request"]["object"]["spec"]["containers"][0]["image"] = "elsewhere.example.com/app:1"
    return _dumps(review)


def of_30_kb(folder: Path) -> Path:
    """The large review as a creation, its object grown to 30 kB by more of its own containers."""
    review = json.loads(LARGE.read_bytes())
    request = review["request"]
    request |= {"operation": "CREATE", "oldObject": None, "options": None}
    containers = request["object"]["spec"]["template"]["spec"]["containers"]
    while len(_dumps(request["object"])) < OBJECT_BYTES:
        containers.append(containers[0] | {"name": f"more-{len(containers)}"})
    path = folder / "object30k.json"
    path.write_bytes(_dumps(review))
    return path


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
