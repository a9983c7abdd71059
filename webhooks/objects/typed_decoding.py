"""Decodes only the fields of an object that policies read most: metadata, containers, images and image volumes.

For the built-in kinds with pods, whose fields are known, a typed decoder reads these fields into an outline, and skips
the rest: volumes, probes and managed fields do not become Python values.

An outline is as reliable as the decoded object. It is used only if its encoding is as long as the received bytes: then
no key occurs twice, no key is unknown, and no value is written in a longer way than necessary. Otherwise (a field that
is newer than `typed_fields`, or a client that sends spaces) the whole object is decoded. In the parts that are skipped,
only the syntax is checked, as in objects that no policy reads.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from webhooks.objects.pods import POD_SPEC_PATHS
from webhooks.objects.strict_json import LARGE
from webhooks.objects.typed_fields import FIELDS

_Raw = msgspec.Raw | msgspec.UnsetType
_Str = str | msgspec.UnsetType
_StrMap = dict[str, str] | msgspec.UnsetType | None

_WORKLOADS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job")
_KINDS = ("Pod", *_WORKLOADS, "CronJob")
_VOLUMES = "volumes"
_PATHS = {kind: (POD_SPEC_PATHS[kind], "/" + "/".join(POD_SPEC_PATHS[kind])) for kind in _KINDS}
# The pointers of the fields in an outline. Each has a slash at the end, so that none is a prefix of another name.
_OUTLINE_POINTERS = {
    kind: (
        *("/kind/", "/apiVersion/"),
        *(f"/metadata/{field}/" for field in ("name", "generateName", "labels", "annotations")),
        *(f"{pointer}/{field}/" for field in ("containers", "initContainers", "ephemeralContainers", "volumes")),
    )
    for kind, (_, pointer) in _PATHS.items()
}

_encode = msgspec.json.Encoder().encode


class Outline(msgspec.Struct):
    """The fields of an object that policies read most; UNSET for an absent field. Do not change the values.

    Attributes:
        name: the name in the metadata.
        generate_name: the prefix of a generated name.
        labels: the labels.
        annotations: the annotations.
        pod: the pod spec: an object with the three lists of containers, which have a ``name`` and an ``image``.
        pointer: the JSON Pointer of the pod spec.
    """

    name: _Str
    generate_name: _Str
    labels: _StrMap
    annotations: _StrMap
    pod: Any
    pointer: str


# The kinds whose outlines policies have read. Further objects of these kinds are decoded together with their envelope.
seen_kinds: set[str] = set()

# How many objects had an unknown field and were therefore decoded completely, by kind. The keys are label values.
fallbacks: dict[tuple[str, ...], float] = {(kind,): 0.0 for kind in _KINDS}
_fallbacks_lock = threading.Lock()


def decode_typed(raw: msgspec.Raw | bytes, kind: str) -> Any:
    """Decode an object as the type of its kind; None if the kind has no type or the object must be decoded completely.

    Args:
        raw: the object.
        kind: the kind in the request.
    """
    decode = _decoders.get(kind)
    if decode is None or len(raw) > LARGE:
        return None
    seen_kinds.add(kind)
    try:
        typed = decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # the strict decoder reports the error
    if len(_encode(typed)) == len(raw):
        return typed
    _count_fallback(kind, raw, kind)
    return None


def build_outline(typed: Any, kind: str) -> Outline | None:
    """Return the outline of an object; None if it is not of the kind in the request, or has no metadata.

    Args:
        typed: the object, decoded as the type of its kind.
        kind: the kind in the request.
    """
    metadata = typed.metadata
    if not metadata or typed.kind != kind or not typed.apiVersion or "." in typed.apiVersion:
        return None
    path, pointer = _PATHS[kind]
    pod = typed
    for key in path:
        pod = getattr(pod, key) if pod else pod
    return Outline(metadata.name, metadata.generateName, metadata.labels, metadata.annotations, pod, pointer)


def affects_outline(kind: str, operations: Iterable[Mapping[str, Any]]) -> bool:
    """Check whether JSON Patch operations may change the outline of an object; true for a kind without outlines.

    Args:
        kind: the kind of the object.
        operations: operations that read and write only at their ``path``.
    """
    if kind not in _OUTLINE_POINTERS:
        return True
    paths = [f"{operation['path']}/" for operation in operations]
    return any(path.startswith(own) or own.startswith(path) for path in paths for own in _OUTLINE_POINTERS[kind])


def decode_volumes(outline: Outline, kind: str) -> Sequence[Any] | None:
    """Return the volumes of a pod; None if the object must be decoded completely.

    Few policies read volumes, so they are decoded separately.

    Args:
        outline: the outline of the object.
        kind: its kind.

    Returns:
        Objects with a ``name``, and an ``image`` with a ``reference``.
    """
    raw = outline.pod and outline.pod.volumes
    if not raw:
        return ()
    try:
        volumes: Sequence[Any] = _decode_volumes(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(_encode(volumes)) == len(raw):
        return volumes
    _count_fallback(_VOLUMES, raw, kind)
    return None


def _count_fallback(type_name: str, raw: msgspec.Raw | bytes, kind: str) -> None:
    """Count an object that could not be decoded by type, if the reason is an unknown field."""
    try:
        _strict_decoders()[type_name](raw)
    except msgspec.ValidationError:
        with _fallbacks_lock:
            fallbacks[kind,] += 1


@cache
def _strict_decoders() -> dict[str, Any]:
    """Build decoders that reject unknown fields. They are built on first use, because most servers never need them."""
    types, volumes = _build_types(forbid_unknown_fields=True)
    return {name: msgspec.json.Decoder(type_).decode for name, type_ in {**types, _VOLUMES: volumes}.items()}


def _build_types(*, forbid_unknown_fields: bool) -> tuple[dict[str, Any], Any]:
    """Build the type of each kind, and the type of a list of volumes. All fields are optional."""

    def struct(type_name: str, /, **types: Any) -> Any:
        """Build a type. The decoder skips the fields without a type here."""
        assert types.keys() <= set(FIELDS[type_name])
        fields = [(field, types.get(field, _Raw), msgspec.UNSET) for field in FIELDS[type_name]]
        return msgspec.defstruct(type_name, fields, forbid_unknown_fields=forbid_unknown_fields)

    def optional(type_: Any) -> Any:
        return type_ | msgspec.UnsetType

    def array(type_: Any) -> Any:
        return list[type_]

    containers = optional(array(struct("Container", name=_Str, image=_Str))) | None
    pod = struct("PodSpec", containers=containers, initContainers=containers, ephemeralContainers=containers)
    template = struct("PodTemplateSpec", spec=optional(pod))
    specs = {kind: struct(f"{kind}Spec", template=optional(template)) for kind in _WORKLOADS}
    job_template = struct("JobTemplateSpec", spec=optional(specs["Job"]))
    specs |= {"Pod": pod, "CronJob": struct("CronJobSpec", jobTemplate=optional(job_template))}
    metadata = struct("ObjectMeta", name=_Str, generateName=_Str, labels=_StrMap, annotations=_StrMap)
    common = {"kind": _Str, "apiVersion": _Str, "metadata": optional(metadata)}
    objects = {kind: struct("Object", **common, spec=optional(specs[kind])) for kind in _KINDS}
    volume = struct("Volume", name=_Str, image=optional(struct("ImageVolumeSource", reference=_Str)))
    return objects, array(volume)


TYPES, _volumes_type = _build_types(forbid_unknown_fields=False)
"""The type of each kind that has outlines."""

_decoders = {kind: msgspec.json.Decoder(type_).decode for kind, type_ in TYPES.items()}
_decode_volumes = msgspec.json.Decoder(_volumes_type).decode
