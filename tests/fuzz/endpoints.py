"""The endpoints with policies that deny, without HTTP: the fastest way to send bodies."""

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webhooks.http.responses import JsonResponse
from webhooks.policy.loader import load

from ..support.reviews import Reviews, build_reviews
from .invariants import POLICIES


class Endpoints:
    """Reviews bodies in this process."""

    def __init__(self, runner: asyncio.Runner, reviews: Reviews) -> None:
        self._runner = runner
        self._reviews = reviews

    def answer(self, path: str, body: bytes) -> JsonResponse:
        response = self._reviews.endpoint(path).answer(body, b"timeout=10s")
        if isinstance(response, JsonResponse):
            return response

        async def wait() -> JsonResponse:
            return await response

        return self._runner.run(wait())


@contextmanager
def running_endpoints() -> Iterator[Endpoints]:
    """Return endpoints for the block. Their policies run inline, as fast ones do, and warnings are not logged."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        file = Path(folder) / "policies.py"
        file.write_text(POLICIES)
        reviews = build_reviews(load([os.fspath(file)]))
        for state in reviews.executor.inline_states.values():
            state.is_inline = True
        logging.disable(logging.WARNING)
        try:
            yield Endpoints(runner, reviews)
        finally:
            logging.disable(logging.NOTSET)
