"""What is done over and over, beside everything else."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger("webhooks.watch")


@contextmanager
def repeated(action: Callable[[], None], seconds: float, name: str, *, at_once: bool = False) -> Iterator[None]:
    """Do it over and over for as long as the block lasts, in a thread of its own: a file system may hang.

    Args:
        action: what is done.
        seconds: between two times.
        name: of what it looks after, for logs.
        at_once: whether it is done for the first time at the beginning.
    """
    ended = threading.Event()

    def repeat() -> None:
        pause = 0.0 if at_once else seconds
        while not ended.wait(pause):
            pause = seconds
            try:
                action()
            except Exception:
                logger.exception("looking after %s failed; it is tried again", name)

    threading.Thread(target=repeat, name=name, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
