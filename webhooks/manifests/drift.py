"""How what is there differs from what would be written."""

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any, Protocol

from webhooks.errors import ConfigurationError
from webhooks.kube import resources
from webhooks.kube.registered import API_VERSION, KINDS, MANAGED_BY, OURS
from webhooks.manifests.render import File
from webhooks.manifests.webhook_configurations import Json

_INSTANCE = "app.kubernetes.io/instance"
_SHOWN = 120  # characters of a value
# What an API server says of a webhook of which nobody has said anything.
_USUAL = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
    "failurePolicy": "Fail",
    "reinvocationPolicy": "Never",
    "matchConditions": [],
}
# What is told of, though nobody would write it, below these fields: all that somebody has added; of some kinds, always.
_STRICT_KINDS = (*KINDS, "ClusterRole", "ClusterRoleBinding", "NetworkPolicy")
_STRICT_FIELDS = ("data", "selector", "labelSelector", "securityContext")
# Elsewhere: what changes what runs, or who reaches it.
_TOLD_FIELDS = (
    *("command", "env", "envFrom", "lifecycle", "initContainers"),
    *("hostNetwork", "hostPID", "hostIPC", "hostAliases", "shareProcessNamespace", "runtimeClassName"),
    *("externalIPs", "externalName", "publishNotReadyAddresses"),
)
_SERVICE_TYPE = "ClusterIP"
_SUFFIXES = (".yaml", ".yml", ".json")


class Cluster(Protocol):
    """Who can be asked what is there."""

    def get(self, path: str) -> Any:
        """What is at a path; None where there is nothing."""


def of_folder(folder: Path, files: Iterable[File]) -> Iterator[str]:
    """How the files in a folder differ, as lines for people; none where they do not.

    Raises:
        ConfigurationError: one cannot be read.
    """
    written = {file.path: str(file) for file in files}
    for path, text in written.items():
        try:
            there = (folder / path).read_bytes().decode() if (folder / path).is_file() else None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{folder / path}: cannot be read: {error}") from None
        if there is None:
            yield f"{folder / path}: missing"
        elif there != text:
            lines = (there.split("\n"), text.split("\n"), f"{folder / path}", f"{folder / path} as it would be")
            yield from unified_diff(*lines, lineterm="")
    others = {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.suffix in _SUFFIXES}
    for path in sorted(others - set(written)):
        yield f"{folder / path}: nothing of that name would be written"


def of_cluster(cluster: Cluster, files: Iterable[File]) -> Iterator[str]:
    """How the objects of a cluster differ, as lines for people; none where they do not.

    Raises:
        ClusterError: it does not answer, or does not let us see them.
    """
    objects = [each for file in files for each in file.objects]
    for each in objects:
        there = cluster.get(path(each))
        if there is None:
            yield f"{_named(each)}: missing"
        elif there["metadata"].get("labels", {}).get(MANAGED_BY) != OURS:
            yield f"{_named(each)}: not ours, it has no label {MANAGED_BY}: {OURS}"
        else:
            yield from (f"{_named(each)}: {line}" for line in different(each, there))
    for instance in sorted({each["metadata"]["labels"][_INSTANCE] for each in objects}):
        yield from _left_over(cluster, instance, {_named(each) for each in objects})


def _left_over(cluster: Cluster, instance: str, wanted: set[str]) -> Iterator[str]:
    """Registrations of ours that nothing asks for any more, which go on denying."""
    ours = f"{MANAGED_BY}%3D{OURS}%2C{_INSTANCE}%3D{instance}"
    for kind in KINDS:
        collection = path({"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": ""}})
        found = cluster.get(f"{collection.removesuffix('/')}?labelSelector={ours}")
        for each in (found or {}).get("items", []):
            name = _named({"kind": kind, **each})
            if name not in wanted:
                yield f"{name}: ours, but nothing of that name would be written"


def path(object_: Json) -> str:
    """Where the API has an object."""
    version, metadata = object_["apiVersion"], object_["metadata"]
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    namespace = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{base}{namespace}/{resources.plural(object_['kind'])}/{metadata['name']}"


def different(wanted: Json, there: Json) -> Iterator[str]:
    """In which fields an object is not as it should be. What API servers add is no difference."""
    strict = wanted["kind"] in _STRICT_KINDS
    for key, value in wanted.items():
        if key == "metadata":
            labels = {each: value[each] for each in ("labels", "annotations") if each in value}
            yield from _different(labels, there[key], key, strict=False)
        elif key == "webhooks":
            yield from _different_webhooks(value, there.get(key, []))
        else:
            yield from _different(value, there.get(key), key, strict=strict or key in _STRICT_FIELDS)
    if wanted["kind"] == "Service" and there["spec"].get("type", _SERVICE_TYPE) != _SERVICE_TYPE:
        yield f"spec.type: {_shown(there['spec']['type'])} is there, {_shown(_SERVICE_TYPE)} would be written"


def _different_webhooks(wanted: list[Json], there: list[Json]) -> Iterator[str]:
    """By their names: their order matters too, but less than what each of them is."""
    by_name: Mapping[str, Json] = {each["name"]: each for each in there}
    for each in wanted:
        where = f"webhooks[{each['name']}]"
        if each["name"] not in by_name:
            yield f"{where}: missing"
            continue
        live = dict(by_name[each["name"]])
        if "caBundle" not in each["clientConfig"]:  # somebody else's business
            live["clientConfig"] = {key: value for key, value in live["clientConfig"].items() if key != "caBundle"}
        yield from _different(_USUAL | each, _USUAL | live, where, strict=True)
    for name in by_name:
        if name not in {each["name"] for each in wanted}:
            yield f"webhooks[{name}]: nothing of that name would be written"
    names = [each["name"] for each in wanted]
    if [name for name in names if name in by_name] != [name for name in by_name if name in names]:
        yield "webhooks: in another order, in which they are asked"


def _different(wanted: Any, there: Any, where: str, *, strict: bool) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(there, dict):
        for key, value in wanted.items():
            if key == "from" and value != there.get(key):  # an empty selector is all there, and none is few
                yield f"{where}.{key}: {_shown(there.get(key))} is there, {_shown(value)} would be written"
            else:
                yield from _different(value, there.get(key), f"{where}.{key}", strict=strict or key in _STRICT_FIELDS)
        for key in sorted(set(there) - set(wanted)):
            if (strict or key in _TOLD_FIELDS) and not _is_empty(there[key]):
                yield f"{where}.{key}: {_shown(there[key])} is there, and would not be written"
    elif isinstance(wanted, list) and isinstance(there, list) and len(wanted) == len(there):
        for number, (mine, its) in enumerate(zip(wanted, there, strict=True)):
            yield from _different(mine, its, f"{where}[{number}]", strict=strict)
    elif wanted != there and not (_is_empty(wanted) and _is_empty(there)):
        yield f"{where}: {_shown(there)} is there, {_shown(wanted)} would be written"


def _is_empty(value: Any) -> bool:
    """Whether API servers leave it out; what is false or 0 says something."""
    return value is None or value in ("", [], {})


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _named(object_: Json) -> str:
    metadata = object_["metadata"]
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{object_['kind']} {namespace}{metadata['name']}"
