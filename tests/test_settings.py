"""Settings that do not go together, whoever they come from."""

from pathlib import Path
from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.settings import Settings

OIDC = {"oidc_issuer": "https://issuer.example.org", "oidc_audience": "webhooks", "oidc_subject": ("jane",)}
CALLERS = {"client_ca": Path("ca.pem")}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"port": 0, "ops_port": 0},
        {"port": 8080, "ops_port": None},
        {"tls_cert": Path("tls.crt"), "tls_key": Path("tls.key")},
        {**CALLERS, "allow_client": ("apiserver",)},
        OIDC,
        {"sync_ca_bundle": "webhooks", "kubeconfig": Path("config"), "context": "production"},
    ],
)
def test_what_goes_together(settings: dict[str, Any]) -> None:
    Settings(**settings).check()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"port": 8080}, "--port and --ops-port are both 8080: choose two, or 0 for no ops port"),
        ({"tls_cert": Path("x")}, "give both --tls-cert and --tls-key"),
        ({"tls_key": Path("x")}, "give both --tls-cert and --tls-key"),
        ({"allow_client": ("apiserver",)}, "--allow-client chooses among the certificates of --client-ca"),
        ({**CALLERS, "allow_client": ("",)}, "--allow-client is empty"),
        ({"oidc_audience": "webhooks"}, "are about --oidc-issuer: give that"),
        ({"oidc_subject": ("jane",)}, "are about --oidc-issuer: give that"),
        ({"oidc_ca": Path("ca.pem")}, "are about --oidc-issuer: give that"),
        ({**OIDC, "oidc_audience": None}, "give --oidc-audience, which is us, and --oidc-subject for each caller"),
        ({**OIDC, "oidc_audience": ""}, "give --oidc-audience"),
        ({**OIDC, "oidc_subject": ()}, "--oidc-subject for each caller"),
        ({**OIDC, "oidc_subject": ("jane", "")}, "--oidc-subject for each caller"),
        ({"kubeconfig": Path("config")}, "are about --sync-ca-bundle: give that"),
        ({"context": "production"}, "are about --sync-ca-bundle: give that"),
    ],
)
def test_what_does_not(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Settings(**settings).check()
    [line] = str(raised.value).splitlines()
    assert says in line


def test_all_of_it_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Settings(port=8080, tls_cert=Path("x"), context="production").check()
    assert len(str(raised.value).splitlines()) == 3
