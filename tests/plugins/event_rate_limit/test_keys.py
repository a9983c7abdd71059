"""Tests of the keys of buckets."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks import AdmissionReview
from webhooks.errors import MalformedReview
from webhooks.plugins.event_rate_limit.keys import MAX_LENGTH, compute_key
from webhooks.reviews import admission_codec
from webhooks.testing import admission

from ...support.builders import admission_review, encode_body, recorded_bodies
from ...support.events import ABOUT, Json, core_event, event

SOURCE = ["kubelet", "node-1"]
OBJECT = ["Pod", "team-a", "web", "u-1", "v1"]
NO_SOURCE, NO_OBJECT = ["", ""], ["", "", "", "", ""]


def parts(obj: Json) -> list[str]:
    """The parts of the key for SourceAndObject."""
    result = json.loads(compute_key("SourceAndObject", admission("CREATE", obj)))
    assert all(type(part) is str for part in result)
    return result


def test_a_server_has_one_bucket() -> None:
    assert (
        compute_key("Server", admission("CREATE", core_event()))
        == compute_key("Server", admission("UPDATE", event()))
        == ""
    )


def test_the_namespace_of_the_request_counts() -> None:
    elsewhere = core_event(metadata={"name": "e", "namespace": "elsewhere"})
    assert (
        compute_key("Namespace", admission_review("CREATE", elsewhere, resource="v1/events", namespace="here"))
        == "here"
    )


@pytest.mark.parametrize("namespace", [..., None, ""])
def test_events_without_a_namespace_share_a_bucket(namespace: Any) -> None:
    assert (
        compute_key("Namespace", admission_review("CREATE", core_event(), resource="v1/events", namespace=namespace))
        == ""
    )


def test_the_key_of_a_user_is_the_name() -> None:
    assert compute_key("User", admission("CREATE", event(), user="system:node:n-1", groups=["a"])) == "system:node:n-1"


@pytest.mark.parametrize("user", [..., None, {}, {"username": ""}, {"uid": "u", "groups": ["g"]}])
def test_users_without_a_name_share_a_bucket(user: Any) -> None:
    assert compute_key("User", admission_review("CREATE", core_event(), resource="v1/events", userInfo=user)) == ""


@pytest.mark.parametrize("user", [{"username": 5}, [], "jane", {"username": ["jane"]}])
def test_malformed_users_are_rejected(user: Any) -> None:
    with pytest.raises(MalformedReview):
        compute_key("User", admission_review("CREATE", core_event(), resource="v1/events", userInfo=user))


GROUPS = ("events.k8s.io/v1", "events.k8s.io/v1beta1", "events.svc.io/v1")
SHAPES: dict[str, tuple[Json, list[str]]] = {
    "core": (core_event(), SOURCE + OBJECT),
    **{name: (event(name), SOURCE + OBJECT) for name in GROUPS},
    # The API server's own plugin uses only the source of a core event.
    "core, of a new reporter": (core_event(source={}), NO_SOURCE + OBJECT),
    "core, of another reporter": (core_event(reportingComponent="x", reportingInstance="y"), SOURCE + OBJECT),
    "core, source of two words": (core_event(source={"component": "a"}), ["a", "", *OBJECT]),
    "core, host alone": (core_event(source={"host": "h"}), ["", "h", *OBJECT]),
    "core, no source": (core_event(source=...), NO_SOURCE + OBJECT),
    "core, no object": (core_event(involvedObject=...), SOURCE + NO_OBJECT),
    "core, with the fields of the other": (core_event(regarding={"kind": "x"}, involvedObject={}), SOURCE + NO_OBJECT),
    "an old reporter": (
        event(reportingController="", reportingInstance=..., deprecatedSource={"component": "c", "host": "h"}),
        ["c", "h", *OBJECT],
    ),
    "both reporters": (event(deprecatedSource={"component": "c", "host": "h"}), SOURCE + OBJECT),
    "an instance alone": (event(reportingController=..., deprecatedSource={"component": "c"}), ["", "node-1", *OBJECT]),
    "no reporter": (event(reportingController=..., reportingInstance=..., deprecatedSource=...), NO_SOURCE + OBJECT),
    "no object": (event(regarding=...), SOURCE + NO_OBJECT),
    "part of an object": (event(regarding={"name": "web", "fieldPath": "x"}), [*SOURCE, "", "", "web", "", ""]),
    "with the fields of the core group": (event(involvedObject=ABOUT, regarding=None), SOURCE + NO_OBJECT),
    "nothing": ({"apiVersion": "v1", "kind": "Event"}, NO_SOURCE + NO_OBJECT),
    "nothing, in the group": ({"apiVersion": "events.k8s.io/v1", "kind": "Event"}, NO_SOURCE + NO_OBJECT),
}


@pytest.mark.parametrize(("obj", "expected"), SHAPES.values(), ids=SHAPES)
def test_source_and_object(obj: Json, expected: list[str]) -> None:
    assert parts(obj) == expected


def test_source_and_object_of_a_real_event() -> None:
    [body] = [each for name, each in recorded_bodies("/validate").items() if name.endswith("create-events")]
    review = admission_codec.CODEC.decode(encode_body(body))
    expected = ["example.org/rec", "rec-0", "Pod", "team-a", "web", "", "v1"]
    assert json.loads(compute_key("SourceAndObject", review)) == expected
    assert (compute_key("Namespace", review), compute_key("User", review)) == ("team-a", "admin")


WRONG = [None, 5, 1.5, True, "text", [], ["a"], {}, {"a": "b"}, [{"component": "c", "kind": "k"}]]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_parts_of_a_wrong_type_count_as_absent(wrong: Any) -> None:
    assert parts(core_event(source=wrong, involvedObject=wrong)) == NO_SOURCE + NO_OBJECT
    assert parts(event(reportingController=..., reportingInstance=..., deprecatedSource=wrong, regarding=wrong)) == (
        NO_SOURCE + NO_OBJECT
    )
    if type(wrong) is not str:
        inner = dict.fromkeys(("component", "host", "kind", "namespace", "name", "uid", "apiVersion"), wrong)
        assert parts(core_event(source=inner, involvedObject=inner)) == NO_SOURCE + NO_OBJECT
        of_group = event(reportingController=wrong, reportingInstance=wrong, deprecatedSource=inner, regarding=inner)
        assert parts(of_group) == NO_SOURCE + NO_OBJECT


@pytest.mark.parametrize("obj", [None, ...])
def test_an_absent_event_counts_as_empty(obj: Any) -> None:
    review = admission_review("CREATE", obj, resource="v1/events")
    assert json.loads(compute_key("SourceAndObject", review)) == NO_SOURCE + NO_OBJECT


def named(*texts: str) -> AdmissionReview:
    names = ("kind", "namespace", "name", "uid", "apiVersion")
    source = dict(zip(("component", "host"), texts, strict=False))
    return admission("CREATE", core_event(source=source, involvedObject=dict(zip(names, texts[2:], strict=True))))


def test_parts_are_delimited() -> None:
    texts = itertools.islice(itertools.product(["", "a", "aa", '","', "\\", "\0"], repeat=7), 5000)
    keys = [compute_key("SourceAndObject", named(*parts)) for parts in texts]
    assert len(set(keys)) == len(keys)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(["", "a" * 300, '"', "\u2028"])


@given(st.lists(TEXTS, min_size=7, max_size=7), st.lists(TEXTS, min_size=7, max_size=7))
def test_only_equal_parts_have_equal_keys(one: list[str], other: list[str]) -> None:
    keys = compute_key("SourceAndObject", named(*one)), compute_key("SourceAndObject", named(*other))
    assert (keys[0] == keys[1]) == (one == other)
    assert compute_key("SourceAndObject", named(*one)) == keys[0]
    assert max(map(len, keys)) <= MAX_LENGTH + 1


FIELDS = [
    "source",
    "involvedObject",
    "regarding",
    "deprecatedSource",
    "reportingController",
    "component",
    "host",
    "kind",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | TEXTS, inner, max_size=5),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.sampled_from(["v1/events", "events.k8s.io/v1/events"]))
def test_any_event_has_a_key(fields: Json, resource: str) -> None:
    key = compute_key("SourceAndObject", admission_review("CREATE", fields, resource=resource))
    assert type(key) is str
    assert len(key) <= MAX_LENGTH + 1


def test_long_keys_are_shortened_and_stay_distinct() -> None:
    long = "n" * 2**20
    keys = {
        compute_key("SourceAndObject", named(long[:length], "", "", "", "", "", ""))
        for length in range(0, 2**20, 2**15)
    }
    keys |= {
        compute_key("SourceAndObject", named("", "", "", "", "", long[:length], ""))
        for length in range(1, 2**20, 2**15)
    }
    assert len(keys) == 64
    users = {compute_key("User", admission("CREATE", event(), user=long[:length])) for length in (255, 256, 257, 258)}
    assert len(users) == 4
    assert max(map(len, keys | users)) == MAX_LENGTH + 1


def test_no_name_collides_with_a_shortened_one() -> None:
    shortened = compute_key("User", admission("CREATE", event(), user="n" * 1000))
    assert compute_key("User", admission("CREATE", event(), user=shortened)) != shortened


def test_reading_an_event_copies_nothing() -> None:
    review = admission("CREATE", core_event())
    compute_key("SourceAndObject", review)
    assert not review.object_accessed
