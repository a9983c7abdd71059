"""Allows only certain types of volumes.

The default types are those of the restricted Pod Security Standard: they exclude volumes that mount files of the node
or of another machine directly.

Parameters:
    volumes: the allowed types, named as the fields of a volume, such as ``configMap``; ``*`` for all.

Allowed, with ``volumes=["configMap", "nfs"]``::

    spec:
      containers: [{name: web, image: web}]
      volumes: [{name: settings, configMap: {name: web}}, {name: data, nfs: {server: files, path: /web}}]

Denied::

    spec: {containers: [{name: web, image: web}], volumes: [{name: files, hostPath: {path: /var/lib/web}}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import WORKLOADS, AdmissionReview, Allow, Decision, deny_new, field, items, validating

RESTRICTED = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)


@validating("pods", *WORKLOADS, operations=["CREATE", "UPDATE"])
def volumes(review: AdmissionReview, *, volumes: Sequence[str] = RESTRICTED) -> Decision:
    """Deny pods with other types of volumes."""
    return Allow() if "*" in volumes else deny_new(review, _violations, volumes)


def _violations(review: AdmissionReview, allowed: Sequence[str]) -> Iterator[str]:
    for volume in items(review.pod(), "spec.volumes", dict):
        for type_, source in volume.items():
            if type_ != "name" and type_ not in allowed and source is not None:
                expected = " or ".join(allowed) or "an allowed type"
                yield f"volume {field(volume, 'name', str)}: type must be {expected}, not {type_}"
