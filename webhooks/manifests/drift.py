"""Compares manifests with the files in a folder, or with the objects in a cluster."""

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any, Protocol

from webhooks.errors import unreadable
from webhooks.kube.api_groups import (
    ADMISSION_REGISTRATION,
    MANAGED_BY_LABEL,
    MANAGED_BY_VALUE,
    WEBHOOK_CONFIGURATION_KINDS,
)
from webhooks.kube.resources import plural_name
from webhooks.manifests.render import ManifestFile
from webhooks.manifests.webhook_configurations import Json

_INSTANCE = "app.kubernetes.io/instance"
_MAX_VALUE = 120  # characters of a value in a message
_SUFFIXES = (".yaml", ".yml", ".json")
_SERVICE_TYPE = "ClusterIP"
# The defaults of API servers for a webhook.
_WEBHOOK_DEFAULTS = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
    "failurePolicy": "Fail",
    "reinvocationPolicy": "Never",
    "matchConditions": [],
}
# Where fields that are not in the manifests are reported too: everywhere in these kinds, and below these fields.
_STRICT_KINDS = (*WEBHOOK_CONFIGURATION_KINDS, "ClusterRole", "ClusterRoleBinding", "NetworkPolicy")
_STRICT_FIELDS = ("data", "selector", "labelSelector", "securityContext")
# Elsewhere only these: they change what runs, or who can connect to it.
_REPORTED_FIELDS = (
    *("command", "env", "envFrom", "lifecycle", "initContainers"),
    *("hostNetwork", "hostPID", "hostIPC", "hostAliases", "shareProcessNamespace", "runtimeClassName"),
    *("externalIPs", "externalName", "publishNotReadyAddresses"),
)


class ClusterApi(Protocol):
    """A client of a cluster's API."""

    def get(self, path: str) -> Any:
        """Return the object or collection at a path; None if it does not exist."""


def compare_folder(folder: Path, files: Iterable[ManifestFile]) -> Iterator[str]:
    """Yield a line for each difference between manifests and the files in a folder.

    Raises:
        ConfigurationError: a file cannot be read.
    """
    expected_texts = {file.path: str(file) for file in files}
    for name, expected in expected_texts.items():
        path = folder / name
        try:
            actual = path.read_bytes().decode() if path.is_file() else None
        except (OSError, UnicodeDecodeError) as error:
            raise unreadable(path, error) from None
        if actual is None:
            yield f"{path}: missing"
        elif actual != expected:
            lines = actual.split("\n"), expected.split("\n")
            yield from unified_diff(*lines, f"{path}", f"{path} (expected)", lineterm="")
    existing = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in _SUFFIXES}
    for name in sorted(existing - set(expected_texts)):
        yield f"{folder / name}: not expected"


def compare_cluster(cluster: ClusterApi, files: Iterable[ManifestFile]) -> Iterator[str]:
    """Yield a line for each difference between manifests and the objects in a cluster.

    Raises:
        ClusterError: a request to the cluster failed.
    """
    objects = [object_ for file in files for object_ in file.objects]
    for expected in objects:
        actual = cluster.get(api_path(expected))
        name = _describe(expected)
        if actual is None:
            yield f"{name}: missing"
        elif actual["metadata"].get("labels", {}).get(MANAGED_BY_LABEL) != MANAGED_BY_VALUE:
            yield f"{name}: belongs to another program: it has no label {MANAGED_BY_LABEL}: {MANAGED_BY_VALUE}"
        else:
            yield from (f"{name}: {line}" for line in compare_objects(expected, actual))
    names = {_describe(object_) for object_ in objects}
    for instance in sorted({object_["metadata"]["labels"][_INSTANCE] for object_ in objects}):
        yield from _find_obsolete_configurations(cluster, instance, names)


def _find_obsolete_configurations(cluster: ClusterApi, instance: str, names: set[str]) -> Iterator[str]:
    """Yield a line for each webhook configuration of this instance that the manifests do not contain.

    API servers still send requests for it, and may deny them.
    """
    selector = f"{MANAGED_BY_LABEL}%3D{MANAGED_BY_VALUE}%2C{_INSTANCE}%3D{instance}"
    for kind in WEBHOOK_CONFIGURATION_KINDS:
        collection = api_path(
            {"apiVersion": ADMISSION_REGISTRATION, "kind": kind, "metadata": {"name": ""}}
        ).removesuffix("/")
        existing = cluster.get(f"{collection}?labelSelector={selector}") or {}
        for configuration in existing.get("items", []):
            name = _describe({"kind": kind, **configuration})
            if name not in names:
                yield f"{name}: not expected, but labelled as belonging to this server"


def api_path(object_: Json) -> str:
    """Return the path of an object in the API."""
    version, metadata = object_["apiVersion"], object_["metadata"]
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    namespace = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{base}{namespace}/{plural_name(object_['kind'])}/{metadata['name']}"


def compare_objects(expected: Json, actual: Json) -> Iterator[str]:
    """Yield a line for each field that differs. Fields that API servers add or omit are no difference."""
    strict = expected["kind"] in _STRICT_KINDS
    for key, value in expected.items():
        if key == "metadata":
            metadata = {name: value[name] for name in ("labels", "annotations") if name in value}
            yield from _compare(metadata, actual[key], key, strict=False)
        elif key == "webhooks":
            yield from _compare_webhooks(value, actual.get(key, []))
        else:
            yield from _compare(value, actual.get(key), key, strict=strict or key in _STRICT_FIELDS)
    if expected["kind"] == "Service" and actual["spec"].get("type", _SERVICE_TYPE) != _SERVICE_TYPE:
        yield _describe_difference("spec.type", _SERVICE_TYPE, actual["spec"]["type"])


def _compare_webhooks(expected: list[Json], actual: list[Json]) -> Iterator[str]:
    """Compare webhooks by name. API servers call them in their order."""
    actual_by_name: Mapping[str, Json] = {webhook["name"]: webhook for webhook in actual}
    expected_names = [webhook["name"] for webhook in expected]
    for webhook in expected:
        field = f"webhooks[{webhook['name']}]"
        if webhook["name"] not in actual_by_name:
            yield f"{field}: missing"
            continue
        actual_webhook = dict(actual_by_name[webhook["name"]])
        if "caBundle" not in webhook["clientConfig"]:  # another program sets it
            actual_webhook["clientConfig"] = {
                key: value for key, value in actual_webhook["clientConfig"].items() if key != "caBundle"
            }
        yield from _compare(_WEBHOOK_DEFAULTS | webhook, _WEBHOOK_DEFAULTS | actual_webhook, field, strict=True)
    for name in actual_by_name:
        if name not in expected_names:
            yield f"webhooks[{name}]: not expected"
    in_both = [name for name in expected_names if name in actual_by_name]
    if in_both != [name for name in actual_by_name if name in expected_names]:
        yield f"webhooks: not in the expected order: {', '.join(in_both)}"


def _compare(expected: Any, actual: Any, field: str, *, strict: bool) -> Iterator[str]:
    """Compare two values.

    Args:
        expected: the value in the manifests.
        actual: the value in the cluster.
        field: the path of the field.
        strict: whether fields that are only in the cluster are reported.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            # In a peer, an empty namespaceSelector means all namespaces, a missing one only that of the policy.
            if key == "from" and value != actual.get(key):
                yield _describe_difference(f"{field}.{key}", value, actual.get(key))
            else:
                is_strict = strict or key in _STRICT_FIELDS
                yield from _compare(value, actual.get(key), f"{field}.{key}", strict=is_strict)
        for key in sorted(set(actual) - set(expected)):
            if (strict or key in _REPORTED_FIELDS) and not _is_empty(actual[key]):
                yield f"{field}.{key}: not expected: {_format_value(actual[key])}"
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for number, (expected_item, actual_item) in enumerate(zip(expected, actual, strict=True)):
            yield from _compare(expected_item, actual_item, f"{field}[{number}]", strict=strict)
    elif expected != actual and not (_is_empty(expected) and _is_empty(actual)):
        yield _describe_difference(field, expected, actual)


def _describe_difference(field: str, expected: Any, actual: Any) -> str:
    return f"{field}: expected {_format_value(expected)}, but is {_format_value(actual)}"


def _is_empty(value: Any) -> bool:
    """Check whether API servers may omit a value. They do not omit false and 0."""
    return value is None or value in ("", [], {})


def _format_value(value: Any) -> str:
    text = "not set" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}..."


def _describe(object_: Json) -> str:
    metadata = object_["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{object_['kind']} {namespace}{metadata['name']}"
