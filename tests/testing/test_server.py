"""The server without sockets: the results of every kind of review."""

import asyncio
import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhooks import (
    AccessReview,
    AdmissionReview,
    Allow,
    Authenticated,
    Deny,
    NoOpinion,
    Replace,
    TokenReview,
    Unauthenticated,
    authenticating,
    authorizing,
    image_policy,
    mutating,
    validating,
)
from webhooks.errors import ConfigurationError
from webhooks.testing import Result, Server, access, admission, images, pod, token

from ..support.builders import admission_body, recorded_bodies


@validating("pods", operations=["*"])
def owned(review: AdmissionReview, *, label: str = "owner") -> Allow | Deny:
    if label in review.labels:
        return Allow(warnings=["soon immutable"], audit={"owner": review.labels[label]})
    return Deny(f"no {label}", reason="Invalid", code=422, audit={"missing": label})


@mutating("pods")
def labelled(review: AdmissionReview) -> Replace:
    changed = review.object
    changed["metadata"].setdefault("labels", {})["owner"] = "jane"
    return Replace(changed, warnings=["labelled"], audit={"labelled": "yes"})


@mutating("pods")
def rejected(review: AdmissionReview) -> Deny:
    return Deny("not at all")


@validating("pods")
def failing(review: AdmissionReview) -> Allow:
    raise KeyError("spec")


@mutating("pods", on_error="allow")
def ignored(review: AdmissionReview) -> Replace:
    raise KeyError("metadata")


@mutating("pods")
def warning(review: AdmissionReview) -> Allow:
    return Allow(warnings=["soon immutable", "later"])


@authorizing("secrets")
async def by_groups(review: AccessReview) -> Allow | Deny | NoOpinion:
    if "failing" in review.groups:
        raise OSError("no line")
    if "admins" in review.groups:
        return Allow(reason="an admin")
    return Deny("no list") if review.verb == "list" else NoOpinion()


@authenticating
def robots(review: TokenReview) -> Authenticated | Unauthenticated | NoOpinion:
    if review.token == "bad":
        return Unauthenticated("revoked")
    return Authenticated("r2", groups=["robots"]) if review.token == "good" else NoOpinion()


@image_policy
def pinned(review: Any) -> Allow | Deny:
    return Allow(audit={"images": "fine"}) if "@" in review.images[0] else Deny("not pinned")


def review_with(*policies: Any, review: Any) -> Result:
    with Server(*policies) as server:
        return server.review(review)


PATCH = [{"op": "add", "path": "/metadata/labels", "value": {"owner": "jane"}}]

RESULTS = {
    "allowed": (
        [owned],
        admission("CREATE", pod(labels={"owner": "joe"})),
        Result(True, warnings=["soon immutable"], audit={"owner": "joe"}, policies=["owned"]),
    ),
    "denied": (
        [owned],
        admission("CREATE", pod()),
        Result(False, 422, "no owner", "Invalid", audit={"missing": "owner"}, policies=["owned"]),
    ),
    "patched before it is validated": (
        [owned, labelled],
        admission("CREATE", pod()),
        Result(
            True,
            patch=PATCH,
            object=pod(labels={"owner": "jane"}),
            warnings=["labelled", "soon immutable"],
            audit={"labelled": "yes", "owner": "jane"},
            policies=["labelled", "owned"],
        ),
    ),
    "patched and denied": (
        [owned.bind(label="team"), labelled],
        admission("CREATE", pod()),
        Result(
            False,
            422,
            "no team",
            "Invalid",
            warnings=["labelled"],
            audit={"labelled": "yes", "missing": "team"},
            policies=["labelled", "owned"],
        ),
    ),
    "rejected by the first policy": (
        [owned, rejected],
        admission("CREATE", pod()),
        Result(False, 403, "not at all", "Forbidden", policies=["rejected"]),
    ),
    "deleted": (
        [owned, labelled],
        admission("DELETE", old_object=pod(labels={"owner": "joe"})),
        Result(True, warnings=["soon immutable"], audit={"owner": "joe"}, policies=["owned"]),
    ),
    "failed": (
        [failing],
        admission("CREATE", pod()),
        Result(
            False,
            500,
            "policy 'failing' failed",
            "InternalError",
            policies=["failing"],
            failures=["failing: raised KeyError: 'spec'"],
        ),
    ),
    "failed and ignored": (
        [ignored],
        admission("CREATE", pod()),
        Result(
            True,
            warnings=["policy 'ignored' failed and was ignored"],
            audit={"ignored.failed": "ignored"},
            policies=["ignored"],
            failures=["ignored: raised KeyError: 'metadata'"],
        ),
    ),
    "the same warning twice": (
        [owned, warning],
        admission("CREATE", pod(labels={"owner": "joe"})),
        Result(True, warnings=["soon immutable", "later"], audit={"owner": "joe"}, policies=["warning", "owned"]),
    ),
    "malformed": (
        [owned],
        admission("CREATE", {**pod(), "metadata": {"labels": 1}}),
        Result(False, 422, "malformed review: metadata.labels is not a map of strings", "Invalid"),
    ),
    "not matched": ([owned], admission("CREATE", {"apiVersion": "v1", "kind": "Service"}), Result(True)),
    "access allowed": (
        [by_groups],
        access("list", "secrets", groups=["admins"]),
        Result(True, message="an admin", policies=["by_groups"]),
    ),
    "access denied": ([by_groups], access("list", "secrets"), Result(False, message="no list", policies=["by_groups"])),
    "access without an opinion": ([by_groups], access("get", "secrets"), Result(None, policies=["by_groups"])),
    "a path": ([by_groups], access("get", path="/metrics"), Result(None)),
    "access without a result": (
        [by_groups],
        access("get", "secrets", groups=["failing"]),
        Result(
            None,
            500,
            "a policy failed; see the server's log",
            "InternalError",
            policies=["by_groups"],
            failures=["by_groups: raised OSError: no line"],
        ),
    ),
    "a valid token": (
        [robots],
        token("good"),
        Result(True, user={"username": "r2", "groups": ["robots"]}, policies=["robots"]),
    ),
    "an invalid token": ([robots], token("bad"), Result(False, message="revoked", policies=["robots"])),
    "an unknown token": ([robots], token("other", audiences=["a"]), Result(None, policies=["robots"])),
    "an image": ([pinned], images("a@b"), Result(True, audit={"images": "fine"}, policies=["pinned"])),
    "another image": ([pinned], images("a"), Result(False, message="not pinned", policies=["pinned"])),
}


@pytest.mark.parametrize(("policies", "review", "expected"), RESULTS.values(), ids=RESULTS)
def test_results(policies: list[Any], review: Any, expected: Result) -> None:
    result = review_with(*policies, review=review)
    assert result == expected
    assert Result(**asdict(result)) == result
    assert eval(repr(result)) == result


OUTCOMES = {
    "allowed": Result(True),
    "patched": Result(True, patch=PATCH),
    "denied": Result(False, 403),
    "no opinion": Result(None),
    "error": Result(None, 500),
}


@pytest.mark.parametrize(("outcome", "result"), OUTCOMES.items(), ids=OUTCOMES)
def test_outcomes(outcome: str, result: Result) -> None:
    assert result.outcome == outcome


def test_bodies_of_api_servers() -> None:
    body = admission_body("CREATE", pod())
    assert review_with(labelled, review=body).patch == PATCH
    assert body == admission_body("CREATE", pod()), "the body must not be changed"
    spec = {"user": "jane", "resourceAttributes": {"verb": "list", "resource": "secrets"}}
    assert review_with(by_groups, review={"kind": "SubjectAccessReview", "spec": spec}).message == "no list"
    assert review_with(by_groups, review={"kind": "SubjectAccessReview", "spec": {}}).code == 400
    for recording in recorded_bodies("/mutate", "/validate", "/authorize", "/images").values():
        assert review_with(owned, by_groups, pinned, review=recording).code != 400


@pytest.mark.parametrize("body", [{}, {"kind": "Pod"}, {"kind": ["x"]}])
def test_bodies_of_unknown_kinds(body: Any) -> None:
    with pytest.raises(ValueError, match="kind: must be one of AdmissionReview, SubjectAccessReview, "):
        review_with(owned, review=body)


def test_policies_by_path_and_name(tmp_path: Path) -> None:
    file = tmp_path / "few.py"
    file.write_text("from webhooks import *\n@validating('pods')\ndef few(review): return Deny('few')")
    for policies in (["few.py"], [file], [str(tmp_path)], ["few.py", "library:required_labels", owned]):
        with Server(*policies, folder=tmp_path) as server:
            assert server.review(admission("CREATE", pod())).policies[0] == "few"


CONFIGURATION = """\
apiVersion: webhooks.svc.io/v1alpha1
kind: WebhookConfiguration
server: {tlsCert: not-there.pem}
policies:
  - {use: few.py, mode: warn, match: {namespaces: [shop]}, exemptions: [{names: [old-*], reason: being moved}]}
"""


@pytest.mark.parametrize("name", ["webhooks.yaml", "webhooks.yml", "webhooks.json"])
def test_a_configuration(name: str, tmp_path: Path) -> None:
    (tmp_path / "few.py").write_text("from webhooks import *\n@validating('pods')\ndef few(review): return Deny('few')")
    (tmp_path / name).write_text(json.dumps(yaml.safe_load(CONFIGURATION)) if name.endswith("json") else CONFIGURATION)
    with Server(name, folder=tmp_path) as server:
        assert server.review(admission("CREATE", pod())) == Result(True)
        warned = server.review(admission("CREATE", pod(namespace="shop")))
        assert warned == Result(True, warnings=["few: few"], policies=["few"])
        exempt = server.review(admission("CREATE", pod("old-web", namespace="shop")))
        assert exempt == Result(True, audit={"few.exempted": "being moved"})
    with Server(tmp_path / name, owned) as server:
        assert server.review(admission("CREATE", pod(namespace="shop"))).policies == ["few", "owned"]


def test_an_invalid_configuration(tmp_path: Path) -> None:
    (tmp_path / "webhooks.yaml").write_text(CONFIGURATION.replace("few.py", "many.py"))
    with pytest.raises(ConfigurationError, match=r"webhooks\.yaml:5:11: policies\[0\]\.use: Invalid value: .*no such"):
        Server("webhooks.yaml", folder=tmp_path)


def test_threads_are_stopped_if_a_policy_cannot_be_isolated() -> None:
    @validating("pods", isolation=True)
    def inside(review: AdmissionReview) -> Allow:
        return Allow()

    before = threading.active_count()
    with pytest.raises(ConfigurationError, match="policy 'inside' cannot be isolated"):
        Server(inside)
    assert threading.active_count() == before


@pytest.mark.parametrize("policies", [["nothing.py"], ["library:nothing"], [owned, owned.with_name("owned")]])
def test_policies_that_cannot_be_loaded(policies: list[Any]) -> None:
    with pytest.raises(ConfigurationError):
        Server(*policies)


def test_use_on_an_event_loop() -> None:
    async def test() -> Result:
        return review_with(by_groups, review=access("list", "secrets"))

    assert asyncio.run(test()).message == "no list"


def test_results_do_not_contain_those_of_earlier_reviews() -> None:
    with Server(owned) as server:
        assert server.review(admission("CREATE", pod())).policies == ["owned"]
        assert server.review({"kind": "AdmissionReview"}).policies == []


def test_all_reviews_run_on_one_event_loop() -> None:
    loops = set()

    @authorizing("pods")
    async def recording(review: AccessReview) -> NoOpinion:
        loops.add(asyncio.get_running_loop())
        return NoOpinion()

    with Server(recording) as server:
        for _ in range(3):
            server.review(access("list", "pods"))
    [loop] = loops
    assert loop.is_closed()
