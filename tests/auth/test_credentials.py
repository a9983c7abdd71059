"""What the settings say of callers, and the mistakes in that."""

import sys
from pathlib import Path
from typing import Any

import pytest

from webhooks import certificates
from webhooks.auth.authenticator import Authenticator
from webhooks.auth.client import ANONYMOUS, Rejection
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Settings

OIDC = {"oidc_issuer": "https://issuer.example.org", "oidc_audience": "webhooks", "oidc_subject": ("jane",)}


def test_nothing_is_asked_for_by_default() -> None:
    callers = Authenticator.from_settings(Settings(), MetricRegistry())
    assert callers.authenticate_request(callers.authenticate_connection(None), None) is ANONYMOUS


def test_a_certificate_a_token_or_both(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("good,jane\n")
    by_certificate: dict[str, Any] = {"client_ca": tmp_path / "ca.pem", "allow_client": ("apiserver",)}
    for asked, by_token in (
        (by_certificate, False),
        ({"token_file": tmp_path / "tokens"}, True),
        (OIDC, True),
        ({**by_certificate, "token_file": tmp_path / "tokens", **OIDC}, True),
    ):
        callers = Authenticator.from_settings(Settings(**asked), MetricRegistry())
        assert callers.requires_token is by_token
        assert isinstance(callers.authenticate_connection(None), Rejection) is ("client_ca" in asked)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"token_file": Path("/nowhere")}, "/nowhere: cannot be read"),
        ({**OIDC, "oidc_ca": Path("/nowhere")}, "/nowhere: cannot be read: No such file"),
        ({**OIDC, "oidc_ca": Path(__file__)}, "must contain CA certificates"),
        ({**OIDC, "oidc_issuer": "http://issuer.example.org"}, "must be https:// with a host and an optional path"),
        ({**OIDC, "oidc_issuer": "issuer.example.org"}, "must be https://"),
        ({**OIDC, "oidc_issuer": "https://"}, "must be https://"),
        ({**OIDC, "oidc_issuer": "https://["}, "must be https://"),
        ({**OIDC, "oidc_issuer": "https://issuer.example.org:port"}, "must be https://"),
        ({**OIDC, "oidc_issuer": "https://jane:secret@issuer.example.org"}, "must be https://"),
        ({**OIDC, "oidc_issuer": "https://issuer.example.org?a=b"}, "must be https://"),
        ({**OIDC, "oidc_issuer": "https://issuer.example.org#a"}, "must be https://"),
        ({**OIDC, "oidc_issuer": ""}, "must be https://"),
    ],
)
def test_mistakes(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Authenticator.from_settings(Settings(**settings), MetricRegistry())
    assert says in str(raised.value)
    assert "secret" not in str(raised.value)


def test_an_authority_of_the_issuer(tmp_path: Path) -> None:
    certificates.issue(tmp_path, names=["localhost"])
    assert Authenticator.from_settings(Settings(**OIDC, oidc_ca=tmp_path / "ca.pem"), MetricRegistry()).requires_token


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "webhooks.auth.oidc", raising=False)
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(
        ConfigurationError, match=r"--oidc-issuer requires the module joserfc: pip install 'cluster-webhooks\[oidc\]'"
    ):
        Authenticator.from_settings(Settings(**OIDC), MetricRegistry())
