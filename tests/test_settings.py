"""Tests of the settings and their consistency checks."""

from pathlib import Path
from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.settings import Limits, Option, Settings, options, without_none

OIDC = {"oidc_issuer": "https://issuer.example.org", "oidc_audience": "webhooks", "oidc_subject": ("jane",)}
CLIENT_CA = {"client_ca": Path("ca.pem")}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"port": 0, "ops_port": 0},
        {"port": 8080, "ops_port": None},
        {"tls_cert": Path("tls.crt"), "tls_key": Path("tls.key")},
        {**CLIENT_CA, "allow_client": ("apiserver",)},
        OIDC,
        {"sync_ca_bundle": "webhooks", "kubeconfig": Path("config"), "context": "production"},
    ],
)
def test_consistent_settings(settings: dict[str, Any]) -> None:
    Settings(**settings).check()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"port": 8080}, "--port and --ops-port are both 8080: use two different ports, or 0 for no ops port"),
        ({"tls_cert": Path("x")}, "--tls-cert and --tls-key must be given together"),
        ({"tls_key": Path("x")}, "--tls-cert and --tls-key must be given together"),
        ({"allow_client": ("apiserver",)}, "--allow-client requires --client-ca"),
        ({**CLIENT_CA, "allow_client": ("",)}, "--allow-client is empty: give a name"),
        ({"oidc_audience": "webhooks"}, "--oidc-audience, --oidc-subject and --oidc-ca require --oidc-issuer"),
        ({"oidc_subject": ("jane",)}, "--oidc-audience, --oidc-subject and --oidc-ca require --oidc-issuer"),
        ({"oidc_ca": Path("ca.pem")}, "--oidc-audience, --oidc-subject and --oidc-ca require --oidc-issuer"),
        ({**OIDC, "oidc_audience": None}, "--oidc-issuer requires --oidc-audience (the name of this server)"),
        ({**OIDC, "oidc_audience": ""}, "--oidc-issuer requires --oidc-audience"),
        ({**OIDC, "oidc_subject": ()}, "and --oidc-subject (for each client)"),
        ({**OIDC, "oidc_subject": ("jane", "")}, "and --oidc-subject (for each client)"),
        ({"kubeconfig": Path("config")}, "--kubeconfig and --context require --sync-ca-bundle"),
        ({"context": "production"}, "--kubeconfig and --context require --sync-ca-bundle"),
    ],
)
def test_inconsistent_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Settings(**settings).check()
    [line] = str(raised.value).splitlines()
    assert message in line


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Settings(port=8080, tls_cert=Path("x"), context="production").check()
    assert len(str(raised.value).splitlines()) == 3


def test_every_setting_but_the_limits_is_an_option() -> None:
    settings = {field.name: option for field, option in options(Settings)}
    assert list(settings) == [name for name in Settings.__dataclass_fields__ if name != "limits"]
    assert all(isinstance(option, Option) and option.help for option in settings.values())
    assert [field.name for field, _ in options(Limits)] == list(Limits.__dataclass_fields__)


@pytest.mark.parametrize(("hint", "expected"), [(int | None, int), (Path | None, Path), (str, str), (bool, bool)])
def test_without_none(hint: Any, expected: Any) -> None:
    assert without_none(hint) is expected
