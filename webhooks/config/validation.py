"""Validates plain data against pydantic models. Errors are worded as those of the Kubernetes API server.

Example: ``limits[0].burst: Invalid value: 0: must be positive``. All errors are reported at once.
"""

import json
import re
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from webhooks.kube.durations import parse_duration

ErrorKind: TypeAlias = Literal[
    "Invalid value", "Required value", "Unsupported value", "Duplicate value", "Forbidden", "Too many"
]
FieldPath: TypeAlias = tuple[str | int, ...]

_MAX_VALUE = 64  # characters of a value or key in a message
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error in a field.

    Attributes:
        path: the path of the field: keys and indexes, from the root.
        kind: the kind of error, as the API server names it.
        detail: the valid values, or the remedy.
        value: the value, formatted by `format_value`; empty if it is irrelevant or secret.
    """

    path: FieldPath
    kind: ErrorKind
    detail: str = ""
    value: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (format_path(self.path), self.kind, self.value, self.detail) if part)


class Model(BaseModel):
    """Base class of models for configuration files. Types are strict, field names are in camel case."""

    _remedies: ClassVar[Mapping[str, str]] = {}  # what to write instead of fields that do not exist, by their names
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


M = TypeVar("M", bound=BaseModel)


def field_error(kind: ErrorKind, detail: str = "", value: str | None = None) -> PydanticCustomError:
    """Return an exception for a validator of a model to raise. It becomes a `FieldError`.

    Args:
        kind: the kind of error.
        detail: the valid values, or the remedy.
        value: the text to show instead of the value; empty to show none.
    """
    return PydanticCustomError(kind, "{detail}", {"detail": detail, "value": value})


def supported_values(values: Collection[str]) -> str:
    """Return the detail of an error of the kind "Unsupported value"."""
    return f"supported values: {', '.join(map(format_value, values))}"


def one_of(values: Collection[str]) -> AfterValidator:
    """Return an annotation for a string field that must have one of these values, which are known at run time."""

    def check(value: str) -> str:
        if value not in values:
            raise field_error("Unsupported value", supported_values(sorted(values)))
        return value

    return AfterValidator(check)


def duration(min: float, max: float) -> tuple[BeforeValidator, WithJsonSchema]:  # noqa: A002  # as in `Option`
    """Return annotations for a field of type float: a duration in seconds, in the syntax of Go.

    Args:
        min: the minimum in seconds.
        max: the maximum in seconds.
    """

    def parse(value: Any) -> float:
        try:
            seconds = parse_duration(value) / 1e9
        except (AttributeError, TypeError, ValueError):
            raise field_error("Invalid value", "must be a duration such as 50ms, 10s or 1m30s") from None
        if not min <= seconds <= max:
            raise field_error("Invalid value", f"must be between {min:g}s and {max:g}s")
        return seconds

    return BeforeValidator(parse), WithJsonSchema({"type": "string", "examples": ["500ms", "10s", "1m30s"]})


def check(tree: Any, model: type[M], context: Any = None) -> M | list[FieldError]:
    """Validate a tree. Null is the same as an absent field, as in API servers.

    Args:
        tree: a tree of dicts, lists, strings, numbers, booleans and None.
        model: the model.
        context: the context of the validation, for validators (`info.context`).

    Returns:
        The model, or all errors.
    """
    try:
        return model.model_validate_json(json.dumps(_remove_nulls(tree, [model])), context=context)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        return [_to_field_error(details, tree, model) for details in errors if not _is_consequence(details)]


def format_path(path: FieldPath) -> str:
    """Format a path: ``limits[0].burst``, or ``labels[a.b]`` for keys with other characters."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step) and len(step) <= _MAX_VALUE:
            text += f".{step}" if text else step
        else:
            text += f"[{format_value(step)[1:-1]}]"
    return text


def format_value(value: Any) -> str:
    """Format a value for a message: short, on one line, and safe for terminals. Collections are not shown."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        text = value if len(value) <= _MAX_VALUE else f"{value[:_MAX_VALUE]}..."
        return json.dumps(text, ensure_ascii=not text.isprintable())
    return json.dumps(value)


_DETAILS = {  # by pydantic's types of errors
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be greater than or equal to {ge}",
    "int_from_float": "must be an integer",
    "int_type": "must be an integer",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be less than or equal to {le}",
    "list_type": "must be a list",
    "model_type": "must be a mapping",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be a string",
    "too_short": "must have at least {min_length}",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}


def _to_field_error(details: ErrorDetails, tree: Any, model: type[BaseModel]) -> FieldError:
    type_, context = details["type"], details.get("ctx", {})
    path = _to_path(details["loc"], tree, ends_in_name=type_ in ("missing", "extra_forbidden"))
    value = format_value(details["input"])
    if type_ in typing.get_args(ErrorKind):
        return _convert_validator_error(path, typing.cast("ErrorKind", type_), value, context)
    match type_, context:
        case "missing", _:
            return FieldError(path, "Required value", _describe_only_value(path, model))
        case "string_too_short" | "too_short", {"min_length": 1}:
            return FieldError(path, "Required value", "must not be empty")
        case "extra_forbidden", _:
            return FieldError(path, "Forbidden", f"unknown field{_suggest_field(path, model)}")
        case "literal_error" | "enum", _:
            supported = supported_values(re.findall("'([^']*)'", context["expected"]))
            return FieldError(path, "Unsupported value", supported, value)
        case "too_long", _:
            detail = f"must have at most {context['max_length']}"
            return FieldError(path, "Too many", detail, str(context["actual_length"]))
        case "greater_than", {"gt": 0}:
            return FieldError(path, "Invalid value", "must be positive", value)
        case "greater_than_equal", {"ge": 0}:
            return FieldError(path, "Invalid value", "must not be negative", value)
    detail = _DETAILS[type_].format(**context) if type_ in _DETAILS else details["msg"]
    return FieldError(path, "Invalid value", detail, value)


def _is_consequence(details: ErrorDetails) -> bool:
    """Check whether a list is "too short" only because its items are invalid, which other errors report."""
    return details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]


def _convert_validator_error(path: FieldPath, kind: ErrorKind, value: str, context: Mapping[str, Any]) -> FieldError:
    """Convert an exception of `field_error`."""
    if context["value"] is not None:
        value = context["value"]
    elif kind in ("Required value", "Forbidden"):
        value = ""
    return FieldError(path, kind, context["detail"], value)


def _to_path(steps: FieldPath, tree: Any, *, ends_in_name: bool) -> FieldPath:
    """Return the steps that lead through a tree, without the names that pydantic adds for alternatives of a union.

    Args:
        steps: the location that pydantic reports.
        tree: the tree.
        ends_in_name: whether the last step is the name of a field, which may be absent in the tree.
    """
    path: list[str | int] = []
    for step in steps:
        if (isinstance(tree, dict) and step in tree) or (isinstance(tree, list) and isinstance(step, int)):
            path.append(step)
            tree = tree[step]  # type: ignore[index]
    if ends_in_name and path[-1:] != [steps[-1]]:
        path.append(steps[-1])
    return tuple(path)


def _suggest_field(path: FieldPath, model: type[BaseModel]) -> str:
    """Suggest a field whose name is similar to that of an unknown one."""
    models = _find_models(path[:-1], model)
    for candidate in models:
        if issubclass(candidate, Model) and path[-1] in candidate._remedies:
            return f"; {candidate._remedies[str(path[-1])]}"
    similar = get_close_matches(str(path[-1]), sorted(_field_names(models)), n=1)
    return f"; did you mean {similar[0]}?" if similar else ""


def _describe_only_value(path: FieldPath, model: type[BaseModel]) -> str:
    """Return the detail for an absent field that has only one valid value; empty for other fields."""
    annotations = [_annotations(candidate).get(str(path[-1])) for candidate in _find_models(path[:-1], model)]
    values = {
        value
        for annotation in annotations
        if typing.get_origin(annotation) is Literal
        for value in typing.get_args(annotation)
    }
    return f"must be {format_value(*values)}" if len(values) == 1 else ""


def _find_models(path: FieldPath, model: type[BaseModel]) -> Sequence[type[BaseModel]]:
    models: Sequence[type[BaseModel]] = [model]
    for step in path:
        models = _models_below(models, step)
    return models


def _remove_nulls(tree: Any, models: Sequence[type[BaseModel]]) -> Any:
    """Return a tree without the fields that are null. Unknown fields remain, so that they are reported."""
    if isinstance(tree, list):
        return [_remove_nulls(item, models) for item in tree]
    if not isinstance(tree, dict):
        return tree
    names = _field_names(models)
    return {
        name: _remove_nulls(value, _models_below(models, name))
        for name, value in tree.items()
        if value is not None or name not in names
    }


def _models_below(models: Sequence[type[BaseModel]], step: str | int) -> Sequence[type[BaseModel]]:
    """Return the models of a field. A step that is not a field leads into a list or mapping of the same models."""
    annotations = [fields[step] for fields in map(_annotations, models) if isinstance(step, str) and step in fields]
    if not annotations:
        return models
    return [model for annotation in annotations for model in _models_in(annotation)]


def _field_names(models: Sequence[type[BaseModel]]) -> set[str]:
    return {name for model in models for name in _annotations(model)}


def _annotations(model: type[BaseModel]) -> dict[str, Any]:
    """Return the annotations of a model's fields by the names of the fields in files."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
