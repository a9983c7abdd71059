"""HTTP on a connection: uvicorn's protocol, which answers a complete review by itself, with no task and no ASGI.

A review's path, body and answer are all that matters, and most answers are there at once, so the machinery that ASGI
needs for the general case would cost as much again as the rest. Everything else, and a review behind another request
that is still being answered, goes the common way.
"""

from collections.abc import Awaitable
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from webhooks.answers import Answer
from webhooks.endpoints import AnyEndpoint
from webhooks.heads import read_head, too_large

_KEEP = b"%s%scontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
_CLOSE = b"%s%scontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"


class _Review(msgspec.Struct, eq=False):
    """A review on its way in or out; to the base class it is a request-response cycle."""

    endpoint: AnyEndpoint
    query: bytes
    keep_alive: bool
    limit: int
    refusal: Answer | None
    body: bytes | bytearray = b""
    asked: bool = False  # whether all of it has come
    response_complete: bool = False
    disconnected: bool = False

    @property
    def message_event(self) -> "_Review":
        """What the base class sets when the caller is gone: nobody waits for it here."""
        return self

    def set(self) -> None:
        """See `message_event`."""


class ReviewProtocol(HttpToolsProtocol):
    """Answers reviews itself and leaves every other request to the application."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._endpoints = self.config.app.endpoints_by_path  # type: ignore[union-attr]
        self._review: _Review | None = None
        self._idle_since = 0.0
        self._headers: tuple[list[tuple[bytes, bytes]], bytes] = [], b""
        self._malformed = ""  # what is wrong with what came behind requests that are still to be answered

    def _unset_keepalive_if_required(self) -> None:
        """The timer goes on, and looks at its end for how long nothing has come: one for each request costs more."""

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it has been idle for long enough, or look again when it may have been."""
        busy = self.cycle is not None and not self.cycle.response_complete
        rest = self.timeout_keep_alive - (0 if busy else self.loop.time() - self._idle_since)
        if rest > 0:
            self.timeout_keep_alive_task = self.loop.call_later(rest, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def on_response_complete(self) -> None:
        """Go on with the next request, if there is one already."""
        if self._malformed and not self.pipeline:
            super().send_400_response(self._malformed)
        if self.pipeline or self.timeout_keep_alive_task is None:
            super().on_response_complete()
        else:
            self.server_state.total_requests += 1
            if not self.flow.write_paused:
                self.flow.resume_reading()
        self._idle_since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        super().connection_lost(exc)
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()

    def on_message_begin(self) -> None:
        """Begin a request; what the application needs of it is made when it is known to be for the application."""
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header."""
        self.headers.append((name.lower(), value))

    def _for_application(self) -> None:
        url, headers = self.url, self.headers
        super().on_message_begin()
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        self._review = None
        super().on_headers_complete()

    def on_headers_complete(self) -> None:
        """Take a review's head, or leave the request to the base class."""
        path, _, query = self.url.partition(b"?")
        endpoint = self._endpoints.get(path) if self.parser.get_method() == b"POST" else None
        busy = self.cycle is not None and not self.cycle.response_complete
        if endpoint is None or busy or self.parser.should_upgrade():
            self._for_application()
            return
        keep_alive = self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"
        head = read_head(self.headers)
        self._review = review = _Review(endpoint, query, keep_alive, head.limit, head.refusal)
        self.cycle = review  # type: ignore[assignment]
        if head.waits:
            self._go_on(review)

    def _go_on(self, review: _Review) -> None:
        """Tell a caller that waits with the body to send it, or why it need not."""
        if review.refusal is not None:
            self._reply(review, review.refusal)
        elif not review.limit:
            self._reply(review, review.endpoint.refuse(too_large(), b""))
        else:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Take a part of a review's body, up to the limit."""
        review = self._review
        if review is None:
            super().on_body(body)
        elif not review.response_complete:
            if not review.body:
                review.body = body
            else:
                if not isinstance(review.body, bytearray):
                    review.body = bytearray(review.body)
                review.body += body
            if len(review.body) > review.limit:
                self._reply(review, review.endpoint.refuse(too_large(), bytes(review.body)))

    def on_message_complete(self) -> None:
        """Answer a review."""
        review = self._review
        if review is None:
            super().on_message_complete()
        elif not review.response_complete:
            body = bytes(review.body)
            review.body = b""
            review.asked = True
            answer = review.refusal or review.endpoint.answer(body, review.query)
            if isinstance(answer, Answer):
                self._reply(review, answer)
            else:
                task = self.loop.create_task(self._reply_later(review, answer))
                task.add_done_callback(self.tasks.discard)
                self.tasks.add(task)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; where answers are still due, those come first."""
        asked = not isinstance(self.cycle, _Review) or self.cycle.asked
        if self.cycle is not None and not self.cycle.response_complete and asked:
            self._malformed = msg
            self.flow.pause_reading()
        else:
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Hear no more of a caller that does not take its answers."""
        super().pause_writing()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        """Go on with a caller that takes its answers again."""
        super().resume_writing()
        self.flow.resume_reading()

    async def _reply_later(self, review: _Review, answer: Awaitable[Answer]) -> None:
        self._reply(review, await answer)

    def _reply(self, review: _Review, answer: Answer) -> None:
        review.response_complete = True
        if self.transport.is_closing():
            return
        close = answer.close or not review.keep_alive
        headers = self.server_state.default_headers
        if headers is not self._headers[0]:  # a new list each second, for the date in it
            self._headers = headers, b"".join([b"%s: %s\r\n" % header for header in headers])
        head = _CLOSE if close else _KEEP
        self.transport.write(head % (STATUS_LINE[answer.code], self._headers[1], len(answer.body), answer.body))
        if close:
            self.transport.close()
        self.on_response_complete()
