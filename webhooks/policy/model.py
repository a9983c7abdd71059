"""What a policy is: a value. Nothing registers it, one can call it."""

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

import msgspec

from webhooks.errors import ConfigurationError
from webhooks.policy.exemptions import Exemption
from webhooks.policy.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch
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


# What lies between an author and `Origin.from_stack`.
_BETWEEN = frozenset(("webhooks.policy.decorators", __name__))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a policy was written: a file and a line in it.

    Attributes:
        path: the file.
        line: in it.
        module_file: the file whose execution made it, perhaps another.
        name: the policy's name there.
    """

    path: str
    line: int
    module_file: str
    name: str

    @classmethod
    def from_stack(cls, name: str) -> "Origin":
        """Where the author stands who called us for a policy of a name: the nearest place outside of our modules."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
            frame = frame.f_back
        assert frame is not None
        module_file: FrameType | None = frame
        while module_file is not None and module_file.f_code.co_name != "<module>":
            module_file = module_file.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno, (module_file or frame).f_code.co_filename, name)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Policy(Generic[R, O]):
    """A policy: a function, the reviews it matches, and what its parameters are set to.

    Calling it calls the function, with parameters of the call before those that are set.

    Attributes:
        name: unique among the policies of a server; it stands in paths, metrics and logs.
        kind: the decorator that made it.
        function: the author's function.
        match: which reviews it matches.
        timeout: seconds it may take; None for as long as the caller waits.
        on_error: what a failure of the policy counts as; None for the protocol's own rule, which never approves.
        isolation: whether it runs in a process of its own, which can be killed.
        side_effects: what it changes beside its answer: nothing, nothing on dry runs, or something on those too.
        parameters: those that are set, checked.
        derived_from: the policy that it was made of, by `bind` or `with_name`.
        origin: where it was written.
        operator_parameters: those of the parameters that the operator has set, as plain data.
        operator_match: which of the reviews that it matches the operator matches it to see; None for all.
        mode: what a denial of it comes to.
        exemptions: what it is not asked about.
        is_unconditional: whether `matches` holds for every review of the kinds that it matches.
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
        created = _created.get()
        if created is not None:
            created.append(self)

    def __call__(self, review: R, **parameters: Any) -> Any:
        """Call the author's function."""
        return self.function(review, **{**self.parameters, **parameters})

    @property
    def dns_name(self) -> str:
        """Its name as API servers take it in paths and in names of webhooks, where no underscore may be (RFC 1123)."""
        return self.name.lower().replace("_", "-")

    def matches_resource(self, review: Any) -> bool:
        """Whether it is to see reviews of this kind: as its author asked, and its operator narrowed that."""
        return self.match.matches_resource(review) and (
            self.operator_match is None or self.operator_match.matches_resource(review)
        )

    def matches(self, review: Any) -> bool:
        """Whether, of those, it is to see this one too.

        Raises:
            MalformedReview: what has to be asked cannot be read.
        """
        return self.match.matches(review) and (self.operator_match is None or self.operator_match.matches(review))

    def bind(self, **parameters: Any) -> "Policy[R, O]":
        """The same policy with some of its parameters set.

        Raises:
            ConfigurationError: there is no such parameter, or the value has the wrong type.
        """
        checked = {name: self._check(name, value) for name, value in parameters.items()}
        return replace(
            self, parameters={**self.parameters, **checked}, origin=Origin.from_stack(self.name), derived_from=self
        )

    def with_name(self, name: str) -> "Policy[R, O]":
        """The same policy under another name, so that one server can run it twice."""
        return replace(self, name=check_name(name), origin=Origin.from_stack(name), derived_from=self)

    def check_parameters(self) -> None:
        """Check that every parameter is set or has a default of the right type.

        Raises:
            ConfigurationError: one is not set, or has not the right type.
        """
        for name in self.missing_parameters:
            raise ConfigurationError(
                f"policy {self.name!r} needs its parameter {name!r} to be set: "
                f"{self.function.__name__}.bind({name}=...); a name that begins with _ is not served"
            )
        for name, parameter in _keyword_parameters(self.function).items():
            if name not in self.parameters:
                self._check(name, parameter.default)

    @property
    def parameter_names(self) -> list[str]:
        """The names of its parameters."""
        return list(_keyword_parameters(self.function))

    @property
    def missing_parameters(self) -> list[str]:
        """Those parameters that are not set and have no default."""
        keywords = _keyword_parameters(self.function).items()
        return [name for name, each in keywords if name not in self.parameters and each.default is each.empty]

    def convert_parameter(self, name: str, value: Any) -> Any:
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
            return self.convert_parameter(name, value)
        except ValueError as error:
            raise ConfigurationError(f"policy {self.name!r}, parameter {name!r}: {error}") from None


AnyPolicy: TypeAlias = Policy[Any, Any]


def _keyword_parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: each for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}


def check_name(name: object) -> str:
    """A name, which can be a policy's.

    Raises:
        ConfigurationError: it cannot.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is no name for a policy: letters, digits, '_', '-', and '.' behind one of those"
        )
    return name


_created: ContextVar[list[Any] | None] = ContextVar("created", default=None)


@contextmanager
def collect_policies() -> Iterator[list[Any]]:
    """Every policy that is made meanwhile, so that whoever loads a file sees those that no name holds any more."""
    created: list[Any] = []
    token = _created.set(created)
    try:
        yield created
    finally:
        _created.reset(token)
