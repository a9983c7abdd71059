"""Ingresses name the hosts that they serve: who serves all of them takes the traffic of others.

A rule without a host serves every host, and one with ``*`` many. A default backend is given what no rule takes,
whatever its host, so that is refused as well.

Allowed::

    apiVersion: networking.k8s.io/v1
    kind: Ingress
    spec: {rules: [{host: web.example.com}]}

Denied::

    apiVersion: networking.k8s.io/v1
    kind: Ingress
    spec: {rules: [{host: "*.example.com"}, {http: {paths: []}}]}
"""

from collections.abc import Iterator

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating


@validating("networking.k8s.io/ingresses", "extensions/ingresses", operations=["CREATE", "UPDATE"])
def block_wildcard_ingress(review: AdmissionReview) -> Decision:
    """Deny Ingresses that serve hosts which they do not name."""
    found = introduced(review, _violations)
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview) -> Iterator[str]:
    for rule in items(review.target, "spec.rules", dict):
        host = field(rule, "host", str)
        if not host:
            yield "spec.rules: a rule without a host serves every host, name one"
        elif "*" in host:
            yield f"spec.rules: {host} is not one host, name each"
    for name in ("defaultBackend", "backend"):  # the latter in older versions
        if field(review.target, f"spec.{name}", dict) is not None:
            yield f"spec.{name} serves every host, write rules with hosts"
