from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .other_objects import check_requests, check_shapes, ingress, message, review_for

[https_only] = load(["library:https_only"])

NO_HTTP = {"kubernetes.io/ingress.allow-http": "false"}
TLS = [{"hosts": ["web.example.com"], "secretName": "web"}]
OPTIONAL = {"tls_optional": True}
ANNOTATION = 'annotation kubernetes.io/ingress.allow-http must be "false"'
CASES: list[tuple[Json, Json, str | None]] = [
    ({}, ingress(NO_HTTP, tls=TLS), None),
    ({}, ingress(NO_HTTP, tls=[{}]), None),
    ({}, ingress({**NO_HTTP, "a": "b"}, tls=TLS), None),
    ({}, ingress(NO_HTTP, tls=[]), "spec.tls is missing"),
    ({}, ingress(NO_HTTP, tls=None), "spec.tls is missing"),
    ({}, ingress(NO_HTTP), "spec.tls is missing"),
    ({}, ingress(tls=TLS), ANNOTATION),
    ({}, ingress({}, tls=TLS), ANNOTATION),
    ({}, ingress({"kubernetes.io/ingress.allow-http": "true"}, tls=TLS), ANNOTATION),
    ({}, ingress({"kubernetes.io/ingress.allow-http": "False"}, tls=TLS), ANNOTATION),
    ({}, ingress(), f"{ANNOTATION}; spec.tls is missing"),
    ({}, ingress(group="extensions"), f"{ANNOTATION}; spec.tls is missing"),
    (OPTIONAL, ingress(NO_HTTP), None),
    (OPTIONAL, ingress(NO_HTTP, tls=TLS), None),
    (OPTIONAL, ingress(tls=TLS), ANNOTATION),
]


@pytest.mark.parametrize(("parameters", "obj", "problem"), CASES, ids=repr)
def test_ingresses_use_only_https(parameters: Json, obj: Json, problem: str | None) -> None:
    assert message(https_only.bind(**parameters), obj) == problem


def test_requests() -> None:
    check_requests(https_only, ingress(NO_HTTP, tls=TLS), ingress(tls=TLS))
    check_requests(https_only, ingress(NO_HTTP, tls=TLS), ingress(NO_HTTP))
    assert message(https_only, ingress(), ingress(tls=TLS)) == "spec.tls is missing"
    assert https_only.match.matches_resource(review_for(ingress(group="extensions")))


def test_shapes() -> None:
    check_shapes(https_only, ingress(NO_HTTP, tls=TLS), "spec", "tls")
    check_shapes(https_only, ingress(NO_HTTP, tls=TLS), "spec")
    check_shapes(https_only, ingress(NO_HTTP, tls=TLS), "metadata", "annotations")
    check_shapes(https_only, ingress(NO_HTTP, tls=TLS), "metadata", "annotations", *NO_HTTP)


@pytest.mark.parametrize("value", ["yes", 1, None], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        https_only.bind(tls_optional=value)
