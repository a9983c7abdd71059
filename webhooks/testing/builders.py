"""Builds reviews and objects for tests. Reviews are decoded from JSON, as on a server."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from webhooks.kube.resources import plural_name
from webhooks.reviews import admission_codec, authentication, authorization
from webhooks.reviews import images as _images
from webhooks.reviews.admission import AdmissionReview
from webhooks.reviews.authentication import TokenReview
from webhooks.reviews.authorization import AccessReview
from webhooks.reviews.images import ImageReview


def pod(name: str = "web", *, image: str = "registry.k8s.io/pause:3.10", **metadata: Any) -> dict[str, Any]:
    """Build a Pod with one container, as plain data that a test can change.

    Args:
        name: the name of the Pod.
        image: the image of its container.
        metadata: further fields of its metadata: labels, annotations, namespace ...
    """
    containers = [{"name": "app", "image": image}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": containers},
    }


def admission(
    operation: str = "CREATE",
    object: Mapping[str, Any] | None = None,  # noqa: A002  # the name in the protocol
    *,
    old_object: Mapping[str, Any] | None = None,
    resource: str | None = None,
    subresource: str = "",
    user: str = "jane",
    groups: Sequence[str] = ("system:authenticated",),
    dry_run: bool = False,
    options: Mapping[str, Any] | None = None,
) -> AdmissionReview:
    """Build a request to create, update, delete or connect to an object.

    Args:
        operation: CREATE, UPDATE, DELETE or CONNECT.
        object: the new object; None for DELETE.
        old_object: the object that is stored; None for CREATE.
        resource: the plural name of the resource; None to derive it from the kind of the object.
        subresource: the subresource, such as ``scale``.
        user: the username.
        groups: the groups of the user.
        dry_run: whether the request is a dry run.
        options: the options of the operation.
    """
    either = object or old_object or {}
    group, _, version = str(either.get("apiVersion", "v1")).rpartition("/")
    kind, metadata = str(either.get("kind", "")), either.get("metadata", {})
    request = {
        "uid": "7a1d1c2e-0000-4000-8000-000000000000",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": resource or plural_name(kind)},
        "subResource": subresource,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "operation": operation,
        "userInfo": {"username": user, "groups": list(groups)},
        "object": object,
        "oldObject": old_object,
        "dryRun": dry_run,
        "options": options,
    }
    return admission_codec.CODEC.decode(
        orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
    )


def access(
    verb: str,
    resource: str = "",
    *,
    name: str = "",
    namespace: str = "",
    group: str = "",
    version: str = "v1",
    subresource: str = "",
    path: str = "",
    user: str = "jane",
    groups: Sequence[str] = ("system:authenticated",),
) -> AccessReview:
    """Build a review of a user's access to a resource or a path.

    Args:
        verb: get, list, create, delete ...
        resource: the plural name of the resource; empty for a path.
        name: the name of the object.
        namespace: the namespace of the object.
        group: the API group.
        version: the API version.
        subresource: the subresource, such as ``log``.
        path: the path, such as ``/metrics``, if there is no resource.
        user: the username.
        groups: the groups of the user.
    """
    attributes: dict[str, Any] = {"verb": verb, "path": path}
    if resource:
        attributes = {"verb": verb, "resource": resource, "name": name, "namespace": namespace, "group": group}
        attributes |= {"version": version, "subresource": subresource}
    field = "resourceAttributes" if resource else "nonResourceAttributes"
    spec = {field: attributes, "user": user, "groups": list(groups)}
    return authorization.CODEC.decode(
        orjson.dumps({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec})
    )


def token(token: str, *, audiences: Sequence[str] = ()) -> TokenReview:
    """Build a review of a bearer token.

    Args:
        token: the token.
        audiences: the audiences that the token must be valid for.
    """
    spec = {"token": token, "audiences": list(audiences)}
    return authentication.CODEC.decode(
        orjson.dumps({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": spec})
    )


def images(*names: str, namespace: str = "default", annotations: Mapping[str, str] | None = None) -> ImageReview:
    """Build a review of the images of a pod.

    Args:
        names: the images of its containers.
        namespace: the namespace of the pod.
        annotations: the annotations of the pod that API servers send.
    """
    spec = {
        "containers": [{"image": name} for name in names],
        "namespace": namespace,
        "annotations": dict(annotations or {}),
    }
    return _images.CODEC.decode(
        orjson.dumps({"kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1", "spec": spec})
    )
