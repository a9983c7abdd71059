"""What an API server would ask about a manifest: the body of an AdmissionReview."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import orjson

from webhooks.kube.api_groups import ADMISSION
from webhooks.kube.resources import cluster_scoped, plural
from webhooks.offline.sources import Manifest
from webhooks.reviews.admission_codec import CODEC

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]
Json: TypeAlias = dict[str, Any]

USER = "reviewer"
_EVERYONE = "system:authenticated"
_NAMESPACE = "default"


class NotReviewable(Exception):
    """A manifest about which nothing can be asked."""


class Requests:
    """Makes requests of manifests.

    Args:
        operation: what is done with the objects; unless given, those that are stored are updated and others created.
        user: who does it.
        groups: the user's groups, beside the one of all users.
        stored: the objects that are stored.
    """

    def __init__(
        self,
        operation: Operation | None = None,
        user: str = USER,
        groups: Sequence[str] = (),
        stored: Sequence[Manifest] = (),
    ) -> None:
        self._operation = operation
        self._user = {"username": user, "groups": [*dict.fromkeys((*groups, _EVERYONE))]}
        self._defined: dict[tuple[str, str], tuple[str, bool]] = {}
        self._stored: dict[tuple[str, str, str, str], Json] = {}
        for each in stored:
            self._learn(each.tree)
            placed = self._placed(each.tree)
            self._stored[_identity(placed)] = placed

    def body(self, manifest: Manifest) -> Json:
        """The AdmissionReview about a manifest; one that is recorded stands for itself.

        Raises:
            Unaskable: it is to be updated, and is not stored.
        """
        tree = manifest.tree
        if _is_review(tree):
            return tree
        self._learn(tree)
        placed = self._placed(tree)
        old = self._stored.get(_identity(placed))
        operation = self._operation or ("CREATE" if old is None else "UPDATE")
        if operation == "UPDATE" and old is None:
            raise NotReviewable("not among the stored objects, so that it cannot be updated")
        return self._review(operation, placed, old)

    def _review(self, operation: str, tree: Json, old: Json | None) -> Json:
        group, version, kind = _type(tree)
        metadata = tree.get("metadata") or {}
        name = metadata.get("name") or ""
        of_kind = {"group": group, "version": version, "kind": kind}
        of_resource = {"group": group, "version": version, "resource": self._scope(group, kind)[0]}
        request = {
            "uid": "00000000-0000-4000-8000-000000000000",
            "kind": of_kind,
            "resource": of_resource,
            "requestKind": of_kind,
            "requestResource": of_resource,
            "name": name,
            "namespace": name if (group, kind) == ("", "Namespace") else metadata.get("namespace") or "",
            "operation": operation,
            "userInfo": self._user,
            "object": None if operation == "DELETE" else tree,
            "oldObject": {"CREATE": None, "UPDATE": old, "DELETE": old or tree}[operation],
            "dryRun": True,
            "options": {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
        }
        return {"kind": CODEC.kind, "apiVersion": "admission.k8s.io/v1", "request": request}

    def _placed(self, tree: Json) -> Json:
        """An object in the namespace in which it would be stored."""
        group, _, kind = _type(tree)
        metadata = tree.get("metadata") or {}
        if metadata.get("namespace") or not self._scope(group, kind)[1]:
            return tree
        return {**tree, "metadata": {**metadata, "namespace": _NAMESPACE}}

    def _scope(self, group: str, kind: str) -> tuple[str, bool]:
        """The resource of a kind, and whether its objects are in namespaces."""
        return self._defined.get((group, kind)) or (plural(kind), not cluster_scoped(group, kind))

    def _learn(self, tree: Json) -> None:
        """Note what a definition says of a kind, for the objects that come after it."""
        if tree["kind"] != "CustomResourceDefinition":
            return
        match tree.get("spec"):
            case {"group": str(group), "names": {"kind": str(kind), "plural": str(resource)}, "scope": str(scope)}:
                self._defined[group, kind] = resource, scope != "Cluster"


def unplaced(manifest: Manifest, tree: Json) -> Json:
    """An object that came of a manifest, without the namespace if the manifest leaves that to whoever sends it."""
    metadata = tree.get("metadata") or {}
    if _is_review(manifest.tree) or (manifest.tree.get("metadata") or {}).get("namespace"):
        return tree
    if metadata.get("namespace") != _NAMESPACE:
        return tree
    return {**tree, "metadata": {key: value for key, value in metadata.items() if key != "namespace"}}


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body as it is sent.

    Raises:
        Unaskable: it cannot be.
    """
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise NotReviewable(f"cannot be sent as JSON: {error}") from None


def _is_review(tree: Json) -> bool:
    return tree["kind"] == CODEC.kind and tree["apiVersion"] in ADMISSION


def _type(tree: Json) -> tuple[str, str, str]:
    group, _, version = tree["apiVersion"].rpartition("/")
    return group, version, tree["kind"]


def _identity(tree: Json) -> tuple[str, str, str, str]:
    group, _, kind = _type(tree)
    metadata = tree.get("metadata") or {}
    return group, kind, metadata.get("namespace") or "", metadata.get("name") or ""
