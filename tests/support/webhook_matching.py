"""Which requests API servers send to a webhook, and which webhooks they reject, from the Kubernetes documentation.

This is independent of the package, so that tests can compare the two.
"""

import re
from typing import Any

import celpy

Json = dict[str, Any]

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_environment = celpy.Environment()


def is_called(webhook: Json, review: Json, namespaces: dict[str, dict[str, str]]) -> bool:
    """Whether a webhook is called for the request of a review.

    Args:
        webhook: the webhook in a webhook configuration.
        review: the AdmissionReview that would be sent.
        namespaces: the labels of all namespaces, by name.
    """
    request = review["request"]
    return (
        any(_matches_rule(rule, request) for rule in webhook["rules"])
        and _matches_namespace(webhook.get("namespaceSelector", {}), request, namespaces)
        and _matches_object(webhook.get("objectSelector", {}), request)
        and all(_matches_condition(each["expression"], request) for each in webhook.get("matchConditions", []))
    )


def find_errors(webhook: Json) -> list[str]:
    """Return the errors for which an API server would reject the rules and selectors of a webhook."""
    errors = []
    for rule in webhook["rules"]:
        lists = [rule[key] for key in ("apiGroups", "apiVersions", "operations")]
        errors += [f"more than *: {values}" for values in lists if "*" in values and len(values) > 1]
        errors += _find_resource_errors(rule["resources"])
    for key in ("namespaceSelector", "objectSelector"):
        selector = webhook.get(key, {})
        values = [*selector.get("matchLabels", {}).values()]
        for expression in selector.get("matchExpressions", []):
            values += expression.get("values", [])
            if (expression["operator"] in ("In", "NotIn")) is not bool(expression.get("values")):
                errors.append(f"{key}: {expression}")
        errors += [f"{key}: {value!r}" for value in values if not LABEL_VALUE.fullmatch(value)]
    return errors


def _find_resource_errors(resources: list[str]) -> list[str]:
    without_subresource = [resource for resource in resources if "/" not in resource]
    with_subresource = [tuple(resource.split("/", 1)) for resource in resources if "/" in resource]
    errors = []
    if "*/*" in resources and len(resources) > 1:
        errors.append(f"more than */*: {resources}")
    if "*" in without_subresource and len(without_subresource) > 1:
        errors.append(f"more resources without subresources than *: {resources}")
    for number, (resource, subresource) in enumerate(with_subresource):
        earlier = with_subresource[:number]
        if (resource, "*") in earlier or ("*", subresource) in earlier:
            errors.append(f"{resource}/{subresource} is covered by an earlier one: {resources}")
    return errors


def _matches_rule(rule: Json, request: Json) -> bool:
    resource = request["resource"]
    subresource = request.get("subResource") or ""
    return (
        _is_in(request["operation"], rule["operations"])
        and _is_in(resource["group"], rule["apiGroups"])
        and _is_in(resource["version"], rule["apiVersions"])
        and any(_matches_resource(pattern, resource["resource"], subresource) for pattern in rule["resources"])
        and rule.get("scope", "*") == "*"
    )


def _is_in(value: str, values: list[str]) -> bool:
    return "*" in values or value in values


def _matches_resource(pattern: str, resource: str, subresource: str) -> bool:
    """Match a resource: ``pods/*`` are all subresources of pods, but not pods; ``*/*`` is everything."""
    if pattern == "*/*":
        return True
    name, slash, subresource_pattern = pattern.partition("/")
    if name not in ("*", resource):
        return False
    if not slash:
        return subresource == ""
    return subresource != "" and subresource_pattern in ("*", subresource)


def _matches_namespace(selector: Json, request: Json, namespaces: dict[str, dict[str, str]]) -> bool:
    """Match the labels of the namespace. A Namespace has its own labels; other cluster-scoped objects always match."""
    namespace = request.get("namespace")
    if request["resource"]["resource"] == "namespaces" and request["operation"] in ("CREATE", "UPDATE"):
        return _matches_selector(selector, request["object"]["metadata"].get("labels", {}))
    return not namespace or _matches_selector(selector, namespaces[namespace])


def _matches_object(selector: Json, request: Json) -> bool:
    """Match the new or the old object. Objects that cannot have labels match only an empty selector."""
    if not selector:
        return True
    objects = [request[field] for field in ("object", "oldObject") if request.get(field)]
    return any(
        "metadata" in object_ and _matches_selector(selector, object_["metadata"].get("labels", {}))
        for object_ in objects
    )


def _matches_selector(selector: Json, labels: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        _matches_expression(expression, labels) for expression in selector.get("matchExpressions", [])
    )


def _matches_expression(expression: Json, labels: dict[str, str]) -> bool:
    exists, values = expression["key"] in labels, expression.get("values", [])
    matches = {
        "In": exists and labels.get(expression["key"]) in values,
        "NotIn": not exists or labels[expression["key"]] not in values,
        "Exists": exists,
        "DoesNotExist": not exists,
    }
    return matches[expression["operator"]]


def _matches_condition(expression: str, request: Json) -> bool:
    """Evaluate a match condition on a request without its empty fields. An error fails the test."""
    variable = {
        key: value for key, value in request.items() if key not in ("uid", "object", "oldObject") and value != ""
    }
    result = evaluate(expression, {"request": variable})
    assert result in (True, False), (expression, result)
    return result


def evaluate(expression: str, variables: Json) -> bool:
    """Evaluate an expression in CEL; raises its errors."""
    program = _environment.program(_environment.compile(expression))
    return bool(program.evaluate({name: celpy.json_to_cel(value) for name, value in variables.items()}))
