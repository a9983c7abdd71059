"""What a policy is: a value. Nothing registers it, one can call it."""

import functools
import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from webhooks.errors import ConfigurationError
from webhooks.policy.exemptions import Exemption
from webhooks.policy.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch
from webhooks.policy.origins import Origin
from webhooks.reviews import admission, authentication, authorization, images
from webhooks.reviews.outcomes import Allow, Authenticated, Deny, NoOpinion, Outcome, Patch, Replace, Unauthenticated

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

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")

R = TypeVar("R")
O = TypeVar("O")  # noqa: E741

Match: TypeAlias = AdmissionMatch | AccessMatch | ImageMatch | AnyMatch


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
        return replace(self, parameters={**self.parameters, **checked}, origin=Origin.of_author(self.name), base=self)

    def named(self, name: str) -> "Policy[R, O]":
        """The same policy under another name, so that one server can run it twice."""
        return replace(self, name=checked_name(name), origin=Origin.of_author(name), base=self)

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
