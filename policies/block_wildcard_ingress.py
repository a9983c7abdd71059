"""Requires Ingresses to name their hosts: an Ingress for all hosts receives the traffic of other users.

A rule without a host matches every host, and a host with ``*`` many hosts. A default backend receives all requests that
no rule matches, so it is denied too.

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

from webhooks import AdmissionReview, Decision, deny_new, field, items, validating


@validating("networking.k8s.io/ingresses", "extensions/ingresses", operations=["CREATE", "UPDATE"])
def block_wildcard_ingress(review: AdmissionReview) -> Decision:
    """Deny Ingresses that match hosts which they do not name."""
    return deny_new(review, _violations)


def _violations(review: AdmissionReview) -> Iterator[str]:
    for rule in items(review.target, "spec.rules", dict):
        host = field(rule, "host", str)
        if not host:
            yield "spec.rules: a rule without a host matches every host: set its host"
        elif "*" in host:
            yield f"spec.rules: {host} matches more than one host: name each host"
    for name in ("defaultBackend", "backend"):  # the latter in v1beta1
        if field(review.target, f"spec.{name}", dict) is not None:
            yield f"spec.{name} matches every host: use rules with hosts"
