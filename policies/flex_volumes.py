"""Allows only certain drivers of FlexVolumes: each driver is a program that runs on the node as root.

Parameters:
    allowed_flex_volumes: the allowed drivers, each as a mapping with ``driver``.

Allowed, with ``allowed_flex_volumes=[{"driver": "example/lvm"}]``::

    spec: {containers: [{name: web, image: web}], volumes: [{name: data, flexVolume: {driver: example/lvm}}]}

Denied::

    spec: {containers: [{name: web, image: web}], volumes: [{name: data, flexVolume: {driver: example/cifs}}]}
"""

from collections.abc import Iterator, Sequence
from typing import TypedDict

from webhooks import WORKLOADS, AdmissionReview, Decision, deny_new, field, items, validating


class FlexVolume(TypedDict):
    """An allowed driver."""

    driver: str


@validating("pods", *WORKLOADS, operations=["CREATE", "UPDATE"])
def flex_volumes(review: AdmissionReview, *, allowed_flex_volumes: Sequence[FlexVolume] = ()) -> Decision:
    """Deny pods with a FlexVolume of another driver."""
    return deny_new(review, _violations, [volume["driver"] for volume in allowed_flex_volumes])


def _violations(review: AdmissionReview, drivers: Sequence[str]) -> Iterator[str]:
    for volume in items(review.pod(), "spec.volumes", dict):
        if field(volume, "flexVolume", dict) is None:
            continue
        driver = field(volume, "flexVolume.driver", str)
        if driver not in drivers:
            expected = " or ".join(drivers) or "an allowed driver"
            yield f"volume {field(volume, 'name', str)}: flexVolume.driver must be {expected}, not {driver}"
