"""The endpoints with the policies that deny, without HTTP: as quick as the server can be asked."""

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webhooks.app.asgi import WebhookApp
from webhooks.http.responses import JsonResponse
from webhooks.policy.loader import load

from .laws import POLICIES


class Endpoints:
    """Answers bodies in this process."""

    def __init__(self, runner: asyncio.Runner, app: WebhookApp) -> None:
        self._runner = runner
        self._app = app

    def answer(self, path: str, body: bytes) -> JsonResponse:
        found = self._app.endpoints[path].answer(body, b"timeout=10s")
        if isinstance(found, JsonResponse):
            return found

        async def wait() -> JsonResponse:
            return await found

        return self._runner.run(wait())


@contextmanager
def endpoints() -> Iterator[Endpoints]:
    """Endpoints whose policies run in place, as quick ones do before long, and which log nothing."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        file = Path(folder) / "policies.py"
        file.write_text(POLICIES)
        app = WebhookApp(load([os.fspath(file)]))
        for pace in app.runner.inline_states.values():
            pace.is_inline = True
        logging.disable(logging.WARNING)
        try:
            yield Endpoints(runner, app)
        finally:
            logging.disable(logging.NOTSET)
