"""Durations as Go writes them, such as ``300ms`` or ``1m0s``."""

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
_PART = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^.0-9]*)")


def parse_duration(text: str) -> int:
    """The length of a duration such as ``10s``, ``1m0s`` or ``-1.5h``.

    Accepts and refuses what Go's ``time.ParseDuration`` does, and means the same to the nanosecond: API
    servers read and write durations with it.

    Args:
        text: an optional sign, then decimal numbers, each with an optional fraction and a unit: ``ns``,
            ``us`` (or ``µs``), ``ms``, ``s``, ``m``, ``h``. A lone ``0`` needs no unit.

    Returns:
        Nanoseconds, within 64 bits and possibly negative.

    Raises:
        ValueError: for any other text, or a duration beyond 64 bits; the message is Go's.
    """
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0
    if not unsigned:
        raise _error("invalid duration", text)
    total = position = 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        assert part is not None  # every group may be empty
        total += _nanoseconds(part, text)
        if total > _LIMIT:
            raise _error("invalid duration", text)
        position = part.end()
    if text[0] == "-":
        return -total
    if total == _LIMIT:
        raise _error("invalid duration", text)
    return total


def _nanoseconds(part: re.Match[str], text: str) -> int:
    whole, fraction, unit = part.group("whole", "fraction", "unit")
    count = int(whole.lstrip("0")[:20] or "0")  # 20 digits are beyond the limit already
    if not (whole or fraction) or count > _LIMIT:
        raise _error("invalid duration", text)
    if not unit:
        raise _error("missing unit in duration", text)
    scale = _UNITS.get(unit)
    if scale is None:
        raise _error(f"unknown unit {_quoted(unit)} in duration", text)
    if count > _LIMIT // scale:
        raise _error("invalid duration", text)
    return count * scale + _fraction(fraction or "", scale)


def _fraction(digits: str, unit: int) -> int:
    """Go's arithmetic, floating point included, so that the same text is the same duration on both sides."""
    value, scale = 0, 1.0
    for digit in digits:
        longer = value * 10 + int(digit)
        if value > (_LIMIT - 1) // 10 or longer > _LIMIT:
            break
        value = longer
        scale *= 10
    return int(float(value) * (float(unit) / scale))


def _error(what: str, text: str) -> ValueError:
    return ValueError(f"time: {what} {_quoted(text)}")


def _quoted(text: str) -> str:
    """The text in quotes as Go shows it: plain ASCII, every other byte in hexadecimal."""
    shown = []
    for character in text:
        if character in '"\\':
            shown.append("\\" + character)
        elif " " <= character < "\x80":
            shown.append(character)
        else:
            shown += [f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass")]
    return f'"{"".join(shown)}"'
