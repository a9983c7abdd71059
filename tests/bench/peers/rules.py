"""The two rules, on plain dicts, shared by the peers in Python."""

from typing import Any

REGISTRY = "registry.example.com/"
LABEL = "admission.example.com/checked"
ADD_LABEL = [{"op": "add", "path": "/metadata/labels/admission.example.com~1checked", "value": "true"}]
ADD_LABELS = [{"op": "add", "path": "/metadata/labels", "value": {LABEL: "true"}}]


def validate(kind: str, obj: dict[str, Any]) -> str | None:
    """Say what is wrong: every image comes from the one registry."""
    spec = obj["spec"]["template"]["spec"] if kind == "Deployment" else obj["spec"]
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            if not container["image"].startswith(REGISTRY):
                return f"image {container['image']} is not from {REGISTRY}"
    return None


def mutate(obj: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Write the operations by hand: the label is there."""
    labels = obj["metadata"].get("labels")
    if not labels:
        return ADD_LABELS
    return None if labels.get(LABEL) == "true" else ADD_LABEL
