"""Answers complete reviews on a connection without a task and without ASGI, which would cost as much as all the rest.

All other requests, reviews behind a request without a response, and requests of clients that are not
authenticated are passed to the ASGI application.
"""

import asyncio
from collections.abc import Mapping
from io import SEEK_END, BytesIO
from typing import Any, NamedTuple

from webhooks.app.asgi import PEER_AUTHENTICATION
from webhooks.app.endpoints import AnyEndpoint
from webhooks.auth.authenticator import Authenticator
from webhooks.auth.client import Client
from webhooks.http.connections import ConnectionTable
from webhooks.http.header_cache import CachedHead, HeaderCache, split_request
from webhooks.http.headers import HeaderReader, RequestHead
from webhooks.http.protocol import Exchange, LimitedHttpProtocol, WriteBatcher
from webhooks.http.responses import JsonResponse


class ReviewContext(NamedTuple):
    """The objects that all connections of a server share.

    Attributes:
        endpoints: the review endpoints by the paths of requests.
        headers: reads the headers of reviews.
        cache: the cache of parsed headers.
        authenticator: authenticates the clients.
    """

    endpoints: Mapping[bytes, AnyEndpoint]
    headers: HeaderReader
    cache: HeaderCache
    authenticator: Authenticator


class _Review(Exchange):
    path: bytes
    query: bytes
    headers: Mapping[bytes, bytes]
    endpoint: AnyEndpoint
    client: Client
    limit: int
    error: JsonResponse | None = None
    body: bytes | BytesIO = b""  # a BytesIO collects parts, and returns their whole without a copy

    def content(self) -> bytes:
        """Return the body, as far as it has arrived."""
        return self.body if isinstance(self.body, bytes) else self.body.getvalue()


class ReviewProtocol(LimitedHttpProtocol):
    """Answers reviews itself and passes all other requests to the ASGI application.

    Args:
        context: the objects that all connections share.
        peer: the address of the client.
        connections: the connections of the port, with their limits.
        writes: sends the responses.
        config: the arguments of the base class.
    """

    def __init__(
        self, context: ReviewContext, peer: str, connections: ConnectionTable, writes: WriteBatcher, **config: Any
    ) -> None:
        super().__init__(peer, connections, writes, **config)
        self._endpoints, self._headers, self._cache, self._authenticator = context
        self._authenticate = self._authenticator.authenticate_request
        self._review: _Review | None = None

    def on_handshake_error(self, error: OSError) -> None:
        """Log a client that was rejected for its certificate."""
        self._authenticator.record_failed_handshake(error, self.peer)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Authenticate the client by its certificate."""
        super().connection_made(transport)
        client = self._authenticator.authenticate_connection(transport.get_extra_info("peercert"))
        self._peer_authentication = client
        self._client = client if isinstance(client, Client) and not self._authenticator.requires_token else None

    @property
    def _is_between_reviews(self) -> bool:
        """Whether the last request was a review with a response, and the client of the next one is authenticated."""
        last = self._review
        if self._client is None or last is None or not last.response_complete:
            return False
        return self._reading == "idle" and not self.is_closing()

    def data_received(self, data: bytes) -> None:
        """Answer a review at once if its headers are cached; else parse the data."""
        request = split_request(data) if self._is_between_reviews else None
        if request is None:
            super().data_received(data)
            return
        key, body = request
        review = self._find_cached(key, len(body))
        if review is None:
            self._parse_and_cache(data, key)
            return
        self._review = review
        self._answer(review, body)

    def _find_cached(self, key: bytes, size: int) -> _Review | None:
        """Return a review whose headers are cached; None if it must be parsed."""
        head, client = self._cache.get(key), self._client
        endpoint = None if head is None else self._endpoints.get(head.path)
        if head is None or endpoint is None or client is None or size > self._headers.max_body:
            return None
        return _Review(head.path, head.query, head.headers, endpoint, client, self._headers.max_body)

    def _parse_and_cache(self, data: bytes, key: bytes) -> None:
        """Parse a complete request, and cache its headers if it is a review that was accepted."""
        last = self._review
        super().data_received(data)
        review = self._review
        if review is None or review is last or self._reading != "idle":
            return
        if review.keep_alive and review.error is None:
            self._cache.add(key, CachedHead(review.path, review.query, review.headers))

    def handle_request(self, head: RequestHead) -> Exchange | None:
        """Start a review, or pass the request to the ASGI application."""
        endpoint = self._endpoints.get(head.path) if head.is_direct and head.method == b"POST" else None
        client = self._client or self._authenticate(self._peer_authentication, head.headers.get(b"authorization"))
        if endpoint is None or not isinstance(client, Client):
            self._review = None
            self.forward_to_asgi({PEER_AUTHENTICATION: client or self._peer_authentication})
            return None
        body = self._headers.read(head.headers)
        self._review = review = _Review(
            head.path, head.query, head.headers, endpoint, client, body.limit, body.error, keep_alive=head.keep_alive
        )
        if body.expects_continue:
            self._continue(review)
        return review

    def _continue(self, review: _Review) -> None:
        """Ask for the body of a review, or send an error instead."""
        if review.error is not None:
            self.respond(review, review.error)
        elif not review.limit:
            self._reject_too_large(review)
        else:
            self.send_continue()

    def _reject_too_large(self, review: _Review) -> None:
        error = self._headers.too_large()
        self.respond(review, review.endpoint.reject(error, review.content(), review.client))

    def on_body(self, body: bytes) -> None:
        """Add a part to the body of a review, up to the limit."""
        review = self._review
        if review is None:
            super().on_body(body)
            return
        self._unparsed = 0
        if review.response_complete:
            return
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
            self._reject_too_large(review)

    def on_message_complete(self) -> None:
        """Answer a complete review."""
        review = self._review
        if review is None:
            super().on_message_complete()
        elif not review.response_complete:
            self._reading = "idle"
            body = review.content()
            review.body = b""
            self._answer(review, body)

    def _answer(self, review: _Review, body: bytes) -> None:
        response = review.error or review.endpoint.answer(body, review.query, review.client, review.headers)
        if isinstance(response, JsonResponse):
            self.respond(review, response)
        else:
            self.respond_later(review, response)
