"""HTTP on a connection: uvicorn's protocol, which answers a complete review by itself, with no task and no ASGI.

A review's path, body and answer are all that matters, and most answers are there at once, so the machinery that ASGI
needs for the general case would cost as much again as the rest. Everything else, and a review behind another request
that is still being answered, goes the common way.
"""

from collections.abc import Awaitable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from webhooks.endpoints import Answer, AnyEndpoint, media_error, too_large
from webhooks.wire.envelopes import MAX_BODY

_HEAD = b"content-type: application/json\r\ncontent-length: %d\r\n"


class _Review:
    """A review on its way in or out; to the base class it is a request-response cycle."""

    __slots__ = ("answer", "endpoint", "keep_alive", "parts", "query", "response_complete", "size")

    disconnected = False

    def __init__(self, endpoint: AnyEndpoint, query: bytes, keep_alive: bool, answer: Answer | None) -> None:
        self.endpoint = endpoint
        self.query = query
        self.keep_alive = keep_alive
        self.answer = answer
        self.parts: list[bytes] = []
        self.size = 0
        self.response_complete = False

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
        self._endpoints = self.config.app.endpoints  # type: ignore[union-attr]
        self._review: _Review | None = None

    def on_headers_complete(self) -> None:
        """Take a review's head, or leave the request to the base class."""
        path, _, query = self.url.partition(b"?")
        endpoint = self._endpoints.get(path.decode("latin-1")) if self.parser.get_method() == b"POST" else None
        busy = self.cycle is not None and not self.cycle.response_complete
        if endpoint is None or busy or self.parser.should_upgrade():
            self._review = None
            super().on_headers_complete()
            return
        keep_alive = self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"
        self._review = self.cycle = _Review(endpoint, query, keep_alive, self._refusal())  # type: ignore[assignment]
        if self.expect_100_continue and self._review is not None and self._review.answer is None:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refusal(self) -> Answer | None:
        content_type = content_encoding = None
        for name, value in self.headers:
            if name == b"content-type":
                content_type = value
            elif name == b"content-encoding":
                content_encoding = value
        return media_error(content_type, content_encoding)

    def on_body(self, body: bytes) -> None:
        """Take a part of a review's body, up to the limit."""
        review = self._review
        if review is None:
            super().on_body(body)
        elif review.answer is None:
            review.parts.append(body)
            review.size += len(body)
            if review.size > MAX_BODY:
                review.answer = review.endpoint.refuse(too_large(), b"".join(review.parts))
                self._reply(review, review.answer)

    def on_message_complete(self) -> None:
        """Answer a review."""
        review = self._review
        if review is None:
            super().on_message_complete()
        elif not review.response_complete:
            parts = review.parts
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            review.parts = []
            answer = review.answer or review.endpoint.answer(body, review.query)
            if isinstance(answer, Answer):
                self._reply(review, answer)
            else:
                task = self.loop.create_task(self._reply_later(review, answer))
                task.add_done_callback(self.tasks.discard)
                self.tasks.add(task)

    async def _reply_later(self, review: _Review, answer: Awaitable[Answer]) -> None:
        self._reply(review, await answer)

    def _reply(self, review: _Review, answer: Answer) -> None:
        review.response_complete = True
        if self.transport.is_closing():
            return
        close = answer.close or not review.keep_alive
        lines = [STATUS_LINE[answer.code], *(b"%s: %s\r\n" % header for header in self.server_state.default_headers)]
        lines.append(_HEAD % len(answer.body))
        lines.append(b"connection: close\r\n\r\n" if close else b"\r\n")
        lines.append(answer.body)
        self.transport.write(b"".join(lines))
        if close:
            self.transport.close()
        self.on_response_complete()
