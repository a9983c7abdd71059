"""Running wrk."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench.servers import BenchError

SCRIPT = Path(__file__).with_name("post.lua")


@dataclass(frozen=True)
class Sample:
    """What one run of wrk saw."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def load(url: str, body: Path, connections: int, seconds: int) -> Sample:
    """Post the body on kept-alive connections from one thread; any error ends the benchmark."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise BenchError("wrk is needed, and is not here")
    command = [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(SCRIPT), url, "--", str(body)]
    done = subprocess.run(command, capture_output=True, text=True)
    line = next((line for line in done.stdout.splitlines() if line.startswith("JSON ")), None)
    if done.returncode or line is None:
        raise BenchError(f"wrk failed on {url}: {done.stdout}{done.stderr}")
    seen = json.loads(line.removeprefix("JSON "))
    if any(seen["errors"].values()) or not seen["requests"]:
        raise BenchError(f"wrk saw errors on {url} with {body.name}: {seen}")
    return Sample(seen["requests"], seen["duration_us"] / 1e6, seen["p50_us"] / 1e3, seen["p99_us"] / 1e3)
