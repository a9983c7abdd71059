"""Ingresses speak HTTPS alone: they have a ``tls`` section, and tell their controller to take no plain HTTP.

They tell it by the annotation ``kubernetes.io/ingress.allow-http: "false"``. Which hosts the ``tls`` section covers
and whether its secrets are there is not checked.

Parameters:
    tls_optional: whether the annotation is enough.

Allowed::

    apiVersion: networking.k8s.io/v1
    kind: Ingress
    metadata: {name: web, annotations: {kubernetes.io/ingress.allow-http: "false"}}
    spec: {tls: [{hosts: [web.example.com], secretName: web}], rules: [{host: web.example.com}]}

Denied::

    apiVersion: networking.k8s.io/v1
    kind: Ingress
    metadata: {name: web}
    spec: {rules: [{host: web.example.com}]}
"""

from collections.abc import Iterator

from webhooks import AdmissionReview, Allow, Decision, Deny, introduced, items, validating


@validating("networking.k8s.io/ingresses", "extensions/ingresses", operations=["CREATE", "UPDATE"])
def https_only(review: AdmissionReview, *, tls_optional: bool = False) -> Decision:
    """Deny Ingresses without the annotation, or without a ``tls`` section."""
    found = introduced(review, lambda each: _violations(each, tls_optional))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, tls_optional: bool) -> Iterator[str]:
    if review.annotations.get("kubernetes.io/ingress.allow-http") != "false":
        yield 'the annotation kubernetes.io/ingress.allow-http must be "false"'
    if not tls_optional and not list(items(review.target, "spec.tls", dict)):
        yield "spec.tls is missing"
