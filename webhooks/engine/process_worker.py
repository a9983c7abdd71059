"""What runs in the process of an isolated policy, as ``python -m webhooks.engine.process_worker``."""

import asyncio
import os
import socket
from collections.abc import Iterator
from io import BufferedRWPair
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import orjson

from webhooks.engine import sandbox
from webhooks.engine.invocation import Result, call, call_on_loop
from webhooks.engine.process_pool import ANSWER, TASK, Reply, WorkerSpec
from webhooks.errors import ConfigurationError, MalformedReview, PolicyFailure
from webhooks.objects.copy_on_write import materialize
from webhooks.observability import logs
from webhooks.policy import loader
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.kinds import CODECS
from webhooks.reviews.outcomes import Outcome, Patch, Replace

_LARGE = sandbox.MEMORY // 2  # bytes of memory, with which it does not take another review
_MAX_TRACEBACK = 16_384  # characters

_encode = msgspec.json.Encoder().encode


def main() -> None:
    """Load a policy, and answer for it until nobody asks any more. The connection is the standard input."""
    with socket.socket(fileno=os.dup(0)) as connection, connection.makefile("rwb") as stream:
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        tasks = _tasks(stream)
        try:
            policy = _load(msgspec.json.decode(next(tasks), type=WorkerSpec))
        except (ConfigurationError, OSError) as error:
            _send(stream, Reply(failure=str(error)))
            return
        _send(stream, Reply())
        with asyncio.Runner() as runner:
            for body in tasks:
                reply = _reply(_run(policy, body, runner))
                reply.last = sandbox.memory() > _LARGE
                _send(stream, reply)
                if reply.last:
                    return


def _tasks(stream: BufferedRWPair) -> Iterator[bytes]:
    """What is asked, one after the other; for each, this process may compute for so long as it may take."""
    while len(head := stream.read(TASK.size)) == TASK.size:
        size, seconds = TASK.unpack(head)
        sandbox.allow_computing(seconds)
        yield stream.read(size)


def _send(stream: BufferedRWPair, reply: Reply) -> None:
    answer = _encode(reply)
    stream.write(ANSWER.pack(len(answer)))
    stream.write(answer)
    stream.flush()


def _load(charge: WorkerSpec) -> AnyPolicy:
    sandbox.confine()
    logs.configure()
    for policy in loader.load_file(Path(charge.file)):
        if policy.name == charge.name:
            return policy.bind(**charge.parameters)
    raise ConfigurationError(f"{charge.file}: no policy of the name {charge.name!r} is made by this file")


def _run(policy: AnyPolicy, body: bytes, runner: asyncio.Runner) -> Result:
    review, started = CODECS[policy.kind].decode(body), perf_counter()
    if policy.is_async:
        return runner.run(call_on_loop(policy, review, started, started))
    return call(policy, review, started, started)


def _reply(result: Result) -> Reply:
    try:
        if result.outcome is not None:
            return Reply(type(result.outcome).__name__, _fields(result.outcome))
        failure: Any = result.failure
    except (PolicyFailure, TypeError, ValueError) as error:
        failure = error
    if isinstance(failure, MalformedReview):
        return Reply(failure=str(failure), code=failure.code)
    cause = failure.__cause__
    where = "" if cause is None else logs.format_traceback(cause)
    return Reply(failure=_text(str(failure)), traceback=_text(where[-_MAX_TRACEBACK:]))


def _text(said: str) -> str:
    """What an exception said, as text that can be sent."""
    return said.encode(errors="backslashreplace").decode()


def _fields(outcome: Outcome) -> dict[str, Any]:
    """The fields of an outcome as data.

    Raises:
        PolicyFailure: what a patch holds is not JSON.
        TypeError: likewise, of an object or a patch.
    """
    fields = msgspec.structs.asdict(outcome)
    if isinstance(outcome, Patch):
        operations = orjson.loads(orjson.dumps(outcome.operations))
        if operations != list(outcome.operations):
            raise PolicyFailure("a value in the patch is not JSON")
        fields["operations"] = operations
    elif isinstance(outcome, Replace):
        fields["object"] = materialize(outcome.object)
    return fields


if __name__ == "__main__":
    main()
