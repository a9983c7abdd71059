"""Isolated policies for tests, and an executor that runs them in their processes."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from webhooks.engine.executor import PolicyExecutor
from webhooks.engine.invocation import Result
from webhooks.observability.metrics import Counter, MetricRegistry
from webhooks.policy import loader
from webhooks.reviews.admission import AdmissionReview

from .builders import admission_review, ignore_change, pod
from .servers import SECONDS

T = TypeVar("T")

POLICIES = """\
import asyncio, ctypes, json, mmap, os, re, signal, subprocess, sys, threading, time
from webhooks import *

kept = []


def sleep(): time.sleep(60)


def loop():
    while True:
        pass


def backtrack(): re.match("(a+)+$", "a" * 40 + "b")


def ignore_signals():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    loop()


def stop(): os.kill(os.getpid(), signal.SIGSTOP)


def hog(): bytearray(10**10)


def grow():
    while True:
        kept.append(bytearray(10**7))


def grow_elsewhere():
    while True:
        kept.append(mmap.mmap(-1, 10**8))


def exit(): os._exit(0)


def crash(): ctypes.string_at(0)


def abort(): os.abort()


def fork():
    while True:
        os.fork()


def spawn(): subprocess.run(["true"])


def thread_on():
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def raise_exit(): sys.exit(0)


def recurse(): recurse()


def lie():
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b"\\0\\0\\0\\5hello")
        except OSError:
            pass
    sleep()


def boast():
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b"\\377\\377\\377\\377")
        except OSError:
            pass
    sleep()


def leak(): kept.append(bytearray(b"x" * 10**8))


@validating("*/*", isolation=True)
def misbehaves(review):
    if review.name in globals():
        globals()[review.name]()
    return Allow(warnings=[str(os.getpid())])


@validating("*/*", isolation=True)
def environment(review):
    secrets = {name for name in os.environ if name not in ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TZ")}
    files = []
    for descriptor in range(3, 100):
        try:
            files.append(os.readlink(f"/proc/self/fd/{descriptor}").partition(":")[0])
        except OSError:
            pass
    return Deny(json.dumps([sorted(secrets), sorted(set(files))]))


@validating("*/*", isolation=True)
def answers(review, *, text: str = "nothing"):
    return {
        "deny": lambda: Deny("no", reason="Odd", code=418, details={"causes": [{"a": 1.5}]}, audit={"a": "b"}),
        "warn": lambda: Allow(warnings=["w"], audit={"k": review.labels["app"]}),
        "parameter": lambda: Deny(text),
        "true": lambda: True,
        "raises": lambda: {}["a secret detail"],
        "raises no text": lambda: (_ for _ in ()).throw(ValueError("\\ud800")),
        "old": lambda: Deny(str(review.old_object)),
        "user": lambda: Deny(f"{review.user.username} {review.operation} {review.uid} {review.options}"),
        "reads": lambda: Deny(str(len(review.object))),
    }[review.name]()


bound = answers.bind(text="something").with_name("bound")


@validating("*/*", isolation=True)
async def waits(review):
    await asyncio.sleep(0)
    if review.name == "long":
        await asyncio.sleep(60)
    return Allow(warnings=["waited"])


@mutating("*/*", isolation=True)
def changes(review):
    changed = review.object
    changed["metadata"]["labels"] = {"a": "b"}
    if review.name == "nan":
        changed["spec"] = float("nan")
    if review.name == "patch":
        return Patch([{"op": "add", "path": "/metadata/labels", "value": {"é": 2**63 - 1}}])
    if review.name == "bad patch":
        return Patch([{"op": "add", "path": "/metadata/labels", "value": float("nan")}])
    return Replace(changed)


@authorizing("*", isolation=True)
def authorizes(access):
    if access.verb == "get":
        return Allow(reason=f"{access.user} of {access.groups}")
    return Deny("no") if access.verb == "delete" else NoOpinion()


@authenticating(isolation=True)
def authenticates(review):
    if review.token == "good":
        return Authenticated("jane", uid="1", groups=["a"], extra={"k": ["v"]}, audiences=list(review.audiences))
    return Unauthenticated("unknown")


@image_policy(isolation=True)
def pinned(review):
    return Deny(", ".join(image for image in review.images if "@" not in image))
"""


class Lab:
    """An executor of the policies in a file, on an event loop in another thread."""

    def __init__(self, file: Path) -> None:
        self.policies = {policy.name: policy for policy in loader.load([str(file)])}
        self.metrics = MetricRegistry()
        self.executor = PolicyExecutor(self.policies.values(), ignore_change, self.metrics)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def start(self, name: str, review: Any, within: float = SECONDS) -> Future[Result]:
        return self.run(self.executor.run(self.policies[name], review, time.perf_counter() + within))

    def result(self, name: str, review: Any, within: float = SECONDS) -> Result:
        return self.start(name, review, within).result(SECONDS)

    def close(self) -> None:
        self.run(self.executor.close()).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def exits(self) -> Mapping[tuple[str, ...], float]:
        counter = self.metrics.by_name["webhooks_isolated_process_exits"]
        assert isinstance(counter, Counter)
        return counter.values


@contextmanager
def running(folder: Path) -> Iterator[Lab]:
    """Run the policies."""
    file = folder / "policies.py"
    file.write_text(POLICIES)
    lab = Lab(file)
    lab.run(lab.executor.start()).result(SECONDS)
    yield lab
    lab.close()


def review_of(name: str) -> AdmissionReview:
    """Return a review of an object whose name selects the behaviour of a policy."""
    return admission_review("CREATE", pod(labels={"app": "web"}), name=name)
