"""Policies as values: callable, immutable, and in no global registry."""

import functools
import inspect
import re
import sys
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from webhooks.errors import ConfigurationError
from webhooks.policy.exemptions import Exemption
from webhooks.policy.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch
from webhooks.policy.parameters import convert
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import Allow, Authenticated, Deny, NoOpinion, Outcome, Patch, Replace, Unauthenticated

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

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")

R = TypeVar("R")
O = TypeVar("O")  # noqa: E741

Match: TypeAlias = AdmissionMatch | AccessMatch | ImageMatch | AnyMatch


# Modules between the author's code and `Origin.from_stack`.
_OWN_MODULES = frozenset(("webhooks.policy.decorators", __name__))


@dataclass(frozen=True, slots=True)
class Origin:
    """The place where a policy is defined, for messages to its author.

    Attributes:
        path: the file.
        line: the line in that file.
        module_file: the file whose execution created the policy; differs from `path` if a function elsewhere made it.
        name: the name of the policy at that place.
    """

    path: str
    line: int
    module_file: str
    name: str

    @classmethod
    def from_stack(cls, name: str) -> "Origin":
        """Return the nearest place on the call stack outside of this package's policy modules."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_globals.get("__name__") in _OWN_MODULES:
            frame = frame.f_back
        assert frame is not None
        module: FrameType | None = frame
        while module is not None and module.f_code.co_name != "<module>":
            module = module.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno, (module or frame).f_code.co_filename, name)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Policy(Generic[R, O]):
    """A function, the reviews it decides on, and the values of its parameters.

    A call of the policy calls the function; parameters of the call override those that are set.

    The first group of attributes is set by the author, the second one by the operator, the third one is derived.

    Attributes:
        name: unique in a server; part of paths, metrics and logs.
        kind: the name of the decorator.
        function: the author's function.
        match: the reviews that the author wants it to decide on.
        timeout: its time limit in seconds; None for the client's.
        on_error: whether a failure denies or allows; None for the default of the protocol, which never allows.
        origin: the place where it is defined.
        isolation: whether it runs in its own process, which can be killed.
        side_effects: whether a call changes something else: never, only if it is not a dry run, or always.
        parameters: the values of parameters, checked.
        derived_from: the policy from which `bind` or `with_name` made this one.

        operator_parameters: the parameters that the operator set, as plain data.
        operator_match: the reviews to which the operator restricts `match`; None for no restriction.
        mode: whether a denial is enforced, or only reported as a warning or in the audit log.
        exemptions: the reviews that the operator exempts.

        call: the function with its parameters set.
        is_async: whether the function is a coroutine function.
        is_unconditional: whether every review that passes `matches_resource` also passes `matches`.
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
    derived_from: "Policy[R, O] | None" = field(default=None, repr=False)
    operator_parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    operator_match: Match | None = field(default=None, repr=False)
    mode: Mode = "enforce"
    exemptions: tuple[Exemption, ...] = field(default=(), repr=False)
    call: Callable[[R], O | Awaitable[O]] = field(init=False, repr=False)
    is_async: bool = field(init=False)
    is_unconditional: bool = field(init=False)

    def __post_init__(self) -> None:
        call = functools.partial(self.function, **self.parameters) if self.parameters else self.function
        object.__setattr__(self, "call", call)
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))
        matches = (self.match,) if self.operator_match is None else (self.match, self.operator_match)
        object.__setattr__(self, "is_unconditional", all(match.is_unconditional for match in matches))
        collected = _collected.get()
        if collected is not None:
            collected.append(self)

    def __call__(self, review: R, **parameters: Any) -> Any:
        """Call the author's function."""
        return self.function(review, **{**self.parameters, **parameters})

    @property
    def dns_name(self) -> str:
        """The name as a DNS label for paths and names of webhooks (RFC 1123): lower case, without underscores."""
        return self.name.lower().replace("_", "-")

    def matches_resource(self, review: Any) -> bool:
        """Check whether the resource and the operation of a review match, for the author and the operator."""
        return self.match.matches_resource(review) and (
            self.operator_match is None or self.operator_match.matches_resource(review)
        )

    def matches(self, review: Any) -> bool:
        """Check the other conditions for a review that passed `matches_resource`.

        Raises:
            MalformedReview: a field that a condition needs cannot be read.
        """
        return self.match.matches(review) and (self.operator_match is None or self.operator_match.matches(review))

    def bind(self, **parameters: Any) -> "Policy[R, O]":
        """Return a copy with these parameters set.

        Raises:
            ConfigurationError: a parameter does not exist, or its value has the wrong type.
        """
        converted = {name: self._convert(name, value) for name, value in parameters.items()}
        origin = Origin.from_stack(self.name)
        return replace(self, parameters={**self.parameters, **converted}, origin=origin, derived_from=self)

    def with_name(self, name: str) -> "Policy[R, O]":
        """Return a copy with another name, so that one server can run the policy twice.

        Raises:
            ConfigurationError: the name is invalid.
        """
        return replace(self, name=check_name(name), origin=Origin.from_stack(name), derived_from=self)

    def check_parameters(self) -> None:
        """Check that every parameter is set, or has a default of the right type.

        Raises:
            ConfigurationError: a parameter is not set, or its default has the wrong type.
        """
        for name in self.missing_parameters:
            raise ConfigurationError(
                f"policy {self.name!r}: required parameter {name!r} is not set: use {self.function.__name__}.bind"
                f"({name}=...), or a name that starts with _ for a policy that is not to be served"
            )
        for name, parameter in _keyword_parameters(self.function).items():
            if name not in self.parameters:
                self._convert(name, parameter.default)

    @property
    def parameter_names(self) -> list[str]:
        """The names of all parameters."""
        return list(_keyword_parameters(self.function))

    @property
    def missing_parameters(self) -> list[str]:
        """The names of the parameters that are not set and have no default."""
        return [
            name
            for name, parameter in _keyword_parameters(self.function).items()
            if name not in self.parameters and parameter.default is parameter.empty
        ]

    def convert_parameter(self, name: str, value: Any) -> Any:
        """Convert a value to the annotated type of a parameter.

        Raises:
            ValueError: the value has the wrong type.
        """
        try:
            type_ = typing.get_type_hints(self.function).get(name, Any)
        except (NameError, TypeError) as error:
            raise ValueError(str(error)) from None
        return convert(value, type_)

    def _convert(self, name: str, value: Any) -> Any:
        if name not in self.parameter_names:
            names = ", ".join(self.parameter_names) or "none"
            raise ConfigurationError(f"policy {self.name!r} has no parameter {name!r}; its parameters: {names}")
        try:
            return self.convert_parameter(name, value)
        except ValueError as error:
            raise ConfigurationError(f"policy {self.name!r}, parameter {name!r}: {error}") from None


AnyPolicy: TypeAlias = Policy[Any, Any]


def _keyword_parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}


def check_name(name: object) -> str:
    """Return the name of a policy, if it is valid.

    Raises:
        ConfigurationError: it is not.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"invalid policy name {name!r}: use letters, digits, '_', '-' and '.', and do not start with '.'"
        )
    return name


_collected: ContextVar[list[Any] | None] = ContextVar("collected", default=None)


@contextmanager
def collect_policies() -> Iterator[list[Any]]:
    """Collect every policy that is created within the block, also those that no variable refers to afterwards."""
    collected: list[Any] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)
