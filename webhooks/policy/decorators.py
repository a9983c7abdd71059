"""The decorators that make policies of plain functions, and what they take for them."""

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from webhooks.errors import ConfigurationError
from webhooks.kube.globs import EVERYTHING, Globs
from webhooks.kube.label_selectors import Selector
from webhooks.kube.registered import MAX_TIMEOUT
from webhooks.kube.resource_rules import rules
from webhooks.policy import matching
from webhooks.policy.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch
from webhooks.policy.model import AnyPolicy, Kind, Match, OnError, Origin, Policy, SideEffects, check_name
from webhooks.reviews.admission import AdmissionReview
from webhooks.reviews.authentication import TokenReview
from webhooks.reviews.authorization import AccessReview
from webhooks.reviews.images import ImageReview
from webhooks.reviews.outcomes import Decision, Identity, Mutation, Opinion

_DEFAULT_OPERATIONS = ("CREATE", "UPDATE", "CONNECT")

_AuthenticatingFunction: TypeAlias = Callable[..., Identity | Awaitable[Identity]]
_ImageFunction: TypeAlias = Callable[..., Decision | Awaitable[Decision]]


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What an author says of a policy beside what it wants.

    Attributes:
        name: the policy's; None for the function's.
        timeout: seconds it may take; None for as long as the caller waits.
        on_error: what a failure of the policy counts as; None for the protocol's own rule.
        isolation: whether it runs in a process of its own.
        side_effects: what it changes beside its answer.
    """

    name: str | None
    timeout: float | None
    on_error: OnError | None
    isolation: bool
    side_effects: SideEffects = "none"

    def check(self, name: str) -> None:
        """Check all but the name, which may be the function's.

        Args:
            name: what the policy is called.

        Raises:
            ConfigurationError: one of them is not as it must be.
        """
        if self.timeout is not None and not (type(self.timeout) in (int, float) and 0 < self.timeout <= MAX_TIMEOUT):
            raise ConfigurationError(
                f"policy {name!r}: a timeout is more than 0 and at most {MAX_TIMEOUT} seconds, not {self.timeout!r}"
            )
        if self.on_error not in (None, "deny", "allow"):
            raise ConfigurationError(f"policy {name!r}: on_error is 'deny' or 'allow', not {self.on_error!r}")
        if type(self.isolation) is not bool:
            raise ConfigurationError(f"policy {name!r}: isolation is True or False, not {self.isolation!r}")
        if self.side_effects not in typing.get_args(SideEffects):
            raise ConfigurationError(
                f"policy {name!r}: side_effects is 'none', 'none_on_dry_run' or 'some', not {self.side_effects!r}"
            )


def _deciding(kind: Kind, match: Match, terms: PolicyOptions) -> Callable[[Callable[..., Any]], AnyPolicy]:
    def decorate(function: Callable[..., Any]) -> AnyPolicy:
        _check_failures(kind, terms.on_error)
        _check_function(function)
        name = check_name(function.__name__ if terms.name is None else terms.name)
        terms.check(name)
        origin = Origin.from_stack(name)
        return Policy(
            name, kind, function, match, terms.timeout, terms.on_error, origin, terms.isolation, terms.side_effects
        )

    return decorate


def _check_failures(kind: Kind, on_error: OnError | None) -> None:
    if kind == "authenticating" and on_error not in (None, "deny"):
        raise ConfigurationError("a failure of an authenticator cannot be allowed: there is no user to be")


def _check_function(function: Callable[..., Any]) -> None:
    if not inspect.isfunction(function):
        what = f"the policy {function.name!r}" if isinstance(function, Policy) else f"a {type(function).__name__}"
        raise ConfigurationError(f"a policy is made of a function, under one decorator; not of {what}")
    _check_signature(function)


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


def _some(resources: Sequence[str]) -> Sequence[str]:
    if not resources:
        raise ConfigurationError('name at least one resource; "*/*" is all of them')
    if not isinstance(resources[0], str):
        raise ConfigurationError('this decorator takes resources: write @validating("pods", ...), or "*/*" for all')
    return resources


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
        matching.parse_operations(operations),
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
            ``*/*``; see `webhooks.kube.resource_rules.Rule.parse`.
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
    return _deciding("validating", match, PolicyOptions(name, timeout, on_error, isolation, side_effects))


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
    return _deciding("mutating", match, PolicyOptions(name, timeout, on_error, isolation, side_effects))


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
    return _deciding("authorizing", match, PolicyOptions(name, timeout, on_error, isolation))


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
    decorate = _deciding("authenticating", AnyMatch(), PolicyOptions(name, timeout, on_error, isolation))
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
    match = ImageMatch(_globs(namespaces))
    decorate = _deciding("image_policy", match, PolicyOptions(name, timeout, on_error, isolation))
    return decorate if function is None else decorate(function)
