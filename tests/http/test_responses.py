import json

import pytest

from webhooks.errors import REASONS
from webhooks.http.responses import EXTRA_HEADERS, error_response


@pytest.mark.parametrize("code", [*REASONS, 418])
def test_an_error_is_a_status_that_clients_of_kubernetes_understand(code: int) -> None:
    response = error_response(code, "the reason", close=True)
    assert (response.code, response.close) == (code, True)
    assert json.loads(response.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the reason",
        "reason": REASONS.get(code, "Unknown"),
        "code": code,
    }


def test_clients_learn_when_to_retry() -> None:
    assert EXTRA_HEADERS[429] == EXTRA_HEADERS[503] == (b"retry-after", b"1")
