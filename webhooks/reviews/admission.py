"""AdmissionReview, as policies see it: may this object be stored, and how must it be changed first?"""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar, get_args

import msgspec

from webhooks.objects.copy_on_write import copy_on_write
from webhooks.objects.lazy_object import NULL, LazyObject
from webhooks.objects.pods import (
    Container,
    ContainerIndex,
    Image,
    find_containers,
    find_image_volumes,
    find_pod_template,
)
from webhooks.objects.strict_json import LazyDocument
from webhooks.reviews.outcomes import Allow, Deny
from webhooks.reviews.user import User

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
OPERATIONS: tuple[str, ...] = get_args(Operation)

P = ParamSpec("P")
ImageT = TypeVar("ImageT", bound=Image)


class GroupVersionKind(msgspec.Struct, frozen=True):
    """The type of an object, such as apps/v1 Deployment; the core group is the empty string."""

    group: str
    version: str
    kind: str


class GroupVersionResource(msgspec.Struct, frozen=True):
    """The resource that a request names, such as apps/v1 deployments; the core group is the empty string."""

    group: str
    version: str
    resource: str


_RawObject = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"anyOf": [{"type": "object"}, {"type": "null"}]})]


class AdmissionRequest(msgspec.Struct, kw_only=True, rename="camel"):
    """A request to create, update, delete or connect to an object.

    Raw fields are checked and decoded when they are read.
    """

    # In the order in which API servers write the fields: such a body is checked by encoding it again.
    uid: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    kind: GroupVersionKind
    resource: GroupVersionResource
    sub_resource: str | msgspec.UnsetType | None = msgspec.UNSET
    request_kind: GroupVersionKind | msgspec.UnsetType | None = msgspec.UNSET
    request_resource: GroupVersionResource | msgspec.UnsetType | None = msgspec.UNSET
    request_sub_resource: str | msgspec.UnsetType | None = msgspec.UNSET
    name: str | msgspec.UnsetType | None = msgspec.UNSET
    namespace: str | msgspec.UnsetType | None = msgspec.UNSET
    operation: Operation
    user_info: _RawObject | msgspec.UnsetType = msgspec.UNSET
    object: _RawObject | msgspec.UnsetType = msgspec.UNSET
    old_object: _RawObject | msgspec.UnsetType = msgspec.UNSET
    dry_run: bool | msgspec.UnsetType | None = msgspec.UNSET
    options: _RawObject | msgspec.UnsetType = msgspec.UNSET


class AdmissionEnvelope(msgspec.Struct, rename="camel"):
    """An AdmissionReview as the API server sends it."""

    kind: str
    api_version: str
    request: AdmissionRequest


class AdmissionReview(msgspec.Struct, eq=False):
    """A request to create, update, delete or connect to an object.

    Every policy gets its own copy. Changes to the objects in it take effect only if the policy returns them.

    Attributes:
        object_accessed: whether the policy has accessed `object` or `old_object`.
    """

    # A struct, because it is created fastest and every policy gets one.
    _envelope: AdmissionEnvelope
    _object: LazyObject
    _old_object: LazyObject
    _target: LazyObject
    _copy: Any = msgspec.UNSET
    _old_copy: Any = msgspec.UNSET
    _indexes: list[ContainerIndex] = []
    _user: User | None = None
    object_accessed: bool = False

    def __repr__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"<AdmissionReview {self.uid} {self.operation} {self.resource.resource} {where}>"

    @property
    def uid(self) -> str:
        """The unique ID of this review; log it to correlate log messages."""
        return self._envelope.request.uid

    @property
    def kind(self) -> GroupVersionKind:
        """The object's type."""
        return self._envelope.request.kind

    @property
    def resource(self) -> GroupVersionResource:
        """The resource of the request."""
        return self._envelope.request.resource

    @property
    def subresource(self) -> str:
        """The subresource, such as ``status``, ``scale`` or ``exec``; empty for the resource itself."""
        return self._envelope.request.sub_resource or ""

    @property
    def namespace(self) -> str:
        """The object's namespace; empty for objects without one."""
        return self._envelope.request.namespace or ""

    @property
    def operation(self) -> str:
        """CREATE, UPDATE, DELETE or CONNECT."""
        return self._envelope.request.operation

    @property
    def dry_run(self) -> bool:
        """Whether nothing will be stored; a policy with side effects must skip them."""
        return bool(self._envelope.request.dry_run)

    @property
    def user(self) -> User:
        """The user who makes the request."""
        if self._user is None:
            raw = self._envelope.request.user_info
            self._user = User.from_json(None if raw is msgspec.UNSET else LazyDocument(bytes(raw)).tree)
        return self._user

    @property
    def object(self) -> Any:
        """The object as it would be stored, to read and to change. This policy's own copy; None on DELETE."""
        if self._copy is msgspec.UNSET:
            self.object_accessed = True
            self._copy = copy_on_write(self._object.borrow())
            if self._target is self._object:
                self._resolve_containers()
        return self._copy

    @property
    def old_object(self) -> Any:
        """The object as it is stored now. This policy's own copy; None on CREATE and CONNECT."""
        if self._old_copy is msgspec.UNSET:
            self.object_accessed = True
            self._old_copy = copy_on_write(self._old_object.borrow())
            if self._target is self._old_object:
                self._resolve_containers()
        return self._old_copy

    @property
    def target(self) -> Any:
        """The object of the request: `object`, or `old_object` on DELETE."""
        return self.old_object if self.operation == "DELETE" else self.object

    @property
    def options(self) -> Any:
        """The options of the operation, such as CreateOptions; None if there are none."""
        raw = self._envelope.request.options
        return None if raw is msgspec.UNSET else LazyDocument(bytes(raw)).tree

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the user who makes the request."""
        return self.user.groups

    @property
    def name(self) -> str:
        """The object's name; its `generate_name` if the API server has not generated the name yet."""
        return self._envelope.request.name or self._target.metadata_text("name") or self.generate_name

    @property
    def generate_name(self) -> str:
        """The prefix of the name that the API server generates; empty if the object has a name."""
        return self._target.metadata_text("generateName")

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the `target`; a copy."""
        return self._target.labels()

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the `target`; a copy."""
        return self._target.annotations()

    def containers(self, *, except_images: Collection[str] = ()) -> list[Container]:
        """Return every container of the `target` (regular, init and ephemeral), for all kinds that contain a pod.

        Args:
            except_images: image patterns as for `Container.is_of`; containers that run one of them are left out.

        Raises:
            ValueError: the object is so malformed that a container could hide in it.
        """
        copy = self._target_copy
        if copy is not msgspec.UNSET:
            containers = find_containers(copy) if copy is not None else []
        else:
            containers = self._target.containers(lambda: self.target)
            if containers:
                self._indexes.append(containers[0]._index)
        return _exclude(containers, except_images) if except_images else containers

    def images(self, *, except_images: Collection[str] = ()) -> list[Image]:
        """Return every image that the `target` uses: those of its `containers`, and of image volumes.

        Args:
            except_images: image patterns as for `Image.is_of`; the images that match are left out.

        Raises:
            ValueError: the object is so malformed that an image could hide in it.
        """
        copy = self._target_copy
        volumes = self._target.image_volumes() if copy is msgspec.UNSET else find_image_volumes(copy or {})
        images = [*self.containers(), *volumes]
        return _exclude(images, except_images) if except_images else images

    def pod(self) -> dict[str, Any] | None:
        """Return the pod in the `target`, or its pod template, with ``metadata`` and ``spec``: this policy's own copy.

        Returns None for kinds without pods.

        Raises:
            ValueError: the object has a value of another type in the place of the pod.
        """
        target = self.target
        return None if target is None else find_pod_template(target)

    @property
    def previous(self) -> "AdmissionReview | None":
        """On UPDATE, the same review of the object as it is stored now, to compare with; else None."""
        if self.operation != "UPDATE" or not self._old_object.present:
            return None
        return AdmissionReview(self._envelope, self._old_object, NULL, self._old_object)

    @property
    def match_key(self) -> Hashable:
        """The resource and the operation."""
        request = self._envelope.request
        return request.resource, request.sub_resource, request.operation

    def copy(self) -> "AdmissionReview":
        """Return the same review for the next policy, without the changes that this one made to its objects."""
        return AdmissionReview(self._envelope, self._object, self._old_object, self._target)

    @property
    def _target_copy(self) -> Any:
        return self._old_copy if self.operation == "DELETE" else self._copy

    def _resolve_containers(self) -> None:
        """Resolve the containers that the policy already has, before it can move them in its copy."""
        for index in self._indexes:
            index.resolve(self._target_copy)


def _exclude(images: Iterable[ImageT], patterns: Collection[str]) -> list[ImageT]:
    return [image for image in images if not image.is_of(patterns)]


def introduced(
    review: AdmissionReview,
    violations: Callable[Concatenate[AdmissionReview, P], Iterable[str]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> list[str]:
    """Return the violations that a request adds to those of the stored object.

    An object that breaks a rule which is newer than the object must still be scaled down, labelled, and released from
    its finalizers. So an UPDATE is not denied for violations that it leaves unchanged.

    Args:
        review: the request.
        violations: finds the violations in the `target` of a review. Each is described by a distinct text.
        args: further positional arguments for `violations`.
        kwargs: keyword arguments for `violations`.

    Returns:
        The violations of the object that the old object does not have; none on DELETE.
    """
    if review.operation == "DELETE":
        return []
    current = list(violations(review, *args, **kwargs))
    previous = review.previous if current else None
    if previous is None:
        return current
    known = set(violations(previous, *args, **kwargs))
    return [violation for violation in current if violation not in known]


def deny_new(
    review: AdmissionReview,
    violations: Callable[Concatenate[AdmissionReview, P], Iterable[str]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Allow | Deny:
    """Deny a request that adds violations, with all of them as the message; allow any other.

    Args:
        review: the request.
        violations: as for `introduced`, whose rules for UPDATE and DELETE apply.
        args: further positional arguments for `violations`.
        kwargs: keyword arguments for `violations`.
    """
    messages = introduced(review, violations, *args, **kwargs)
    return Deny("; ".join(messages)) if messages else Allow()


def shared_object(review: AdmissionReview) -> LazyObject:
    """Return the object of a review, which all its copies share."""
    return review._object


def with_object(review: AdmissionReview, object_: LazyObject) -> AdmissionReview:
    """Return the review for the next policy, with another object, which is its target."""
    return AdmissionReview(review._envelope, object_, review._old_object, object_)


def is_unmodified(review: AdmissionReview) -> bool:
    """Check whether a policy has left the objects that it shares with other copies unmodified."""
    return review._object.is_unmodified() and review._old_object.is_unmodified()


def label_sets(review: AdmissionReview) -> list[dict[str, str]]:
    """Return the labels of the object and of the old object; none for an object that is absent."""
    return [object_.labels() for object_ in (review._object, review._old_object) if object_.present]
