"""Isolated policies: whatever they do, the review is denied in time, and the next one is answered."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest

from webhooks import Allow, Authenticated, Decision, Deny, NoOpinion, Patch, Replace, Unauthenticated, validating
from webhooks.engine import process_pool
from webhooks.engine.executor import PolicyExecutor
from webhooks.engine.invocation import Result
from webhooks.errors import ConfigurationError, MalformedReview, PolicyFailure, PolicyTimeout
from webhooks.observability.metrics import Counter, MetricRegistry
from webhooks.policy import loader
from webhooks.reviews import admission, admission_codec

from ..support.builders import (
    AnyPolicy,
    access_review,
    admission_body,
    admission_review,
    ignore_pace,
    image_review,
    pod,
    token_review,
    written,
)
from ..support.servers import SECONDS, await_true

T = TypeVar("T")
SOON = 0.3  # seconds, of deadlines that are to be missed
LATE = 0.2  # seconds that a denial may come after that

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
def tells(review):
    secrets = {name for name in os.environ if name not in ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TZ")}
    files = []
    for descriptor in range(3, 100):
        try:
            files.append(os.readlink(f"/proc/self/fd/{descriptor}").partition(":")[0])
        except OSError:
            pass
    return Deny(json.dumps([sorted(secrets), sorted(set(files))]))


@validating("*/*", isolation=True)
def answers(review, *, said: str = "nothing"):
    return {
        "deny": lambda: Deny("no", reason="Odd", code=418, details={"causes": [{"a": 1.5}]}, audit={"a": "b"}),
        "warn": lambda: Allow(warnings=["w"], audit={"k": review.labels["app"]}),
        "said": lambda: Deny(said),
        "true": lambda: True,
        "raises": lambda: {}["a secret detail"],
        "raises no text": lambda: (_ for _ in ()).throw(ValueError("\\ud800")),
        "old": lambda: Deny(str(review.old_object)),
        "user": lambda: Deny(f"{review.user.username} {review.operation} {review.uid} {review.options}"),
        "reads": lambda: Deny(str(len(review.object))),
    }[review.name]()


said = answers.bind(said="something").with_name("said")


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
    """A loop in a thread of its own, and on it what runs the policies of a file."""

    def __init__(self, file: Path) -> None:
        self.policies = {policy.name: policy for policy in loader.load([str(file)])}
        self.meters = MetricRegistry()
        self.runner = PolicyExecutor(self.policies.values(), ignore_pace, self.meters)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def ask(self, name: str, review: Any, within: float = SECONDS) -> Future[Result]:
        return self.do(self.runner.run(self.policies[name], review, time.perf_counter() + within))

    def result(self, name: str, review: Any, within: float = SECONDS) -> Result:
        return self.ask(name, review, within).result(SECONDS)

    def close(self) -> None:
        self.do(self.runner.close()).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def ends(self) -> Mapping[tuple[str, ...], float]:
        counter = self.meters.by_name["webhooks_isolated_process_exits"]
        assert isinstance(counter, Counter)
        return counter.values


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    file = tmp_path_factory.mktemp("isolation") / "policies.py"
    file.write_text(POLICIES)
    lab = Lab(file)
    lab.do(lab.runner.start()).result(SECONDS)
    yield lab
    lab.close()


def named(name: str) -> admission.AdmissionReview:
    return admission_review("CREATE", pod(labels={"app": "web"}), name=name)


def process(lab: Lab, name: str = "well") -> int:
    """The process that answers."""
    outcome = lab.result("misbehaves", named(name)).outcome
    assert isinstance(outcome, Allow)
    return int(outcome.warnings[0])


LATES = ["sleep", "loop", "backtrack", "ignore_signals", "stop"]
DEATHS = ["exit", "crash", "abort"]
FAILURES = {
    "hog": "MemoryError",
    "grow": "MemoryError",
    "grow_elsewhere": "Cannot allocate memory",
    "fork": "Operation not permitted",
    "spawn": "Operation not permitted",
    "thread_on": "can't start new thread",
    "raise_exit": "SystemExit",
    "recurse": "RecursionError",
    "lie": "its process answered something else",
    "boast": "answered with more than",
}


@pytest.mark.parametrize("name", LATES)
def test_what_is_late_is_denied_in_time_and_killed(name: str, lab: Lab) -> None:
    before, killed = process(lab), lab.ends.get(("misbehaves", "killed"), 0)
    began = time.monotonic()
    result = lab.result("misbehaves", named(name), SOON)
    assert SOON <= time.monotonic() - began < SOON + LATE
    assert isinstance(result.failure, PolicyTimeout)
    assert lab.ends["misbehaves", "killed"] == killed + 1
    assert process(lab) != before
    await_true(lambda: not Path(f"/proc/{before}").exists(), "nothing is left of it")


@pytest.mark.parametrize("name", DEATHS)
def test_what_dies_is_denied_at_once_and_replaced(name: str, lab: Lab) -> None:
    before, died = process(lab), lab.ends.get(("misbehaves", "died"), 0)
    result = lab.result("misbehaves", named(name))
    assert str(result.failure) == "its process died"
    assert lab.ends["misbehaves", "died"] == died + 1
    assert process(lab) != before


@pytest.mark.parametrize("name", FAILURES)
def test_what_takes_more_than_it_may_fails(name: str, lab: Lab) -> None:
    result = lab.result("misbehaves", named(name))
    assert result.outcome is None
    assert FAILURES[name] in str(result.failure)
    process(lab)


def test_one_that_leaks_is_recycled_and_no_review_is_lost(lab: Lab) -> None:
    recycled = lab.ends.get(("misbehaves", "recycled"), 0)
    processes = [process(lab, "leak") for _ in range(7)]
    assert 2 <= len(set(processes)) <= 4
    assert lab.ends["misbehaves", "recycled"] >= recycled + 2


def test_several_are_asked_at_once(lab: Lab) -> None:
    late = [lab.ask("misbehaves", named("sleep"), 2 * SOON) for _ in range(2)]
    assert lab.result("misbehaves", named("well")).failure is None
    assert all(isinstance(each.result(SECONDS).failure, PolicyTimeout) for each in late)


def test_it_has_nothing_of_the_servers(lab: Lab) -> None:
    outcome = lab.result("tells", named("well")).outcome
    assert isinstance(outcome, Deny)
    assert outcome.message == '[["PYTHONPATH"], ["anon_inode", "socket"]]'


ANSWERS = {
    ("answers", "deny"): Deny("no", reason="Odd", code=418, details={"causes": [{"a": 1.5}]}, audit={"a": "b"}),
    ("answers", "warn"): Allow(warnings=["w"], audit={"k": "web"}),
    ("answers", "said"): Deny("nothing"),
    ("said", "said"): Deny("something"),
    ("answers", "old"): Deny("None"),
    ("answers", "user"): Deny("jane CREATE 705ab4f5-6393-11e8-b7cc-42010a800002 None"),
    ("waits", "well"): Allow(warnings=["waited"]),
    ("changes", "well"): Replace(pod(labels={"a": "b"})),
    ("changes", "patch"): Patch([{"op": "add", "path": "/metadata/labels", "value": {"é": 2**63 - 1}}]),
}


def same(one: Any, other: Any) -> bool:
    """Whether outcomes are the same, lists and tuples taken alike."""
    return type(one) is type(other) and written({f: getattr(one, f) for f in one.__struct_fields__}) == written(
        {f: getattr(other, f) for f in other.__struct_fields__}
    )


@pytest.mark.parametrize(("policy", "name"), ANSWERS)
def test_outcomes_come_back_as_they_were(policy: str, name: str, lab: Lab) -> None:
    assert same(lab.result(policy, named(name)).outcome, ANSWERS[policy, name])


def test_outcomes_of_other_protocols(lab: Lab) -> None:
    for name, review, outcome in (
        ("authorizes", access_review(verb="get", resource="pods"), Allow(reason="jane of ('dev',)")),
        ("authorizes", access_review(verb="delete", resource="pods"), Deny("no")),
        ("authorizes", access_review(verb="list", resource="pods"), NoOpinion()),
        ("authenticates", token_review("bad"), Unauthenticated("unknown")),
        (
            "authenticates",
            token_review("good", ["x"]),
            Authenticated("jane", uid="1", groups=["a"], extra={"k": ["v"]}, audiences=["x"]),
        ),
        ("pinned", image_review("a", "b@sha256:c"), Deny("a")),
    ):
        assert same(lab.result(name, review).outcome, outcome), name


@pytest.mark.parametrize(
    ("policy", "name", "says"),
    [
        ("answers", "true", "returned a value of type bool"),
        ("answers", "raises", "raised KeyError: 'a secret detail'"),
        ("answers", "raises no text", "raised ValueError: \\ud800"),
        ("changes", "nan", "nan is not JSON"),
        ("changes", "bad patch", "a value in the patch is not JSON"),
    ],
)
def test_failures_come_back_with_what_was_wrong(policy: str, name: str, says: str, lab: Lab) -> None:
    result = lab.result(policy, named(name))
    assert result.outcome is None
    assert type(result.failure) is PolicyFailure
    assert says in str(result.failure)


def test_where_it_failed_is_told(lab: Lab) -> None:
    failure = lab.result("answers", named("raises")).failure
    assert failure is not None
    assert "policies.py" in str(failure.__cause__)
    assert "KeyError" in str(failure.__cause__)


def test_what_it_cannot_read_makes_the_review_malformed(lab: Lab) -> None:
    body = written(admission_body("CREATE", {"a": 1}, name="reads")).replace(b'{"a":1}', b'{"a":1,"a":2}')
    failure = lab.result("answers", admission_codec.CODEC.decode(body)).failure
    assert isinstance(failure, MalformedReview)
    assert (failure.code, str(failure)) == (400, "duplicate key 'a'")


def test_a_coroutine_past_its_deadline(lab: Lab) -> None:
    assert isinstance(lab.result("waits", named("long"), SOON).failure, PolicyTimeout)
    assert lab.result("waits", named("well")).failure is None


def test_it_sees_what_was_changed_before(lab: Lab) -> None:
    changed = admission.with_object(named("reads"), admission_review(obj={"a": 1, "b": 2, "c": 3})._object)
    outcome = lab.result("answers", changed).outcome
    assert isinstance(outcome, Deny)
    assert outcome.message == "3"


def test_what_cannot_be_loaded_there_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "policies.py"
    file.write_text("import sys\nassert 'webhooks.engine.process_worker' not in sys.orig_argv\n" + POLICIES)
    lab = Lab(file)
    with pytest.raises(ConfigurationError, match=r"policies\.py:\d+: policy '\w+' cannot be isolated: .*Assertion"):
        lab.do(lab.runner.start()).result(SECONDS)
    lab.close()


def test_what_no_policy_file_makes_is_a_mistake() -> None:
    @validating("pods", isolation=True)
    def here(review: Any) -> Decision:
        return Allow()

    policy: AnyPolicy = here

    async def start() -> None:
        runner = PolicyExecutor([policy], ignore_pace, MetricRegistry())
        try:
            await runner.start()
        finally:
            await runner.close()

    with pytest.raises(ConfigurationError, match="policy 'here' cannot be isolated"):
        asyncio.run(start())


def test_one_that_cannot_be_replaced_is_tried_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process_pool, "_PAUSE", 0.01)
    file = tmp_path / "policies.py"
    file.write_text(POLICIES)
    lab = Lab(file)
    lab.do(lab.runner.start()).result(SECONDS)
    file.write_text("oops(")
    assert lab.result("misbehaves", named("exit")).failure is not None
    assert isinstance(lab.result("misbehaves", named("well"), 1.0).failure, PolicyTimeout)
    assert any("a process of policy misbehaves did not start" in message for message in caplog.messages)
    file.write_text(POLICIES)
    assert lab.result("misbehaves", named("well")).failure is None
    lab.close()
