"""Sends random bodies; `python -m tests.fuzz` sends a million."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..support.servers import Connection, serving
from .bodies import RECORDED_REQUESTS, make_request
from .endpoints import Endpoints, running_endpoints
from .invariants import POLICIES, VERDICT, InvariantError, check

pytestmark = pytest.mark.slow

EXAMPLES, BODIES = 1050, 20  # 21,000 in total
OVER_TLS = 400


@pytest.fixture(scope="module")
def endpoints() -> Iterator[Endpoints]:
    with running_endpoints() as running:
        yield running


@pytest.mark.parametrize(("path", "body"), RECORDED_REQUESTS)
def test_recorded_bodies_reach_the_policies(path: str, body: bytes, endpoints: Endpoints) -> None:
    response = endpoints.answer(path, body)
    assert check(path, body, response.code, response.body) == VERDICT


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(random=st.randoms(use_true_random=False))
def test_the_invariants_hold(random: Random, endpoints: Endpoints) -> None:
    for _ in range(BODIES):
        path, body = make_request(random)
        response = endpoints.answer(path, body)
        check(path, body, response.code, response.body)


def test_the_invariants_hold_over_tls(endpoints: Endpoints, tmp_path: Path) -> None:
    """The responses are identical to those of the endpoints, and the server logs only warnings."""
    random, results = Random(20), Counter[str]()
    with serving(tmp_path, policies=POLICIES) as server:
        connection: Connection | None = None
        for _ in range(OVER_TLS):
            path, body = make_request(random)
            connection = connection or server.connect()
            reply = connection.post(path, body)
            response = endpoints.answer(path, body)
            assert (reply.status, reply.body) == (response.code, response.body), body
            results[check(path, body, reply.status, reply.body)] += 1
            if reply.closes:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()
        assert server.stop() == 0
        server.errors.all()
        assert {record["level"] for record in server.logs()} == {"warning"}
    assert len(results) > 3, results


@pytest.mark.parametrize(
    ("path", "body", "code", "reply"),
    [
        ("/images", b"", 500, b"{}"),
        ("/images", b"", 400, b"{"),
        ("/images", b"", 400, b'{"kind":"Status","status":"Failure","code":422}'),
        ("/images", b"{}", 200, b'{"status":{"allowed":true}}'),
        ("/authorize", b"{}", 200, b'{"status":{"allowed":true}}'),
        ("/authorize", b"{}", 200, b'{"status":{"allowed":false}}'),
        ("/authenticate", b"{}", 200, b'{"status":{"authenticated":true}}'),
        ("/admission/validate", b"{}", 200, b'{"response":{"uid":"a","allowed":true}}'),
        (
            "/admission/validate",
            b'{"kind":"AdmissionReview","kind":"AdmissionReview"}',
            200,
            b'{"response":{"uid":"a","allowed":false,"status":{"code":403,"message":"seen and denied"}}}',
        ),
    ],
)
def test_broken_invariants_are_found(path: str, body: bytes, code: int, reply: bytes) -> None:
    with pytest.raises(InvariantError):
        check(path, body, code, reply)
