"""What can be wrong with a field, in the words of API servers: ``Invalid value: 0: must be positive``.

A model says what a configuration may hold; `check` compares, and finds everything that is wrong at once.
"""

import json
import re
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from webhooks.kube.durations import parse_duration

Kind: TypeAlias = Literal[
    "Invalid value", "Required value", "Unsupported value", "Duplicate value", "Forbidden", "Too many"
]
FieldPath: TypeAlias = tuple[str | int, ...]

_SHOWN = 64  # characters of what somebody else wrote
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong.

    Attributes:
        path: the field, by keys and numbers from the root.
        kind: what is wrong, in one of six words.
        detail: what would be right.
        value: what is there, as `format_value` writes it; empty where it does not matter, or is nobody's business.
    """

    path: FieldPath
    kind: Kind
    detail: str = ""
    value: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (format_path(self.path), self.kind, self.value, self.detail) if part)


class Model(BaseModel):
    """What a part of a configuration may hold: strictly what the types say, under names in camel case."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


M = TypeVar("M", bound=BaseModel)


def field_error(kind: Kind, detail: str = "", value: str | None = None) -> PydanticCustomError:
    """For validators of models to raise: what is wrong with the field.

    Args:
        kind: what is wrong.
        detail: what would be right.
        value: shown in place of what is there; the empty text to show nothing.
    """
    return PydanticCustomError(kind, "{detail}", {"detail": detail, "value": value})


def supported_values(values: Collection[str]) -> str:
    """The detail of an unsupported value."""
    return f"supported values: {', '.join(map(format_value, values))}"


def one_of(values: Collection[str]) -> AfterValidator:
    """For models: a text that is one of these, as `typing.Literal` says it of values known beforehand."""

    def check(value: str) -> str:
        if value not in values:
            raise field_error("Unsupported value", supported_values(sorted(values)))
        return value

    return AfterValidator(check)


def duration(least: float, most: float) -> tuple[BeforeValidator, WithJsonSchema]:
    """For models: seconds, as Go writes durations.

    Args:
        least: the least of them.
        most: the most.
    """

    def seconds(value: Any) -> float:
        try:
            found = parse_duration(value) / 1e9
        except (AttributeError, TypeError, ValueError):
            raise field_error("Invalid value", "must be a duration such as 50ms, 10s or 1m30s") from None
        if not least <= found <= most:
            raise field_error("Invalid value", f"must be between {least:g}s and {most:g}s")
        return found

    return BeforeValidator(seconds), WithJsonSchema({"type": "string", "examples": ["500ms", "10s", "1m30s"]})


def check(tree: Any, model: type[M], context: Any = None) -> M | list[FieldError]:
    """Compare a plain tree with a model. Null is the same as not set, as it is to API servers.

    Args:
        tree: dicts, lists, texts, numbers, booleans and None.
        model: what it is to hold.
        context: for the model's validators, as `info.context`.

    Returns:
        The model, or all that is wrong.
    """
    try:
        return model.model_validate_json(json.dumps(_set(tree, [model])), context=context)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        return [_finding(each, tree, model) for each in errors if not _follows(each)]


def format_path(path: FieldPath) -> str:
    """A path as people write it: ``limits[0].burst``, and ``labels[a.b]`` for keys that are no names."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _NAME.fullmatch(step) and len(step) <= _SHOWN:
            text += f".{step}" if text else step
        else:
            text += f"[{format_value(step)[1:-1]}]"
    return text


def format_value(value: Any) -> str:
    """What somebody wrote: short, on one line, and without what lies inside of it."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return quote(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
    return json.dumps(value)


def quote(text: str) -> str:
    """A text in quotes, which disturbs no terminal."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


_DETAILS = {
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


def _finding(error: ErrorDetails, tree: Any, model: type[BaseModel]) -> FieldError:
    what, context = error["type"], error.get("ctx", {})
    path = _path(error["loc"], tree, named=what in ("missing", "extra_forbidden"))
    value = format_value(error["input"])
    if what in typing.get_args(Kind):
        return _own(path, typing.cast("Kind", what), value, context)
    match what, context:
        case "missing", _:
            return FieldError(path, "Required value")
        case "string_too_short" | "too_short", {"min_length": 1}:
            return FieldError(path, "Required value", "must not be empty")
        case "extra_forbidden", _:
            return FieldError(path, "Forbidden", f"unknown field{_meant(path, model)}")
        case "literal_error" | "enum", _:
            return FieldError(
                path, "Unsupported value", supported_values(re.findall("'([^']*)'", context["expected"])), value
            )
        case "too_long", _:
            return FieldError(
                path, "Too many", f"must have at most {context['max_length']}", str(context["actual_length"])
            )
        case "greater_than", {"gt": 0}:
            return FieldError(path, "Invalid value", "must be positive", value)
        case "greater_than_equal", {"ge": 0}:
            return FieldError(path, "Invalid value", "must not be negative", value)
    detail = _DETAILS[what].format(**context) if what in _DETAILS else error["msg"]
    return FieldError(path, "Invalid value", detail, value)


def _follows(error: ErrorDetails) -> bool:
    """Whether a list is called too short for having nothing good in it; what is bad in it is told anyway."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def _own(path: FieldPath, kind: Kind, value: str, context: Mapping[str, Any]) -> FieldError:
    """What `field_error` said."""
    if context["value"] is not None:
        value = context["value"]
    elif kind in ("Required value", "Forbidden"):
        value = ""
    return FieldError(path, kind, context["detail"], value)


def _path(steps: FieldPath, tree: Any, *, named: bool) -> FieldPath:
    """The steps of an error that lead through a tree, without the names that pydantic gives to kinds of values.

    Args:
        steps: where pydantic is.
        tree: what it looks at.
        named: the last step is a name, whether it is in the tree or not.
    """
    path: list[str | int] = []
    for step in steps:
        if (isinstance(tree, dict) and step in tree) or (isinstance(tree, list) and isinstance(step, int)):
            path.append(step)
            tree = tree[step]  # type: ignore[index]
    if named and path[-1:] != [steps[-1]]:
        path.append(steps[-1])
    return tuple(path)


def _meant(path: FieldPath, model: type[BaseModel]) -> str:
    """Which field an unknown one may have been meant to be."""
    models: Sequence[type[BaseModel]] = [model]
    for step in path[:-1]:
        models = _inside(models, step)
    close = get_close_matches(str(path[-1]), sorted(_names(models)), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _set(tree: Any, models: Sequence[type[BaseModel]]) -> Any:
    """A tree without the fields that are null; unknown ones stay, to be found."""
    if isinstance(tree, list):
        return [_set(each, models) for each in tree]
    if not isinstance(tree, dict):
        return tree
    names = _names(models)
    return {
        name: _set(value, _inside(models, name))
        for name, value in tree.items()
        if value is not None or name not in names
    }


def _inside(models: Sequence[type[BaseModel]], step: str | int) -> Sequence[type[BaseModel]]:
    """The models of what lies behind a step; one that is no field leads into a list or mapping of the same."""
    fields = [known[step] for known in map(_annotations, models) if isinstance(step, str) and step in known]
    return [each for annotation in fields for each in _models(annotation)] if fields else models


def _names(models: Sequence[type[BaseModel]]) -> set[str]:
    return {name for model in models for name in _annotations(model)}


def _annotations(model: type[BaseModel]) -> dict[str, Any]:
    """The annotations of a model's fields, by the names that configurations use."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models of which an annotation speaks."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models(argument)
