"""The decision in Redis: one Lua script, so that it is atomic and uses one clock, that of the server.

A bucket is stored as two integers: its microtokens, and the time in microseconds at which it had them. It gains `qps`
microtokens per microsecond, so nothing is rounded, and numbers stay below 2^53, up to which Lua is exact. If the clock
goes back, the level decreases by the tokens that were gained in that time. So, as in memory, no bucket yields more
tokens than its burst plus its gain between the first and the latest reading of the clock.

A key that has expired belongs to a bucket that is full.
"""

from collections.abc import Sequence
from hashlib import sha1

from webhooks.plugins.event_rate_limit.redis_connection import encode_arguments, encode_command
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

_SOURCE = CLOCK + TAKE
_DIGEST = sha1(_SOURCE.encode(), usedforsecurity=False).hexdigest()  # the argument of EVALSHA
_MAX_INT32 = 2**31 - 1


class Script:
    """The commands that take tokens. The key of a bucket is ``{prefix}:index/type:key``.

    Because of the braces a Redis Cluster stores all keys on one node, so that one script can access them.

    Args:
        limits: the limits in the order of the configuration.
        prefix: the prefix of keys; not empty, and without braces.
    """

    def __init__(self, limits: Sequence[Limit], prefix: str) -> None:
        count = len(limits)
        arguments = [number for limit in limits for number in (limit.qps, limit.burst)]
        head = b"*%d\r\n" % (3 + count + len(arguments))
        self._by_digest = head + encode_arguments("EVALSHA", _DIGEST, count)
        self._by_source = head + encode_arguments("EVAL", _SOURCE, count)
        self._key_prefixes = [f"{{{prefix}}}:{index}/{limit.type}:" for index, limit in enumerate(limits)]
        self._arguments = encode_arguments(*arguments)
        self.probe = encode_command("EVAL", _SOURCE, 1, f"{{{prefix}}}:probe", _MAX_INT32, _MAX_INT32)

    def take(self, keys: Sequence[str]) -> bytes:
        """Return the command for a server that has cached the script. Others reply with ``NOSCRIPT``.

        Args:
            keys: `keys[i]` is the key for `limits[i]`.
        """
        return self._by_digest + self._encode_keys(keys) + self._arguments

    def take_with_source(self, keys: Sequence[str]) -> bytes:
        """Return the same command with the source of the script, which the server then caches."""
        return self._by_source + self._encode_keys(keys) + self._arguments

    def _encode_keys(self, keys: Sequence[str]) -> bytes:
        return encode_arguments(*[prefix + key for prefix, key in zip(self._key_prefixes, keys, strict=True)])
