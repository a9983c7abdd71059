"""What the bundled policies say of themselves is so: their parameters, and what becomes of their examples."""

import ast
import inspect
from typing import Any

import pytest
import yaml

from webhooks import Allow, Deny, NoOpinion
from webhooks.cli.policy_docs import Example
from webhooks.cli.policy_docs import load as load_doc
from webhooks.policy.loader import bundled_files, load
from webhooks.reviews.kinds import Kind

from ..support.builders import CODECS, AnyPolicy, Json, access_body, admission_body, decide, image_body, reply, written
from ..support.caller import accept_admission, accept_authorization, accept_images
from .objects import RESOURCES, bearing, spec_of

every_policy = pytest.mark.parametrize("name", bundled_files())

# What examples say comes of them, by the kind of policy: what must not come of it, and what must.
OUTCOMES: dict[Kind, tuple[set[str], set[str]]] = {
    "validating": ({"Allowed"}, {"Denied"}),
    "mutating": ({"Unchanged"}, {"Changed"}),
    "authorizing": ({"No opinion"}, {"Denied"}),
    "image_policy": ({"Allowed"}, {"Denied"}),
}
MORE: dict[Kind, set[str]] = {"mutating": {"Denied"}, "authorizing": {"Allowed"}}


def policy_of(name: str, example: Example) -> AnyPolicy:
    """The policy with the parameters that an example names."""
    call = ast.parse(f"f({example.parameters})", mode="eval").body
    assert isinstance(call, ast.Call)
    assert not call.args
    [policy] = load([f"library:{name}"])
    return policy.bind(**{str(each.arg): ast.literal_eval(each.value) for each in call.keywords})


def merged(minimal: Any, shown: Any) -> Any:
    """An object with what an example shows of it; lists are shown whole."""
    if not (isinstance(minimal, dict) and isinstance(shown, dict)):
        return shown
    return {**minimal, **{key: merged(minimal.get(key), value) for key, value in shown.items()}}


def whole(shown: Json) -> Json:
    """The object of which an example shows what matters."""
    kind = shown.get("kind", "Pod")
    if kind in RESOURCES and "." not in shown.get("apiVersion", ""):
        return merged(bearing(kind, spec_of()), shown)
    return merged({"apiVersion": "v1", "kind": kind, "metadata": {"name": "web"}}, shown)


def plural(kind: str) -> str:
    word = kind.lower()
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch")) else f"{word}s"


def asked(policy: AnyPolicy, obj: Json) -> Json:
    """A request to store the object, or the first of the operations that the policy asks about."""
    operations = [each for each in ("CREATE", "UPDATE", "CONNECT", "DELETE") if each in policy.match.operations]
    group, _, version = obj["apiVersion"].rpartition("/")
    kind, resource, subresource = obj["kind"], plural(obj["kind"]), ""
    if kind.startswith("Pod") and kind.endswith("Options"):
        resource, subresource = "pods", kind.removeprefix("Pod").removesuffix("Options").lower()
    return admission_body(
        operations[0],
        None if operations[0] == "DELETE" else obj,
        old=obj if operations[0] == "DELETE" else None,
        resource=f"{group}/{version}/{resource}".removeprefix("/"),
        kind={"group": group, "version": version, "kind": kind},
        namespace=obj["metadata"].get("namespace", "default") if "metadata" in obj else "default",
        name=obj.get("metadata", {}).get("name", "web"),
        subResource=subresource,
    )


def answered(policy: AnyPolicy, body: Json) -> tuple[Any, bytes]:
    """What the policy says to a request that it wants, and the answer's body."""
    review = CODECS[policy.kind].decode(written(body))
    assert policy.match.matches_resource(review)
    assert policy.match.matches(review)
    verdict = decide(review, policy)
    assert verdict.results[0].failure is None, verdict.results[0].failure
    return verdict.outcome, reply(policy.kind, review, verdict)


def check_admission(policy: AnyPolicy, example: Example) -> None:
    before, *rest = [whole(shown) for shown in yaml.safe_load_all(example.text)]
    assert policy.kind == "mutating" or not rest
    body = asked(policy, before)
    outcome, answer = answered(policy, body)
    response = accept_admission(body, answer, mutating=policy.kind == "mutating")
    assert isinstance(outcome, Deny if example.outcome == "Denied" else Allow)
    assert ("patch" in response) is (example.outcome == "Changed")
    assert not rest or example.outcome == "Changed"
    assert [response["object"]] == (rest or [response["object"]])


def check_access(policy: AnyPolicy, example: Example) -> None:
    body = merged(access_body(groups=["system:authenticated"]), yaml.safe_load(example.text))
    outcome, answer = answered(policy, body)
    accept_authorization(body, answer)
    assert isinstance(outcome, {"Denied": Deny, "Allowed": Allow}.get(example.outcome, NoOpinion))


def check_images(policy: AnyPolicy, example: Example) -> None:
    body = merged(image_body(), yaml.safe_load(example.text))
    outcome, answer = answered(policy, body)
    accept_images(body, answer)
    assert isinstance(outcome, Deny if example.outcome == "Denied" else Allow)


CHECKS = {
    CODECS["mutating"]: check_admission,
    CODECS["authorizing"]: check_access,
    CODECS["image_policy"]: check_images,
}


@every_policy
def test_its_parts_are_there(name: str) -> None:
    found = load_doc(name)
    without, with_ = OUTCOMES[found.kind]
    outcomes = {example.outcome for example in found.examples}
    assert outcomes & without, f"no example of {without}"
    assert outcomes & with_, f"no example of {with_}"
    assert outcomes <= without | with_ | MORE.get(found.kind, set())
    assert all(example.text for example in found.examples)


@every_policy
def test_its_parameters_are_those_of_the_function(name: str) -> None:
    [policy] = load([f"library:{name}"])
    _, *parameters = inspect.signature(policy.function).parameters.values()
    assert [each.name for each in load_doc(name).parameters] == [each.name for each in parameters]
    assert all(each.default is not each.empty for each in parameters)


@every_policy
def test_its_examples_are_so(name: str) -> None:
    for example in load_doc(name).examples:
        policy = policy_of(name, example)
        CHECKS[CODECS[policy.kind]](policy, example)
