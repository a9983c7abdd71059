"""Who has to go, and when: told of connections that are nothing but a stage and a time."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import pytest

from webhooks.http import memory
from webhooks.http.connections import ConnectionTable, Stage
from webhooks.observability.metrics import Counter, Gauge, MetricRegistry
from webhooks.settings import Limits

LIMITS = Limits(max_connections=4, max_connections_per_peer=3)


@dataclass(eq=False)
class Client:
    """A connection as it is seen from here."""

    stage: Stage = "idle"
    since: float = 0.0
    peer: str = "10.0.0.1"
    left: bool = False
    aborted: bool = False

    def leave(self) -> None:
        self.left, self.since = True, time.monotonic()

    def abort(self) -> None:
        self.aborted = True


class Port:
    """The connections of one port."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.meters = MetricRegistry()
        self.connections = ConnectionTable("reviews", limits, 120.0, self.meters)

    def connect(self, *callers: Client) -> None:
        for client in callers:
            self.connections.add(client)

    def watch(self) -> None:
        """Look at all of them."""

        async def watch() -> None:
            for _ in range(4):  # some at a time
                self.connections.watch()

        asyncio.run(watch())

    def admit(self, peer: str) -> bool:
        async def admit() -> bool:
            return self.connections.admit(peer)

        return asyncio.run(admit())

    def counted(self, name: str) -> Mapping[tuple[str, ...], float]:
        meter = self.meters.by_name[f"webhooks_connections{name}"]
        assert isinstance(meter, Counter | Gauge)
        return {labels[1:]: value for labels, value in meter.values.items()}


def ago(seconds: float) -> float:
    """A time on the clock of event loops."""
    return time.monotonic() - seconds


@pytest.mark.parametrize(
    ("stage", "seconds"), [("tls", 5), ("header", 5), ("body", 10), ("answer", 10), ("idle", 120), ("end", 5)]
)
def test_whoever_keeps_the_server_waiting_has_so_many_seconds(stage: Stage, seconds: float) -> None:
    port, early, late = Port(), Client(stage, ago(seconds - 1)), Client(stage, ago(seconds + 1))
    port.connect(early, late)
    port.watch()
    assert (early.left, late.left) == (False, True)
    assert port.counted("_ended") == {(stage,): 1}


def test_whoever_waits_for_policies_has_time() -> None:
    port, client = Port(), Client("policies", -1e9)
    port.connect(client)
    port.watch()
    assert not client.left


def test_a_crowd_is_ended_a_few_at_a_time() -> None:
    """Others have their turn in between."""
    port, callers = Port(Limits(tls_timeout=0.1)), [Client("tls", ago(1)) for _ in range(100)]

    async def look() -> None:
        port.connect(*callers)
        port.connections.watch()
        gone = [0]
        while gone[-1] < 100:
            await asyncio.sleep(0)
            gone.append(sum(client.left for client in callers))
        assert max(later - earlier for earlier, later in pairwise(gone)) < 50

    asyncio.run(asyncio.wait_for(look(), 5))


def test_all_are_admitted_while_there_is_room() -> None:
    port = Port()
    for number in range(4):
        assert port.admit(f"10.0.0.{number}")
        port.connect(Client(peer=f"10.0.0.{number}"))
    assert port.counted("") == {(): 4}
    assert port.counted("_ended") == port.counted("_refused") == {}


@pytest.mark.parametrize(
    ("who", "others"),
    [
        (("idle", 60), [("idle", 59), ("idle", 1)]),
        (("tls", 1), [("idle", 20)]),
        (("idle", 3), [("tls", 0.1)]),  # who begins is not silent yet
        (("header", 2), [("body", 3)]),
        (("answer", 5), [("end", 1)]),
        (("idle", 0), [("policies", 100), ("policies", 100)]),
    ],
)
def test_those_make_room_that_have_used_most_of_their_time(
    who: tuple[Stage, float], others: list[tuple[Stage, float]]
) -> None:
    callers = [Client(stage, ago(seconds)) for stage, seconds in (*others, who)]
    port = Port(Limits(max_connections=len(callers)))
    port.connect(*callers)
    assert port.admit("10.0.0.9")
    assert [client.aborted for client in callers] == [False] * len(others) + [True]
    assert port.counted("_ended") == {("room",): 1}
    assert port.counted("") == {(): len(others)}


def test_one_in_sixty_four_makes_room_at_once() -> None:
    port = Port(Limits(max_connections=256))
    callers = [Client(since=ago(100 - number / 10)) for number in range(256)]
    port.connect(*callers)
    assert port.admit("10.0.0.9")
    assert [client.aborted for client in callers] == [True] * 4 + [False] * 252


def test_an_address_at_its_limit_makes_room_itself() -> None:
    port, other = Port(), Client("tls", ago(4), "10.0.0.2")
    callers = [Client(since=ago(30 - number)) for number in range(3)]
    port.connect(other, *callers)
    assert port.admit("10.0.0.1")
    assert [client.aborted for client in (*callers, other)] == [True, False, False, False]


@pytest.mark.parametrize(("peers", "limit"), [((1, 1, 1), "peer"), ((1, 2, 3, 4), "all")])
def test_a_new_one_is_refused_where_all_wait_for_policies(peers: tuple[int, ...], limit: str) -> None:
    port = Port()
    port.connect(*(Client("policies", peer=f"10.0.0.{peer}") for peer in peers))
    assert not port.admit("10.0.0.1")
    assert port.counted("_refused") == {(limit,): 1}


def test_a_crowd_that_cannot_make_room_is_not_looked_at_for_each_new_one() -> None:
    port = Port()
    callers = [Client("policies", peer=f"10.0.0.{number}") for number in range(4)]
    port.connect(*callers)
    assert not port.admit("10.0.0.1")
    callers[0].stage, callers[0].since = "idle", ago(1)
    assert not port.admit("10.0.0.1")
    port.watch()  # a second later
    assert port.admit("10.0.0.1")


def test_whoever_is_gone_is_counted_no_longer() -> None:
    port, client, other = Port(), Client(), Client(peer="10.0.0.2")
    port.connect(client, other)
    for _ in range(2):
        port.connections.discard(client)
    assert port.counted("") == {(): 1}
    for _ in range(3):
        assert port.admit("10.0.0.1")
        port.connect(Client("policies"))
    assert port.admit("10.0.0.3")
    assert other.aborted


@pytest.mark.parametrize(("gone", "given"), [(63, 0), (64, 1)])
def test_memory_is_given_back_when_a_crowd_has_gone(gone: int, given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[None] = []
    monkeypatch.setattr(memory, "give_back", lambda: times.append(None))
    port, callers = Port(Limits()), [Client(since=ago(0)) for _ in range(100)]
    port.connect(*callers)
    port.watch()
    for client in callers[:gone]:
        port.connections.discard(client)
    for _ in range(2):
        port.watch()
    assert len(times) == given
