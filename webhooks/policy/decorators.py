"""The decorators that turn functions into policies."""

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from webhooks.errors import ConfigurationError
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.kube.globs import EVERYTHING, Globs
from webhooks.kube.label_selectors import Selector
from webhooks.kube.resource_rules import parse_rules
from webhooks.policy import matching
from webhooks.policy.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch
from webhooks.policy.model import AnyPolicy, Match, OnError, Origin, Policy, SideEffects, check_name
from webhooks.reviews.admission import AdmissionReview
from webhooks.reviews.authentication import TokenReview
from webhooks.reviews.authorization import AccessReview
from webhooks.reviews.images import ImageReview
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import Decision, Identity, Mutation, Opinion

# Resource rules for all built-in objects that have a pod template, for decorators: @validating("pods", *WORKLOADS).
WORKLOADS = ("replicationcontrollers", "podtemplates", "apps/*", "batch/*")

_DEFAULT_OPERATIONS = ("CREATE", "UPDATE", "CONNECT")

_AuthenticatingFunction: TypeAlias = Callable[..., Identity | Awaitable[Identity]]
_ImageFunction: TypeAlias = Callable[..., Decision | Awaitable[Decision]]


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The options that all decorators have in common. See `Policy` for their meaning.

    Attributes:
        name: the name of the policy; None for the function's name.
        timeout: the time limit in seconds; None for the client's.
        on_error: whether a failure denies or allows; None for the default of the protocol.
        isolation: whether the policy runs in its own process.
        side_effects: whether a call changes something else.
    """

    name: str | None
    timeout: float | None
    on_error: OnError | None
    isolation: bool
    side_effects: SideEffects = "none"

    def check(self, name: str) -> None:
        """Check all options but the name.

        Args:
            name: the name of the policy, for messages.

        Raises:
            ConfigurationError: an option has an invalid value.
        """
        if self.timeout is not None and not (type(self.timeout) in (int, float) and 0 < self.timeout <= MAX_TIMEOUT):
            raise ConfigurationError(
                f"policy {name!r}: timeout must be more than 0 and at most {MAX_TIMEOUT} seconds, not {self.timeout!r}"
            )
        if self.on_error not in (None, "deny", "allow"):
            raise ConfigurationError(f"policy {name!r}: on_error must be 'deny' or 'allow', not {self.on_error!r}")
        if type(self.isolation) is not bool:
            raise ConfigurationError(f"policy {name!r}: isolation must be True or False, not {self.isolation!r}")
        if self.side_effects not in typing.get_args(SideEffects):
            raise ConfigurationError(
                f"policy {name!r}: side_effects must be 'none', 'none_on_dry_run' or 'some', not {self.side_effects!r}"
            )


def _make_decorator(kind: Kind, match: Match, options: PolicyOptions) -> Callable[[Callable[..., Any]], AnyPolicy]:
    def decorate(function: Callable[..., Any]) -> AnyPolicy:
        if kind == "authenticating" and options.on_error not in (None, "deny"):
            raise ConfigurationError("on_error of an authenticating policy must be 'deny': a failure yields no user")
        _check_function(function)
        name = check_name(function.__name__ if options.name is None else options.name)
        options.check(name)
        return Policy(
            name,
            kind,
            function,
            match,
            options.timeout,
            options.on_error,
            Origin.from_stack(name),
            options.isolation,
            options.side_effects,
        )

    return decorate


def _check_function(function: Callable[..., Any]) -> None:
    if isinstance(function, Policy):
        raise ConfigurationError(f"policy {function.name!r} has two decorators: use only one")
    if not inspect.isfunction(function):
        raise ConfigurationError(f"a policy must be a function, not a {type(function).__name__}")
    parameters = list(inspect.signature(function).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if (
        not parameters
        or parameters[0].kind not in positional
        or any(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters[1:])
    ):
        raise ConfigurationError(
            f"policy {function.__name__!r} must take the review as its only positional argument, and parameters by "
            f"keyword: def {function.__name__}(review, *, parameter=...)"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"policy {function.__name__!r} must return its outcome, not yield it")


def _check_resources(resources: Sequence[str]) -> Sequence[str]:
    if not resources:
        raise ConfigurationError('resources are required, for example "pods"; "*/*" matches all')
    if not isinstance(resources[0], str):
        raise ConfigurationError('resources are required: write @validating("pods", ...), or "*/*" for all')
    return resources


def _build_admission_match(
    resources: Sequence[str],
    operations: Sequence[str],
    namespaces: Iterable[str] | None,
    names: Iterable[str] | None,
    labels: Mapping[str, Any] | None,
    users: Iterable[str] | None,
    groups: Iterable[str] | None,
) -> AdmissionMatch:
    return AdmissionMatch(
        parse_rules(_check_resources(resources)),
        matching.parse_operations(operations),
        _parse_globs(namespaces),
        _parse_globs(names),
        Selector.parse(labels),
        _parse_globs(users),
        _parse_globs(groups),
    )


def _parse_globs(texts: Iterable[str] | None) -> Globs:
    if texts is None:
        return EVERYTHING
    globs = Globs(texts)
    if not globs.texts:
        raise ConfigurationError("an empty list matches nothing: omit the argument to match everything")
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
    """Decorate a function that allows or denies requests to create, update, delete or connect to objects.

    Args:
        resources: resource rules such as ``pods``, ``apps/deployments``, ``pods/exec``, ``*/scale``, ``*/*``; see
            `webhooks.kube.resource_rules.Rule.parse`.
        operations: some of CREATE, UPDATE, DELETE, CONNECT, or ``*``.
        namespaces: globs for the namespace; None, here and in the following arguments, matches everything.
        names: globs for the object's name, or for the prefix of a name that the API server will generate.
        labels: a mapping of labels, or a selector with matchLabels and matchExpressions.
        users: globs for the user's name.
        groups: globs; one of the user's groups must match one of them.
        name: the policy's name; by default the function's name.
        timeout: the time limit in seconds, at most 30.
        on_error: ``deny`` (the default) or ``allow``: the result if the policy fails.
        isolation: whether to run the policy in its own process, which is killed if it exceeds its time or memory.
        side_effects: ``none`` (the default), ``none_on_dry_run`` or ``some``: whether a call changes something else.
            Webhook configurations declare it to API servers.

    Raises:
        ConfigurationError: an argument or the function's signature is invalid.
    """
    match = _build_admission_match(resources, operations, namespaces, names, labels, users, groups)
    return _make_decorator("validating", match, PolicyOptions(name, timeout, on_error, isolation, side_effects))


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
    """Decorate a function that changes objects before they are stored, or denies the request.

    The function must be idempotent: API servers may call it again after another webhook changed the object. The
    arguments and errors are those of `validating`.
    """
    match = _build_admission_match(resources, operations, namespaces, names, labels, users, groups)
    return _make_decorator("mutating", match, PolicyOptions(name, timeout, on_error, isolation, side_effects))


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
    """Decorate a function that authorizes requests.

    Args:
        resources: resource rules as for `validating`.
        verbs: globs for the verb, such as ``get`` or ``delete*``; None, here and below, matches everything.
        paths: globs for the path of a request that is not for a resource, such as ``/metrics``.
        namespaces: globs for the namespace.
        names: globs for the object's name.
        users: globs for the user's name.
        groups: globs; one of the user's groups must match one of them.
        name: the policy's name; by default the function's name.
        timeout: the time limit in seconds, at most 30.
        on_error: the result if the policy fails: ``deny``, or ``allow``, which means no opinion. By default the API
            server gets an error response, which it does not cache and retries.
        isolation: whether to run the policy in its own process, which is killed if it exceeds its time or memory.

    Raises:
        ConfigurationError: an argument or the function's signature is invalid.
    """
    match = AccessMatch(
        parse_rules(resources if paths else _check_resources(resources)),
        Globs(paths),
        _parse_globs(verbs),
        _parse_globs(namespaces),
        _parse_globs(names),
        _parse_globs(users),
        _parse_globs(groups),
    )
    return _make_decorator("authorizing", match, PolicyOptions(name, timeout, on_error, isolation))


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
    """Decorate a function that authenticates bearer tokens. Works with or without parentheses.

    Args:
        function: the function, if the decorator is used without parentheses.
        name: the policy's name; by default the function's name.
        timeout: the time limit in seconds, at most 30.
        on_error: ``deny``: if the policy fails, the token is invalid. By default the API server gets an error
            response, which it does not cache and retries.
        isolation: whether to run the policy in its own process, which is killed if it exceeds its time or memory.

    Raises:
        ConfigurationError: an argument or the function's signature is invalid.
    """
    decorate = _make_decorator("authenticating", AnyMatch(), PolicyOptions(name, timeout, on_error, isolation))
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
    """Decorate a function that allows or denies the images of a pod. Works with or without parentheses.

    Args:
        function: the function, if the decorator is used without parentheses.
        namespaces: globs for the namespace; None matches everything.
        name: the policy's name; by default the function's name.
        timeout: the time limit in seconds, at most 30.
        on_error: ``deny`` (the default) or ``allow``: the result if the policy fails.
        isolation: whether to run the policy in its own process, which is killed if it exceeds its time or memory.

    Raises:
        ConfigurationError: an argument or the function's signature is invalid.
    """
    match = ImageMatch(_parse_globs(namespaces))
    decorate = _make_decorator("image_policy", match, PolicyOptions(name, timeout, on_error, isolation))
    return decorate if function is None else decorate(function)
