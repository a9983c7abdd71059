"""Tests of the settings as options of a command."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from webhooks.cli.options import Duration, server_options, to_settings
from webhooks.settings import Limits, Settings


def parse(*arguments: str, **environment: str) -> Settings:
    """The settings that a command gets from its options."""
    parsed: list[Settings] = []

    @click.command(context_settings={"auto_envvar_prefix": "X"})
    @server_options
    def command(**options: Any) -> None:
        parsed.append(to_settings(options))

    result = CliRunner(env=environment).invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return parsed[0]


def test_without_options_settings_have_their_defaults() -> None:
    assert parse() == Settings()


def test_options() -> None:
    options = ("--port", "1", "--ops-port", "0", "--policies", "a", "--policies", "b", "--grace", "1m", "--tracing")
    limits = ("--max-queue", "0", "--tls-timeout", "100ms")
    assert parse(*options, *limits, "--tls-cert", "c.pem", "--sync-ca-bundle") == Settings(
        port=1,
        ops_port=None,
        policies=("a", "b"),
        grace=60.0,
        tracing=True,
        tls_cert=Path("c.pem"),
        sync_ca_bundle="webhooks",
        limits=Limits(max_queue=0, tls_timeout=0.1),
    )
    assert parse("--sync-ca-bundle", "other").sync_ca_bundle == "other"


def test_environment_variables() -> None:
    assert parse(X_PORT="1", X_POLICIES="a b", X_TRACING="1") == Settings(port=1, policies=("a", "b"), tracing=True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0.1", 0.1), ("1", 1.0), ("1.5", 1.5), ("1m30s", 90.0), ("100ms", 0.1), ("100", 100.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration(0.1, 100).convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "-1", "inf", "nan", "1 s", "1e", "1d"])
def test_texts_that_are_not_durations(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration, such as 10s or 1m30s"):
        Duration(0, 100).convert(text, None, None)


@pytest.mark.parametrize("text", ["0", "0.09", "99ms", "100.1", "2m"])
def test_durations_out_of_range(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not between 0\.1s and 100s"):
        Duration(0.1, 100).convert(text, None, None)
