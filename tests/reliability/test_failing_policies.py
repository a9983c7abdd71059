"""Policies that raise, hang or leak: their reviews are denied in time, and others are not affected."""

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from resource import getpagesize
from typing import Any

import pytest

from webhooks.engine.process_worker import _MAX_RESIDENT

from ..server.test_shutdown import children
from ..support.clients import metric_samples
from ..support.load import Client, Load, post_expecting
from ..support.servers import Server, await_true, review, serving
from .figures import Figure, Size

BUDGET = 0.5  # timeout of the policies, in seconds
LATE = 0.2  # seconds after the timeout in which the denial must be sent
MIB = 1024 * 1024


def path_of(policy: str) -> str:
    return f"/admission/validate/{policy}"


def ask(server: Server, policy: str, name: str) -> dict[str, Any]:
    """Return the response of a policy to the review of an object with a name."""
    reply = server.post(path_of(policy), review(name))
    assert reply.status == 200
    assert b"hush" not in reply.body
    response = reply.json()["response"]
    assert response["uid"] == "uid-1"
    assert isinstance(response, dict)
    return response


def make_inline(server: Server, policy: str) -> None:
    """Call a policy with reviews that are fast, until it runs inline."""

    def is_inline() -> bool:
        with server.connect() as connection:
            for _ in range(100):
                connection.post(path_of(policy), review("well"))
        return metric_samples(server, "webhooks_policy_inline")[f'{{policy="{policy}"}}'] == 1

    await_true(is_inline, f"{policy} runs inline")


# Policies that raise. The name of the object is the number of the exception.

RAISING = """\
import asyncio
import builtins
import threading
import time

from webhooks import *
from webhooks import errors
from webhooks.engine import invocation


class Unspeakable(Exception):
    def __str__(self):
        raise SystemExit("hush")


class Textless(Exception):
    def __str__(self):
        return None


class Unrepresentable(BaseException):
    def __init__(self):
        self.args = (self,)

    def __repr__(self):
        raise MemoryError("hush")


class Disguised(BaseException):
    @property
    def __class__(self):
        raise KeyboardInterrupt("hush")


class Liar(BaseException):
    __class__ = Allow


class Nameless(type):
    @property
    def __name__(cls):
        raise GeneratorExit("hush")


class Anonymous(Exception, metaclass=Nameless):
    pass


def throw(error):
    raise error


def recurse():
    return recurse() + 1


def exhaust():
    return bytearray(2**62)


def nest():
    error = ValueError("hush")
    for number in range(2_000):
        error = ExceptionGroup("hush", [error])
    raise error


def blame_itself():
    try:
        raise ValueError("hush")
    except ValueError as error:
        error.__context__ = OSError("hush")
        error.__context__.__context__ = error
        raise error


def blame_many():
    for _ in range(2_000):
        try:
            raise error
        except Exception as another:
            error = another
            error = ValueError("hush")
            error.__cause__ = another
    raise error


BUILT_IN = [each for each in vars(builtins).values() if isinstance(each, type) and issubclass(each, BaseException)]
IMPORTED = [asyncio.CancelledError, asyncio.QueueFull, threading.BrokenBarrierError]
OURS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BaseException)]
WAYS = [
    *(lambda each=each: throw(each("hush")) for each in [*BUILT_IN, *IMPORTED, *OURS]),
    *(lambda waits=waits: throw(invocation.PolicyInterrupted(waits=waits)) for waits in (True, False)),
    *(lambda each=each: throw(each()) for each in (Unspeakable, Textless, Unrepresentable, Disguised, Liar, Anonymous)),
    lambda: throw(ExceptionGroup("hush", [ValueError("hush"), TypeError("hush")])),
    lambda: throw(BaseExceptionGroup("hush", [SystemExit("hush"), KeyboardInterrupt("hush")])),
    lambda: throw(ValueError("hush" * 1_000_000)),
    lambda: throw(ValueError("hush\\ud800\\x00\\r\\n\\x1b[31m")),
    lambda: throw(SystemExit(Allow())),
    lambda: throw("hush"),
    lambda: throw(None),
    lambda: throw(StopIteration(Allow())),
    recurse,
    exhaust,
    nest,
    blame_itself,
    blame_many,
    lambda: review.object["hush"],
]


def misbehave(review):
    if review.name != "well":
        WAYS[int(review.name) % len(WAYS)]()
    return Allow()


@validating("*/*")
def inline(review):
    return misbehave(review)


@validating("*/*")
def in_thread(review):
    time.sleep(0.002)
    return misbehave(review)


@validating("*/*")
async def on_loop(review):
    await asyncio.sleep(0)
    return misbehave(review)


@validating("*/*", isolation=True)
def isolated(review):
    return misbehave(review)
"""


@pytest.fixture(scope="module")
def raising(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("raising"), policies=RAISING) as server:
        yield server


@pytest.mark.parametrize("way", ["inline", "in_thread", "on_loop", "isolated"])
def test_item_10_policies_that_raise_anything(way: str, raising: Server, figure: Figure) -> None:
    if way == "inline":
        make_inline(raising, way)
    processes, denied = children(raising), 0
    with raising.connect() as connection:
        for number in range(1000):
            reply = connection.post(path_of(way), review(str(number)))
            response = reply.json()["response"]
            denied += response["allowed"] is False and response["status"]["code"] in (400, 500, 504)
            assert b"hush" not in reply.body or response["status"]["code"] == 400  # the message of a malformed outcome
    lives = raising.process.poll() is None and children(raising) == processes
    figure(
        10,
        f"1,000 policies that raise any exception, {way.replace('_', ' ')}",
        f"{denied} denied, {'no restart' if lives else 'restarted'}",
        "1,000 denied, no restart",
    )
    assert (denied, lives) == (1000, True)
    assert ask(raising, way, "well")["allowed"] is True


# Policies that hang. The name of the object selects how.

HANGING = f"""\
import asyncio
import os
import re
import signal
import time

from webhooks import *

BUDGET = {BUDGET}


def sleeps():
    time.sleep(4 * BUDGET)


def loops():
    while True:
        pass


def backtracks():
    re.match("(a+)+$", "a" * 40 + "b")


def ignores_signals():
    for number in set(signal.Signals) - {{signal.SIGKILL, signal.SIGSTOP}}:
        signal.signal(number, signal.SIG_IGN)
    loops()


def stops():
    os.kill(os.getpid(), signal.SIGSTOP)


def hang(review):
    if review.name != "well":
        globals()[review.name]()
    return Allow()


async def hang_later(review):
    await asyncio.sleep(60 if review.name == "waits" else 0)
    return hang(review)


quick = validating("*/*", name="quick")(lambda review: Allow(warnings=[str(len(review.object))]))
plain = validating("*/*", name="plain", timeout=BUDGET)(hang)
in_place = validating("*/*", name="inline", timeout=BUDGET)(hang)
on_loop = validating("*/*", name="on_loop", timeout=BUDGET)(hang_later)
isolated = validating("*/*", name="isolated", timeout=BUDGET, isolation=True)(hang)
isolated_later = validating("*/*", name="isolated_later", timeout=BUDGET, isolation=True)(hang_later)
"""

# Other reviews are processed in the meantime.
ASIDE = [
    ("plain", "sleeps"),
    ("on_loop", "waits"),
    ("isolated", "sleeps"),
    ("isolated", "loops"),
    ("isolated", "backtracks"),
    ("isolated", "ignores_signals"),
    ("isolated", "stops"),
    ("isolated_later", "waits"),
    ("isolated_later", "backtracks"),
]

# Other reviews wait until the policy is interrupted.
IN_THE_WAY = [
    ("on_loop", "sleeps"),
    ("on_loop", "loops"),
    ("on_loop", "backtracks"),
    ("inline", "loops"),
    ("inline", "backtracks"),
    ("inline", "sleeps"),  # once, then never inline again
]


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("hanging"), policies=HANGING) as server:
        yield server


def others(server: Server) -> Load:
    """Return a client whose reviews call none of the policies that hang."""
    expected = server.post(path_of("quick"), review())
    assert expected.json()["response"]["allowed"] is True
    return Load([Client(server.connect, post_expecting(path_of("quick"), review(), expected.body))])


def waits(load: Load, every: float = 0.005) -> list[float]:
    """Return the sorted waiting times of calls at a fixed rate: a slow call delays the calls after it."""
    assert load.failures == []
    called = itertools.chain.from_iterable(client.durations for client in load.clients)
    return sorted(wait - kept * every for wait in called for kept in range(1 + int(wait / every)))


def denied_after(server: Server, policy: str, name: str) -> float:
    """Return the seconds until a review is denied because of the timeout."""
    start = time.perf_counter()
    response = ask(server, policy, name)
    seconds = time.perf_counter() - start
    assert (response["allowed"], response["status"]["code"]) == (False, 504)
    return seconds


def over(late: Sequence[float]) -> int:
    """Return the maximum delay after the timeout, in milliseconds."""
    return round(1000 * (max(late) - BUDGET))


def hang(server: Server, cases: Sequence[tuple[str, str]], clients: int) -> tuple[list[float], list[float]]:
    """Return the durations of reviews by policies that hang, and the waiting times of others."""
    with others(server).running() as load, ThreadPoolExecutor(clients) as pool:
        late: list[float] = []
        for policy, name in cases:
            if policy == "inline":
                make_inline(server, policy)
            late += pool.map(lambda _, case=(policy, name): denied_after(server, *case), range(clients))
    return late, waits(load)


def test_item_11_policies_that_hang(hanging: Server, figure: Figure, size: Size) -> None:
    late, waited = hang(hanging, ASIDE * size.of(2, 10), clients=2)
    p99 = waited[math.ceil(len(waited) * 0.99) - 1]
    figure(
        11,
        "hanging policies: in threads, awaiting, isolated",
        f"{len(late)} denied at most {over(late)} ms past the budget; p99 of others {1000 * p99:.1f} ms",
        "200 ms, p99 50 ms",
    )
    assert max(late) <= BUDGET + size.of(1.0, LATE)
    assert p99 <= size.of(0.25, 0.05)


def test_item_11_policies_that_block_the_event_loop(hanging: Server, figure: Figure, size: Size) -> None:
    """They run in the event loop and are not isolated, so others wait until they are interrupted."""
    late, waited = hang(hanging, IN_THE_WAY, clients=1)
    figure(
        11,
        "hanging policies that block the event loop",
        f"{len(late)} denied at most {over(late)} ms past the budget; others waited {waited[-1]:.2f} s at most",
        f"200 ms; {BUDGET + LATE:.2f} s",
    )
    assert max(late) <= BUDGET + size.of(1.0, LATE)
    assert waited[-1] <= BUDGET + size.of(1.0, LATE)
    stalls = metric_samples(hanging, "webhooks_policy_blocked_loop_total")
    assert min(stalls['{policy="inline"}'], stalls['{policy="on_loop"}']) >= 3
    assert ask(hanging, "inline", "well")["allowed"] is True


# Policies that leak.

LEAK = 20 * MIB  # bytes of each review
LEAKING = f"""\
import os
from webhooks import *

kept = []


@validating("*/*", isolation=True)
def leaks(review):
    kept.append(b"x" * {LEAK})
    while review.name == "grows":
        kept.append(b"x" * {LEAK})
    return Allow(warnings=[str(os.getpid())])
"""


def resident(process: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has exited."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * getpagesize()
    except OSError:
        return 0


def test_item_12_a_policy_that_leaks(tmp_path: Path, figure: Figure, size: Size) -> None:
    reviews = size.of(150, 1500)
    with serving(tmp_path, policies=LEAKING) as server:
        for _ in range(reviews // 10):
            ask(server, "leaks", "well")
        before, largest = resident(server.process.pid), 0
        processes = set()
        for _ in range(reviews):
            response = ask(server, "leaks", "well")
            assert response["allowed"] is True
            processes.add(process := int(response["warnings"][0]))
            largest = max(largest, resident(process))
        grown = resident(server.process.pid) - before
        failed = ask(server, "leaks", "grows")
        ends = metric_samples(server, "webhooks_isolated_process_exits_total")
        assert ask(server, "leaks", "well")["allowed"] is True
    recycled = ends['{policy="leaks",reason="recycled"}']
    figure(
        12,
        f"an isolated policy that leaks {LEAK // MIB} MiB a review",
        f"{reviews} reviews answered, {recycled:.0f} processes recycled, the largest had {largest / MIB:.0f} MiB; "
        f"the server grew by {grown / MIB:.1f} MiB",
        f"all answered, recycled at {_MAX_RESIDENT // MIB} MiB; 8 MiB",
    )
    assert len(processes) >= reviews * LEAK / (_MAX_RESIDENT + LEAK)
    assert recycled >= len(processes) - 1
    assert largest <= _MAX_RESIDENT + LEAK
    assert grown <= 8 * MIB
    assert (failed["allowed"], failed["status"]["code"]) == (False, 500)
