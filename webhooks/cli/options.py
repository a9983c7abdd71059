"""The settings of a server as command line options and environment variables."""

import typing
from collections.abc import Callable, Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from webhooks.kube.durations import parse_duration
from webhooks.settings import Limits, Option, Settings, options, without_none

C = TypeVar("C", bound=Callable[..., Any])

_HINTS = typing.get_type_hints(Settings) | typing.get_type_hints(Limits)
CONFIGURATION = f"{__name__}.configuration"
"""The key of the `Configuration` in the meta data of the context of a command."""

_LIMITS = [field.name for field, _ in options(Limits)]


class Duration(click.ParamType[float]):
    """A duration: a number of seconds, or a duration of Go such as ``1m30s``.

    Args:
        min: the minimum in seconds.
        max: the maximum in seconds.
    """

    name = "duration"

    def __init__(self, min: float, max: float) -> None:  # noqa: A002  # the names of `Option`
        self._min = min
        self._max = max

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds."""
        text = str(value)
        try:
            seconds = parse_duration(f"{text}s" if text[-1:].isdigit() else text) / 1e9
        except ValueError:
            seconds = -1.0
        if seconds < 0:
            self.fail(f"{text!r} is not a duration, such as 10s or 1m30s", param, ctx)
        if not self._min <= seconds <= self._max:
            self.fail(f"{text!r} is not between {self._min:g}s and {self._max:g}s", param, ctx)
        return seconds


class _Integer(click.IntRange):
    name = "integer"  # in click's messages it would be "integer range"


class _Option(click.Option):
    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Name the environment variable, if the value is from there."""
        hint = super().get_error_hint(ctx)
        if ctx is None or ctx.get_parameter_source(self.name) is not ParameterSource.ENVIRONMENT:
            return hint
        return f"{hint} (from {ctx.auto_envvar_prefix}_{self.name.upper()})"


def server_options(command: C) -> C:
    """Add an option for each setting to a command. The command gets the values as keyword arguments."""
    for field, option in reversed([*options(Settings), *options(Limits)]):
        command = _click_option(field, option)(command)
    return command


def to_settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings that a command got as keyword arguments."""
    limits = Limits(**{name: values[name] for name in _LIMITS})
    others = {name: value for name, value in values.items() if name not in _LIMITS}
    return Settings(**others, limits=limits)


def _to_defaults(settings: Settings) -> dict[str, Any]:
    """Return settings as defaults of the options."""
    values = {field.name: getattr(settings, field.name) for field, _ in options(Settings)}
    values |= {name: getattr(settings.limits, name) for name in _LIMITS}
    return values | {"ops_port": values["ops_port"] or 0}


def _read_config(context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """Use the settings of a configuration file as defaults: options and variables override them."""
    if path is not None:
        from webhooks.config import file  # slow to import

        configuration = file.read(path)
        context.default_map = _to_defaults(configuration.settings)
        context.meta[CONFIGURATION] = configuration
    return path


def _click_option(field: Field[Any], option: Option) -> Callable[[C], C]:
    hint, default = _HINTS[field.name], field.default
    attributes: dict[str, Any] = {}
    if option.flag_value is not None:
        attributes["flag_value"] = option.flag_value
    if field.name == "config":
        attributes |= {"is_eager": True, "callback": _read_config}  # eager: it runs before other options are read
    return click.option(
        f"--{field.name.replace('_', '-')}",
        field.name,
        type=None if hint is bool else _click_type(hint, option),
        is_flag=hint is bool,
        multiple=typing.get_origin(hint) is tuple,
        default=f"{default:g}s" if isinstance(default, float) else default,
        show_default=default not in (None, (), False),
        metavar=option.metavar or None,
        help=option.help,
        cls=_Option,
        **attributes,
    )


def _click_type(hint: Any, option: Option) -> Any:
    hint = without_none(hint)
    if typing.get_origin(hint) is typing.Literal:
        return click.Choice(typing.get_args(hint))
    if hint is int:
        return _Integer(option.min, option.max)
    if hint is float:
        return Duration(option.min, option.max)
    if hint is Path:
        return click.Path(path_type=Path, file_okay=not option.is_folder, dir_okay=option.is_folder)
    return str
