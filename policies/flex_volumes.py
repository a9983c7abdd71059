"""FlexVolumes come from known drivers alone: each is a program that runs on the node as root.

Parameters:
    allowed_flex_volumes: each a mapping with ``driver``. None unless given.

Allowed, with ``allowed_flex_volumes=[{"driver": "example/lvm"}]``::

    spec: {containers: [{name: web, image: web}], volumes: [{name: data, flexVolume: {driver: example/lvm}}]}

Denied::

    spec: {containers: [{name: web, image: web}], volumes: [{name: data, flexVolume: {driver: example/cifs}}]}
"""

from collections.abc import Iterator, Sequence
from typing import TypedDict

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating


class FlexVolume(TypedDict):
    """A driver of FlexVolumes."""

    driver: str


@validating("pods", "replicationcontrollers", "podtemplates", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def flex_volumes(review: AdmissionReview, *, allowed_flex_volumes: Sequence[FlexVolume] = ()) -> Decision:
    """Deny pods with a FlexVolume of another driver."""
    drivers = [each["driver"] for each in allowed_flex_volumes]
    found = introduced(review, lambda each: _violations(each, drivers))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, drivers: Sequence[str]) -> Iterator[str]:
    right = f"one of {', '.join(drivers)}" if drivers else "of another kind"
    for volume in items(review.pod(), "spec.volumes", dict):
        if field(volume, "flexVolume", dict) is None:
            continue
        driver = field(volume, "flexVolume.driver", str)
        if driver not in drivers:
            yield f"volume {field(volume, 'name', str)}: flexVolume.driver {driver} must be {right}"
