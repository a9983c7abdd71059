"""Cases: what is to become of which reviews, as YAML beside a policy or a configuration."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from webhooks.config import file as configured
from webhooks.config import policies as entries
from webhooks.config import strict_yaml
from webhooks.config.strict_yaml import Document
from webhooks.config.validation import FieldError, FieldPath, Model, field_error, format_value, supported_values
from webhooks.errors import ConfigurationError
from webhooks.policy import loader
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.kinds import CODECS
from webhooks.testing.assertions import described, difference, same
from webhooks.testing.builders import admission
from webhooks.testing.server import Result, Server

_REVIEWS = {kind: codec.kind for kind, codec in CODECS.items()}
_ADMITTING = ("object", "old", "operation", "user", "groups")
_FITTING: Mapping[str, frozenset[str]] = {
    "message": frozenset(("allowed", "denied", "no opinion")),
    "code": frozenset(("denied",)),
    "reason": frozenset(("denied",)),
    "patch": frozenset(("patched",)),
    "object": frozenset(("patched",)),
    "user": frozenset(("allowed",)),
}


class Expectation(Model):
    """What is to become of a review; what is not said may be anything."""

    outcome: Literal["allowed", "denied", "patched", "no opinion"]
    message: str | None = None
    code: int | None = None
    reason: str | None = None
    patch: list[dict[str, Any]] | None = None
    object: dict[str, Any] | None = None
    user: dict[str, Any] | None = None
    warnings: list[str] | None = None
    audit: dict[str, str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        return {"outcome": value} if isinstance(value, str) else value

    @field_validator("message", "code", "reason", "patch", "object", "user")
    @classmethod
    def _check(cls, value: Any, info: ValidationInfo) -> Any:
        outcome = info.data.get("outcome")
        if outcome is not None and outcome not in _FITTING[str(info.field_name)]:
            raise field_error("Forbidden", f"does not go with {outcome}")
        return value


class Case(Model):
    """A review, and what is to become of it."""

    name: Annotated[str, Field(min_length=1)]
    expect: Expectation
    request: dict[str, Any] | None = None
    object: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"] | None = None
    user: str | None = None
    groups: list[str] | None = None
    parameters: Annotated[dict[str, Any], Field(default_factory=dict)]

    @model_validator(mode="after")
    def _check(self) -> "Case":
        beside = [name for name in _ADMITTING if getattr(self, name) is not None]
        if self.request is not None and beside:
            raise field_error(
                "Forbidden", f"a request is a whole review, which holds what {', '.join(beside)} would say"
            )
        if self.request is None and self.object is None and self.old is None:
            raise field_error("Required value", "an object, an old one, or a request")
        return self


class _Cases(Model):
    api_version: Literal["webhooks.svc.io/v1alpha1"]
    kind: Literal["PolicyCases"]
    configuration: Annotated[str, Field(min_length=1)] | None = None
    cases: Annotated[list[Case], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Placed:
    """A case, where it stands, and the policies that it is about."""

    case: Case
    file: Path
    line: int
    policies: Sequence[AnyPolicy]

    def run(self) -> None:
        """Answer the review, and compare.

        Raises:
            AssertionError: something else became of it than was to.
        """
        with Server(*self.policies) as server:
            result = server.review(self._review())
        expected = self.case.expect.model_dump(include=self.case.expect.model_fields_set)
        if not all(_same(name, wanted, result) for name, wanted in expected.items()):
            raise AssertionError(f"{_difference(expected, result)}\n\n{described(result)}")

    def _review(self) -> Any:
        case = self.case
        if case.request is not None:
            return {"kind": _REVIEWS[self.policies[0].kind], **case.request}
        operation = "DELETE" if case.object is None else "CREATE" if case.old is None else "UPDATE"
        who: dict[str, Any] = case.model_dump(include={"user", "groups"}, exclude_none=True)
        return admission(case.operation or operation, case.object, old_object=case.old, **who)


def read(file: Path, policy: Path | None) -> list[Placed]:
    """Read a file of cases.

    Args:
        file: the file.
        policy: the file of the policies that they are about, unless they name a configuration; None for none.

    Raises:
        ConfigurationError: with all that is wrong with the file, a line each; or the policies do not load.
    """
    document = strict_yaml.read(Path(os.path.relpath(file)))
    told = document.read(_Cases)
    cases, policies = told.cases, _policies(document, told.configuration, policy)
    findings = [*_repeated(cases), *_unknown_kinds(cases, policies)]
    placed = []
    for number, case in enumerate(cases):
        path = ("cases", number)
        before = len(findings)
        bound = _bound(policies, case, path, findings)
        if len(findings) == before:
            findings += _unset(bound, path)
        placed.append(Placed(case, document.file, document.place(path).line, bound))
    if findings:
        raise document.error(findings)
    return placed


def _policies(document: Document, configuration: str | None, policy: Path | None) -> list[AnyPolicy]:
    """The policies that cases are about.

    Raises:
        ConfigurationError: there are none, or they do not load.
    """
    if configuration is not None:
        file = Path(os.path.normpath(document.file.parent / configuration))
        if not file.is_file():
            raise document.error(
                [FieldError(("configuration",), "Invalid value", "no such file", format_value(configuration))]
            )
        policies = configured.read(file).load()
        if not policies:
            raise document.error(
                [FieldError(("configuration",), "Invalid value", "no policies are in it", format_value(configuration))]
            )
        return policies
    if policy is None:
        detail = "the policy is to stand beside it or in the folder above, or a configuration is to be named"
        raise document.error([FieldError(("configuration",), "Required value", detail)])
    return loader.load_file(policy)


def _repeated(cases: Sequence[Case]) -> Iterator[FieldError]:
    names: set[str] = set()
    for number, case in enumerate(cases):
        if case.name in names:
            yield FieldError(("cases", number, "name"), "Duplicate value", value=format_value(case.name))
        names.add(case.name)


def _unknown_kinds(cases: Sequence[Case], policies: Sequence[AnyPolicy]) -> Iterator[FieldError]:
    """The requests that do not say what they are where that can be several things, or say what is nothing known."""
    possible = sorted({_REVIEWS[policy.kind] for policy in policies})
    for number, case in enumerate(cases):
        path, kind = ("cases", number, "request", "kind"), (case.request or {}).get("kind", possible[0])
        if case.request is not None and "kind" not in case.request and len(possible) > 1:
            yield FieldError(path, "Required value", f"one of {', '.join(possible)}")
        elif kind not in _REVIEWS.values():
            yield FieldError(
                path, "Unsupported value", supported_values(sorted(set(_REVIEWS.values()))), format_value(kind)
            )


def _bound(policies: Sequence[AnyPolicy], case: Case, path: FieldPath, findings: list[FieldError]) -> list[AnyPolicy]:
    """The policies with the case's parameters, each set where a policy has it; what is wrong is added to findings."""
    unknown = set(case.parameters)
    bound = []
    for policy in policies:
        for given, value in case.parameters.items():
            name = entries.parameter(policy, given)
            if name is None:
                continue
            unknown.discard(given)
            try:
                policy = entries.with_parameter(policy, name, value)
            except ValueError as error:
                detail = f"policy {policy.name!r}: {error}"
                findings.append(FieldError((*path, "parameters", given), "Invalid value", detail, format_value(value)))
        bound.append(policy)
    findings += [FieldError((*path, "parameters", name), "Forbidden", "no policy has it") for name in sorted(unknown)]
    return bound


def _unset(policies: Sequence[AnyPolicy], path: FieldPath) -> Iterator[FieldError]:
    for policy in policies:
        try:
            policy.check_parameters()
        except ConfigurationError as error:
            yield FieldError(path, "Required value", str(error))


def _same(name: str, wanted: Any, result: Result) -> bool:
    got = getattr(result, name)
    return wanted in got if name == "message" else same(wanted, got)


def _difference(expected: Mapping[str, Any], result: Result) -> str:
    got = {name: wanted if _same(name, wanted, result) else getattr(result, name) for name, wanted in expected.items()}
    return difference(expected, got)
