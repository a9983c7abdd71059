"""The decorators that make policies of plain functions. A policy is a value: nothing registers it, one can call it."""

import functools
import inspect
import re
import sys
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from webhooks import matching
from webhooks.decisions import (
    Allow,
    Authenticated,
    Decision,
    Deny,
    Identity,
    Mutation,
    NoOpinion,
    Opinion,
    Outcome,
    Patch,
    Replace,
    Unauthenticated,
)
from webhooks.errors import ConfigurationError
from webhooks.exemptions import Exemption
from webhooks.globs import EVERYTHING, Globs
from webhooks.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch
from webhooks.registered import MAX_TIMEOUT
from webhooks.rules import rules
from webhooks.selectors import Selector
from webhooks.wire import admission, authentication, authorization, images
from webhooks.wire.admission import AdmissionReview
from webhooks.wire.authentication import TokenReview
from webhooks.wire.authorization import AccessReview
from webhooks.wire.images import ImageReview

Kind: TypeAlias = Literal["mutating", "validating", "authorizing", "authenticating", "image_policy"]
OnError: TypeAlias = Literal["deny", "allow"]
Mode: TypeAlias = Literal["enforce", "warn", "audit"]
SideEffects: TypeAlias = Literal["none", "none_on_dry_run", "some"]

OUTCOMES: Mapping[Kind, tuple[type[Outcome], ...]] = {
    "mutating": (Allow, Deny, Replace, Patch),
    "validating": (Allow, Deny),
    "authorizing": (Allow, Deny, NoOpinion),
    "authenticating": (Authenticated, Unauthenticated, NoOpinion),
    "image_policy": (Allow, Deny),
}

WIRES: Mapping[Kind, Any] = {
    "mutating": admission,
    "validating": admission,
    "authorizing": authorization,
    "authenticating": authentication,
    "image_policy": images,
}

R = TypeVar("R")
O = TypeVar("O")  # noqa: E741

Match: TypeAlias = AdmissionMatch | AccessMatch | ImageMatch | AnyMatch


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a policy was written: a file and a line in it.

    Attributes:
        path: the file.
        line: in it.
        home: the file whose execution made it, perhaps another.
        name: the policy's name there.
    """

    path: str
    line: int
    home: str
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Policy(Generic[R, O]):
    """A policy: a function, the reviews it wants, and what its parameters are set to.

    Calling it calls the function, with parameters of the call before those that are set.

    Attributes:
        name: unique among the policies of a server; it stands in paths, metrics and logs.
        kind: the decorator that made it.
        function: the author's function.
        match: which reviews it wants.
        timeout: seconds it may take; None for as long as the caller waits.
        on_error: what a failure of the policy counts as; None for the protocol's own rule, which never approves.
        isolation: whether it runs in a process of its own, which can be killed.
        side_effects: what it changes beside its answer: nothing, nothing on dry runs, or something on those too.
        parameters: those that are set, checked.
        base: the policy that it was made of, by `bind` or `named`.
        origin: where it was written.
        configured: those of the parameters that the operator has set, as plain data.
        within: which of the reviews that it wants the operator wants it to see; None for all.
        mode: what a denial of it comes to.
        exemptions: what it is not asked about.
        unconditional: whether `wants` holds for every review of the kinds that it wants.
    """

    name: str
    kind: Kind
    function: Callable[..., O | Awaitable[O]]
    match: Match
    timeout: float | None
    on_error: OnError | None
    origin: Origin
    isolation: bool = False
    side_effects: SideEffects = "none"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    base: "Policy[R, O] | None" = field(default=None, repr=False)
    configured: Mapping[str, Any] = field(default_factory=dict, repr=False)
    within: Match | None = field(default=None, repr=False)
    mode: Mode = "enforce"
    exemptions: tuple[Exemption, ...] = field(default=(), repr=False)
    call: Callable[[R], O | Awaitable[O]] = field(init=False, repr=False)
    is_async: bool = field(init=False)
    unconditional: bool = field(init=False)

    def __post_init__(self) -> None:
        call = functools.partial(self.function, **self.parameters) if self.parameters else self.function
        object.__setattr__(self, "call", call)
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))
        unconditional = self.match.unconditional and (self.within is None or self.within.unconditional)
        object.__setattr__(self, "unconditional", unconditional)
        made = _made.get()
        if made is not None:
            made.append(self)

    def __call__(self, review: R, **parameters: Any) -> Any:
        """Call the author's function."""
        return self.function(review, **{**self.parameters, **parameters})

    @property
    def dns_name(self) -> str:
        """Its name as API servers take it in paths and in names of webhooks, where no underscore may be (RFC 1123)."""
        return self.name.lower().replace("_", "-")

    def wants_kind(self, review: Any) -> bool:
        """Whether it is to see reviews of this kind: as its author asked, and its operator narrowed that."""
        return self.match.wants_kind(review) and (self.within is None or self.within.wants_kind(review))

    def wants(self, review: Any) -> bool:
        """Whether, of those, it is to see this one too.

        Raises:
            MalformedReview: what has to be asked cannot be read.
        """
        return self.match.wants(review) and (self.within is None or self.within.wants(review))

    def bind(self, **parameters: Any) -> "Policy[R, O]":
        """The same policy with some of its parameters set.

        Raises:
            ConfigurationError: there is no such parameter, or the value has the wrong type.
        """
        checked = {name: self._check(name, value) for name, value in parameters.items()}
        return replace(self, parameters={**self.parameters, **checked}, origin=_author(self.name), base=self)

    def named(self, name: str) -> "Policy[R, O]":
        """The same policy under another name, so that one server can run it twice."""
        return replace(self, name=checked_name(name), origin=_author(name), base=self)

    def check_parameters(self) -> None:
        """Check that every parameter is set or has a default of the right type.

        Raises:
            ConfigurationError: one is not set, or has not the right type.
        """
        for name in self.unset:
            raise ConfigurationError(
                f"policy {self.name!r} needs its parameter {name!r} to be set: "
                f"{self.function.__name__}.bind({name}=...); a name that begins with _ is not served"
            )
        for name, parameter in _keywords(self.function).items():
            if name not in self.parameters:
                self._check(name, parameter.default)

    @property
    def parameter_names(self) -> list[str]:
        """The names of its parameters."""
        return list(_keywords(self.function))

    @property
    def unset(self) -> list[str]:
        """Those parameters that are not set and have no default."""
        keywords = _keywords(self.function).items()
        return [name for name, each in keywords if name not in self.parameters and each.default is each.empty]

    def converted(self, name: str, value: Any) -> Any:
        """A value as a parameter takes it.

        Raises:
            ValueError: it has the wrong type.
        """
        if type(value) is tuple:  # a list is what configuration gives, a tuple what a careful default is
            value = list(value)
        try:
            return msgspec.convert(value, typing.get_type_hints(self.function).get(name, Any))
        except (msgspec.ValidationError, NameError, TypeError, ValueError) as error:
            raise ValueError(str(error)) from None

    def _check(self, name: str, value: Any) -> Any:
        if name not in self.parameter_names:
            names = ", ".join(self.parameter_names) or "none"
            raise ConfigurationError(f"policy {self.name!r} has no parameter {name!r}; it has: {names}")
        try:
            return self.converted(name, value)
        except ValueError as error:
            raise ConfigurationError(f"policy {self.name!r}, parameter {name!r}: {error}") from None


AnyPolicy: TypeAlias = Policy[Any, Any]


def _keywords(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: each for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}


def checked_name(name: object) -> str:
    """A name, which can be a policy's.

    Raises:
        ConfigurationError: it cannot.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is no name for a policy: letters, digits, '_', '-', and '.' behind one of those"
        )
    return name


def _author(name: str) -> Origin:
    """Where the author stands who called us for a policy of a name: the nearest place that is not in this file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    assert frame is not None
    home: FrameType | None = frame
    while home is not None and home.f_code.co_name != "<module>":
        home = home.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno, (home or frame).f_code.co_filename, name)


_made: ContextVar[list[Any] | None] = ContextVar("made", default=None)


@contextmanager
def watching() -> Iterator[list[Any]]:
    """Every policy that is made meanwhile, so that whoever loads a file sees those that no name holds any more."""
    made: list[Any] = []
    token = _made.set(made)
    try:
        yield made
    finally:
        _made.reset(token)


def _check_signature(function: Callable[..., Any]) -> None:
    parameters = list(inspect.signature(function).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    first, rest = parameters[:1], parameters[1:]
    if not (first and first[0].kind in positional and all(each.kind is each.KEYWORD_ONLY for each in rest)):
        raise ConfigurationError(
            f"policy {function.__name__!r} takes the review, and its parameters by keyword alone: "
            f"def {function.__name__}(review, *, parameter=...)"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"policy {function.__name__!r} yields; a policy returns its outcome")


def _policy(
    function: Callable[..., Any],
    kind: Kind,
    match: Match,
    name: str | None,
    timeout: float | None,
    on_error: OnError | None,
    isolation: bool,
    side_effects: SideEffects = "none",
) -> Policy[Any, Any]:
    if not inspect.isfunction(function):
        what = f"the policy {function.name!r}" if isinstance(function, Policy) else f"a {type(function).__name__}"
        raise ConfigurationError(f"a policy is made of a function, under one decorator; not of {what}")
    _check_signature(function)
    name = checked_name(function.__name__ if name is None else name)
    if timeout is not None and not (type(timeout) in (int, float) and 0 < timeout <= MAX_TIMEOUT):
        raise ConfigurationError(
            f"policy {name!r}: a timeout is more than 0 and at most {MAX_TIMEOUT} seconds, not {timeout!r}"
        )
    if on_error not in (None, "deny", "allow"):
        raise ConfigurationError(f"policy {name!r}: on_error is 'deny' or 'allow', not {on_error!r}")
    if type(isolation) is not bool:
        raise ConfigurationError(f"policy {name!r}: isolation is True or False, not {isolation!r}")
    if side_effects not in typing.get_args(SideEffects):
        raise ConfigurationError(
            f"policy {name!r}: side_effects is 'none', 'none_on_dry_run' or 'some', not {side_effects!r}"
        )
    return Policy(name, kind, function, match, timeout, on_error, _author(name), isolation, side_effects)


def _some(resources: Sequence[str]) -> Sequence[str]:
    if not resources:
        raise ConfigurationError('name at least one resource; "*/*" is all of them')
    if not isinstance(resources[0], str):
        raise ConfigurationError('this decorator takes resources: write @validating("pods", ...), or "*/*" for all')
    return resources


_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_DEFAULT_OPERATIONS = ("CREATE", "UPDATE", "CONNECT")


def _admission_match(
    resources: Sequence[str],
    operations: Sequence[str],
    namespaces: Iterable[str] | None,
    names: Iterable[str] | None,
    labels: Mapping[str, Any] | None,
    users: Iterable[str] | None,
    groups: Iterable[str] | None,
) -> AdmissionMatch:
    return AdmissionMatch(
        rules(_some(resources)),
        matching.operations(operations),
        _globs(namespaces),
        _globs(names),
        Selector.parse(labels),
        _globs(users),
        _globs(groups),
    )


def _globs(texts: Iterable[str] | None) -> Globs:
    if texts is None:
        return EVERYTHING
    globs = Globs(texts)
    if not globs.texts:
        raise ConfigurationError("an empty list matches nothing: leave the argument out to match everything")
    return globs


def validating(
    *resources: str,
    operations: Sequence[str] = _DEFAULT_OPERATIONS,
    namespaces: Iterable[str] | None = None,
    names: Iterable[str] | None = None,
    labels: Mapping[str, Any] | None = None,
    users: Iterable[str] | None = None,
    groups: Iterable[str] | None = None,
    name: str | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
    isolation: bool = False,
    side_effects: SideEffects = "none",
) -> Callable[[Callable[..., Decision | Awaitable[Decision]]], Policy[AdmissionReview, Decision]]:
    """Make a policy that allows or denies requests to store, change, delete or connect to objects.

    Args:
        resources: as admission registrations write them: ``pods``, ``apps/deployments``, ``pods/exec``, ``*/scale``,
            ``*/*``; see `webhooks.matching.Rule.parse`.
        operations: some of CREATE, UPDATE, DELETE, CONNECT, or ``*``.
        namespaces: globs; None for all, like each argument that follows.
        names: globs for the object's name, or for the beginning of the name that the server will make.
        labels: labels that the object has, or a selector of matchLabels and matchExpressions.
        users: globs for the user's name.
        groups: globs, one of which fits one of the user's groups.
        name: the policy's name; the function's name unless given.
        timeout: seconds it may take, at most 30.
        on_error: ``deny`` (the rule) or ``allow``: what a failure of the policy counts as.
        isolation: whether it runs in a process of its own, which is killed where it is late or takes too much.
        side_effects: ``none`` (the rule), ``none_on_dry_run``, or ``some``: what it changes beside its answer, which
            registrations tell API servers.

    Raises:
        ConfigurationError: an argument, or the function's signature, is not as it must be.
    """
    match = _admission_match(resources, operations, namespaces, names, labels, users, groups)

    def decorate(function: Callable[..., Any]) -> Policy[Any, Any]:
        return _policy(function, "validating", match, name, timeout, on_error, isolation, side_effects)

    return decorate


def mutating(
    *resources: str,
    operations: Sequence[str] = _DEFAULT_OPERATIONS,
    namespaces: Iterable[str] | None = None,
    names: Iterable[str] | None = None,
    labels: Mapping[str, Any] | None = None,
    users: Iterable[str] | None = None,
    groups: Iterable[str] | None = None,
    name: str | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
    isolation: bool = False,
    side_effects: SideEffects = "none",
) -> Callable[[Callable[..., Mutation | Awaitable[Mutation]]], Policy[AdmissionReview, Mutation]]:
    """Make a policy that changes objects before they are stored; it may deny them too.

    It can be called again with the object that others have changed meanwhile: what it does twice must be as done once.
    The arguments and errors are those of `validating`.
    """
    match = _admission_match(resources, operations, namespaces, names, labels, users, groups)

    def decorate(function: Callable[..., Any]) -> Policy[Any, Any]:
        return _policy(function, "mutating", match, name, timeout, on_error, isolation, side_effects)

    return decorate


def authorizing(
    *resources: str,
    verbs: Iterable[str] | None = None,
    paths: Iterable[str] = (),
    namespaces: Iterable[str] | None = None,
    names: Iterable[str] | None = None,
    users: Iterable[str] | None = None,
    groups: Iterable[str] | None = None,
    name: str | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
    isolation: bool = False,
) -> Callable[[Callable[..., Opinion | Awaitable[Opinion]]], Policy[AccessReview, Opinion]]:
    """Make a policy that says whether a user may do something.

    Args:
        resources: as `validating` takes them.
        verbs: get, list, watch, create, update, patch, delete, deletecollection ...; globs, None for all.
        paths: globs for the paths of requests that are not about resources, such as ``/metrics``.
        namespaces: globs; None for all, like each argument that follows.
        names: globs for the object's name.
        users: globs for the user's name.
        groups: globs, one of which fits one of the user's groups.
        name: the policy's name; the function's name unless given.
        timeout: seconds it may take, at most 30.
        on_error: what a failure of the policy counts as: ``deny``, or ``allow``, which is to have no opinion. Unless
            given, the caller gets an error, which it does not keep and tries again.
        isolation: whether it runs in a process of its own, which is killed where it is late or takes too much.

    Raises:
        ConfigurationError: an argument, or the function's signature, is not as it must be.
    """
    match = AccessMatch(
        rules(resources if paths else _some(resources)),
        Globs(paths),
        _globs(verbs),
        _globs(namespaces),
        _globs(names),
        _globs(users),
        _globs(groups),
    )

    def decorate(function: Callable[..., Any]) -> Policy[Any, Any]:
        return _policy(function, "authorizing", match, name, timeout, on_error, isolation)

    return decorate


_AuthenticatingFunction: TypeAlias = Callable[..., Identity | Awaitable[Identity]]
_ImageFunction: TypeAlias = Callable[..., Decision | Awaitable[Decision]]


@typing.overload
def authenticating(function: _AuthenticatingFunction, /) -> Policy[TokenReview, Identity]: ...
@typing.overload
def authenticating(
    *,
    name: str | None = None,
    timeout: float | None = None,
    on_error: Literal["deny"] | None = None,
    isolation: bool = False,
) -> Callable[[_AuthenticatingFunction], Policy[TokenReview, Identity]]: ...
def authenticating(
    function: _AuthenticatingFunction | None = None,
    /,
    *,
    name: str | None = None,
    timeout: float | None = None,
    on_error: Literal["deny"] | None = None,
    isolation: bool = False,
) -> Any:
    """Make a policy that says who holds a token. It stands with or without parentheses.

    Args:
        function: the author's function, where it stands without.
        name: the policy's name; the function's name unless given.
        timeout: seconds it may take, at most 30.
        on_error: ``deny``: a failure of the policy counts as a bad token. Unless given, the caller gets an error, which
            it does not keep and tries again.
        isolation: whether it runs in a process of its own, which is killed where it is late or takes too much.

    Raises:
        ConfigurationError: an argument, or the function's signature, is not as it must be.
    """

    def decorate(function: _AuthenticatingFunction) -> Policy[Any, Any]:
        if on_error not in (None, "deny"):
            raise ConfigurationError("a failure of an authenticator cannot be allowed: there is no user to be")
        return _policy(function, "authenticating", AnyMatch(), name, timeout, on_error, isolation)

    return decorate if function is None else decorate(function)


@typing.overload
def image_policy(function: _ImageFunction, /) -> Policy[ImageReview, Decision]: ...
@typing.overload
def image_policy(
    *,
    namespaces: Iterable[str] | None = None,
    name: str | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
    isolation: bool = False,
) -> Callable[[_ImageFunction], Policy[ImageReview, Decision]]: ...
def image_policy(
    function: _ImageFunction | None = None,
    /,
    *,
    namespaces: Iterable[str] | None = None,
    name: str | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
    isolation: bool = False,
) -> Any:
    """Make a policy that says whether a pod may run its images. It stands with or without parentheses.

    Args:
        function: the author's function, where it stands without.
        namespaces: globs; None for all.
        name: the policy's name; the function's name unless given.
        timeout: seconds it may take, at most 30.
        on_error: ``deny`` (the rule) or ``allow``: what a failure of the policy counts as.
        isolation: whether it runs in a process of its own, which is killed where it is late or takes too much.

    Raises:
        ConfigurationError: an argument, or the function's signature, is not as it must be.
    """

    def decorate(function: _ImageFunction) -> Policy[Any, Any]:
        return _policy(function, "image_policy", ImageMatch(_globs(namespaces)), name, timeout, on_error, isolation)

    return decorate if function is None else decorate(function)
