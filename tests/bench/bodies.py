"""The reviews that are posted: of a Pod, a Deployment and an Event, and two variants."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "bodies"
SMALL, LARGE, EVENT_REVIEW = HERE / "small.json", HERE / "large.json", HERE / "event.json"
LARGE_OBJECT_SIZE = 30_000


def denied_review() -> bytes:
    """Return the small review with an image that the rules reject."""
    review = json.loads(SMALL.read_bytes())
    review["request"]["object"]["spec"]["containers"][0]["image"] = "elsewhere.example.com/app:1"
    return _dumps(review)


def large_object(folder: Path) -> Path:
    """Write a review of the creation of a 30 kB object: the large one with copies of its first container."""
    review = json.loads(LARGE.read_bytes())
    request = review["request"]
    request |= {"operation": "CREATE", "oldObject": None, "options": None}
    containers = request["object"]["spec"]["template"]["spec"]["containers"]
    while len(_dumps(request["object"])) < LARGE_OBJECT_SIZE:
        containers.append(containers[0] | {"name": f"copy-{len(containers)}"})
    path = folder / "object30k.json"
    path.write_bytes(_dumps(review))
    return path


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
