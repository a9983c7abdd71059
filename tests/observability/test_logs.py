"""Log records: one line of JSON each, whatever they contain."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from webhooks.observability.log_writer import MAX_LINE, LogWriter
from webhooks.observability.logs import JsonFormatter, LogWriterHandler
from webhooks.observability.metrics import MetricRegistry

from ..support.builders import access_body, encode_body, token_body
from ..support.servers import Reply, Server, review, serving

VALIDATE = "/admission/validate"
SECRET = "a secret detail"


def formatted(message: str, *arguments: object, error: BaseException | None = None, **extra: object) -> Any:
    """Format a record and decode it."""
    info = (type(error), error, error.__traceback__) if error is not None else None
    record = logging.LogRecord("webhooks.test", logging.WARNING, "file.py", 1, message, arguments, info)
    vars(record).update(extra)
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    return json.loads(line)


def test_a_record() -> None:
    record = formatted("policy %s failed %d times", "a", 2)
    assert record.pop("time").endswith("Z")
    assert record == {"level": "warning", "logger": "webhooks.test", "message": "policy a failed 2 times"}


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines",
        'a quote " and a backslash \\',
        "\x00\x07\x1b[31mred\x7f",
        "\x85\u2028\u2029",
        "\r\n{}",
        "\U0001f600 \u200e",
        "\ud800",
        "x" * 3_000,
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_untrusted_text_stays_in_its_field(text: str) -> None:
    assert formatted("refused: %s", text)["message"] == f"refused: {text}"


class FailingRepr:
    def __repr__(self) -> str:
        raise ValueError("must not be raised")


class FailingCause(Exception):
    @property
    def __cause__(self) -> BaseException:
        raise SystemExit("must not be raised")


def test_an_invalid_log_call_is_logged_with_its_location() -> None:
    assert formatted("%d items", "x")["message"] == "file.py:1: invalid log call: '%d items' with ('x',)"


def test_an_exception_whose_methods_raise() -> None:
    record = formatted("a policy failed", error=FailingCause())
    assert record["message"] == "a policy failed"
    assert record["error"] == "an exception whose traceback cannot be formatted"


def test_fields_become_strings() -> None:
    assert formatted("a policy failed", uid=5)["uid"] == "5"


def test_a_record_that_cannot_be_formatted_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    registry = MetricRegistry()
    dropped = registry.counter("webhooks_dropped", "Dropped.")
    handler = LogWriterHandler(LogWriter(-1, dropped))
    handler.handle(logging.LogRecord("webhooks.test", logging.WARNING, "file.py", 1, "%s", (FailingRepr(),), None))
    handler.writer.close()
    assert dropped.values == {(): 1}
    assert capsys.readouterr() == ("", "")


def test_a_long_message_is_truncated() -> None:
    message = formatted("refused: %s.", "x" * 1_000_000)["message"]
    assert 1_000 < len(message) <= MAX_LINE
    assert message.startswith("refused: xxx")
    assert "1000010 characters" in message
    assert message.endswith("xxx.")


def test_a_traceback_is_one_field() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        record = formatted("failed", error=error)
    assert record["error"].splitlines()[0] == "Traceback (most recent call last):"
    assert record["error"].endswith("ValueError: first\nsecond")


def test_fields_of_a_record() -> None:
    record = formatted("failed", uid="u", policy="p", client="", other="o")
    assert {name: record.get(name) for name in ("uid", "policy", "client", "other")} == {
        "uid": "u",
        "policy": "p",
        "client": None,
        "other": None,
    }


def test_secrets_of_a_record_are_removed() -> None:
    record = formatted("of %s: %r", "s3cr3t", {"a": "s3cr3t"}, error=ValueError("s3cr3t"), secrets=["s3cr3t"])
    assert record["message"] == "of ***: {'a': '***'}"
    assert record["error"] == "ValueError: ***"


# A running server.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


def posted(server: Server, path: str, body: bytes) -> tuple[Reply, list[Any]]:
    """Post a request, and return the reply and the log records."""
    start = len(server.errors.lines)
    reply = server.post(path, body)
    server.errors.await_line("", start)
    return reply, server.logs(start)


def test_a_failing_policy_is_found_by_the_uid(server: Server) -> None:
    reply, [record] = posted(server, VALIDATE, review("raises", uid="705ab4f5"))
    assert record["level"] == "error"
    assert "raises" in record["message"]
    assert "705ab4f5" in record["message"]
    assert SECRET in record["message"]
    assert f"ValueError: {SECRET}\nof two lines \x1b[31m" in record["error"]
    assert "policies.py" in record["error"]
    assert SECRET not in reply.body.decode()
    assert "ValueError" not in reply.body.decode()
    assert reply.json()["response"]["status"]["message"] == "policy 'raises' failed"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/authorize", access_body(verb="get", resource="pods", name="raises")),
        ("/authenticate", token_body("raises")),
    ],
)
def test_clients_get_no_details(path: str, body: Any, server: Server) -> None:
    reply, [record] = posted(server, path, encode_body(body))
    assert reply.status == 500
    assert reply.json()["kind"] == "Status"
    assert SECRET in record["message"]
    assert SECRET not in reply.body.decode()


def test_a_timeout_is_logged(server: Server) -> None:
    policy = review("waits", uid="slow-1", gate=str(server.folder / "nobody"))
    _, [record] = posted(server, VALIDATE, policy)
    assert "slow-1" in record["message"]
    assert "FileNotFoundError" in record["error"]


def test_malformed_reviews_are_logged(server: Server) -> None:
    body = review().replace(b"AdmissionReview", b'a\\n{\\"level\\":\\"fake\\"}\\u001b[31m')
    _, [record] = posted(server, VALIDATE, body)
    assert record["level"] == "warning"
    assert "AdmissionReview" in record["message"]


def test_tokens_are_never_logged(server: Server) -> None:
    start = len(server.errors.lines)
    token = "eyJhbGciOi.verysecret"
    body = encode_body(token_body(token))
    for request in (
        body,
        body[:-3],
        body.replace(b"TokenReview", b"Other"),
        body.replace(b'"token"', b'"tokens"'),
        body * 2,
    ):
        server.post("/authenticate", request)
    assert server.post("/authenticate", encode_body(token_body("raises"))).status == 500
    server.errors.await_line("policy authenticates failed", start)
    assert "verysecret" not in "\n".join(server.errors.lines[start:])


def test_good_reviews_are_not_logged(server: Server) -> None:
    start = len(server.errors.lines)
    for _ in range(3):
        server.post(VALIDATE, review())
        server.get("/livez")
    _, records = posted(server, VALIDATE, b"")  # all earlier records are written before this one
    assert [record["level"] for record in records] == ["warning"]
    assert len(server.errors.lines) == start + 1


@pytest.mark.parametrize("extent", ["off", "all"])
def test_a_log_without_a_reader_blocks_no_review(extent: str, tmp_path: Path) -> None:
    """With a full pipe, records are lost, but reviews are answered and the server stops on request."""
    with serving(tmp_path, "--decision-log", extent) as server:
        server.errors.pause()
        with server.connect() as connection:
            for _ in range(300):  # more than a pipe holds
                assert connection.post(VALIDATE, review("raises")).status == 200
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("level", "levels"), [("debug", {"warning", "error"}), ("warning", {"warning", "error"}), ("error", {"error"})]
)
def test_levels(level: str, levels: set[str], tmp_path: Path) -> None:
    with serving(tmp_path, "--log-level", level) as server:
        server.post(VALIDATE, b"")
        server.post(VALIDATE, review("raises"))
        server.errors.await_line('"level": "error"')
        assert levels <= {record["level"] for record in server.logs()}
        assert level == "debug" or levels == {record["level"] for record in server.logs()}


@pytest.mark.parametrize(("level", "lines"), [("debug", 2), ("info", 1), ("warning", 1), ("error", 0)])
def test_requests_of_the_http_client_are_logged_only_for_debugging(level: str, lines: int) -> None:
    program = f"""
import logging
from webhooks.observability import logs
logs.configure({level!r})
logging.getLogger("httpx2").info("HTTP Request")
logging.getLogger("httpx2").warning("a problem")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=30)
    assert len(result.stderr.splitlines()) == lines
