"""Settings as flags, and as variables of the environment."""

import typing
from collections.abc import Callable, Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

from webhooks.kube.durations import parse_duration
from webhooks.settings import Limits, Option, Settings, options, without_none

C = TypeVar("C", bound=Callable[..., Any])
Reader: TypeAlias = Callable[[click.Context, click.Parameter, Path | None], Path | None]

_HINTS = typing.get_type_hints(Settings) | typing.get_type_hints(Limits)
_LIMITS = [each.name for each, _ in options(Limits)]


class Duration(click.ParamType[float]):
    """Seconds, written as such or as Go writes durations.

    Args:
        least: the least of them.
        most: the most.
    """

    name = "duration"

    def __init__(self, least: float, most: float) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        text = str(value)
        try:
            seconds = parse_duration(f"{text}s" if text[-1:].isdigit() else text) / 1e9
        except ValueError:
            seconds = -1.0
        if seconds < 0:
            self.fail(f"{text!r} is no duration, such as 10s or 1m30s", param, ctx)
        if not self._least <= seconds <= self._most:
            self.fail(f"{text!r} is not between {self._least:g}s and {self._most:g}s", param, ctx)
        return seconds


def flags(read: Reader) -> Callable[[C], C]:
    """Add a flag for each of the settings to a command, which is called with them by name.

    Args:
        read: called with the configuration before any other flag is looked at.
    """

    def add(command: C) -> C:
        for field, option in reversed([*options(Settings), *options(Limits)]):
            first = {"is_eager": True, "callback": read} if field.name == "config" else {}
            command = _flag(field, option, **first)(command)
        return command

    return add


def settings(values: Mapping[str, Any]) -> Settings:
    """The settings that a command was called with."""
    limits = Limits(**{name: values[name] for name in _LIMITS})
    others = {name: value for name, value in values.items() if name not in _LIMITS}
    return Settings(**others, limits=limits)


def defaults(settings: Settings) -> dict[str, Any]:
    """Settings as what flags are by default, where nobody says otherwise."""
    found = {each.name: getattr(settings, each.name) for each, _ in options(Settings)}
    found |= {name: getattr(settings.limits, name) for name in _LIMITS}
    return found | {"ops_port": found["ops_port"] or 0}


def _flag(field: Field[Any], option: Option, **first: Any) -> Callable[[C], C]:
    hint = _HINTS[field.name]
    several = typing.get_origin(hint) is tuple
    default = f"{field.default:g}s" if isinstance(field.default, float) else field.default
    return click.option(
        f"--{field.name.replace('_', '-')}",
        field.name,
        type=None if hint is bool else _type(hint, option),
        is_flag=hint is bool,
        multiple=several,
        default=default,
        show_default=default not in (None, (), False),
        metavar=option.metavar or None,
        help=option.help,
        **({} if option.flag_value is None else {"flag_value": option.flag_value}),
        **first,
    )


def _type(hint: Any, option: Option) -> Any:
    hint = without_none(hint)
    if typing.get_origin(hint) is typing.Literal:
        return click.Choice(typing.get_args(hint))
    if hint is int:
        return click.IntRange(option.min, option.max)
    if hint is float:
        return Duration(option.min, option.max)
    return _path(option) if hint is Path else str


def _path(option: Option) -> click.Path:
    return click.Path(path_type=Path, file_okay=not option.is_folder, dir_okay=option.is_folder)
