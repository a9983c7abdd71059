"""What is done over and over, beside everything else."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger("webhooks.repeating")


@contextmanager
def repeated(action: Callable[[], None], seconds: float, name: str) -> Iterator[None]:
    """Do it over and over for as long as the block lasts, in a thread of its own: a file system may hang.

    Args:
        action: what is done.
        seconds: between two times.
        name: of what it looks after, for logs.
    """
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            try:
                action()
            except Exception:
                logger.exception("looking after %s failed; it is tried again", name)

    threading.Thread(target=repeat, name=name, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
