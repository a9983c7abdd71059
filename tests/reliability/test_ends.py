"""Servers and workers that stop or crash under load: no review is lost that could be processed."""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

from ..support.load import VALIDATE, Client, Load, Service, is_ready
from ..support.servers import POLICIES, SECONDS, Connection, Reply, Server, await_true, review, serving
from .figures import Figure, Size

LEAVING = ("--shutdown-delay", "2s")


def go_on(clients: list[Client]) -> None:
    """Wait until each client has made further calls."""
    before = [len(client.durations) for client in clients]
    await_true(
        lambda: all(len(client.durations) > count + 5 for client, count in zip(clients, before, strict=True)),
        "all of them are answered",
    )


def test_item_08_sigterm(size: Size, figure: Figure, tmp_path: Path) -> None:
    """Each of two servers is stopped and replaced in turn. Half of the clients keep their connections."""
    number = size.of(5, 50)
    with ExitStack() as stack:

        def start(name: str) -> Server:
            (tmp_path / name).mkdir()
            return stack.enter_context(serving(tmp_path / name, *LEAVING))

        service = Service(start("first"), start("second"))
        clients = [Client(service.connect, keep_alive=each % 2 == 0) for each in range(4)]
        codes = []
        with service.polling(), Load(clients).running() as load:
            for each in range(number):
                go_on(clients)
                leaving = service.servers[each % 2]
                leaving.signal()
                codes.append(leaving.wait())
                go_on(clients)
                service.servers[each % 2] = start(str(each))
                await_true(lambda: service.all_ready, "both are ready")
    figure(
        8,
        f"SIGTERM to one of two servers under load, {number} times",
        f"{len(load.failures)} failures in {load.answered:,} reviews",
        "0 failures",
    )
    assert load.failures == []
    assert codes == [0] * number


WHO = """

@validating("whos")
async def who(review):
    import os

    await asyncio.sleep(0.02)  # so that each worker always has a review in process
    return Deny(str(os.getpid()))
"""


class Asking:
    """Asks for the process ID of the worker, and records the workers whose responses were lost."""

    def __init__(self) -> None:
        self.lost: list[int | None] = []  # None for the first request on a connection
        self.current: int | None = None
        self._connection: Connection | None = None

    def __call__(self, connection: Connection) -> Reply:
        if connection is not self._connection:
            self._connection, self.current = connection, None
        try:
            reply = connection.post(VALIDATE, review(resource="whos"))
        except (OSError, EOFError):
            self.lost.append(self.current)
            raise
        self.current = int(reply.json()["response"]["status"]["message"])
        return reply


def test_item_09_killed_workers(size: Size, figure: Figure, tmp_path: Path) -> None:
    """Each client of the killed worker loses one review, others none; the worker is replaced."""
    number, bound = size.of((5, 10.0), (50, 2.0))
    with serving(tmp_path, "--workers", 2, policies=POLICIES + WHO) as server:
        asks = [Asking() for _ in range(8)]
        clients = [Client(lambda: Connection(server.port, server.tls, timeout=SECONDS), ask) for ask in asks]
        seconds, others, lost = [], 0, 0
        with Load(clients).running() as load:
            for each in range(number):
                go_on(clients)
                before = [len(ask.lost) for ask in asks]
                victim = asks[each % len(asks)].current
                assert victim is not None
                first_line, start = len(server.errors.lines), time.monotonic()
                os.kill(victim, signal.SIGKILL)
                server.errors.await_line("a worker died with exit code -9", first_line)
                await_true(lambda: is_ready(server), "it is replaced")
                seconds.append(time.monotonic() - start)
                go_on(clients)
                for ask, count in zip(asks, before, strict=True):
                    lost += len(ask.lost[count:])
                    others += ask.lost[count:] not in ([], [victim])
        others += len(load.failures) - lost
    figure(
        9,
        f"one of two workers killed while both process reviews, {number} times",
        f"{lost} reviews of that worker lost, {others} others of {load.answered:,}; "
        f"replaced after {max(seconds):.2f} s at most",
        f"0 others, replaced <= {bound:g} s" + ("" if size.full else " here, 2 s at full size"),
    )
    assert others == 0
    assert lost > 0
    assert max(seconds) <= bound
