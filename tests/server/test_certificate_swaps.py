"""Certificates of a running server are exchanged under load: no call fails, and what is new is shown before long."""

import os
import time
from pathlib import Path

import pytest

from ..support.certificate_swaps import serve_mounted
from ..support.mounts import invalid_secrets, secret
from ..support.servers import await_true

FAILURES = "webhooks_certificate_reload_failures_total"
RATE = 10  # exchanges a second
SWAPS = 30
PATIENCE = 10  # seconds until what is new is shown
NO_UVLOOP = "raise ImportError('there is none here')\n"


@pytest.mark.parametrize("kind", ["uvloop", "asyncio", "two workers"])
def test_certificates_are_exchanged_under_load(kind: str, tmp_path: Path) -> None:
    """The serving pair with its authority, and the authorities of callers, all at once."""
    environment = {}
    if kind == "asyncio":
        (tmp_path / "uvloop.py").write_text(NO_UVLOOP)
        environment["PYTHONPATH"] = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    secrets = [secret() for _ in range(6)]
    options = ("--workers", 2) if kind == "two workers" else ()
    with serve_mounted(tmp_path, secrets, *options, **environment) as served:
        if kind != "two workers":
            maps = Path(f"/proc/{served.server.process.pid}/maps").read_text()
            assert ("uvloop" in maps) is (kind == "uvloop")
        with served.under_load() as load:
            for number in range(SWAPS):
                served.mount.put(secrets[number % len(secrets)])
                time.sleep(1 / RATE)  # the rate is what is tried here
            last = secrets[SWAPS % len(secrets)]
            served.mount.put(last)
            began = time.monotonic()
            await_true(lambda: served.presents(last), "the last one is shown")
            shown = time.monotonic() - began
        print(f"{load.answered} calls, {len(load.failures)} failures, shown after {shown:.1f} s")
        assert load.failures == []
        assert load.answered > 100
        assert shown < PATIENCE
        assert served.metric_values(FAILURES) == {"": 0}


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_ones_are_counted_while_the_old_one_serves_on(workers: int, tmp_path: Path) -> None:
    good = secret()
    with serve_mounted(tmp_path, [good], "--workers", workers) as served, served.under_load() as load:
        ends = served.metric_values("webhooks_certificate_expiry_timestamp_seconds")
        assert ends.keys() == {"serving", "client_ca"}
        for count, name in enumerate(("another key", "an empty certificate"), 1):
            served.mount.put(invalid_secrets()[name] | {"ca.crt": good["ca.crt"]})
            failures = {"": float(count * workers)}
            await_true(lambda: served.metric_values(FAILURES) == failures, "it is counted")  # noqa: B023
            assert served.presents(good)
        assert served.metric_values("webhooks_certificate_expiry_timestamp_seconds") == ends
    assert load.failures == []
    told = [record["level"] for record in served.server.logs() if record["logger"] == "webhooks.server"]
    assert told == ["error"] * 2 * workers
