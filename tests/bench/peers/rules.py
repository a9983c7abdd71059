"""The two rules of the benchmark on plain dicts, for the other servers in Python."""

from typing import Any

REGISTRY = "registry.example.com/"
LABEL = "admission.example.com/checked"
ADD_LABEL = [{"op": "add", "path": "/metadata/labels/admission.example.com~1checked", "value": "true"}]
ADD_LABELS = [{"op": "add", "path": "/metadata/labels", "value": {LABEL: "true"}}]


def validate(kind: str, obj: dict[str, Any]) -> str | None:
    """Return the error if an image does not come from the registry."""
    spec = obj["spec"]["template"]["spec"] if kind == "Deployment" else obj["spec"]
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            if not container["image"].startswith(REGISTRY):
                return f"image {container['image']} is not from {REGISTRY}"
    return None


def mutate(obj: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the operations that add the label."""
    labels = obj["metadata"].get("labels")
    if not labels:
        return ADD_LABELS
    return None if labels.get(LABEL) == "true" else ADD_LABEL
