"""Connects to Redis: TLS, authentication, selection of the database, and a probe of the script."""

import asyncio
import re
from time import perf_counter
from urllib.parse import parse_qs, unquote, urlsplit

from webhooks.certificates.verification import load_client_context
from webhooks.errors import missing_extra, reason_for, unreadable
from webhooks.plugins.event_rate_limit.redis_connection import ErrorReply, RedisConnection, RedisError, encode_command
from webhooks.plugins.event_rate_limit.settings import RedisSettings

_TIMEOUT = 1.0  # seconds for an attempt to connect
_PORT = 6379
_MOVED = re.compile(r"MOVED [0-9]+ (?P<host>.*):(?P<port>[0-9]+)")


class RedisConnector:
    """Connects to a server of the Redis protocol.

    Args:
        settings: the configuration.
        probe: a command that succeeds if decisions do.

    Raises:
        ConfigurationError: a file cannot be read or is invalid, or the parser of the protocol is not installed.
    """

    def __init__(self, settings: RedisSettings, probe: bytes) -> None:
        try:
            from hiredis import Reader
        except ImportError as error:
            raise missing_extra("backend: redis", "redis", error) from None
        self._reader = Reader
        self._url = urlsplit(settings.url)
        self._tls = load_client_context(settings.ca_file) if self._url.scheme == "rediss" else None
        self._password_file = settings.password_file
        self._timeout = settings.timeout
        self._probe = probe
        self._credentials()

    async def connect(self) -> RedisConnection:
        """Return a connection on which the probe has succeeded in time.

        Raises:
            RedisError: the server cannot be reached, or the probe failed.
        """
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await self._connect_to_owner()
        except RedisError:
            raise
        except TimeoutError:
            raise RedisError("not reachable in time") from None
        except Exception as error:  # the caller retries after any error
            raise RedisError(reason_for(error)) from None

    async def _connect_to_owner(self) -> RedisConnection:
        """Connect to the configured server, or to the node of a Redis Cluster that owns the keys."""
        host, port = self._url.hostname or "", self._url.port or _PORT
        try:
            return await self._connect(host, port)
        except ErrorReply as error:
            moved = _MOVED.fullmatch(str(error))
            if moved is None:
                raise
            return await self._connect(moved["host"] or host, int(moved["port"]))

    async def _connect(self, host: str, port: int) -> RedisConnection:
        connection = RedisConnection(self._reader(RedisError, ErrorReply))
        try:
            await self._open(connection, host, port)
            await self._prepare(connection)
        except BaseException:
            connection.close("the attempt to connect failed")
            raise
        return connection

    async def _open(self, connection: RedisConnection, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        if self._url.scheme == "unix":
            await loop.create_unix_connection(lambda: connection, unquote(self._url.path))
        else:
            await loop.create_connection(lambda: connection, host, port, ssl=self._tls)

    async def _prepare(self, connection: RedisConnection) -> None:
        """Authenticate, select the database, and probe."""
        credentials, database = self._credentials(), self._database()
        if credentials:
            reply = await self._request(connection, encode_command("AUTH", *credentials))
            if isinstance(reply, ErrorReply):  # the rest of the message may contain the password
                raise RedisError(f"authentication failed: {str(reply).partition(' ')[0]}")
        for command in [encode_command("SELECT", database)] * (database != "0") + [self._probe]:
            reply = await self._request(connection, command)
            if isinstance(reply, ErrorReply):
                raise reply

    async def _request(self, connection: RedisConnection, command: bytes) -> object:
        reply: object = await connection.request(command, perf_counter() + self._timeout)
        return reply

    def _database(self) -> str:
        """Return the number of the database: the path of the URL, or ``?db=`` after the path of a socket."""
        if self._url.scheme == "unix":
            return parse_qs(self._url.query).get("db", ["0"])[0]
        return self._url.path.strip("/") or "0"

    def _credentials(self) -> list[str]:
        """Return the user, if there is one, and the password. The file is read each time, because it may change."""
        if self._password_file is None:
            return []
        try:
            password = self._password_file.read_text().rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            raise unreadable(self._password_file, error) from None
        user = unquote(self._url.username or "")
        return [user, password] if user else [password]
