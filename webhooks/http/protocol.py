"""HTTP/1.1 on a connection: uvicorn's protocol, with limits and with responses that need no ASGI.

This module alone uses the internals of `HttpToolsProtocol`; `tests/http/test_protocol.py` lists and checks them.
Subclasses use the members of `LimitedHttpProtocol`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from webhooks.http.connections import ConnectionTable, Stage
from webhooks.http.headers import BadRequest, RequestHead, check_framing, check_size
from webhooks.http.responses import EXTRA_HEADERS, JsonResponse, error_response

CLOSE_HEADER = (b"connection", b"close")

_CHUNK_SIZE = 65_536  # bytes that are parsed before limits are checked again
_MAX_PIPELINE = 32  # requests that wait for the response to an earlier one; API servers do not pipeline
_MAX_BATCH = 16  # responses
_STATUS_LINES = STATUS_LINE | {
    code: b"%s%s: %s\r\n" % (STATUS_LINE[code], *header) for code, header in EXTRA_HEADERS.items()
}
_KEEP_ALIVE = b"%s%scontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
_CLOSE = b"%s%scontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"


class WriteBatcher:
    """Sends the responses of one iteration of the event loop together, at its end.

    A response wakes its client up. A client with several connections finds the other responses at the same time, so
    both sides sleep and wake up less often.

    Args:
        loop: the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._responses: list[tuple[asyncio.Transport, bytes]] = []

    def write(self, transport: asyncio.Transport, data: bytes) -> None:
        """Send data at the end of the iteration, in order."""
        responses = self._responses
        if not responses:
            self._call_soon(self.flush)
        responses.append((transport, data))
        if len(responses) == _MAX_BATCH:
            self.flush()

    def flush(self) -> None:
        """Send everything now."""
        responses, self._responses = self._responses, []
        for transport, data in responses:
            if not transport.is_closing():
                transport.write(data)


class Exchange(msgspec.Struct, eq=False, kw_only=True):
    """A request that is answered without ASGI. The base protocol treats it as a request-response cycle.

    Attributes:
        keep_alive: whether the connection stays open after the response.
        response_complete: whether the response was sent.
        disconnected: whether the client disconnected before.
    """

    keep_alive: bool = True
    response_complete: bool = False
    disconnected: bool = False

    @property
    def message_event(self) -> "Exchange":
        """The event that the base protocol sets when the client disconnects. Nothing waits for it."""
        return self

    def set(self) -> None:
        """Do nothing. See `message_event`."""


class LimitedHttpProtocol(HttpToolsProtocol):
    """An HTTP connection with limits. Requests are passed to the ASGI application.

    `ConnectionTable` enforces the timeouts; this class records the stage of the connection, and when it started.

    Args:
        peer: the address of the client.
        connections: the connections of the port, with their limits.
        writes: sends the responses.
        config: the arguments of the base class.

    Attributes:
        peer: as above.
        since: when the connection entered its stage, on the clock of the loop; 0 for now.
        handshake: the task of the handshake.
        is_closing: return whether the connection is being closed.
    """

    handshake: asyncio.Task[None]
    is_closing: Callable[[], bool]

    def __init__(self, peer: str, connections: ConnectionTable, writes: WriteBatcher, **config: Any) -> None:
        super().__init__(**config)
        self.peer = peer
        self.since = self.loop.time()
        self._table = connections
        self._limits = connections.limits
        self._writes = writes
        self.headers = []
        self._reading: Stage = "header"
        self._unparsed = 0  # bytes that arrived since the parser last reported a header or a part of a body
        self._pending_error: JsonResponse | None = None  # the response to bytes behind requests without a response
        self._default_headers: tuple[list[tuple[bytes, bytes]], bytes, bool] = [], b"", False  # encoded

    # Interface for the connection table

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the client (DER); None if it sent none, or not yet."""
        tls = None if self.transport is None else self.transport.get_extra_info("ssl_object")
        return None if tls is None else tls.getpeercert(binary_form=True)

    @property
    def stage(self) -> Stage:
        """The stage of the connection."""
        if self.transport is None:
            return "tls"
        if self.transport.is_closing():
            return "close"
        if self.flow.write_paused:
            return "response"
        return "policies" if self._is_responding else self._reading

    @property
    def _is_responding(self) -> bool:
        """Whether a request is complete and its response is not."""
        is_pending = self.cycle is not None and not self.cycle.response_complete
        return bool(self.pipeline) or (is_pending and self._reading != "body")

    def close_gracefully(self) -> None:
        """Close the connection; without a TLS shutdown unless it is idle."""
        if self.stage == "idle":
            self.since = self.loop.time()
            self._writes.flush()
            self.transport.close()
        else:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is None:
            self.loop.call_soon(self.handshake.cancel)  # later: a task that has not started would not clean up
        else:
            self._writes.flush()
            self.transport.abort()

    # Interface for the server

    def shutdown(self) -> None:
        """Close the connection after the response that is due; if none is, the next response closes it."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def on_handshake_error(self, error: OSError) -> None:
        """Handle a failed handshake: the client disconnected, does not use TLS, or was rejected."""

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self.is_closing = transport.is_closing
        self.since = self.loop.time()
        self._table.on_handshake(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        super().connection_lost(exc)
        self._table.discard(self)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, and reject malformed HTTP and what exceeds the limits."""
        if len(data) > _CHUNK_SIZE:
            self._parse_in_chunks(memoryview(data))
        else:
            self._parse(data)

    def pause_writing(self) -> None:
        """Read no more from a client that does not read its responses."""
        super().pause_writing()
        self.flow.pause_reading()
        self.since = self.loop.time()

    def resume_writing(self) -> None:
        """Continue to read when the client has read its responses."""
        super().resume_writing()
        if self._pending_error is None and not self.pipeline:
            self.flow.resume_reading()
        self.since = self.loop.time()

    def _parse_in_chunks(self, data: memoryview) -> None:
        """Parse many bytes, and stop after the chunk that exceeds the limits."""
        for start in range(0, len(data), _CHUNK_SIZE):
            self._parse(data[start : start + _CHUNK_SIZE])
            if self._pending_error is not None or self.transport.is_closing():
                return

    def _parse(self, data: bytes | memoryview) -> None:
        size = len(data)
        if self._reading != "idle" or size > self._limits.max_header_bytes:  # smaller headers need not be measured
            self._unparsed += size
        try:
            self.parser.feed_data(data)
            if self._reading != "idle":
                self._check_unparsed()
        except httptools.HttpParserUpgrade:
            pass  # the connection is closed after the response, see `forward_to_asgi`
        except (httptools.HttpParserError, BadRequest) as error:
            cause = error if isinstance(error, BadRequest) else error.__context__
            self._reject(cause if isinstance(cause, BadRequest) else BadRequest("the request is not valid HTTP"))
        if not self.since:
            self.since = self.loop.time()

    def _check_unparsed(self) -> None:
        """Check the limits while headers or trailers are incomplete.

        Raises:
            BadRequest: they exceed the limits.
        """
        if self._unparsed > self._limits.max_header_bytes:
            raise BadRequest(f"the headers are larger than {self._limits.max_header_bytes} bytes", code=431)
        if len(self.headers) > self._limits.max_headers:
            raise BadRequest(f"the request has more than {self._limits.max_headers} headers", code=431)

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Start a request. What ASGI needs is created when its headers are complete."""
        self.url = b""
        self.headers = []
        self._reading = "header"
        self.since = 0.0

    def on_url(self, url: bytes) -> None:
        """Add a part of the URL."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header or a trailer."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the headers and handle the request."""
        parser = self.parser
        version = parser.get_http_version()
        headers = self._check_headers(version)
        is_direct = (self.cycle is None or self.cycle.response_complete) and not parser.should_upgrade()
        keep_alive = version == "1.1" and parser.should_keep_alive()
        path, _, query = self.url.partition(b"?")
        exchange = self.handle_request(RequestHead(parser.get_method(), path, query, headers, keep_alive, is_direct))
        if exchange is not None:
            self.cycle = exchange  # type: ignore[assignment]

    def _check_headers(self, version: str) -> Mapping[bytes, bytes]:
        """Return the headers by their names in lower case.

        Raises:
            BadRequest: they exceed the limits, or the end of the request is ambiguous.
        """
        headers = self.headers
        if self._unparsed or len(headers) > self._limits.max_headers:
            check_size(self.url, headers, self._limits)
            self._unparsed = 0
        by_name = dict(headers)
        is_usual = b"host" in by_name and b"transfer-encoding" not in by_name and len(by_name) == len(headers)
        if version != "1.1" or not is_usual:
            check_framing(by_name, headers, version)
        self._reading = "body"
        self.since = 0.0
        return by_name

    def on_body(self, body: bytes) -> None:
        """Pass a part of a body to the application."""
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Complete a request."""
        self._reading = "idle"
        self.since = self.loop.time()
        super().on_message_complete()

    # Requests and responses

    def handle_request(self, head: RequestHead) -> Exchange | None:  # noqa: ARG002
        """Handle a request whose headers are complete.

        Returns:
            The exchange that answers it without ASGI; None if it was passed to the ASGI application.
        """
        self.forward_to_asgi({})
        return None

    def forward_to_asgi(self, state: dict[str, Any]) -> None:
        """Pass the request to the ASGI application.

        Args:
            state: the state in the ASGI scope.

        Raises:
            BadRequest: too many requests are waiting.
        """
        if len(self.pipeline) == _MAX_PIPELINE:
            raise BadRequest("too many requests at once", code=429)
        url, headers = self.url, self.headers
        self.app_state = state
        super().on_message_begin()
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # the next bytes may belong to the other protocol

    def send_continue(self) -> None:
        """Ask the client for the body."""
        self._writes.write(self.transport, b"HTTP/1.1 100 Continue\r\n\r\n")

    def respond(self, exchange: Exchange, response: JsonResponse) -> None:
        """Send the response of an exchange."""
        exchange.response_complete = True
        if not self.is_closing():
            self._send(response, keep_alive=exchange.keep_alive)
            self.on_response_complete()

    def respond_later(self, exchange: Exchange, response: Awaitable[JsonResponse]) -> None:
        """Send the response of an exchange as soon as it is ready."""
        self.cycle = exchange  # type: ignore[assignment]
        task = self.loop.create_task(self._respond_later(exchange, response))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _respond_later(self, exchange: Exchange, response: Awaitable[JsonResponse]) -> None:
        self.respond(exchange, await response)
        self._writes.flush()  # before the next task runs, whose policy may block the loop

    def _send(self, response: JsonResponse, *, keep_alive: bool) -> None:
        headers = self.server_state.default_headers
        if headers is not self._default_headers[0]:  # a new list each second, for the date, and at shutdown
            lines = b"".join([b"%s: %s\r\n" % header for header in headers if header != CLOSE_HEADER])
            self._default_headers = headers, lines, CLOSE_HEADER in headers
        close = response.close or not keep_alive or self._default_headers[2]
        head, lines = _CLOSE if close else _KEEP_ALIVE, self._default_headers[1]
        data = head % (_STATUS_LINES[response.code], lines, len(response.body), response.body)
        self._writes.write(self.transport, data)
        if close:
            self._writes.flush()
            self.transport.close()

    def on_response_complete(self) -> None:
        """Continue with the next request, if there is one."""
        self.since = self.loop.time()
        flow = self.flow
        if flow.read_paused and not flow.write_paused:
            flow.resume_reading()
        if self.pipeline and not self.is_closing():
            self._start_asgi_task(*self.pipeline.pop())
        elif self._pending_error is not None and not self.is_closing():
            self._send_error(self._pending_error)

    def _reject(self, error: BadRequest) -> None:
        """Send an error, after the responses that are due, and close the connection."""
        if self.transport.is_closing():
            return
        response = error_response(error.code, str(error), close=True)
        if self._is_responding:
            self._pending_error = response
            self.flow.pause_reading()
        else:
            self._send_error(response)

    def _send_error(self, response: JsonResponse) -> None:
        self.since = self.loop.time()
        self._send(response, keep_alive=False)
