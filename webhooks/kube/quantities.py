"""Quantities as the cluster API writes them, such as ``100m``, ``1.5Gi`` or ``1e3``."""

import re
from fractions import Fraction
from functools import lru_cache

_LONGEST = 100  # characters; no amount of anything needs more
_LARGEST_EXPONENT = 100
_NANO = 10**9
_LARGEST_BINARY = 2**63 - 1

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[a-zA-Z]*))"
)


def parse_quantity(value: object) -> Fraction:
    """The amount that a quantity stands for, to calculate and to compare with.

    It is exact, and the same that API servers make of it: they know nothing finer than a billionth (``1n``) and round
    to it away from zero, and take whatever is written with a binary suffix and beyond 64 bits for the largest number
    of 64 bits.

    Args:
        value: a text with an optional sign, a decimal number, and one of ``n u m k M G T P E``, of
            ``Ki Mi Gi Ti Pi Ei``, or a decimal exponent such as ``e3`` or ``E-3``; or a number as JSON has them.

    Raises:
        ValueError: for everything else, and for what no machine has: texts of over 100 characters, exponents over
            100. The message shows the value.
    """
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _parse(str(value))
    raise _error(value, "it must be a text or a number")


@lru_cache(maxsize=1024)
def _parse(text: str) -> Fraction:
    if len(text) > _LONGEST:
        raise _error(text, f"it is longer than {_LONGEST} characters")
    found = _QUANTITY.fullmatch(text)
    if found is None or not (found["whole"] or found["part"]):
        raise _error(text, "it must be a number with a unit such as m, k, M, Mi or Gi, or with none")
    amount = int(found["whole"] + (found["part"] or "")) * _scale(text, found) / 10 ** len(found["part"] or "")
    amount = Fraction(-(-amount * _NANO // 1), _NANO)
    if found["suffix"] in _BINARY:
        amount = min(amount, Fraction(_LARGEST_BINARY))
    return -amount if found["sign"] == "-" else amount


def _scale(text: str, found: re.Match[str]) -> Fraction:
    suffix, exponent = found["suffix"], int(found["exponent"] or "0")
    if abs(exponent) > _LARGEST_EXPONENT:
        raise _error(text, f"its exponent is beyond {_LARGEST_EXPONENT}")
    if not suffix:
        return Fraction(10) ** exponent
    if suffix in _BINARY:
        return Fraction(2 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix]
    raise _error(text, f"{suffix} is no unit: they are {' '.join(filter(None, _DECIMAL))} {' '.join(_BINARY)}")


def _error(value: object, reason: str) -> ValueError:
    shown = repr(value)
    return ValueError(f"invalid quantity {shown if len(shown) <= 60 else f'{shown[:60]}...'}: {reason}")
