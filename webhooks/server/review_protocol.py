"""HTTP on a connection: uvicorn's protocol, which answers a complete review by itself, with no task and no ASGI.

A review's path, body and answer are all that matters, and most answers are there at once, so the machinery that ASGI
needs for the general case would cost as much again as the rest. Everything else, and a review behind another request
that is still being answered, goes the common way; so does whatever a caller sends who is not known, or not as yet.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from io import SEEK_END, BytesIO
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from webhooks.app.asgi import MET
from webhooks.app.endpoints import AnyEndpoint
from webhooks.auth.client import Authentication, Client
from webhooks.http.connections import ConnectionTable
from webhooks.http.header_cache import CachedHead, without_length
from webhooks.http.outbox import WriteBatcher
from webhooks.http.protocol import CLOSE, LimitedHttpProtocol
from webhooks.http.responses import HEADERS, JsonResponse

_STATUS = STATUS_LINE | {code: b"%s%s: %s\r\n" % (STATUS_LINE[code], *header) for code, header in HEADERS.items()}
_KEEP = b"%s%scontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
_CLOSE = b"%s%scontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"


class _Review(msgspec.Struct, eq=False):
    """A review on its way in or out; to the base class it is a request-response cycle."""

    path: bytes
    query: bytes
    headers: Mapping[bytes, bytes]
    endpoint: AnyEndpoint
    client: Client
    limit: int
    keep_alive: bool = True
    refusal: JsonResponse | None = None
    body: bytes | BytesIO = b""  # the latter takes parts, and hands over the whole without a copy
    response_complete: bool = False
    disconnected: bool = False

    @property
    def message_event(self) -> "_Review":
        """What the base class sets when the caller is gone: nobody waits for it here."""
        return self

    def set(self) -> None:
        """See `message_event`."""

    def whole(self) -> bytes:
        """What has come of the body."""
        return self.body if isinstance(self.body, bytes) else self.body.getvalue()


class ReviewProtocol(LimitedHttpProtocol):
    """Answers reviews itself and leaves every other request to the application."""

    def __init__(self, peer: str, connections: ConnectionTable, outbox: WriteBatcher, **config: Any) -> None:
        super().__init__(peer, connections, outbox, **config)
        app = self.config.app
        self._endpoints = app.endpoints_by_path  # type: ignore[union-attr]
        self._heads = app.heads  # type: ignore[union-attr]
        self._cache = app.head_cache  # type: ignore[union-attr]
        self._callers = app.callers  # type: ignore[union-attr]
        self._review: _Review | None = None
        self._headers: tuple[list[tuple[bytes, bytes]], bytes, bool] = [], b"", False

    def note_failure(self, failure: OSError) -> None:
        """Note why there is no connection, where that is for want of a certificate."""
        self._callers.record_failed_handshake(failure, self.peer)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See who is there."""
        super().connection_made(transport)
        self._met: Authentication = self._callers.authenticate_connection(transport.get_extra_info("peercert"))
        self._caller = self._met if isinstance(self._met, Client) and not self._callers.requires_token else None

    @property
    def _between_reviews(self) -> bool:
        """Whether the last request was a review, which is answered, and the next is of a caller who is known."""
        last = self._review
        if self._caller is None or last is None or not last.response_complete:
            return False
        return self._reading == "idle" and not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        """Answer a review at once whose head came before, and read all else."""
        found = without_length(data) if self._between_reviews else None
        if found is None:
            super().data_received(data)
            return
        key, body = found
        review = self._repeated(key, len(body))
        if review is None:
            self._read_and_keep(data, key)
            return
        self._review = review
        self.cycle = review  # type: ignore[assignment]
        self._answer(review, body)

    def _repeated(self, key: bytes, size: int) -> _Review | None:
        """A review whose head is in the cache, and whose body has so many bytes; None where it has to be read."""
        head, client = self._cache.get(key), self._caller
        endpoint = None if head is None else self._endpoints.get(head.path)
        if head is None or endpoint is None or client is None or size > self._heads.max_body:
            return None
        return _Review(head.path, head.query, head.headers, endpoint, client, self._heads.max_body)

    def _read_and_keep(self, data: bytes, key: bytes) -> None:
        """Read a whole request, and keep its head if it is that of a review that was taken."""
        last = self._review
        super().data_received(data)
        review = self._review
        if review is None or review is last or self._reading != "idle":
            return
        if review.keep_alive and review.refusal is None:
            self._cache.add(key, CachedHead(review.path, review.query, review.headers))

    def on_headers_complete(self) -> None:
        """Take a review's head, or leave the request to the base class."""
        version = self.parser.get_http_version()
        said = self.read_head(version)
        path, _, query = self.url.partition(b"?")
        endpoint = self._endpoints.get(path) if self.parser.get_method() == b"POST" else None
        busy = self.cycle is not None and not self.cycle.response_complete
        client = self._caller or self._callers.authenticate_request(self._met, said.get(b"authorization"))
        if endpoint is None or busy or not isinstance(client, Client) or self.parser.should_upgrade():
            self._review = None
            self.app_state = {MET: client or self._met}
            self.pass_on()
            return
        keep_alive = self.parser.should_keep_alive() and version == "1.1"
        head = self._heads.read(said)
        self._review = review = _Review(path, query, said, endpoint, client, head.limit, keep_alive, head.refusal)
        self.cycle = review  # type: ignore[assignment]
        if head.waits:
            self._continue(review)

    def _continue(self, review: _Review) -> None:
        """Tell a caller that waits with the body to send it, or why it need not."""
        if review.refusal is not None:
            self._reply(review, review.refusal)
        elif not review.limit:
            self._reply(review, review.endpoint.refuse(self._heads.too_large(), b"", review.client))
        else:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Take a part of a review's body, up to the limit."""
        review = self._review
        if review is None:
            super().on_body(body)
            return
        self._unparsed = 0
        if not review.response_complete:
            if not review.body:
                review.body = body
                size = len(body)
            else:
                if isinstance(review.body, bytes):
                    review.body = BytesIO(review.body)
                    review.body.seek(0, SEEK_END)
                review.body.write(body)
                size = review.body.tell()
            if size > review.limit:
                self._reply(review, review.endpoint.refuse(self._heads.too_large(), review.whole(), review.client))

    def on_message_complete(self) -> None:
        """Answer a review."""
        review = self._review
        if review is None:
            super().on_message_complete()
        elif not review.response_complete:
            self._reading = "idle"
            body = review.whole()
            review.body = b""
            self._answer(review, body)

    def _answer(self, review: _Review, body: bytes) -> None:
        """Answer a review, now or when there is an answer."""
        answer = review.refusal or review.endpoint.answer(body, review.query, review.client, review.headers)
        if isinstance(answer, JsonResponse):
            self._reply(review, answer)
        else:
            task = self.loop.create_task(self._reply_later(review, answer))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    async def _reply_later(self, review: _Review, answer: Awaitable[JsonResponse]) -> None:
        self._reply(review, await answer)
        self._outbox.flush()  # before other policies have their turn, which might keep the loop

    def _reply(self, review: _Review, answer: JsonResponse) -> None:
        review.response_complete = True
        if self.transport.is_closing():
            return
        headers = self.server_state.default_headers
        if headers is not self._headers[0]:  # a new list each second, for the date in it, and when the server ends
            lines = [b"%s: %s\r\n" % header for header in headers if header != CLOSE]
            self._headers = headers, b"".join(lines), CLOSE in headers
        close = answer.close or not review.keep_alive or self._headers[2]
        head = _CLOSE if close else _KEEP
        self.send(head % (_STATUS[answer.code], self._headers[1], len(answer.body), answer.body), last=close)
        self.on_response_complete()
