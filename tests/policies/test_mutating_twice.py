"""Whatever a mutating policy does, it does once: API servers call it again with what others made of the object."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks.cli import policy_docs

from ..support.builders import AnyPolicy, Json, admission_review
from .mutations import stored
from .objects import LISTS, RESOURCES, bearing
from .test_docstrings import policy_of

POLICIES = [
    pytest.param(policy_of(each.name, example), id=f"{each.name}-{number}")
    for each in policy_docs.load_all()
    if each.kind == "mutating"
    for number, example in enumerate(each.examples, 1)
]

IMAGES = st.sampled_from(["nginx", "quay.io/team/web:1", "mirror.example.com/hub/web", "mirror.example.com/a", "NO"])
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1m", "0.5", "64Mi", "1e9", "2"]))
NAMES = st.sampled_from(["proxy", "web", "region", "example.com/team", "webhooks.svc.io/inject-sidecar"])
MAPS = st.none() | st.dictionaries(NAMES, st.sampled_from(["true", "false", ""]))
PROFILES = st.sampled_from([{}, {"seccompProfile": {"type": "Unconfined"}}, {"runAsNonRoot": True}])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Some of these fields, or all of them, or none."""
    return st.fixed_dictionaries({}, optional=fields)


CONTAINERS = some(
    name=NAMES,
    image=IMAGES,
    imagePullPolicy=st.sampled_from(["Always", "Never", ""]),
    resources=st.none() | some(requests=st.none() | AMOUNTS, limits=AMOUNTS, claims=st.just([])),
)
VOLUMES = some(name=NAMES, image=some(reference=IMAGES, pullPolicy=st.just("Never")), emptyDir=st.just({}))
SPECS = some(
    **{each: st.none() | st.lists(CONTAINERS, max_size=2) for each in LISTS},
    volumes=st.none() | st.lists(VOLUMES, max_size=2),
    securityContext=st.none() | PROFILES,
    resources=st.none() | st.just({"limits": {"cpu": "1"}}),
)
METADATA = some(
    labels=MAPS, annotations=MAPS, ownerReferences=st.lists(st.sampled_from([{"controller": True}, {}]), max_size=1)
)


@pytest.mark.parametrize("policy", POLICIES)
@given(st.sampled_from(sorted(RESOURCES)), SPECS, METADATA, st.none() | SPECS)
@settings(max_examples=60)
def test_twice_is_once(policy: AnyPolicy, kind: str, spec: Json, metadata: Json, old: Json | None) -> None:
    request = {"operation": "CREATE" if old is None else "UPDATE", "old": old and bearing(kind, old)}
    if not policy.match.matches_resource(admission_review(resource=RESOURCES[kind], **request)):
        kind, request = "Pod", {}
    obj = bearing(kind, spec)
    obj["metadata"].update(metadata)
    stored(policy, obj, **request)  # which does it twice
