"""Requires Ingresses to use HTTPS: they must have a ``tls`` section, and disable plain HTTP by an annotation.

The annotation is ``kubernetes.io/ingress.allow-http: "false"``. The policy does not check which hosts the ``tls``
section includes, or whether its secrets exist.

Parameters:
    tls_optional: whether the ``tls`` section may be missing.

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

from webhooks import AdmissionReview, Decision, deny_new, items, validating


@validating("networking.k8s.io/ingresses", "extensions/ingresses", operations=["CREATE", "UPDATE"])
def https_only(review: AdmissionReview, *, tls_optional: bool = False) -> Decision:
    """Deny Ingresses without the annotation, or without a ``tls`` section."""
    return deny_new(review, _violations, tls_optional)


def _violations(review: AdmissionReview, tls_optional: bool) -> Iterator[str]:
    if review.annotations.get("kubernetes.io/ingress.allow-http") != "false":
        yield 'annotation kubernetes.io/ingress.allow-http must be "false"'
    if not tls_optional and not list(items(review.target, "spec.tls", dict)):
        yield "spec.tls is missing"
