"""Docstrings of bundled policies: they list the parameters, and their examples are correct."""

import ast
import inspect
from typing import Any

import pytest
import yaml

from webhooks import Allow, Deny, NoOpinion
from webhooks.policy.docstrings import Example
from webhooks.policy.docstrings import load as load_doc
from webhooks.policy.loader import bundled_files, load
from webhooks.reviews.kinds import Kind

from ..support.api_server import accept_admission, accept_authorization, accept_images
from ..support.builders import (
    CODECS,
    AnyPolicy,
    Json,
    access_body,
    admission_body,
    decide,
    encode_body,
    encode_response,
    image_body,
)
from .pods import RESOURCES, make_object, pod_spec

every_policy = pytest.mark.parametrize("name", bundled_files())

# The outcomes that the examples must have by kind of policy: one without an effect, and one with an effect.
OUTCOMES: dict[Kind, tuple[set[str], set[str]]] = {
    "validating": ({"Allowed"}, {"Denied"}),
    "mutating": ({"Unchanged"}, {"Changed"}),
    "authorizing": ({"No opinion"}, {"Denied"}),
    "image_policy": ({"Allowed"}, {"Denied"}),
}
MORE: dict[Kind, set[str]] = {"mutating": {"Denied"}, "authorizing": {"Allowed"}}


def policy_of(name: str, example: Example) -> AnyPolicy:
    """Return the policy with the parameters of an example."""
    call = ast.parse(f"f({example.parameters})", mode="eval").body
    assert isinstance(call, ast.Call)
    assert not call.args
    [policy] = load([f"library:{name}"])
    return policy.bind(**{str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords})


def merge(minimal: Any, example: Any) -> Any:
    """Merge an object with the fields of an example; lists are replaced."""
    if not (isinstance(minimal, dict) and isinstance(example, dict)):
        return example
    return {**minimal, **{key: merge(minimal.get(key), value) for key, value in example.items()}}


def complete(example: Json) -> Json:
    """Complete the object of an example, which has only the relevant fields."""
    kind = example.get("kind", "Pod")
    if kind in RESOURCES and "." not in example.get("apiVersion", ""):
        return merge(make_object(kind, pod_spec()), example)
    return merge({"apiVersion": "v1", "kind": kind, "metadata": {"name": "web"}}, example)


def plural(kind: str) -> str:
    word = kind.lower()
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch")) else f"{word}s"


def request_body(policy: AnyPolicy, obj: Json) -> Json:
    """Return a request for the object with the first operation that the policy matches."""
    operation = next(name for name in ("CREATE", "UPDATE", "CONNECT", "DELETE") if name in policy.match.operations)
    group, _, version = obj["apiVersion"].rpartition("/")
    kind, resource, subresource = obj["kind"], plural(obj["kind"]), ""
    if kind.startswith("Pod") and kind.endswith("Options"):
        resource, subresource = "pods", kind.removeprefix("Pod").removesuffix("Options").lower()
    return admission_body(
        operation,
        None if operation == "DELETE" else obj,
        old=obj if operation == "DELETE" else None,
        resource=f"{group}/{version}/{resource}".removeprefix("/"),
        kind={"group": group, "version": version, "kind": kind},
        namespace=obj["metadata"].get("namespace", "default") if "metadata" in obj else "default",
        name=obj.get("metadata", {}).get("name", "web"),
        subResource=subresource,
    )


def evaluate(policy: AnyPolicy, body: Json) -> tuple[Any, bytes]:
    """Return the outcome of the policy for a request that it matches, and the body of the response."""
    review = CODECS[policy.kind].decode(encode_body(body))
    assert policy.match.matches_resource(review)
    assert policy.match.matches(review)
    verdict = decide(review, policy)
    assert verdict.results[0].failure is None, verdict.results[0].failure
    return verdict.outcome, encode_response(policy.kind, review, verdict)


def check_admission(policy: AnyPolicy, example: Example) -> None:
    before, *rest = [complete(example) for example in yaml.safe_load_all(example.text)]
    assert policy.kind == "mutating" or not rest
    body = request_body(policy, before)
    outcome, answer = evaluate(policy, body)
    response = accept_admission(body, answer, mutating=policy.kind == "mutating")
    assert isinstance(outcome, Deny if example.outcome == "Denied" else Allow)
    assert ("patch" in response) is (example.outcome == "Changed")
    assert not rest or example.outcome == "Changed"
    assert [response["object"]] == (rest or [response["object"]])


def check_access(policy: AnyPolicy, example: Example) -> None:
    body = merge(access_body(groups=["system:authenticated"]), yaml.safe_load(example.text))
    outcome, answer = evaluate(policy, body)
    accept_authorization(body, answer)
    assert isinstance(outcome, {"Denied": Deny, "Allowed": Allow}.get(example.outcome, NoOpinion))


def check_images(policy: AnyPolicy, example: Example) -> None:
    body = merge(image_body(), yaml.safe_load(example.text))
    outcome, answer = evaluate(policy, body)
    accept_images(body, answer)
    assert isinstance(outcome, Deny if example.outcome == "Denied" else Allow)


CHECKS = {
    CODECS["mutating"]: check_admission,
    CODECS["authorizing"]: check_access,
    CODECS["image_policy"]: check_images,
}


@every_policy
def test_docstrings_are_complete(name: str) -> None:
    doc = load_doc(name)
    without, with_ = OUTCOMES[doc.kind]
    outcomes = {example.outcome for example in doc.examples}
    assert outcomes & without, f"no example of {without}"
    assert outcomes & with_, f"no example of {with_}"
    assert outcomes <= without | with_ | MORE.get(doc.kind, set())
    assert all(example.text for example in doc.examples)


@every_policy
def test_docstrings_list_the_parameters(name: str) -> None:
    [policy] = load([f"library:{name}"])
    _, *parameters = inspect.signature(policy.function).parameters.values()
    assert [parameter.name for parameter in load_doc(name).parameters] == [parameter.name for parameter in parameters]
    assert all(parameter.default is not parameter.empty for parameter in parameters)


@every_policy
def test_examples_are_correct(name: str) -> None:
    for example in load_doc(name).examples:
        policy = policy_of(name, example)
        CHECKS[CODECS[policy.kind]](policy, example)
