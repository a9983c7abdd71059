"""Runs wrk."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench.servers import BenchError

SCRIPT = Path(__file__).with_name("post.lua")


@dataclass(frozen=True)
class Sample:
    """The figures of one run of wrk."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def load(url: str, body: Path, connections: int, seconds: int) -> Sample:
    """Post a body on persistent connections from one thread. Any error stops the benchmark."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise BenchError("wrk is not installed")
    command = [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(SCRIPT), url, "--", str(body)]
    done = subprocess.run(command, capture_output=True, text=True)
    line = next((line for line in done.stdout.splitlines() if line.startswith("JSON ")), None)
    if done.returncode or line is None:
        raise BenchError(f"wrk failed on {url}: {done.stdout}{done.stderr}")
    measured = json.loads(line.removeprefix("JSON "))
    if any(measured["errors"].values()) or not measured["requests"]:
        raise BenchError(f"wrk reported errors on {url} with {body.name}: {measured}")
    return Sample(
        measured["requests"], measured["duration_us"] / 1e6, measured["p50_us"] / 1e3, measured["p99_us"] / 1e3
    )
