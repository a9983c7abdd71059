"""Parses durations in the format of Go, such as ``300ms`` or ``1m0s``."""

import re

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LIMIT = 1 << 63
_PART = re.compile(r"(?P<integer>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^.0-9]*)")


def parse_duration(text: str) -> int:
    """Parse a duration such as ``10s``, ``1m0s`` or ``-1.5h``.

    The result is the same as that of ``time.ParseDuration`` in Go, to the nanosecond. API servers read and write
    durations in this format.

    Args:
        text: an optional sign, and decimal numbers, each with an optional fraction and a unit: ``ns``, ``us`` or
            ``µs``, ``ms``, ``s``, ``m``, ``h``. Only ``0`` may have no unit.

    Returns:
        Nanoseconds within 64 bits; negative for a negative duration.

    Raises:
        ValueError: the text is not a duration, or the duration exceeds 64 bits. The message is that of Go.
    """
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0
    if not unsigned:
        raise _error("invalid duration", text)
    total = position = 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        assert part is not None  # every part of the pattern may be empty
        total += _to_nanoseconds(part, text)
        if total > _LIMIT:
            raise _error("invalid duration", text)
        position = part.end()
    if text[0] == "-":
        return -total
    if total == _LIMIT:
        raise _error("invalid duration", text)
    return total


def _to_nanoseconds(part: re.Match[str], text: str) -> int:
    integer, fraction, unit = part.group("integer", "fraction", "unit")
    count = int(integer.lstrip("0")[:20] or "0")  # 20 digits exceed the limit
    if not (integer or fraction) or count > _LIMIT:
        raise _error("invalid duration", text)
    if not unit:
        raise _error("missing unit in duration", text)
    scale = _UNITS.get(unit)
    if scale is None:
        raise _error(f"unknown unit {_quote(unit)} in duration", text)
    if count > _LIMIT // scale:
        raise _error("invalid duration", text)
    return count * scale + _fraction_to_nanoseconds(fraction or "", scale)


def _fraction_to_nanoseconds(digits: str, unit: int) -> int:
    """Compute a fraction with the arithmetic of Go, including floating point, to get the same result."""
    value, scale = 0, 1.0
    for digit in digits:
        longer = value * 10 + int(digit)
        if value > (_LIMIT - 1) // 10 or longer > _LIMIT:
            break
        value = longer
        scale *= 10
    return int(float(value) * (float(unit) / scale))


def _error(problem: str, text: str) -> ValueError:
    return ValueError(f"time: {problem} {_quote(text)}")


def _quote(text: str) -> str:
    """Quote a text as Go does in these messages: every byte outside ASCII is hexadecimal."""
    parts = []
    for character in text:
        if character in '"\\':
            parts.append("\\" + character)
        elif " " <= character < "\x80":
            parts.append(character)
        else:
            parts += [f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass")]
    return f'"{"".join(parts)}"'
