"""Reviews, made as bodies that a server would send and decoded as the server decodes them."""

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
    """A Pod with one container, to be changed as a test needs it.

    Args:
        name: its name.
        image: its container's image.
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
    object: Mapping[str, Any] | None = None,  # noqa: A002  # the protocol's own word
    *,
    old_object: Mapping[str, Any] | None = None,
    resource: str | None = None,
    subresource: str = "",
    user: str = "jane",
    groups: Sequence[str] = ("system:authenticated",),
    dry_run: bool = False,
    options: Mapping[str, Any] | None = None,
) -> AdmissionReview:
    """A request to store, change, delete or connect to an object.

    Args:
        operation: CREATE, UPDATE, DELETE or CONNECT.
        object: the object as it would be stored; None on DELETE.
        old_object: the object as it is stored.
        resource: the plural name; made of the object's kind unless given.
        subresource: such as ``scale``.
        user: who asks.
        groups: the user's groups.
        dry_run: whether nothing would be stored.
        options: of the operation.
    """
    about = object or old_object or {}
    group, _, version = str(about.get("apiVersion", "v1")).rpartition("/")
    kind, metadata = str(about.get("kind", "")), about.get("metadata", {})
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
    """A question whether a user may do something to a resource, or to a path.

    Args:
        verb: get, list, create, delete ...
        resource: the plural name; empty for a path.
        name: the object's name.
        namespace: the object's namespace.
        group: the API group.
        version: the API version.
        subresource: such as ``log``.
        path: such as ``/metrics``, in place of a resource.
        user: who asks.
        groups: the user's groups.
    """
    about: dict[str, Any] = {"verb": verb, "path": path}
    if resource:
        about = {"verb": verb, "resource": resource, "name": name, "namespace": namespace, "group": group}
        about |= {"version": version, "subresource": subresource}
    attributes = "resourceAttributes" if resource else "nonResourceAttributes"
    spec = {attributes: about, "user": user, "groups": list(groups)}
    return authorization.CODEC.decode(
        orjson.dumps({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec})
    )


def token(token: str, *, audiences: Sequence[str] = ()) -> TokenReview:
    """A question who holds a token, for some audiences."""
    spec = {"token": token, "audiences": list(audiences)}
    return authentication.CODEC.decode(
        orjson.dumps({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": spec})
    )


def images(*names: str, namespace: str = "default", annotations: Mapping[str, str] | None = None) -> ImageReview:
    """A question whether a pod may run these images."""
    spec = {
        "containers": [{"image": name} for name in names],
        "namespace": namespace,
        "annotations": dict(annotations or {}),
    }
    return _images.CODEC.decode(
        orjson.dumps({"kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1", "spec": spec})
    )
