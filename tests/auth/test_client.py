"""Clients in logs."""

import pytest

from webhooks.auth.client import ANONYMOUS, Client


@pytest.mark.parametrize(
    ("client", "text"),
    [
        (ANONYMOUS, ""),
        (Client("apiserver"), "apiserver"),
        (Client(user="jane"), "jane"),
        (Client("apiserver", "jane"), "apiserver as jane"),
    ],
)
def test_format(client: Client, text: str) -> None:
    assert str(client) == text
