"""Outlines: what policies ask for most, found without decoding the rest of an object.

To know an object's labels and images, its volumes, probes and managed fields need not become Python values. For the
built-in kinds that bear pods, whose fields are known, a typed decoder finds what is asked for and passes over the rest.

What is found is as sure as if the whole were decoded: an outline, written again, is as long as what it was read from.
So no key stood there twice, none was passed over that is not known here, and nothing was written in a longer way than
need be. What does not prove so (a field newer than this list, another writer's spaces) is decoded whole. In what is
passed over, as in objects that nobody reads, syntax is all that is checked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from webhooks.objects.strict_json import LARGE

_Rest = msgspec.Raw | msgspec.UnsetType
_Text = str | msgspec.UnsetType
_Texts = dict[str, str] | msgspec.UnsetType | None


class Outline(msgspec.Struct):
    """What is known of an object; unset where it does not say.

    Attributes:
        name: in its metadata, as are the next three.
        generate_name: the beginning of a name.
        labels: not to be changed.
        annotations: not to be changed.
        pod: the pod spec in it: an object with its three lists of containers, which have a ``name`` and an ``image``.
        pointer: where that is.
    """

    name: _Text
    generate_name: _Text
    labels: _Texts
    annotations: _Texts
    pod: Any
    pointer: str


# Kinds of which somebody wanted an outline: it pays to decode the next object of these together with its envelope.
wanted: set[str] = set()


def decode_known(raw: msgspec.Raw | bytes, kind: str) -> Any:
    """An object decoded as its kind's `KNOWN` type; None where it has none or does not prove to be of it.

    Args:
        raw: the object.
        kind: its kind, as the request names it.
    """
    decode = _decoders.get(kind)
    if decode is None or len(raw) > LARGE:
        return None
    wanted.add(kind)
    try:
        known = decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # the exact reader says what is wrong
    return known if len(_encode(known)) == len(raw) else None


def outline_of(known: Any, kind: str) -> Outline | None:
    """The outline of an object; None where it is not of the kind that the request names, or has no metadata.

    Args:
        known: the object, of its kind's `KNOWN` type.
        kind: that kind.
    """
    metadata = known.metadata
    if not metadata or known.kind != kind or not known.apiVersion or "." in known.apiVersion:
        return None
    place, pointer = _PLACES[kind]
    pod = known
    for key in place:
        pod = getattr(pod, key) if pod else pod
    return Outline(metadata.name, metadata.generateName, metadata.labels, metadata.annotations, pod, pointer)


def touches(kind: str, operations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether JSON Patch operations may change what an outline tells; of a kind that has none, always.

    Args:
        kind: of the object that they are applied to.
        operations: none of which looks elsewhere than at its path.
    """
    if kind not in _TOLD:
        return True
    paths = [f"{operation['path']}/" for operation in operations]
    return any(path.startswith(place) or place.startswith(path) for path in paths for place in _TOLD[kind])


def volumes_of(outline: Outline) -> Sequence[Any] | None:
    """The volumes of the pod, with a ``name`` and an ``image`` that has a ``reference``; None where they are not sure.

    Few ask for them, so they are decoded apart.
    """
    raw = outline.pod and outline.pod.volumes
    if not raw:
        return ()
    try:
        volumes = _decode_volumes(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return volumes if len(_encode(volumes)) == len(raw) else None


def _struct(fields: str, /, **read: Any) -> Any:
    """A type with these fields, all optional: of those that are not read, nothing is known but where they end."""
    names = fields.split()
    assert read.keys() <= set(names)
    return msgspec.defstruct("Known", [(each, read.get(each, _Rest), msgspec.UNSET) for each in names])


def _unless_absent(type_: Any) -> Any:
    return type_ | msgspec.UnsetType


def _list(type_: Any) -> Any:
    return list[type_]


def _all_unless_absent(type_: Any) -> Any:
    return _list(type_) | msgspec.UnsetType | None


# The fields of the built-in types (Kubernetes API reference, releases 1.20 to 1.37), in the order in which servers
# write them, in which they are found fastest.
_Metadata = _struct(
    "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp "
    "deletionGracePeriodSeconds labels annotations ownerReferences finalizers clusterName managedFields",
    name=_Text,
    generateName=_Text,
    labels=_Texts,
    annotations=_Texts,
)
_Container = _struct(
    "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy restartPolicyRules "
    "volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath "
    "terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty targetContainerName",
    name=_Text,
    image=_Text,
)
_Containers = _all_unless_absent(_Container)
_Volume = _struct(
    "name hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi glusterfs "
    "persistentVolumeClaim rbd flexVolume cinder cephfs flocker downwardAPI fc azureFile configMap vsphereVolume "
    "quobyte azureDisk photonPersistentDisk projected portworxVolume scaleIO storageos csi ephemeral image",
    name=_Text,
    image=_unless_absent(_struct("reference pullPolicy", reference=_Text)),
)
_Pod = _struct(
    "volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds "
    "activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken "
    "nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets hostname subdomain "
    "affinity schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates "
    "runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os "
    "hostUsers schedulingGates resourceClaims resources hostnameOverride schedulingGroup evictionResponders",
    containers=_Containers,
    initContainers=_Containers,
    ephemeralContainers=_Containers,
)
_Template = _struct("metadata spec", spec=_unless_absent(_Pod))


def _workload(fields: str) -> Any:
    return _struct(fields, template=_unless_absent(_Template))


_Job = _workload(
    "parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit backoffLimitPerIndex "
    "maxFailedIndexes selector manualSelector template ttlSecondsAfterFinished completionMode suspend "
    "podReplacementPolicy managedBy scheduling"
)
_JobTemplate = _struct("metadata spec", spec=_unless_absent(_Job))
_CronJob = _struct(
    "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate successfulJobsHistoryLimit "
    "failedJobsHistoryLimit",
    jobTemplate=_unless_absent(_JobTemplate),
)
_SPECS = {
    "Pod": (_Pod, ("spec",)),
    "Deployment": (
        _workload(
            "replicas selector template strategy minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds"
        ),
        ("spec", "template", "spec"),
    ),
    "ReplicaSet": (_workload("replicas minReadySeconds selector template"), ("spec", "template", "spec")),
    "ReplicationController": (_workload("replicas minReadySeconds selector template"), ("spec", "template", "spec")),
    "StatefulSet": (
        _workload(
            "replicas selector template volumeClaimTemplates serviceName podManagementPolicy updateStrategy "
            "revisionHistoryLimit minReadySeconds persistentVolumeClaimRetentionPolicy ordinals"
        ),
        ("spec", "template", "spec"),
    ),
    "DaemonSet": (
        _workload("selector template updateStrategy minReadySeconds revisionHistoryLimit"),
        ("spec", "template", "spec"),
    ),
    "Job": (_Job, ("spec", "template", "spec")),
    "CronJob": (_CronJob, ("spec", "jobTemplate", "spec", "template", "spec")),
}


def _object(spec: Any) -> Any:
    return _struct(
        "kind apiVersion metadata spec status",
        kind=_Text,
        apiVersion=_Text,
        metadata=_unless_absent(_Metadata),
        spec=_unless_absent(spec),
    )


# The types of the kinds that have outlines.
KNOWN: Mapping[str, Any] = {kind: _object(spec) for kind, (spec, _) in _SPECS.items()}
_PLACES = {kind: (place, "/" + "/".join(place)) for kind, (_, place) in _SPECS.items()}
# Where that stands; each with a slash at its end, so that none is the beginning of another name.
_TOLD = {
    kind: (
        *("/kind/", "/apiVersion/"),
        *(f"/metadata/{field}/" for field in ("name", "generateName", "labels", "annotations")),
        *(f"{pointer}/{field}/" for field in ("containers", "initContainers", "ephemeralContainers", "volumes")),
    )
    for kind, (_, pointer) in _PLACES.items()
}
_decoders = {kind: msgspec.json.Decoder(type_).decode for kind, type_ in KNOWN.items()}
_decode_volumes: Callable[[msgspec.Raw], Any] = msgspec.json.Decoder(_list(_Volume)).decode
_encode = msgspec.json.Encoder().encode
