"""Tests of connecting to Redis: URLs, credentials, TLS, clusters and failures."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import uvloop

from webhooks import certificates
from webhooks.errors import ConfigurationError
from webhooks.plugins.event_rate_limit.redis_connection import RedisError
from webhooks.plugins.event_rate_limit.redis_connector import RedisConnector
from webhooks.plugins.event_rate_limit.redis_script import Script
from webhooks.plugins.event_rate_limit.token_bucket import Limit

from ...support.redis_server import RedisServer, needs_redis, redis_settings, run
from ...support.servers import await_true, free_port

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
SECRET = "hunter2"
SCRIPT = Script([Limit("Namespace", 1, 1, 4096)], "events")


def connector(url: str, folder: Path | None = None, **fields: str) -> RedisConnector:
    return RedisConnector(redis_settings(url, folder, timeout="1s", **fields), SCRIPT.probe)


async def connect(url: str, folder: Path | None = None, **fields: str) -> Any:
    """Connect, request a token, and close the connection. Return the reply."""
    connection = await connector(url, folder, **fields).connect()
    try:
        return await connection.request(SCRIPT.take_with_source(["a"]), float("inf"))
    finally:
        connection.close("the test is over")
        await connection.closed


def failure(url: str, folder: Path | None = None, **fields: str) -> str:
    with pytest.raises(RedisError) as raised:
        run(lambda: connect(url, folder, **fields))
    return str(raised.value)


@needs_redis
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_urls_and_credentials(tmp_path: Path, loop: Any) -> None:
    pair = certificates.ensure(tmp_path, names=["localhost", "127.0.0.1"])
    files = ("--tls-cert-file", pair.certificate, "--tls-key-file", pair.key, "--tls-ca-cert-file", pair.ca)
    (tmp_path / "password").write_text(f"{SECRET}\n")
    tls_port = free_port()
    options = ("--requirepass", SECRET, "--tls-port", tls_port, *files, "--tls-auth-clients", "no")
    with RedisServer(*options) as server:
        rights = ("~{events}:*", "+eval", "+evalsha", "+get", "+set", "+time")
        server.request("ACL", "SETUSER", "limits@a", "on", f">{SECRET}", *rights, password=SECRET)
        tls = {"caFile": "ca.pem"}
        for url, fields, database in (
            (server.url, {}, 0),
            (f"{server.url}/3", {}, 3),
            (f"unix://{server.path}", {}, 0),
            (f"unix://{server.path}?db=7", {}, 7),
            (f"rediss://127.0.0.1:{tls_port}", tls, 0),
            (f"rediss://localhost:{tls_port}/5", tls, 5),
            (f"redis://default@127.0.0.1:{server.port}", {}, 0),
            (f"redis://limits%40a@localhost:{server.port}", {}, 0),
        ):
            server.request("FLUSHALL", password=SECRET)
            fields = {**fields, "passwordFile": "password"}
            assert run(lambda url=url, fields=fields: connect(url, tmp_path, **fields), loop) == [0]
            keys = server.request("INFO", "keyspace", password=SECRET)
            assert f"db{database}:keys=2," in keys, url


@needs_redis
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--requirepass", "another"), "authentication failed: WRONGPASS"),
        ((), "authentication failed: ERR"),  # the server has no password
        (("--rename-command", "AUTH", ""), "authentication failed: ERR"),  # the reply contains the password
    ],
)
def test_rejected_credentials(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    (tmp_path / "password").write_text(SECRET)
    with RedisServer(*options) as server:
        assert failure(server.url, tmp_path, passwordFile="password") == message


@needs_redis
def test_the_probe_fails_if_decisions_would(tmp_path: Path) -> None:
    with RedisServer() as server:
        server.request("REPLICAOF", "127.0.0.1", 1)
        assert failure(server.url).startswith("READONLY")


@needs_redis
def test_certificates_are_verified(tmp_path: Path) -> None:
    pair = certificates.issue(tmp_path / "theirs", names=["127.0.0.1"])
    certificates.issue(tmp_path / "ours", names=["127.0.0.1"])
    tls_port = free_port()
    files = ("--tls-cert-file", pair.certificate, "--tls-key-file", pair.key, "--tls-ca-cert-file", pair.ca)
    with RedisServer("--tls-port", tls_port, *files, "--tls-auth-clients", "no") as server:
        unknown_ca = failure(f"rediss://127.0.0.1:{tls_port}", tmp_path, caFile="ours/ca.pem")
        assert "self-signed certificate in certificate chain" in unknown_ca
        other_name = failure(f"rediss://localhost:{tls_port}", tmp_path, caFile="theirs/ca.pem")
        assert "certificate is not valid for 'localhost'" in other_name
        assert failure(f"redis://127.0.0.1:{tls_port}")
        assert failure(f"rediss://127.0.0.1:{server.port}", tmp_path, caFile="theirs/ca.pem")


@needs_redis
def test_the_owner_of_the_keys_in_a_cluster() -> None:
    ports = free_port(), free_port()
    nodes = [RedisServer("--cluster-enabled", "yes", "--cluster-port", port) for port in ports]
    with nodes[0] as owner, nodes[1] as other:
        owner.request("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        other.request("CLUSTER", "MEET", "127.0.0.1", owner.port, ports[0])
        await_true(lambda: "cluster_state:ok" in other.request("CLUSTER", "INFO"), "a cluster")
        assert run(lambda: connect(other.url)) == [0]
        [wait] = run(lambda: connect(owner.url))
        assert wait > 0  # the same bucket


def test_no_server() -> None:
    assert "onnect" in failure(f"redis://127.0.0.1:{free_port()}")


def test_the_parser_requires_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hiredis", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'cluster-webhooks\[redis\]'"):
        connector("redis://127.0.0.1")


@pytest.mark.parametrize(
    ("url", "fields", "message"),
    [
        ("redis://a", {"passwordFile": "none"}, "none: cannot be read: No such file or directory"),
        ("redis://a", {"passwordFile": "latin"}, "latin: cannot be read: "),
        ("rediss://a", {"caFile": "none"}, "none: cannot be read: No such file or directory"),
        ("rediss://a", {"caFile": "latin"}, "latin: must contain CA certificates"),
    ],
)
def test_invalid_files_are_reported_at_once(tmp_path: Path, url: str, fields: dict[str, str], message: str) -> None:
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError) as raised:
        connector(url, tmp_path, **fields)
    assert str(raised.value).startswith(f"{tmp_path}/{message}")
