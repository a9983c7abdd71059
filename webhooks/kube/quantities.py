"""Parses quantities of the Kubernetes API, such as ``100m``, ``1.5Gi`` or ``1e3``."""

import re
from fractions import Fraction
from functools import lru_cache

_MAX_LENGTH = 100  # characters
_MAX_EXPONENT = 100
_NANO = 10**9
_MAX_BINARY = 2**63 - 1

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[a-zA-Z]*))"
)


def parse_quantity(value: object) -> Fraction:
    """Parse a quantity. The result is exact and can be compared and used in calculations.

    It equals the value in API servers, which round away from zero to a multiple of 10^-9 (``1n``), and limit quantities
    with a binary suffix to 2^63-1.

    Args:
        value: a string with an optional sign, a decimal number, and one of ``n u m k M G T P E``, one of
            ``Ki Mi Gi Ti Pi Ei``, or a decimal exponent such as ``e3`` or ``E-3``; or a JSON number.

    Raises:
        ValueError: the value is not a quantity, or has more than 100 characters or an exponent beyond 100. The message
            shows the value.
    """
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _parse(str(value))
    raise _error(value, "it must be a string or a number")


@lru_cache(maxsize=1024)
def _parse(text: str) -> Fraction:
    if len(text) > _MAX_LENGTH:
        raise _error(text, f"it is longer than {_MAX_LENGTH} characters")
    match = _QUANTITY.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        raise _error(text, "it must be a number with an optional unit such as m, k, M, Mi or Gi")
    amount = int(match["whole"] + (match["part"] or "")) * _scale(text, match) / 10 ** len(match["part"] or "")
    amount = Fraction(-(-amount * _NANO // 1), _NANO)
    if match["suffix"] in _BINARY:
        amount = min(amount, Fraction(_MAX_BINARY))
    return -amount if match["sign"] == "-" else amount


def _scale(text: str, match: re.Match[str]) -> Fraction:
    suffix, exponent = match["suffix"], int(match["exponent"] or "0")
    if abs(exponent) > _MAX_EXPONENT:
        raise _error(text, f"its exponent exceeds {_MAX_EXPONENT}")
    if not suffix:
        return Fraction(10) ** exponent
    if suffix in _BINARY:
        return Fraction(2 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix]
    raise _error(text, f"unknown unit {suffix}: use one of {' '.join(filter(None, _DECIMAL))} {' '.join(_BINARY)}")


def _error(value: object, reason: str) -> ValueError:
    text = repr(value)
    return ValueError(f"invalid quantity {text if len(text) <= 60 else f'{text[:60]}...'}: {reason}")
