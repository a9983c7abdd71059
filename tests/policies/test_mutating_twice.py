"""Mutating policies are idempotent: API servers call them again if another webhook changed the object."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks.policy import docstrings

from ..support.builders import AnyPolicy, Json, admission_review
from .mutations import mutated_object
from .pods import LISTS, RESOURCES, make_object
from .test_docstrings import policy_of

POLICIES = [
    pytest.param(policy_of(doc.name, example), id=f"{doc.name}-{number}")
    for doc in docstrings.load_all()
    if doc.kind == "mutating"
    for number, example in enumerate(doc.examples, 1)
]

IMAGES = st.sampled_from(["nginx", "quay.io/team/web:1", "mirror.example.com/hub/web", "mirror.example.com/a", "NO"])
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1m", "0.5", "64Mi", "1e9", "2"]))
NAMES = st.sampled_from(["proxy", "web", "region", "example.com/team", "webhooks.svc.io/inject-sidecar"])
MAPS = st.none() | st.dictionaries(NAMES, st.sampled_from(["true", "false", ""]))
PROFILES = st.sampled_from([{}, {"seccompProfile": {"type": "Unconfined"}}, {"runAsNonRoot": True}])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Generate objects with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


CONTAINERS = some(
    name=NAMES,
    image=IMAGES,
    imagePullPolicy=st.sampled_from(["Always", "Never", ""]),
    resources=st.none() | some(requests=st.none() | AMOUNTS, limits=AMOUNTS, claims=st.just([])),
)
VOLUMES = some(name=NAMES, image=some(reference=IMAGES, pullPolicy=st.just("Never")), emptyDir=st.just({}))
SPECS = some(
    **{list_: st.none() | st.lists(CONTAINERS, max_size=2) for list_ in LISTS},
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
def test_mutating_policies_are_idempotent(
    policy: AnyPolicy, kind: str, spec: Json, metadata: Json, old: Json | None
) -> None:
    request = {"operation": "CREATE" if old is None else "UPDATE", "old": old and make_object(kind, old)}
    if not policy.match.matches_resource(admission_review(resource=RESOURCES[kind], **request)):
        kind, request = "Pod", {}
    obj = make_object(kind, spec)
    obj["metadata"].update(metadata)
    mutated_object(policy, obj, **request)  # calls the policy twice
