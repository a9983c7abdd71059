"""What a configuration says of a policy: where it is, what it is told, and what is made of its answers."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from webhooks.config.validation import Model, duration, field_error, one_of
from webhooks.errors import ConfigurationError
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.kube.label_selectors import Selector
from webhooks.kube.resource_rules import Rule
from webhooks.objects.image_references import ImageReference
from webhooks.reviews.admission import OPERATIONS


def _rule(text: str) -> str:
    try:
        Rule.parse(text)
    except ConfigurationError as error:
        raise field_error("Invalid value", str(error), "") from None
    return text


def _selector(selector: dict[str, Any]) -> dict[str, Any]:
    try:
        Selector.parse(selector)
    except ConfigurationError as error:
        raise field_error("Invalid value", str(error), "") from None
    return selector


def _pattern(text: str) -> str:
    try:
        ImageReference.parse("a").matches(text)
    except ValueError as error:
        raise field_error("Invalid value", str(error), "") from None
    return text


def _moment(text: Any) -> float:
    """The seconds since 1970 of a date, which is its beginning in UTC, or of a date and time with an offset."""
    try:
        if _DAY.fullmatch(text):
            return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC).timestamp()
    except (OverflowError, TypeError, ValueError):
        raise field_error("Invalid value", "must be a date such as 2027-01-31, or 2027-01-31T12:00:00Z") from None
    raise field_error("Invalid value", "a time needs its offset, such as Z")


def _line(text: str) -> str:
    """A text as one line, without what disturbs terminals and headers."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_Globs = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
_Moment = Annotated[
    float,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "examples": ["2027-01-31", "2027-01-31T12:00:00Z"]}),
]


class MatchOverride(Model):
    """Which of the reviews that a policy asks for it is to see: those that fit all of what is given."""

    resources: Annotated[
        tuple[Annotated[str, AfterValidator(_rule)], ...] | None,
        Field(min_length=1, description="[GROUP/][VERSION/]RESOURCE[/SUBRESOURCE], such as pods or apps/deployments."),
    ] = None
    operations: Annotated[
        tuple[Annotated[str, one_of((*OPERATIONS, "*"))], ...] | None,
        Field(min_length=1, description="Some of CREATE, UPDATE, DELETE, CONNECT, or *."),
    ] = None
    verbs: Annotated[_Globs | None, Field(description="Of access reviews.")] = None
    paths: Annotated[_Globs | None, Field(description="Of access reviews that are about no resource.")] = None
    namespaces: Annotated[_Globs | None, Field(description="Names or patterns (*, ?).")] = None
    exclude_namespaces: Annotated[_Globs | None, Field(description="Of those, not these.")] = None
    names: Annotated[_Globs | None, Field(description="Of the objects.")] = None
    object_selector: Annotated[
        dict[str, Any] | None, AfterValidator(_selector), Field(description="matchLabels and matchExpressions.")
    ] = None
    users: Annotated[_Globs | None, Field(description="Who ask.")] = None
    groups: Annotated[_Globs | None, Field(description="One of which the user is in.")] = None


class ExemptionEntry(Model):
    """What a policy is not asked about: what fits all that is given."""

    namespaces: Annotated[_Globs | None, Field(description="Names or patterns (*, ?).")] = None
    names: Annotated[_Globs | None, Field(description="Of the objects.")] = None
    users: Annotated[_Globs | None, Field(description="Who ask.")] = None
    images: Annotated[
        tuple[Annotated[str, AfterValidator(_pattern)], ...] | None,
        Field(min_length=1, description="One of which fits each image: a reference, or with a final * its beginning."),
    ] = None
    reason: Annotated[
        str,
        AfterValidator(_line),
        Field(min_length=1, max_length=256, description="Why; it stands in the audit record."),
    ]
    expires: Annotated[_Moment | None, Field(description="When it ends; a date is its beginning, in UTC.")] = None

    @model_validator(mode="after")
    def _check(self) -> "ExemptionEntry":
        if not (self.namespaces or self.names or self.users or self.images):
            raise field_error("Required value", "at least one of namespaces, names, users, images")
        return self


class PolicyEntry(Model):
    """A policy, or several of one file or folder."""

    use: Annotated[
        str,
        Field(
            min_length=1,
            description="A file or folder, FILE.py:POLICY, library:NAME (bundled), or package.module:POLICY.",
        ),
    ]
    name: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$",
            description="A name of its own, so that a policy can be there twice.",
        ),
    ] = None
    parameters: Annotated[dict[str, Any], Field(default_factory=dict, description="What the policy takes by keyword.")]
    match: Annotated[MatchOverride | None, Field(description="Narrows what the policy asked for.")] = None
    mode: Annotated[
        Literal["enforce", "warn", "audit"],
        Field(description="What a denial comes to: a denial, a warning, or an annotation of the audit record."),
    ] = "enforce"
    on_error: Annotated[
        Literal["deny", "allow"] | None, Field(description="What a failure of the policy counts as.")
    ] = None
    timeout: Annotated[
        Annotated[float, *duration(0.001, MAX_TIMEOUT)] | None, Field(description="How long it may take, such as 2s.")
    ] = None
    isolation: Annotated[
        bool | None, Field(description="Whether it runs in a process of its own, which can be killed.")
    ] = None
    exemptions: Annotated[tuple[ExemptionEntry, ...], Field(description="What it is not asked about.")] = ()
