"""What the settings say of callers, and the mistakes in that."""

import sys
from pathlib import Path
from typing import Any

import pytest

from webhooks import certificates
from webhooks.auth import credentials
from webhooks.auth.authenticator import ANONYMOUS, Rejection
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Settings

OIDC = {"oidc_issuer": "https://issuer.example.org", "oidc_audience": "webhooks", "oidc_subject": ("jane",)}


def test_nothing_is_asked_for_by_default() -> None:
    callers = credentials.callers(Settings(), MetricRegistry())
    assert callers.identify(callers.meet(None), None) is ANONYMOUS


def test_a_certificate_a_token_or_both(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("good,jane\n")
    by_certificate: dict[str, Any] = {"client_ca": tmp_path / "ca.pem", "allow_client": ("apiserver",)}
    for asked, by_token in (
        (by_certificate, False),
        ({"token_file": tmp_path / "tokens"}, True),
        (OIDC, True),
        ({**by_certificate, "token_file": tmp_path / "tokens", **OIDC}, True),
    ):
        callers = credentials.callers(Settings(**asked), MetricRegistry())
        assert callers.by_token is by_token
        assert isinstance(callers.meet(None), Rejection) is ("client_ca" in asked)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"token_file": Path("/nowhere")}, "/nowhere: cannot be read"),
        ({**OIDC, "oidc_ca": Path("/nowhere")}, "/nowhere: cannot be read: No such file"),
        ({**OIDC, "oidc_ca": Path(__file__)}, "no certificates of an authority"),
        ({**OIDC, "oidc_issuer": "http://issuer.example.org"}, "must be https://, a host and perhaps a path"),
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
        credentials.callers(Settings(**settings), MetricRegistry())
    assert says in str(raised.value)
    assert "secret" not in str(raised.value)


def test_an_authority_of_the_issuer(tmp_path: Path) -> None:
    certificates.issue(tmp_path, names=["localhost"])
    assert credentials.callers(Settings(**OIDC, oidc_ca=tmp_path / "ca.pem"), MetricRegistry()).by_token


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "webhooks.auth", raising=False)
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(ConfigurationError, match=r"needs the module joserfc: pip install 'cluster-webhooks\[oidc\]'"):
        credentials.callers(Settings(**OIDC), MetricRegistry())
