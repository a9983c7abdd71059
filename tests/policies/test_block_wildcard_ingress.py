import pytest

from webhooks.policy.loader import load

from ..support.builders import Json
from .other_objects import check_requests, check_shapes, ingress, message, review_for

[block_wildcard_ingress] = load(["library:block_wildcard_ingress"])

HOST = {"host": "web.example.com", "http": {"paths": []}}
HOSTLESS = "spec.rules: a rule without a host matches every host: set its host"
WILDCARD = "matches more than one host: name each host"
CASES: list[tuple[Json, str | None]] = [
    ({"rules": [HOST]}, None),
    ({"rules": [HOST, {"host": "a.example.com"}]}, None),
    ({"rules": []}, None),
    ({"rules": None, "defaultBackend": None}, None),
    ({"rules": [HOST], "tls": [{"hosts": ["*.example.com"]}]}, None),
    ({"rules": [{"http": {}}]}, HOSTLESS),
    ({"rules": [{"host": ""}]}, HOSTLESS),
    ({"rules": [{"host": None}]}, HOSTLESS),
    ({"rules": [{}]}, HOSTLESS),
    (
        {"rules": [HOST, {"host": "*.example.com"}]},
        f"spec.rules: *.example.com {WILDCARD}",
    ),
    ({"rules": [{"host": "*"}]}, f"spec.rules: * {WILDCARD}"),
    (
        {"rules": [{"host": "a.*.com"}, {}]},
        f"spec.rules: a.*.com {WILDCARD}; {HOSTLESS}",
    ),
    ({"defaultBackend": {"service": {}}}, "spec.defaultBackend matches every host: use rules with hosts"),
    ({"rules": [HOST], "defaultBackend": {}}, "spec.defaultBackend matches every host: use rules with hosts"),
    ({"backend": {"serviceName": "web"}}, "spec.backend matches every host: use rules with hosts"),
]


@pytest.mark.parametrize("group", ["networking.k8s.io", "extensions"])
@pytest.mark.parametrize(("spec", "problem"), CASES, ids=repr)
def test_hosts_are_named(spec: Json, problem: str | None, group: str) -> None:
    assert message(block_wildcard_ingress, ingress(group=group, **spec)) == problem


def test_requests() -> None:
    check_requests(block_wildcard_ingress, ingress(rules=[HOST]), ingress(rules=[{}]))
    assert block_wildcard_ingress.match.matches_resource(review_for(ingress(group="extensions")))
    old = ingress(rules=[{"host": "*.a.com"}, {"host": "*.b.com"}])
    assert message(block_wildcard_ingress, ingress(rules=[{"host": "*.b.com"}]), old) is None
    assert message(block_wildcard_ingress, ingress(rules=[{"host": "*.c.com"}]), old)


def test_shapes() -> None:
    good = ingress(rules=[HOST])
    check_shapes(block_wildcard_ingress, good, "spec", "rules", allowed=([],))
    check_shapes(block_wildcard_ingress, good, "spec", "rules", 0)
    check_shapes(block_wildcard_ingress, good, "spec", "rules", 0, "host", allowed=("x",))
    check_shapes(block_wildcard_ingress, good, "spec", "defaultBackend")
    check_shapes(block_wildcard_ingress, good, "spec", allowed=({}, {"x": "y"}))
