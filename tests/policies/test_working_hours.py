from datetime import UTC, datetime
from typing import Any

import pytest

from webhooks import Deny, NoOpinion
from webhooks.engine.dispatcher import Verdict
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json, access_review, decide

[working_hours] = load(["library:working_hours"])

BERLIN = {"time_zone": "Europe/Berlin"}
NIGHT = {"start": "22:00", "end": "06:00", "days": ["Fri"]}
ALWAYS = {"start": "00:00", "end": "00:00", "days": ["Sat"]}

# Parameters, a time, and whether it is in the hours. 2026-03-06 is a Friday.
TIMES: list[tuple[Json, str, bool]] = [
    ({}, "2026-03-06T08:59:59Z", False),
    ({}, "2026-03-06T09:00:00Z", True),
    ({}, "2026-03-06T16:59:59.999999Z", True),
    ({}, "2026-03-06T17:00:00Z", False),
    ({}, "2026-03-07T12:00:00Z", False),
    ({}, "2026-03-08T12:00:00Z", False),
    ({}, "2026-03-09T12:00:00Z", True),
    ({}, "2026-03-06T11:00:00+03:00", False),
    (BERLIN, "2026-03-06T08:00:00Z", True),
    (BERLIN, "2026-03-06T16:00:00Z", False),
    (BERLIN, "2026-03-30T07:00:00Z", True),  # summer time since yesterday
    (BERLIN, "2026-03-30T15:00:00Z", False),
    ({"time_zone": "Pacific/Auckland"}, "2026-03-08T20:00:00Z", True),  # Monday there
    ({"time_zone": "Pacific/Auckland"}, "2026-03-05T21:00:00Z", True),
    ({"time_zone": "Pacific/Auckland"}, "2026-03-06T21:00:00Z", False),
    ({"days": ["Sat"]}, "2026-03-07T12:00:00Z", True),
    ({"days": []}, "2026-03-06T12:00:00Z", False),
    ({"start": "12:30", "end": "12:31"}, "2026-03-06T12:30:59Z", True),
    (NIGHT, "2026-03-06T21:59:00Z", False),
    (NIGHT, "2026-03-06T22:00:00Z", True),
    (NIGHT, "2026-03-07T05:59:00Z", True),
    (NIGHT, "2026-03-07T06:00:00Z", False),
    (NIGHT, "2026-03-06T03:00:00Z", False),
    (NIGHT, "2026-03-07T22:00:00Z", False),
    ({"end": "00:00"}, "2026-03-06T23:59:00Z", True),
    ({"end": "00:00"}, "2026-03-07T00:00:00Z", False),
    (ALWAYS, "2026-03-07T00:00:00Z", True),
    (ALWAYS, "2026-03-07T23:59:00Z", True),
    (ALWAYS, "2026-03-08T00:00:00Z", False),
    (ALWAYS, "2026-03-06T23:59:00Z", False),
]
SATURDAY = "2026-03-07T12:00:00Z"


def deleting(**spec: Any) -> Any:
    return access_review(**{"verb": "delete", "version": "v1", "resource": "pods", "name": "web", **spec})


@pytest.mark.parametrize(("parameters", "now", "allowed"), TIMES, ids=repr)
def test_changes_are_allowed_in_the_hours(parameters: Json, now: str, allowed: bool) -> None:
    assert (working_hours.bind(**parameters, now=now)(deleting()) == NoOpinion()) is allowed


def test_the_message_has_the_hours() -> None:
    assert working_hours.bind(**BERLIN, now=SATURDAY)(deleting()) == Deny(
        "changes are allowed only on Mon, Tue, Wed, Thu, Fri from 09:00 to 17:00 Europe/Berlin; now it is Sat 13:00"
    )


def test_the_default_time_is_the_current_one() -> None:
    today = f"{datetime.now(UTC):%a}"
    others = [day for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun") if day != today]
    policy = working_hours.bind(start="00:00", end="00:00")
    opinions = {policy.bind(days=days)(deleting()) == NoOpinion() for days in ([today], others)}
    assert opinions == {True, False} or f"{datetime.now(UTC):%a}" != today


# Parameters, a request, and whether it is denied outside of the hours.
REQUESTS: list[tuple[Json, Json, bool]] = [
    ({}, {}, True),
    ({}, {"groups": ["system:authenticated"]}, True),
    ({}, {"user": "system:kube-controller-manager"}, False),
    ({}, {"user": "system:node:node-1", "groups": ["system:nodes"]}, False),
    ({}, {"user": "system:serviceaccount:argocd:controller"}, False),
    ({}, {"user": "systemd"}, True),
    ({}, {"user": ""}, True),
    ({"except_users": []}, {"user": "system:admin"}, True),
    ({"except_users": ["jane"]}, {}, False),
    ({"except_users": ["joe"]}, {}, True),
    ({"except_groups": ["on-call", "dev"]}, {}, False),
    ({"except_groups": ["on-call", "*"]}, {}, True),
    ({}, {"verb": "create", "resource": "selfsubjectaccessreviews", "group": "authorization.k8s.io"}, False),
    ({}, {"verb": "create", "resource": "selfsubjectthings", "group": "example.org"}, True),
    ({}, {"verb": "create", "resource": "pods", "subresource": "exec"}, True),
]


@pytest.mark.parametrize(("parameters", "spec", "denied"), REQUESTS, ids=repr)
def test_exemptions(parameters: Json, spec: Json, denied: bool) -> None:
    assert isinstance(working_hours.bind(**parameters, now=SATURDAY)(deleting(**spec)), Deny) is denied


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        *(({"verb": verb}, True) for verb in ("create", "update", "patch", "delete", "deletecollection")),
        *(({"verb": verb}, False) for verb in ("get", "list", "watch", "impersonate")),
        ({"subresource": "status"}, True),
        ({"group": "example.org", "resource": "things"}, True),
    ],
    ids=repr,
)
def test_it_matches_only_changes(spec: Json, expected: bool) -> None:
    assert working_hours.match.matches_resource(deleting(**spec)) is expected


def test_it_matches_no_paths() -> None:
    review = access_review(nonResourceAttributes={"path": "/x", "verb": "delete"})
    assert not working_hours.match.matches_resource(review)


@pytest.mark.parametrize(
    "parameters", [{"time_zone": "Europe/Nowhere"}, {"start": "nine"}, {"end": "25:00"}, {"end": ""}], ids=repr
)
def test_invalid_hours_deny_changes(parameters: Json) -> None:
    policy = working_hours.bind(**parameters)
    verdict: Verdict = decide(deleting(), policy)
    assert isinstance(verdict.outcome, Deny)
    assert isinstance(decide(deleting(user="system:node:node-1"), policy).outcome, NoOpinion)


@pytest.mark.parametrize(
    "parameters",
    [{"days": ["Monday"]}, {"days": "Mon"}, {"start": 9}, {"time_zone": None}, {"now": "noon"}, {"except_users": "x"}],
    ids=repr,
)
def test_parameters_are_checked(parameters: Any) -> None:
    with pytest.raises(ConfigurationError):
        working_hours.bind(**parameters)
