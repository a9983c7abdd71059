"""The budget that several processes share: each decision is one script that a server of the Redis protocol runs.

While that store is away or slow, each process goes by limits of its own, at once, and looks for the store meanwhile.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from time import perf_counter
from urllib.parse import parse_qs, unquote, urlsplit

from webhooks.certificates.verification import load_client_context
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.event_rate_limit.redis_connection import Connection, Refusal, StoreError, command, described
from webhooks.plugins.event_rate_limit.redis_script import Script
from webhooks.plugins.event_rate_limit.settings import RedisSettings
from webhooks.plugins.event_rate_limit.token_bucket import Limit, MemoryBudget

logger = logging.getLogger("webhooks.plugins.event_rate_limit")

_PAUSE = 1.0  # seconds between two attempts to reach a store that is away
_PATIENCE = 1.0  # seconds that one attempt may take
_PORT = 6379
_MOVED = re.compile(r"MOVED [0-9]+ (?P<host>.*):(?P<port>[0-9]+)")
_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Store:
    """Where the store is, and how one introduces oneself.

    Args:
        settings: the configuration.
        probe: a command that succeeds where decisions do.

    Raises:
        ConfigurationError: a file is missing or is not what it must be, or the parser of the protocol is not installed.
    """

    def __init__(self, settings: RedisSettings, probe: bytes) -> None:
        try:
            from hiredis import Reader
        except ImportError:
            raise ConfigurationError(
                "backend redis needs a package that is not installed: pip install 'cluster-webhooks[redis]'"
            ) from None
        self._reader = Reader
        self._url = urlsplit(settings.url)
        self._tls = load_client_context(settings.ca_file) if self._url.scheme == "rediss" else None
        self._password_file = settings.password_file
        self._timeout = settings.timeout
        self._probe = probe
        self._authentication()

    async def connect(self) -> Connection:
        """A connection to the store, which has shown that it decides in time.

        Raises:
            StoreError: it has not, or cannot be reached.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._follow()
        except StoreError:
            raise
        except TimeoutError:
            raise StoreError("it could not be reached in time") from None
        except Exception as error:  # whatever it is, the store is looked for again
            raise StoreError(described(error)) from None

    async def _follow(self) -> Connection:
        """A connection to the node that is named, or to that which it names: of a Redis Cluster, one has the keys."""
        host, port = self._url.hostname or "", self._url.port or _PORT
        try:
            return await self._introduced(host, port)
        except Refusal as refusal:
            moved = _MOVED.fullmatch(str(refusal))
            if moved is None:
                raise
            return await self._introduced(moved["host"] or host, int(moved["port"]))

    async def _introduced(self, host: str, port: int) -> Connection:
        connection = Connection(self._reader(StoreError, Refusal))
        try:
            await self._dial(connection, host, port)
            await self._introduce(connection)
        except BaseException:
            connection.end("the attempt was given up")
            raise
        return connection

    async def _dial(self, connection: Connection, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        if self._url.scheme == "unix":
            await loop.create_unix_connection(lambda: connection, unquote(self._url.path))
        else:
            await loop.create_connection(lambda: connection, host, port, ssl=self._tls)

    async def _introduce(self, connection: Connection) -> None:
        authentication, database = self._authentication(), self._database()
        if authentication:
            answer = await self._answer(connection, command("AUTH", *authentication))
            if isinstance(answer, Refusal):  # the rest of it may repeat the password
                raise StoreError(f"it refuses the password: {str(answer).partition(' ')[0]}")
        for question in [command("SELECT", database)] * (database != "0") + [self._probe]:
            answer = await self._answer(connection, question)
            if isinstance(answer, Refusal):
                raise answer

    async def _answer(self, connection: Connection, question: bytes) -> object:
        answer: object = await connection.ask(question, perf_counter() + self._timeout)
        return answer

    def _database(self) -> str:
        """The number of the database: what follows the host, or ``?db=`` after the path of a socket."""
        if self._url.scheme == "unix":
            return parse_qs(self._url.query).get("db", ["0"])[0]
        return self._url.path.strip("/") or "0"

    def _authentication(self) -> list[str]:
        """The user, where there is one, and the password as the file has it at present."""
        if self._password_file is None:
            return []
        try:
            password = self._password_file.read_text().rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(f"{self._password_file}: cannot be read: {described(error)}") from None
        user = unquote(self._url.username or "")
        return [user, password] if user else [password]


class RedisBudget:
    """The budget of all processes that share a store.

    It belongs to the loop on which it is first asked, and connects then.

    Args:
        limits: in the order of the configuration.
        settings: of the store.
        local: what is asked while the store is away.
        meters: where its latency, its state and the local decisions are told.

    Raises:
        ConfigurationError: as for `Store`.
    """

    def __init__(
        self, limits: Sequence[Limit], settings: RedisSettings, local: MemoryBudget, meters: MetricRegistry
    ) -> None:
        self._script = Script(limits, settings.prefix)
        self._store = Store(settings, self._script.probe)
        self._timeout = settings.timeout
        self._local = local
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._known = asyncio.Event()  # whether the store is there or away; not while the first attempt is made
        self._away = False
        self._seconds = meters.histogram(
            "webhooks_event_rate_limit_store_seconds", "Seconds that the store took to decide.", _BOUNDS
        )
        self._up = meters.gauge(
            "webhooks_event_rate_limit_store_up", "In how many processes the store of event rate limits is in use."
        )
        self._local_decisions = meters.counter(
            "webhooks_event_rate_limit_local_decisions_total",
            "Decisions by limits of the process alone, since the store was away.",
        )

    async def take(self, keys: Sequence[str]) -> list[int]:
        """Take a token from the bucket of each key that has one; none is short-circuited.

        It takes no longer than the store has: a store that is late is away, and one that is away is not waited for.

        Args:
            keys: `keys[i]` belongs to `limits[i]`.

        Returns:
            For each limit 0 where a token was taken, else the nanoseconds until there is one.
        """
        started = perf_counter()
        connection = self._connection or await self._connected()
        if connection is not None:
            try:
                waits = await self._ask(connection, keys, started + self._timeout)
            except StoreError:
                pass  # whoever keeps the connection is told as well
            else:
                self._seconds.observe(perf_counter() - started)
                return waits
        self._local_decisions.add()
        return self._local.take(keys)

    async def close(self) -> None:
        """Let go of the store; from then on the budget is a local one."""
        self._away = True
        self._known.set()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait((self._keeper,))
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.end("it is no longer needed")
            await connection.closed

    async def _ask(self, connection: Connection, keys: Sequence[str], deadline: float) -> list[int]:
        answer = await connection.ask(self._script.take(keys), deadline)
        if isinstance(answer, Refusal) and str(answer).startswith("NOSCRIPT"):
            answer = await connection.ask(self._script.take_untaught(keys), deadline)
        if isinstance(answer, Refusal):
            connection.end(str(answer))
            raise answer
        return [microseconds * 1000 for microseconds in answer]

    async def _connected(self) -> Connection | None:
        """The connection; while nobody knows whether the store is there, there is as much time as for a decision."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())
        if not self._away:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._known.wait()
            except TimeoutError:
                self._go_away("it could not be reached in time")
        return self._connection

    async def _keep(self) -> None:
        """Keep a connection. One that is lost after a while is replaced with no ado: some servers close idle ones."""
        while True:
            began = perf_counter()
            try:
                self._connection = await self._store.connect()
            except StoreError as error:
                self._go_away(str(error))
            else:
                self._come_back()
                lost = self._connection.lost
                await asyncio.wait((lost,))  # which is not cancelled when this is
                self._connection = None
                if perf_counter() - began > _PAUSE:
                    self._known.clear()
                    continue
                self._go_away(lost.result())
            await asyncio.sleep(began + _PAUSE - perf_counter())

    def _go_away(self, why: str) -> None:
        if not self._away:
            logger.warning("the store of event rate limits is away, each process goes by its own: %.200s", why)
        self._away = True
        self._up.set(0)
        self._known.set()

    def _come_back(self) -> None:
        if self._away:
            logger.warning("the store of event rate limits is back, they are shared again")
        self._away = False
        self._up.set(1)
        self._known.set()
