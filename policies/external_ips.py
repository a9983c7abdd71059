"""Allows only certain addresses in the ``externalIPs`` of Services.

Otherwise, users who may create Services can receive the traffic for any address inside the cluster (CVE-2020-8554).

Parameters:
    allowed_ips: the allowed IP addresses, in any notation.

Allowed, with ``allowed_ips=["203.0.113.7"]``::

    apiVersion: v1
    kind: Service
    spec: {externalIPs: [203.0.113.7], ports: [{port: 80}]}

Denied::

    apiVersion: v1
    kind: Service
    spec: {externalIPs: [203.0.113.7, 203.0.113.8], ports: [{port: 80}]}
"""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from webhooks import AdmissionReview, Decision, deny_new, items, validating


@validating("core/services", operations=["CREATE", "UPDATE"])
def external_ips(review: AdmissionReview, *, allowed_ips: Sequence[str] = ()) -> Decision:
    """Deny Services with other external addresses."""
    return deny_new(review, _violations, allowed_ips)


def _violations(review: AdmissionReview, allowed_ips: Sequence[str]) -> Iterator[str]:
    expected = f"must have only {', '.join(allowed_ips)}" if allowed_ips else "must be empty"
    for address in items(review.target, "spec.externalIPs", str):
        if not _is_allowed(address, allowed_ips):
            yield f"spec.externalIPs {expected}, not {address}"


def _is_allowed(text: str, allowed_ips: Sequence[str]) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return any(address == ip_address(allowed) for allowed in allowed_ips)
