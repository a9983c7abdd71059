"""AdmissionReview, v1 and v1beta1: may this object be stored, and how should it be changed first?"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from webhooks.errors import REASONS, MalformedReview
from webhooks.kube.api_groups import ADMISSION
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
from webhooks.objects.strict_json import LARGE, LazyDocument
from webhooks.objects.typed_decoding import TYPES, seen_kinds
from webhooks.reviews import envelope as envelopes
from webhooks.reviews.outcomes import Allow, Deny
from webhooks.reviews.subjects import ReviewSummary, resource
from webhooks.reviews.user import User, user_of

KIND = "AdmissionReview"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

_MAX_UID = 256
_OBJECT, _NULL = b"{n"  # what they begin with
_Text = str | msgspec.UnsetType | None

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


class _Request(msgspec.Struct, kw_only=True):
    # In the order in which servers write them.
    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    subResource: _Text = msgspec.UNSET  # noqa: N815
    requestKind: GroupVersionKind | msgspec.UnsetType | None = msgspec.UNSET  # noqa: N815
    requestResource: GroupVersionResource | msgspec.UnsetType | None = msgspec.UNSET  # noqa: N815
    requestSubResource: _Text = msgspec.UNSET  # noqa: N815
    name: _Text = msgspec.UNSET
    namespace: _Text = msgspec.UNSET
    operation: str
    userInfo: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    object: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    oldObject: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    dryRun: bool | msgspec.UnsetType | None = msgspec.UNSET  # noqa: N815
    options: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Envelope(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    request: _Request


class _Named(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct, omit_defaults=True):
    message: str
    reason: str
    code: int
    details: Mapping[str, Any] | None = None


class _Response(msgspec.Struct, omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch: bytes | None = None
    patchType: str | None = None  # noqa: N815
    auditAnnotations: Mapping[str, str] = {}  # noqa: N815
    warnings: Sequence[str] = ()


class _Reply(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    response: _Response


def _decoder_with(object_: Any) -> "msgspec.json.Decoder[_Envelope]":
    """A decoder of envelopes whose object is decoded too, as this type."""
    field = ("object", object_ | msgspec.UnsetType | None, msgspec.UNSET)
    request = msgspec.defstruct("Request", [field], bases=(_Request,), kw_only=True)
    return msgspec.json.Decoder(msgspec.defstruct("Envelope", [("request", request)], bases=(_Envelope,)))


_decoder = msgspec.json.Decoder(_Envelope)
_named = msgspec.json.Decoder(_Named)
_decoders = {kind: _decoder_with(type_) for kind, type_ in TYPES.items()}
_KIND = re.compile(rb'"request":\{"uid":"[^"]*","kind":\{[^{}]*?"kind":"(\w+)"')
_encode = msgspec.json.Encoder().encode


class AdmissionReview(msgspec.Struct, eq=False):
    """A request to store, change, delete or connect to an object, as a policy sees it.

    Every policy gets a review of its own: whatever it does to the objects stays with it until it returns them.

    Attributes:
        object_accessed: whether the policy has accessed `object` or `old_object`.
    """

    # A struct is made quickest, and every policy gets one.
    _envelope: _Envelope
    _object: LazyObject
    _old_object: LazyObject
    _target: LazyObject
    _draft: Any = msgspec.UNSET
    _old_draft: Any = msgspec.UNSET
    _specs: list[ContainerIndex] = []
    _user: User | None = None
    object_accessed: bool = False

    def __repr__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"<AdmissionReview {self.uid} {self.operation} {self.resource.resource} {where}>"

    @property
    def uid(self) -> str:
        """Identifies this review; log it to find what belongs to it."""
        return self._envelope.request.uid

    @property
    def kind(self) -> GroupVersionKind:
        """The object's type."""
        return self._envelope.request.kind

    @property
    def resource(self) -> GroupVersionResource:
        """The resource that was asked for."""
        return self._envelope.request.resource

    @property
    def subresource(self) -> str:
        """Such as ``status``, ``scale`` or ``exec``; empty for the resource itself."""
        return self._envelope.request.subResource or ""

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
        """Whether nothing will be stored; a policy with side effects leaves them out."""
        return bool(self._envelope.request.dryRun)

    @property
    def user(self) -> User:
        """Who asks."""
        if self._user is None:
            raw = self._envelope.request.userInfo
            self._user = user_of(None if raw is msgspec.UNSET else LazyDocument(bytes(raw)).tree)
        return self._user

    @property
    def object(self) -> Any:
        """The object as it would be stored, to read and to change: this policy's own copy. None on DELETE."""
        if self._draft is msgspec.UNSET:
            self.object_accessed = True
            self._draft = copy_on_write(self._object.borrow())
            if self._target is self._object:
                self._find_specs()
        return self._draft

    @property
    def old_object(self) -> Any:
        """The object as it is stored now: this policy's own copy. None on CREATE and CONNECT."""
        if self._old_draft is msgspec.UNSET:
            self.object_accessed = True
            self._old_draft = copy_on_write(self._old_object.borrow())
            if self._target is self._old_object:
                self._find_specs()
        return self._old_draft

    @property
    def target(self) -> Any:
        """The object that the request is about: the new one, or on DELETE the old one."""
        return self.old_object if self.operation == "DELETE" else self.object

    @property
    def options(self) -> Any:
        """The options of the operation, such as CreateOptions; None where there are none."""
        raw = self._envelope.request.options
        return None if raw is msgspec.UNSET else LazyDocument(bytes(raw)).tree

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the user who asks."""
        return self.user.groups

    @property
    def name(self) -> str:
        """The object's name; where the server is still to make one, the `generate_name` it starts with."""
        return self._envelope.request.name or self._target.metadata_text("name") or self.generate_name

    @property
    def generate_name(self) -> str:
        """The beginning of the name that the server will make; empty where a name was given."""
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
        draft = self._target_draft
        if draft is not msgspec.UNSET:
            found = find_containers(draft) if draft is not None else []
        else:
            found = self._target.containers(lambda: self.target)
            if found:
                self._specs.append(found[0]._index)
        return _without(found, except_images) if except_images else found

    def images(self, *, except_images: Collection[str] = ()) -> list[Image]:
        """Return every image that the `target` uses: those of its `containers`, and of volumes filled from images.

        Args:
            except_images: image patterns as for `Image.is_of`; the images that match are left out.

        Raises:
            ValueError: the object is so malformed that an image could hide in it.
        """
        draft = self._target_draft
        volumes = self._target.image_volumes() if draft is msgspec.UNSET else find_image_volumes(draft or {})
        found = [*self.containers(), *volumes]
        return _without(found, except_images) if except_images else found

    def pod(self) -> dict[str, Any] | None:
        """The pod in the `target`, or the template of its pods, with ``metadata`` and ``spec``: this policy's own copy.

        None for kinds without pods.

        Raises:
            ValueError: the object has something else in the place of a pod.
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
        """What it shares with many others: the resource and the operation."""
        request = self._envelope.request
        return request.resource, request.subResource, request.operation

    def copy(self) -> "AdmissionReview":
        """Return the same review for the next policy, without the changes that this one made to its objects."""
        return AdmissionReview(self._envelope, self._object, self._old_object, self._target)

    @property
    def _target_draft(self) -> Any:
        return self._old_draft if self.operation == "DELETE" else self._draft

    def _find_specs(self) -> None:
        """Before the policy can change its copy: the containers it was given stay those they are."""
        for specs in self._specs:
            specs.resolve(self._target_draft)


def _without(images: Iterable[ImageT], patterns: Collection[str]) -> list[ImageT]:
    return [image for image in images if not image.is_of(patterns)]


def introduced(
    review: AdmissionReview,
    violations: Callable[Concatenate[AdmissionReview, P], Iterable[str]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> list[str]:
    """Return the violations that a request adds to those of the stored object.

    An object that breaks a rule which is newer than the object must still be scaled down, labelled, and released from
    its finalizers. So an UPDATE is not blamed for what it leaves unchanged.

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
    found = list(violations(review, *args, **kwargs))
    previous = review.previous if found else None
    if previous is None:
        return found
    known = set(violations(previous, *args, **kwargs))
    return [violation for violation in found if violation not in known]


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
    found = introduced(review, violations, *args, **kwargs)
    return Deny("; ".join(found)) if found else Allow()


def object_of(review: AdmissionReview) -> LazyObject:
    """The object of a review, as all its policies share it."""
    return review._object


def with_object(review: AdmissionReview, object_: LazyObject) -> AdmissionReview:
    """The review for the next policy, with another object in place of the one that came, which is its target."""
    return AdmissionReview(review._envelope, object_, review._old_object, object_)


def intact(review: AdmissionReview) -> bool:
    """Whether a policy has left alone what it shares with others."""
    return review._object.is_unmodified() and review._old_object.is_unmodified()


def label_sets(review: AdmissionReview) -> list[dict[str, str]]:
    """The labels of the object and of the old object, of those that are there."""
    return [each.labels() for each in (review._object, review._old_object) if each.present]


def describe(review: AdmissionReview, subject: ReviewSummary) -> None:
    """Tell what a review is about, as far as it can be read."""
    request, named = review._envelope.request, review._envelope.request.resource
    subject.uid = request.uid
    subject.operation = request.operation
    subject.resource = resource(named.group, named.version, named.resource, request.subResource or "")
    subject.namespace = request.namespace or ""
    subject.dry_run = bool(request.dryRun)
    try:
        subject.name = request.name or review.name
        if request.userInfo is not msgspec.UNSET:
            subject.user = _named.decode(request.userInfo).username
    except (MalformedReview, msgspec.MsgspecError):
        pass  # no policy has had to read it


def secrets(review: AdmissionReview) -> list[str]:
    """The texts that must not be told, whatever a policy says: what a Secret holds."""
    if review.kind.kind != "Secret":
        return []
    try:
        trees = review._object.tree, review._old_object.tree
    except MalformedReview:
        return []  # no policy could read it either
    maps = [tree.get(field) for tree in trees if isinstance(tree, dict) for field in ("data", "stringData")]
    return [value for each in maps if isinstance(each, dict) for value in each.values() if isinstance(value, str)]


def decode(body: bytes) -> AdmissionReview:
    """Decode a request.

    Raises:
        MalformedReview: the body is no AdmissionReview, or one beyond the limits.
    """
    envelope, raw = _decode(body)
    request = envelope.request
    if envelope.kind != KIND or envelope.apiVersion not in ADMISSION:
        raise envelopes.unknown(envelope.apiVersion, envelope.kind, KIND)
    if not 0 < len(request.uid) <= _MAX_UID:
        raise MalformedReview(f"request.uid is empty or longer than {_MAX_UID} characters")
    if request.operation not in OPERATIONS:
        raise MalformedReview(f"request.operation {request.operation[:32]!r} is not known")
    kind = request.kind.kind
    if raw is None:
        object_ = _object(request.object, kind, "object")
    else:
        object_ = LazyObject(raw, kind=kind, typed=request.object) if request.object else NULL
    old_object = _object(request.oldObject, kind, "oldObject")
    return AdmissionReview(envelope, object_, old_object, old_object if request.operation == "DELETE" else object_)


def _decode(body: bytes) -> tuple[_Envelope, Callable[[], Any] | None]:
    """An envelope; where its object was decoded with it, in hardly more time than finding its end, what gives its raw.

    That proves itself as outlines do. What does not is decoded again by one that says why.
    """
    decoder = _decoder_for(body) if seen_kinds and len(body) < LARGE else None
    if decoder is not None:
        try:
            if not body.isascii():
                body.decode()
            envelope = decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return envelopes.decode(_decoder, body), None
        written = _encode(envelope)
        if len(written) == len(body) - body.endswith(b"\n"):
            if body.startswith(written):
                return envelope, lambda: _encode(envelope.request.object)
            return envelope, lambda: _decoder.decode(body).request.object
    return envelopes.decode(_decoder, body), None


def _decoder_for(body: bytes) -> "msgspec.json.Decoder[_Envelope] | None":
    """What decodes the object too, where an outline of its kind has been wanted before."""
    found = _KIND.search(body, 0, envelopes.HEAD)
    kind = found[1].decode() if found is not None else ""
    return _decoders[kind] if kind in seen_kinds else None


def _object(raw: msgspec.Raw | msgspec.UnsetType, kind: str, field: str) -> LazyObject:
    if raw is msgspec.UNSET:
        return NULL
    first = memoryview(raw)[0]
    if first == _OBJECT:
        return LazyObject(raw, kind=kind)
    if first == _NULL:
        return NULL
    raise MalformedReview(f"request.{field} is not an object")


def body(review: AdmissionReview) -> bytes:
    """The review as a body that decodes to the same, with what policies have changed of it so far."""
    envelope = review._envelope
    object_ = msgspec.Raw(review._object.to_json())
    return _encode(msgspec.structs.replace(envelope, request=msgspec.structs.replace(envelope.request, object=object_)))


def encode(review: AdmissionReview, outcome: Allow | Deny, patch: bytes | None = None) -> bytes:
    """Encode the answer to a request.

    Args:
        review: the request.
        outcome: the merged verdict.
        patch: the JSON Patch document that belongs to an Allow.
    """
    response = _Response(
        uid=review.uid,
        allowed=type(outcome) is Allow,
        status=_status(outcome) if type(outcome) is Deny else None,
        patch=patch,
        patchType="JSONPatch" if patch else None,
        auditAnnotations=outcome.audit,
        warnings=outcome.warnings,
    )
    envelope = review._envelope
    return _encode(_Reply(envelope.kind, envelope.apiVersion, response))


def encode_denial(body: bytes, message: str, code: int) -> bytes | None:
    """Encode a denial of a body that could not be reviewed; None where it does not tell whom to answer."""
    address = envelopes.find_address(body)
    if address is None:
        return None
    denial = Deny(message, reason=REASONS[code], code=code)
    response = _Response(uid=address.uid, allowed=False, status=_status(denial))
    return _encode(_Reply(address.kind or KIND, address.apiVersion or "admission.k8s.io/v1", response))


def _status(denial: Deny) -> _Status:
    return _Status(denial.message, denial.reason, denial.code, details=denial.details)
