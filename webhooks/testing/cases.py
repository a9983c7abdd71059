"""Test cases in YAML files: reviews of the policies of a file or of a configuration, with their expected results."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from webhooks.config import file as config_file
from webhooks.config import policies as config_policies
from webhooks.config import strict_yaml
from webhooks.config.document import Document
from webhooks.config.validation import FieldError, FieldPath, Model, field_error, format_value, supported_values
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load_file
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.kinds import CODECS
from webhooks.testing.assertions import describe, diff_yaml, is_same_json
from webhooks.testing.builders import admission
from webhooks.testing.server import Result, Server

_REVIEW_KINDS = {kind: codec.kind for kind, codec in CODECS.items()}
_ADMISSION_FIELDS = ("object", "old", "operation", "user", "groups")
# The outcomes for which each field of an expectation makes sense.
_OUTCOMES_OF_FIELD: Mapping[str, frozenset[str]] = {
    "message": frozenset(("allowed", "denied", "no opinion")),
    "code": frozenset(("denied",)),
    "reason": frozenset(("denied",)),
    "patch": frozenset(("patched",)),
    "object": frozenset(("patched",)),
    "user": frozenset(("allowed",)),
}


class Expectation(Model):
    """The expected result of a review. Fields that are not set are not compared."""

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
    def _expand(cls, value: Any) -> Any:
        """Accept an outcome in place of an expectation."""
        return {"outcome": value} if isinstance(value, str) else value

    @field_validator("message", "code", "reason", "patch", "object", "user")
    @classmethod
    def _check_outcome(cls, value: Any, info: ValidationInfo) -> Any:
        outcome = info.data.get("outcome")
        if outcome is not None and outcome not in _OUTCOMES_OF_FIELD[str(info.field_name)]:
            raise field_error("Forbidden", f"cannot be combined with the outcome {outcome}")
        return value


class Case(Model):
    """A review and its expected result."""

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
    def _check_review(self) -> "Case":
        fields = [name for name in _ADMISSION_FIELDS if getattr(self, name) is not None]
        if self.request is not None and fields:
            raise field_error("Forbidden", f"request is a complete review: cannot be combined with {', '.join(fields)}")
        if self.request is None and self.object is None and self.old is None:
            raise field_error("Required value", "one of object, old and request")
        return self


class _Cases(Model):
    api_version: Literal["webhooks.svc.io/v1alpha1"]
    kind: Literal["PolicyCases"]
    configuration: Annotated[str, Field(min_length=1)] | None = None
    cases: Annotated[list[Case], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class BoundCase:
    """A case that can be run.

    Attributes:
        case: the case.
        file: the file of the case.
        line: the line of the case in the file.
        policies: the policies that it tests, with its parameters.
    """

    case: Case
    file: Path
    line: int
    policies: Sequence[AnyPolicy]

    def run(self) -> None:
        """Review the request of the case, and compare the result.

        Raises:
            AssertionError: the result is not the expected one.
        """
        with Server(*self.policies) as server:
            result = server.review(self._review())
        expected = self.case.expect.model_dump(include=self.case.expect.model_fields_set)
        if not all(_matches(name, value, result) for name, value in expected.items()):
            raise AssertionError(f"{_format_diff(expected, result)}\n\n{describe(result)}")

    def _review(self) -> Any:
        case = self.case
        if case.request is not None:
            return {"kind": _REVIEW_KINDS[self.policies[0].kind], **case.request}
        operation = "DELETE" if case.object is None else "CREATE" if case.old is None else "UPDATE"
        user: dict[str, Any] = case.model_dump(include={"user", "groups"}, exclude_none=True)
        return admission(case.operation or operation, case.object, old_object=case.old, **user)


def load_cases(file: Path, policy_file: Path | None) -> list[BoundCase]:
    """Load the cases in a file.

    Args:
        file: the file of the cases.
        policy_file: the file of the policies, for cases without a configuration; None if it does not exist.

    Raises:
        ConfigurationError: the file is invalid (with all errors, one line each), or policies cannot be loaded.
    """
    document = strict_yaml.read(Path(os.path.relpath(file)))
    content = document.read(_Cases)
    cases, policies = content.cases, _load_policies(document, content.configuration, policy_file)
    errors = [*_check_names(cases), *_check_kinds(cases, policies)]
    bound_cases = []
    for number, case in enumerate(cases):
        path = ("cases", number)
        bound_policies, parameter_errors = _set_parameters(policies, case, path)
        errors += parameter_errors or _check_required_parameters(bound_policies, path)
        bound_cases.append(BoundCase(case, document.file, document.place(path).line, bound_policies))
    if errors:
        raise document.error(errors)
    return bound_cases


def _load_policies(document: Document, configuration: str | None, policy_file: Path | None) -> list[AnyPolicy]:
    """Load the policies of a configuration or of a policy file.

    Raises:
        ConfigurationError: policies are missing or cannot be loaded.
    """
    if configuration is None and policy_file is not None:
        return load_file(policy_file)
    path: FieldPath = ("configuration",)
    if configuration is None:
        detail = "there is no policy file of that name in this folder or its parent: add one, or set a configuration"
        raise document.error([FieldError(path, "Required value", detail)])
    file = Path(os.path.normpath(document.file.parent / configuration))
    if not file.is_file():
        raise document.error([FieldError(path, "Invalid value", "no such file", format_value(configuration))])
    policies = config_file.read(file).load()
    if not policies:
        raise document.error([FieldError(path, "Invalid value", "contains no policies", format_value(configuration))])
    return policies


def _check_names(cases: Sequence[Case]) -> Iterator[FieldError]:
    names: set[str] = set()
    for number, case in enumerate(cases):
        if case.name in names:
            yield FieldError(("cases", number, "name"), "Duplicate value", value=format_value(case.name))
        names.add(case.name)


def _check_kinds(cases: Sequence[Case], policies: Sequence[AnyPolicy]) -> Iterator[FieldError]:
    """Check the kinds of requests. A kind may be omitted only if all policies review the same one."""
    kinds = sorted({_REVIEW_KINDS[policy.kind] for policy in policies})
    known_kinds = sorted(set(_REVIEW_KINDS.values()))
    for number, case in enumerate(cases):
        path, kind = ("cases", number, "request", "kind"), (case.request or {}).get("kind", kinds[0])
        if case.request is not None and "kind" not in case.request and len(kinds) > 1:
            yield FieldError(path, "Required value", f"one of {', '.join(kinds)}")
        elif kind not in known_kinds:
            yield FieldError(path, "Unsupported value", supported_values(known_kinds), format_value(kind))


def _set_parameters(
    policies: Sequence[AnyPolicy], case: Case, path: FieldPath
) -> tuple[list[AnyPolicy], list[FieldError]]:
    """Set the parameters of a case in each policy that has them."""
    unknown = set(case.parameters)
    bound_policies, errors = [], []
    for policy in policies:
        for alias, value in case.parameters.items():
            name = config_policies.find_parameter(policy, alias)
            if name is None:
                continue
            unknown.discard(alias)
            try:
                policy = config_policies.set_parameter(policy, name, value)
            except ValueError as error:
                detail = f"policy {policy.name!r}: {error}"
                errors.append(FieldError((*path, "parameters", alias), "Invalid value", detail, format_value(value)))
        bound_policies.append(policy)
    errors += [
        FieldError((*path, "parameters", name), "Forbidden", "no policy has this parameter") for name in sorted(unknown)
    ]
    return bound_policies, errors


def _check_required_parameters(policies: Sequence[AnyPolicy], path: FieldPath) -> Iterator[FieldError]:
    for policy in policies:
        try:
            policy.check_parameters()
        except ConfigurationError as error:
            yield FieldError(path, "Required value", str(error))


def _matches(name: str, expected: Any, result: Result) -> bool:
    actual = getattr(result, name)
    return expected in actual if name == "message" else is_same_json(expected, actual)


def _format_diff(expected: Mapping[str, Any], result: Result) -> str:
    """Return the difference between the expected and the actual fields. Fields that match are shown as expected."""
    actual = {
        name: value if _matches(name, value, result) else getattr(result, name) for name, value in expected.items()
    }
    return diff_yaml(expected, actual)
