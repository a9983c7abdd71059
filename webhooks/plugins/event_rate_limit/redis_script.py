"""The decision of the store: one Lua script, so that it is atomic and goes by one clock, the store's own.

A bucket is two whole numbers: the microtokens that it held, and at what time in microseconds. It gains `qps`
microtokens a microsecond, so nothing is ever rounded, and what counts stays below 2^53, up to which Lua's numbers are
exact. A clock that goes back takes away what it brought: whatever it does, no more is given out than a burst and what
the time from its first to its latest reading brings, as in memory (see `buckets`).

A key that has expired is a bucket that has filled up.
"""

from collections.abc import Sequence
from hashlib import sha1

from webhooks.plugins.event_rate_limit.redis_connection import command, words
from webhooks.plugins.event_rate_limit.token_bucket import Limit

CLOCK = """\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
"""

TAKE = """\
local waits = {}
for i, key in ipairs(KEYS) do
  local qps, full = tonumber(ARGV[2 * i - 1]), ARGV[2 * i] * 1000000
  local level = full
  local bucket = redis.call('GET', key)
  if bucket then
    local held, at = struct.unpack('<dd', bucket)
    level = math.min(full, held + (now - at) * qps)
  end
  if level >= 1000000 then
    level = level - 1000000
    local life = math.ceil((full - level) / (qps * 1000)) + 1000
    redis.call('SET', key, struct.pack('<dd', level, now), 'PX', life)
    waits[i] = 0
  else
    waits[i] = math.ceil((1000000 - level) / qps)
  end
end
return waits
"""

_SCRIPT = CLOCK + TAKE
_DIGEST = sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()  # as EVALSHA wants it
_MOST = 2**31 - 1


class Script:
    """The commands that take a token from each of some buckets: a bucket's key is ``{prefix}:index/type:key``.

    The braces have a Redis Cluster keep all of them at one place, where one script can reach them.

    Args:
        limits: in the order of the configuration.
        prefix: not empty, and without braces.
    """

    def __init__(self, limits: Sequence[Limit], prefix: str) -> None:
        count = len(limits)
        arguments = [number for limit in limits for number in (limit.qps, limit.burst)]
        head = b"*%d\r\n" % (3 + count + len(arguments))
        self._known = head + words("EVALSHA", _DIGEST, count)
        self._whole = head + words("EVAL", _SCRIPT, count)
        self._names = [f"{{{prefix}}}:{index}/{limit.type}:" for index, limit in enumerate(limits)]
        self._arguments = words(*arguments)
        self.probe = command("EVAL", _SCRIPT, 1, f"{{{prefix}}}:probe", _MOST, _MOST)

    def take(self, keys: Sequence[str]) -> bytes:
        """The command for a store that knows the script; ``NOSCRIPT`` from any other.

        Args:
            keys: `keys[i]` belongs to `limits[i]`.
        """
        return self._known + self._keys(keys) + self._arguments

    def take_untaught(self, keys: Sequence[str]) -> bytes:
        """The same, with the script, which the store knows from then on."""
        return self._whole + self._keys(keys) + self._arguments

    def _keys(self, keys: Sequence[str]) -> bytes:
        return words(*[name + key for name, key in zip(self._names, keys, strict=True)])
