"""Services take no traffic for addresses of others: ``externalIPs`` may hold none but these.

Whoever may write Services could else take the traffic of any address inside the cluster (CVE-2020-8554).

Parameters:
    allowed_ips: addresses, each the same however it is written.

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

from webhooks import AdmissionReview, Allow, Decision, Deny, introduced, items, validating


@validating("core/services", operations=["CREATE", "UPDATE"])
def external_ips(review: AdmissionReview, *, allowed_ips: Sequence[str] = ()) -> Decision:
    """Deny Services with other external addresses."""
    found = introduced(review, lambda each: _violations(each, allowed_ips))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, allowed_ips: Sequence[str]) -> Iterator[str]:
    known = f", but {', '.join(allowed_ips)}" if allowed_ips else ""
    for each in items(review.target, "spec.externalIPs", str):
        if not _is_one_of(each, allowed_ips):
            yield f"spec.externalIPs: {each} is not allowed{known}"


def _is_one_of(text: str, allowed_ips: Sequence[str]) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return any(address == ip_address(each) for each in allowed_ips)
