"""The fields of a configuration file, as pydantic models."""

import re
import typing
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    model_validator,
)

from webhooks.config.validation import Model, duration, field_error, one_of
from webhooks.errors import ConfigurationError
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.kube.label_selectors import Selector
from webhooks.kube.resource_rules import Rule
from webhooks.objects.image_references import ImageReference
from webhooks.policy.model import check_name
from webhooks.reviews.admission import OPERATIONS
from webhooks.settings import Limits, Option, Settings, options, without_none

OPTIONS_ONLY = ("config", "policies")  # settings that are not fields of `server`

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def _check_rule(text: str) -> str:
    try:
        Rule.parse(text)
    except ConfigurationError as error:
        raise field_error("Invalid value", str(error), "") from None
    return text


def _check_name(name: str) -> str:
    try:
        return check_name(name)
    except ConfigurationError as error:
        raise field_error("Invalid value", str(error).partition(": ")[2]) from None


def _check_selector(selector: dict[str, Any]) -> dict[str, Any]:
    try:
        Selector.parse(selector)
    except ConfigurationError as error:
        raise field_error("Invalid value", str(error), "") from None
    return selector


def _check_image_pattern(text: str) -> str:
    try:
        ImageReference.parse("a").matches(text)
    except ValueError as error:
        raise field_error("Invalid value", str(error), "") from None
    return text


def _parse_time(text: Any) -> float:
    """Parse a date (midnight in UTC), or a date and time with an offset. Return seconds since 1970."""
    try:
        if _DATE.fullmatch(text):
            return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time.astimezone(UTC).timestamp()
    except (OverflowError, TypeError, ValueError):
        raise field_error("Invalid value", "must be a date such as 2027-01-31, or 2027-01-31T12:00:00Z") from None
    raise field_error("Invalid value", "a time must have an offset, such as Z")


def _to_line(text: str) -> str:
    """Return a text on one line, without characters that affect terminals or are invalid in headers."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


_Globs = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
_Time = Annotated[
    float,
    BeforeValidator(_parse_time),
    WithJsonSchema({"type": "string", "examples": ["2027-01-31", "2027-01-31T12:00:00Z"]}),
]


class MatchOverride(Model):
    """Restricts the reviews for which a policy runs. A review must match all fields."""

    resources: Annotated[
        tuple[Annotated[str, AfterValidator(_check_rule)], ...] | None,
        Field(min_length=1, description="[GROUP/][VERSION/]RESOURCE[/SUBRESOURCE], such as pods or apps/deployments."),
    ] = None
    operations: Annotated[
        tuple[Annotated[str, one_of((*OPERATIONS, "*"))], ...] | None,
        Field(min_length=1, description="CREATE, UPDATE, DELETE, CONNECT, or * for all."),
    ] = None
    verbs: Annotated[_Globs | None, Field(description="Verbs of access reviews.")] = None
    paths: Annotated[_Globs | None, Field(description="Paths of access reviews that are not about a resource.")] = None
    namespaces: Annotated[_Globs | None, Field(description="Namespaces: names or patterns (*, ?).")] = None
    exclude_namespaces: Annotated[
        _Globs | None, Field(description="Namespaces to exclude, even if they match namespaces.")
    ] = None
    names: Annotated[_Globs | None, Field(description="Names of objects.")] = None
    object_selector: Annotated[
        dict[str, Any] | None,
        AfterValidator(_check_selector),
        Field(description="Labels of the object: matchLabels and matchExpressions."),
    ] = None
    users: Annotated[_Globs | None, Field(description="Users who make the request.")] = None
    groups: Annotated[_Globs | None, Field(description="Groups; the user must be in one of them.")] = None


class ExemptionEntry(Model):
    """Exempts reviews from a policy. A review must match all fields."""

    namespaces: Annotated[_Globs | None, Field(description="Namespaces: names or patterns (*, ?).")] = None
    names: Annotated[_Globs | None, Field(description="Names of objects.")] = None
    users: Annotated[_Globs | None, Field(description="Users who make the request.")] = None
    images: Annotated[
        tuple[Annotated[str, AfterValidator(_check_image_pattern)], ...] | None,
        Field(min_length=1, description="Images: references, or prefixes that end with *. Every image must match one."),
    ] = None
    reason: Annotated[
        str,
        AfterValidator(_to_line),
        Field(min_length=1, max_length=256, description="The reason, which is added to the audit record."),
    ]
    expires: Annotated[_Time | None, Field(description="When the exemption expires; a date means midnight in UTC.")] = (
        None
    )

    @model_validator(mode="after")
    def _check(self) -> "ExemptionEntry":
        if not (self.namespaces or self.names or self.users or self.images):
            raise field_error("Required value", "at least one of namespaces, names, users, images")
        return self


class PolicyEntry(Model):
    """A policy, or several policies of a file or folder."""

    _remedies: ClassVar[Mapping[str, str]] = {"library": "use: library:NAME"}
    use: Annotated[
        str,
        Field(
            min_length=1,
            description="A file, folder, FILE.py:POLICY, library:NAME for a bundled policy, or package.module:POLICY.",
        ),
    ]
    name: Annotated[
        Annotated[
            str,
            AfterValidator(_check_name),
            WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$"}),
        ]
        | None,
        Field(
            description="Another name, so that a policy can be listed more than once.",
        ),
    ] = None
    parameters: Annotated[
        dict[str, Any], Field(default_factory=dict, description="Keyword arguments of the policy's function.")
    ]
    match: Annotated[MatchOverride | None, Field(description="Restricts the reviews for which the policy runs.")] = None
    mode: Annotated[
        Literal["enforce", "warn", "audit"],
        Field(description="The effect of a denial: a denial, a warning, or an annotation of the audit record."),
    ] = "enforce"
    on_error: Annotated[
        Literal["deny", "allow"] | None, Field(description="The effect of a failure of the policy.")
    ] = None
    timeout: Annotated[
        Annotated[float, *duration(0.001, MAX_TIMEOUT)] | None,
        Field(description="The time limit of the policy, such as 2s."),
    ] = None
    isolation: Annotated[
        bool | None, Field(description="Whether the policy runs in its own process, which can be killed.")
    ] = None
    exemptions: Annotated[
        tuple[ExemptionEntry, ...], Field(description="Reviews for which the policy does not run.")
    ] = ()


def _resolve(path: Path, info: ValidationInfo) -> Path:
    """Resolve a path against the folder of the configuration file, which is the context of the validation."""
    return path if info.context is None else info.context / path


def _settings_model(name: str, settings: type, without: Collection[str] = (), **more: Any) -> type[Model]:
    """Make a model with a field for each setting of a dataclass."""
    hints = typing.get_type_hints(settings)
    fields: dict[str, Any] = {
        field.name: _model_field(hints[field.name], field.default, option)
        for field, option in options(settings)
        if field.name not in without
    }
    return create_model(name, __base__=Model, __doc__=settings.__doc__, **fields, **more)


def _model_field(hint: Any, default: Any, option: Option) -> tuple[Any, Any]:
    type_ = without_none(hint)
    is_optional = type_ is not hint
    if type_ is float:
        type_ = Annotated[float, *duration(option.min, option.max)]
    elif type_ is int:
        type_ = Annotated[int, Field(ge=option.min, le=option.max)]
    elif type_ is Path:
        type_ = Annotated[Path, AfterValidator(_resolve)]
    return (type_ | None if is_optional else type_), Field(default, description=option.help)


_Limits = _settings_model("Limits", Limits)
_Server = _settings_model(
    "Server", Settings, OPTIONS_ONLY, limits=(_Limits, Field(_Limits(), description="Limits of the server."))
)


class WebhookConfiguration(Model):
    """Settings of a server, and its policies."""

    api_version: Literal["webhooks.svc.io/v1alpha1"]
    kind: Literal["WebhookConfiguration"]
    server: Annotated[_Server, Field(description="Settings; options override them.")] = _Server()  # type: ignore[valid-type]
    policies: Annotated[tuple[PolicyEntry, ...], Field(description="Policies, in the order in which they run.")] = ()
