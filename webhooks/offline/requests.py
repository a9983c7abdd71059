"""Builds the AdmissionReview that an API server would send for a manifest."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import orjson

from webhooks.kube.api_groups import ADMISSION
from webhooks.kube.resources import is_cluster_scoped, plural_name
from webhooks.offline.sources import Manifest
from webhooks.reviews.admission_codec import CODEC

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]
Json: TypeAlias = dict[str, Any]

DEFAULT_USER = "reviewer"
_ALL_USERS = "system:authenticated"
_DEFAULT_NAMESPACE = "default"


class NotReviewable(Exception):
    """A manifest for which there is no valid request."""


class RequestBuilder:
    """Builds requests for manifests.

    Args:
        operation: the operation; None to update the objects that are stored, and to create the others.
        user: the username.
        groups: the groups of the user, in addition to that of all users.
        stored: the objects that are stored.
    """

    def __init__(
        self,
        operation: Operation | None = None,
        user: str = DEFAULT_USER,
        groups: Sequence[str] = (),
        stored: Sequence[Manifest] = (),
    ) -> None:
        self._operation = operation
        self._user = {"username": user, "groups": [*dict.fromkeys((*groups, _ALL_USERS))]}
        self._custom_resources: dict[tuple[str, str], tuple[str, bool]] = {}
        self._stored: dict[tuple[str, str, str, str], Json] = {}
        for manifest in stored:
            self._add_definition(manifest.tree)
            object_ = self._add_namespace(manifest.tree)
            self._stored[_identify(object_)] = object_

    def build(self, manifest: Manifest) -> Json:
        """Build the AdmissionReview for a manifest. A manifest that is an AdmissionReview is returned as it is.

        Raises:
            NotReviewable: the operation is UPDATE, and the object is not stored.
        """
        tree = manifest.tree
        if _is_review(tree):
            return tree
        self._add_definition(tree)
        object_ = self._add_namespace(tree)
        old = self._stored.get(_identify(object_))
        operation = self._operation or ("CREATE" if old is None else "UPDATE")
        if operation == "UPDATE" and old is None:
            raise NotReviewable("cannot be updated: not one of the stored objects")
        return self._build_review(operation, object_, old)

    def _build_review(self, operation: str, object_: Json, old: Json | None) -> Json:
        group, version, kind = _parse_type(object_)
        metadata = object_.get("metadata") or {}
        name = metadata.get("name") or ""
        kind_field = {"group": group, "version": version, "kind": kind}
        resource_field = {"group": group, "version": version, "resource": self._find_resource(group, kind)[0]}
        request = {
            "uid": "00000000-0000-4000-8000-000000000000",
            "kind": kind_field,
            "resource": resource_field,
            "requestKind": kind_field,
            "requestResource": resource_field,
            "name": name,
            "namespace": name if (group, kind) == ("", "Namespace") else metadata.get("namespace") or "",
            "operation": operation,
            "userInfo": self._user,
            "object": None if operation == "DELETE" else object_,
            "oldObject": {"CREATE": None, "UPDATE": old, "DELETE": old or object_}[operation],
            "dryRun": True,
            "options": {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
        }
        return {"kind": CODEC.kind, "apiVersion": "admission.k8s.io/v1", "request": request}

    def _add_namespace(self, tree: Json) -> Json:
        """Return a namespaced object with the default namespace, unless it has a namespace."""
        group, _, kind = _parse_type(tree)
        metadata = tree.get("metadata") or {}
        if metadata.get("namespace") or not self._find_resource(group, kind)[1]:
            return tree
        return {**tree, "metadata": {**metadata, "namespace": _DEFAULT_NAMESPACE}}

    def _find_resource(self, group: str, kind: str) -> tuple[str, bool]:
        """Return the plural name of a kind, and whether its objects are namespaced."""
        return self._custom_resources.get((group, kind)) or (plural_name(kind), not is_cluster_scoped(group, kind))

    def _add_definition(self, tree: Json) -> None:
        """Add the kind that a CustomResourceDefinition defines, for the manifests after it."""
        if tree["kind"] != "CustomResourceDefinition":
            return
        match tree.get("spec"):
            case {"group": str(group), "names": {"kind": str(kind), "plural": str(resource)}, "scope": str(scope)}:
                self._custom_resources[group, kind] = resource, scope != "Cluster"


def remove_default_namespace(manifest: Manifest, object_: Json) -> Json:
    """Remove the default namespace from an object, if the manifest does not contain it."""
    metadata = object_.get("metadata") or {}
    if _is_review(manifest.tree) or (manifest.tree.get("metadata") or {}).get("namespace"):
        return object_
    if metadata.get("namespace") != _DEFAULT_NAMESPACE:
        return object_
    return {**object_, "metadata": {key: value for key, value in metadata.items() if key != "namespace"}}


def encode(body: Mapping[str, Any]) -> bytes:
    """Encode a review as JSON.

    Raises:
        NotReviewable: it contains a value that JSON does not support.
    """
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise NotReviewable(f"cannot be encoded as JSON: {error}") from None


def _is_review(tree: Json) -> bool:
    return tree["kind"] == CODEC.kind and tree["apiVersion"] in ADMISSION


def _parse_type(tree: Json) -> tuple[str, str, str]:
    group, _, version = tree["apiVersion"].rpartition("/")
    return group, version, tree["kind"]


def _identify(tree: Json) -> tuple[str, str, str, str]:
    group, _, kind = _parse_type(tree)
    metadata = tree.get("metadata") or {}
    return group, kind, metadata.get("namespace") or "", metadata.get("name") or ""
