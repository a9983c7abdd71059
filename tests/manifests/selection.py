"""Which requests an API server sends to a webhook, as its documentation has it; nothing of ours is used here."""

import re
from typing import Any

import celpy

Json = dict[str, Any]

_environment = celpy.Environment()


def selects(webhook: Json, review: Json, namespaces: dict[str, dict[str, str]]) -> bool:
    """Whether a webhook of a registration is called for the request of a review.

    Args:
        webhook: as it stands in the registration.
        review: the AdmissionReview that would be sent.
        namespaces: the labels of all namespaces, by name.
    """
    request = review["request"]
    return (
        any(_rule(rule, request) for rule in webhook["rules"])
        and _namespace(webhook.get("namespaceSelector", {}), request, namespaces)
        and _object(webhook.get("objectSelector", {}), request)
        and all(_condition(each["expression"], request) for each in webhook.get("matchConditions", []))
    )


def invalid(webhook: Json) -> list[str]:
    """What an API server would refuse a webhook for, as its validation of rules and selectors has it."""
    found = []
    for rule in webhook["rules"]:
        lists = [rule[key] for key in ("apiGroups", "apiVersions", "operations")]
        found += [f"others beside *: {each}" for each in lists if "*" in each and len(each) > 1]
        found += _invalid_resources(rule["resources"])
    for key in ("namespaceSelector", "objectSelector"):
        selector = webhook.get(key, {})
        values = [*selector.get("matchLabels", {}).values()]
        for each in selector.get("matchExpressions", []):
            values += each.get("values", [])
            if (each["operator"] in ("In", "NotIn")) is not bool(each.get("values")):
                found.append(f"{key}: {each}")
        found += [f"{key}: {value!r}" for value in values if not LABEL_VALUE.fullmatch(value)]
    return found


def _invalid_resources(resources: list[str]) -> list[str]:
    plain = [each for each in resources if "/" not in each]
    subs = [tuple(each.split("/", 1)) for each in resources if "/" in each]
    found = []
    if "*/*" in resources and len(resources) > 1:
        found.append(f"others beside */*: {resources}")
    if "*" in plain and len(plain) > 1:
        found.append(f"others without subresources beside *: {resources}")
    for number, (resource, sub) in enumerate(subs):
        if (resource, "*") in subs[:number] or ("*", sub) in subs[:number]:
            found.append(f"{resource}/{sub} is among those before: {resources}")
    return found


LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def _rule(rule: Json, request: Json) -> bool:
    resource = request["resource"]
    subresource = request.get("subResource") or ""
    return (
        _among(request["operation"], rule["operations"])
        and _among(resource["group"], rule["apiGroups"])
        and _among(resource["version"], rule["apiVersions"])
        and any(_resource(each, resource["resource"], subresource) for each in rule["resources"])
        and rule.get("scope", "*") == "*"
    )


def _among(value: str, values: list[str]) -> bool:
    return "*" in values or value in values


def _resource(written: str, resource: str, subresource: str) -> bool:
    """As the documentation has it: ``pods/*`` is all subresources of pods, and not the pods; ``*/*`` is everything."""
    if written == "*/*":
        return True
    name, slash, sub = written.partition("/")
    if name not in ("*", resource):
        return False
    if not slash:
        return subresource == ""
    return subresource != "" and sub in ("*", subresource)


def _namespace(selector: Json, request: Json, namespaces: dict[str, dict[str, str]]) -> bool:
    """An object without a namespace is never left out; a namespace is judged by its own labels."""
    named = request.get("namespace")
    if request["resource"]["resource"] == "namespaces" and request["operation"] in ("CREATE", "UPDATE"):
        return _selector(selector, request["object"]["metadata"].get("labels", {}))
    return not named or _selector(selector, namespaces[named])


def _object(selector: Json, request: Json) -> bool:
    """The object or the old one has to match; what can have no labels matches nothing but an empty selector."""
    if not selector:
        return True
    objects = [request[field] for field in ("object", "oldObject") if request.get(field)]
    return any("metadata" in each and _selector(selector, each["metadata"].get("labels", {})) for each in objects)


def _selector(selector: Json, labels: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        _expression(each, labels) for each in selector.get("matchExpressions", [])
    )


def _expression(expression: Json, labels: dict[str, str]) -> bool:
    there, values = expression["key"] in labels, expression.get("values", [])
    met = {
        "In": there and labels.get(expression["key"]) in values,
        "NotIn": not there or labels[expression["key"]] not in values,
        "Exists": there,
        "DoesNotExist": not there,
    }
    return met[expression["operator"]]


def _condition(expression: str, request: Json) -> bool:
    """Without the uid and the objects; an error is none, since it has the request fail, or pass unasked."""
    shown = {key: value for key, value in request.items() if key not in ("uid", "object", "oldObject") and value != ""}
    answer = evaluated(expression, {"request": shown})
    assert answer in (True, False), (expression, answer)
    return answer


def evaluated(expression: str, variables: Json) -> Any:
    """What an expression in CEL comes to; an error of it is raised."""
    program = _environment.program(_environment.compile(expression))
    return bool(program.evaluate({name: celpy.json_to_cel(value) for name, value in variables.items()}))
