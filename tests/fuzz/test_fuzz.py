"""Some of the bodies; `python -m tests.fuzz` sends a million of them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..support.servers import Connection, serving
from .answering import Endpoints, endpoints
from .bodies import REAL, make
from .laws import POLICIES, VERDICT, BrokenLawError, check

pytestmark = pytest.mark.slow

EXAMPLES, BODIES = 1050, 20  # 21,000 in all
OVER_TLS = 400


@pytest.fixture(scope="module")
def ours() -> Iterator[Endpoints]:
    with endpoints() as found:
        yield found


@pytest.mark.parametrize(("path", "body"), REAL)
def test_real_bodies_reach_the_policies(path: str, body: bytes, ours: Endpoints) -> None:
    answer = ours.answer(path, body)
    assert check(path, body, answer.code, answer.body) == VERDICT


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(random=st.randoms(use_true_random=False))
def test_the_laws_hold(random: Random, ours: Endpoints) -> None:
    for _ in range(BODIES):
        path, body = make(random)
        answer = ours.answer(path, body)
        check(path, body, answer.code, answer.body)


def test_the_laws_hold_over_tls(ours: Endpoints, tmp_path: Path) -> None:
    """The answers are those of the endpoints to the byte, and the server has no more to say of them than warnings."""
    random, seen = Random(20), Counter[str]()
    with serving(tmp_path, policies=POLICIES) as server:
        connection: Connection | None = None
        for _ in range(OVER_TLS):
            path, body = make(random)
            connection = connection or server.connect()
            reply = connection.post(path, body)
            answer = ours.answer(path, body)
            assert (reply.status, reply.body) == (answer.code, answer.body), body
            seen[check(path, body, reply.status, reply.body)] += 1
            if reply.closes:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()
        assert server.stop() == 0
        server.errors.all()
        assert {record["level"] for record in server.logs()} == {"warning"}
    assert len(seen) > 3, seen


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
def test_the_laws_can_be_broken(path: str, body: bytes, code: int, reply: bytes) -> None:
    with pytest.raises(BrokenLawError):
        check(path, body, code, reply)
