"""The process of an isolated policy, started as ``python -m webhooks.engine.process_worker``."""

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
from webhooks.engine.invocation import Result, invoke, invoke_async
from webhooks.engine.process_pool import REPLY, TASK, Reply, WorkerSpec
from webhooks.errors import ConfigurationError, MalformedReview, PolicyFailure
from webhooks.objects.copy_on_write import materialize
from webhooks.observability import logs
from webhooks.policy import loader
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.kinds import CODECS
from webhooks.reviews.outcomes import Outcome, Patch, Replace

_MAX_RESIDENT = sandbox.MEMORY // 2  # bytes; a larger process runs no further review
_MAX_TRACEBACK = 16_384  # characters

_encode = msgspec.json.Encoder().encode


def main() -> None:
    """Load a policy and run it on reviews, until the server closes the connection, which is the standard input."""
    with socket.socket(fileno=os.dup(0)) as connection, connection.makefile("rwb") as stream:
        with open(os.devnull) as devnull:
            os.dup2(devnull.fileno(), 0)
        tasks = _receive_tasks(stream)
        try:
            policy = _load(msgspec.json.decode(next(tasks), type=WorkerSpec))
        except (ConfigurationError, OSError) as error:
            _send(stream, Reply(failure=str(error)))
            return
        _send(stream, Reply())
        with asyncio.Runner() as runner:
            for body in tasks:
                reply = _build_reply(_run(policy, body, runner))
                reply.exits = sandbox.resident_memory() > _MAX_RESIDENT
                _send(stream, reply)
                if reply.exits:
                    return


def _receive_tasks(stream: BufferedRWPair) -> Iterator[bytes]:
    """Receive tasks one after another, and limit the CPU time of this process to the time of each."""
    while len(header := stream.read(TASK.size)) == TASK.size:
        size, seconds = TASK.unpack(header)
        sandbox.set_cpu_limit(seconds)
        yield stream.read(size)


def _send(stream: BufferedRWPair, reply: Reply) -> None:
    data = _encode(reply)
    stream.write(REPLY.pack(len(data)))
    stream.write(data)
    stream.flush()


def _load(spec: WorkerSpec) -> AnyPolicy:
    sandbox.apply()
    logs.configure()
    for policy in loader.load_file(Path(spec.file)):
        if policy.name == spec.name:
            return policy.bind(**spec.parameters)
    raise ConfigurationError(f"{spec.file}: no policy named {spec.name!r} in this file")


def _run(policy: AnyPolicy, body: bytes, runner: asyncio.Runner) -> Result:
    review = CODECS[policy.kind].decode(body)
    if policy.is_async:
        started = perf_counter()
        return runner.run(invoke_async(policy, review, started, started))
    return invoke(policy, review)


def _build_reply(result: Result) -> Reply:
    try:
        if result.outcome is not None:
            return Reply(type(result.outcome).__name__, _encode_outcome(result.outcome))
        failure: Any = result.failure
    except (PolicyFailure, TypeError, ValueError) as error:
        failure = error
    if isinstance(failure, MalformedReview):
        return Reply(failure=str(failure), code=failure.code)
    cause = failure.__cause__
    traceback = "" if cause is None else logs.format_traceback(cause)
    return Reply(failure=_escape_surrogates(str(failure)), traceback=_escape_surrogates(traceback[-_MAX_TRACEBACK:]))


def _escape_surrogates(text: str) -> str:
    """Escape characters of an exception's message that cannot be encoded as UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def _encode_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the fields of an outcome as plain data.

    Raises:
        PolicyFailure: a value in a patch is not JSON.
        TypeError: a value in an object or a patch cannot be encoded as JSON.
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
