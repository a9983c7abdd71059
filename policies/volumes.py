"""Pods use volumes of known types alone.

Unless told otherwise these are what the restricted Pod Security Standard lets in: what the cluster itself fills, and
what a claim or a driver gives, but nothing that mounts another machine's or the node's files directly.

Parameters:
    volumes: types as a volume's fields are called, such as ``configMap``; ``*`` for all.

Allowed, with ``volumes=["configMap", "nfs"]``::

    spec:
      containers: [{name: web, image: web}]
      volumes: [{name: settings, configMap: {name: web}}, {name: data, nfs: {server: files, path: /web}}]

Denied::

    spec: {containers: [{name: web, image: web}], volumes: [{name: files, hostPath: {path: /var/lib/web}}]}
"""

from collections.abc import Iterator, Sequence

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating

KNOWN = (
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


@validating("pods", "replicationcontrollers", "podtemplates", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def volumes(review: AdmissionReview, *, volumes: Sequence[str] = KNOWN) -> Decision:
    """Deny pods with a volume of another type."""
    if "*" in volumes:
        return Allow()
    found = introduced(review, lambda each: _violations(each, volumes))
    return Deny(f"{'; '.join(found)}; allowed are {', '.join(volumes) or 'none'}") if found else Allow()


def _violations(review: AdmissionReview, allowed: Sequence[str]) -> Iterator[str]:
    for volume in items(review.pod(), "spec.volumes", dict):
        for type_ in volume:
            if type_ != "name" and type_ not in allowed and volume[type_] is not None:
                yield f"volume {field(volume, 'name', str)} is of type {type_}"
