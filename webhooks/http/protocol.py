"""HTTP on a connection, within limits: uvicorn's protocol, which knows of none.

Heads are counted and measured, the latter only where one may be too large: none is that came whole in a small segment.
Timeouts are enforced by `webhooks.http.connections`; this module records what the server waits for, and since when.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from webhooks.http.connections import ConnectionTable, Stage
from webhooks.http.headers import BadRequest, check_framing, check_size
from webhooks.http.outbox import WriteBatcher
from webhooks.http.responses import JsonResponse, error

CLOSE = (b"connection", b"close")  # the header of an answer that ends its connection

_PIECE = 65_536  # bytes
_MAX_PIPELINE = 32  # requests behind one that is being answered; API servers send none


class LimitedHttpProtocol(HttpToolsProtocol):
    """Leaves requests to the application, within the limits.

    Args:
        peer: the address that the connection comes from.
        connections: those of its port, and what their requests may be.
        outbox: what sends answers.
        config: what the base class takes.

    Attributes:
        peer: as above.
        since: when the connection came to its stage, on the loop's clock; 0 for now.
        opening: what opens it.
    """

    opening: asyncio.Task[None]

    def __init__(self, peer: str, connections: ConnectionTable, outbox: WriteBatcher, **config: Any) -> None:
        super().__init__(**config)
        self.peer = peer
        self.since = self.loop.time()
        self._neighbours = connections
        self._limits = connections.limits
        self._outbox = outbox
        self.headers = []
        self._reading: Stage = "header"
        self._unparsed = 0  # bytes that came since the parser had the last to tell of a head or a body
        self._refusal: JsonResponse | None = None  # of what came behind requests that are still to be answered

    @property
    def certificate(self) -> bytes | None:
        """The caller's certificate (DER); None where it showed none, or not yet."""
        connection = None if self.transport is None else self.transport.get_extra_info("ssl_object")
        return None if connection is None else connection.getpeercert(binary_form=True)

    @property
    def stage(self) -> Stage:
        """What the server waits for."""
        if self.transport is None:
            return "tls"
        if self.transport.is_closing():
            return "end"
        if self.flow.write_paused:
            return "answer"
        return "policies" if self._answering else self._reading

    @property
    def _answering(self) -> bool:
        """Whether a request has come whole, and has no answer yet."""
        busy = self.cycle is not None and not self.cycle.response_complete
        return bool(self.pipeline) or (busy and self._reading != "body")

    def leave(self) -> None:
        """End the connection: gently where it is idle, else at once."""
        if self.stage == "idle":
            self.since = self.loop.time()
            self._outbox.flush()
            self.transport.close()
        else:
            self.abort()

    def shutdown(self) -> None:
        """End the connection with the answer that is due; where none is, the next one says so."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def abort(self) -> None:
        """End the connection at once."""
        if self.transport is None:
            self.loop.call_soon(self.opening.cancel)  # not before it has begun: it would not clean up
        else:
            self._outbox.flush()
            self.transport.abort()

    def note_failure(self, failure: OSError) -> None:
        """Note why there is no connection: somebody went away, spoke no TLS, or is not let in."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self._neighbours.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        super().connection_lost(exc)
        self._neighbours.discard(self)

    def data_received(self, data: bytes) -> None:
        """Read on, and refuse what is no HTTP or more than there may be."""
        if len(data) > _PIECE:
            self._read_in_pieces(memoryview(data))
        else:
            self._read(data)

    def _read_in_pieces(self, data: memoryview) -> None:
        """Read much, and no more than a piece of it beyond the limits."""
        for start in range(0, len(data), _PIECE):
            self._read(data[start : start + _PIECE])
            if self._refusal is not None or self.transport.is_closing():
                return

    def _read(self, data: bytes | memoryview) -> None:
        size = len(data)
        if self._reading != "idle" or size > self._limits.max_header_bytes:
            self._unparsed += size
        try:
            self.parser.feed_data(data)
            if self._reading != "idle":
                self._check_rest()
        except httptools.HttpParserUpgrade:
            pass  # the connection ends with the answer, see `pass_on`
        except (httptools.HttpParserError, BadRequest) as problem:
            bad = problem if isinstance(problem, BadRequest) else problem.__context__
            self._refuse(bad if isinstance(bad, BadRequest) else BadRequest("no valid HTTP request"))
        if not self.since:
            self.since = self.loop.time()

    def _check_rest(self) -> None:
        """Make sure that what has come of a request is not too much of anything but a body.

        Raises:
            BadHead: it is.
        """
        if self._unparsed > self._limits.max_header_bytes:
            raise BadRequest(f"the headers have more than {self._limits.max_header_bytes} bytes", code=431)
        if len(self.headers) > self._limits.max_headers:
            raise BadRequest(f"there are more than {self._limits.max_headers} headers", code=431)

    def on_message_begin(self) -> None:
        """Begin a request; what the application needs of it is made when its head is complete."""
        self.url = b""
        self.headers = []
        self._reading = "header"
        self.since = 0.0  # this moment

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header, in front of the body or behind it."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self.read_head(self.parser.get_http_version())
        self.pass_on()

    def read_head(self, version: str) -> Mapping[bytes, bytes]:
        """The headers by their names, of a head that is within the limits and says clearly where its body ends.

        Args:
            version: of the protocol.

        Raises:
            BadHead: it is not, or does not.
        """
        headers = self.headers
        if self._unparsed or len(headers) > self._limits.max_headers:
            check_size(self.url, headers, self._limits)
            self._unparsed = 0
        said = dict(headers)
        if version != "1.1" or b"host" not in said or b"transfer-encoding" in said or len(said) != len(headers):
            check_framing(said, headers, version)
        self._reading = "body"
        self.since = 0.0
        return said

    def pass_on(self) -> None:
        """Leave the request to the application.

        Raises:
            BadHead: too many are waiting already.
        """
        if len(self.pipeline) == _MAX_PIPELINE:
            raise BadRequest("too many requests at once", code=429)
        url, headers = self.url, self.headers
        super().on_message_begin()
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False  # what follows may be meant for those who speak the other protocol

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._reading = "idle"
        self.since = self.loop.time()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, if there is one already."""
        self.since = self.loop.time()
        flow = self.flow
        if flow.read_paused and not flow.write_paused:
            flow.resume_reading()
        if (self.pipeline or self._refusal is not None) and not self.transport.is_closing():
            self._go_on()

    def _go_on(self) -> None:
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._refusal is not None:
            self._send_refusal(self._refusal)

    def _refuse(self, bad: BadRequest) -> None:
        """Refuse what has come; where answers are still due, those come first."""
        if self.transport.is_closing():
            return
        answer = error(bad.code, str(bad), close=True)
        if self._answering:
            self._refusal = answer
            self.flow.pause_reading()
        else:
            self._send_refusal(answer)

    def _send_refusal(self, answer: JsonResponse) -> None:
        headers = [
            *(header for header in self.server_state.default_headers if header != CLOSE),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(answer.body)),
            CLOSE,
        ]
        lines = b"".join([b"%s: %s\r\n" % header for header in headers])
        self.since = self.loop.time()
        self.send(b"%s%s\r\n%s" % (STATUS_LINE[answer.code], lines, answer.body), last=True)

    def send(self, answer: bytes, *, last: bool = False) -> None:
        """Send an answer, or a part of one, soon; where it is the last one, end the connection behind it."""
        self._outbox.put(self.transport, answer)
        if last:
            self._outbox.flush()
            self.transport.close()

    def pause_writing(self) -> None:
        """Hear no more of a caller that does not take its answers."""
        super().pause_writing()
        self.flow.pause_reading()
        self.since = self.loop.time()

    def resume_writing(self) -> None:
        """Go on with a caller that takes its answers again."""
        super().resume_writing()
        if self._refusal is None and not self.pipeline:
            self.flow.resume_reading()
        self.since = self.loop.time()
