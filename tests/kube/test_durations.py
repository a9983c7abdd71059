from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.kube.durations import parse_duration

NS, US, MS, S, M, H = 1, 10**3, 10**6, 10**9, 60 * 10**9, 3600 * 10**9
UNITS = {"ns": NS, "us": US, "\u00b5s": US, "\u03bcs": US, "ms": MS, "s": S, "m": M, "h": H}

# The first part consists of the cases of time.TestParseDuration in Go.
GOOD = {
    "0": 0,
    "5s": 5 * S,
    "1478s": 1478 * S,
    "-5s": -5 * S,
    "+5s": 5 * S,
    "-0": 0,
    "+0": 0,
    "5.6s": 5 * S + 600 * MS,
    "5.s": 5 * S,
    ".5s": 500 * MS,
    "1.00s": S,
    "1.0040s": S + 4 * MS,
    "100.00100s": 100 * S + MS,
    "10ns": 10,
    "11us": 11 * US,
    "12\u00b5s": 12 * US,
    "12\u03bcs": 12 * US,
    "13ms": 13 * MS,
    "15m": 15 * M,
    "16h": 16 * H,
    "3h30m": 3 * H + 30 * M,
    "10.5s4m": 4 * M + 10 * S + 500 * MS,
    "-2m3.4s": -(2 * M + 3 * S + 400 * MS),
    "1h2m3s4ms5us6ns": H + 2 * M + 3 * S + 4 * MS + 5 * US + 6,
    "39h9m14.425s": 39 * H + 9 * M + 14 * S + 425 * MS,
    "0.3333333333333333333h": 20 * M,
    "9007199254740993ns": (1 << 53) + 1,
    "9223372036854775807ns": (1 << 63) - 1,
    "9223372036854775.807us": (1 << 63) - 1,
    "9223372036s854ms775us807ns": (1 << 63) - 1,
    "-9223372036854775808ns": -(1 << 63),
    "-9223372036854775.808us": -(1 << 63),
    "-2562047h47m16.854775808s": -(1 << 63),
    "0.100000000000000000000h": 6 * M,
    "0.830103483285477580700h": 49 * M + 48 * S + 372539827,
    # Durations that API servers send, and edge cases.
    "1m0s": M,
    "1.9ns": 1,
    "-1.9ns": -1,
    "0s": 0,
    "0" * 5000 + "1s": S,
    "0." + "0" * 5000 + "1h": 0,
    "0." + "9" * 5000 + "h": H,
}

BAD = {
    "": 'time: invalid duration ""',
    "3": 'time: missing unit in duration "3"',
    "-": 'time: invalid duration "-"',
    "s": 'time: invalid duration "s"',
    ".": 'time: invalid duration "."',
    "-.": 'time: invalid duration "-."',
    ".s": 'time: invalid duration ".s"',
    "+.s": 'time: invalid duration "+.s"',
    "1d": 'time: unknown unit "d" in duration "1d"',
    "--1s": 'time: invalid duration "--1s"',
    " 1s": 'time: invalid duration " 1s"',
    "1 s": 'time: unknown unit " s" in duration "1 s"',
    "1S": 'time: unknown unit "S" in duration "1S"',
    "1.2.3s": 'time: missing unit in duration "1.2.3s"',
    "1e3s": 'time: unknown unit "e" in duration "1e3s"',
    "00": 'time: missing unit in duration "00"',
    '1"': 'time: unknown unit "\\"" in duration "1\\""',
    "1\\": 'time: unknown unit "\\\\" in duration "1\\\\"',
    "1s\n": 'time: unknown unit "s\\x0a" in duration "1s\\x0a"',
    "\ufffd": 'time: invalid duration "\\xef\\xbf\\xbd"',
    "\u0661s": 'time: invalid duration "\\xd9\\xa1s"',
    "9223372036854775810ns": 'time: invalid duration "9223372036854775810ns"',
    "9223372036854775808ns": 'time: invalid duration "9223372036854775808ns"',
    "-9223372036854775809ns": 'time: invalid duration "-9223372036854775809ns"',
    "9223372036854776us": 'time: invalid duration "9223372036854776us"',
    "9999999999999999999d": 'time: invalid duration "9999999999999999999d"',
    "3000000h": 'time: invalid duration "3000000h"',
    "9223372036854775.808us": 'time: invalid duration "9223372036854775.808us"',
    "9223372036854ms775us808ns": 'time: invalid duration "9223372036854ms775us808ns"',
}


@pytest.mark.parametrize(("text", "nanoseconds"), GOOD.items(), ids=lambda value: str(value)[:24])
def test_durations_are_parsed(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(("text", "message"), BAD.items(), ids=lambda value: ascii(value)[:24])
def test_invalid_durations_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="time: ") as error:
        parse_duration(text)
    assert str(error.value) == message


def test_the_message_can_contain_a_lone_surrogate() -> None:
    with pytest.raises(ValueError, match=r'time: invalid duration "\\xed\\xa0\\x80"'):
        parse_duration("\ud800")


def test_many_digits_are_rejected() -> None:
    with pytest.raises(ValueError, match="time: invalid duration"):
        parse_duration("9" * 5000 + "s")


@given(st.lists(st.tuples(st.integers(0, 10**5), st.sampled_from(sorted(UNITS))), min_size=1, max_size=5))
def test_parts_add_up_and_a_sign_negates_the_sum(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{count}{unit}" for count, unit in parts)
    expected = sum(count * UNITS[unit] for count, unit in parts)
    assert parse_duration(text) == parse_duration("+" + text) == -parse_duration("-" + text) == expected


@given(st.integers(0, 10**6), st.text("0123456789", max_size=15), st.sampled_from(sorted(UNITS)))
def test_fractions_are_within_a_nanosecond(whole: int, fraction: str, unit: str) -> None:
    exact = (whole + Fraction(int(fraction or "0"), 10 ** len(fraction))) * UNITS[unit]
    assert abs(parse_duration(f"{whole}.{fraction}{unit}") - exact) <= 1


@given(st.text("0123456789.+-hmsnu\u00b5 d", max_size=12) | st.text(max_size=8))
def test_no_other_error_is_raised(text: str) -> None:
    try:
        nanoseconds = parse_duration(text)
    except ValueError as error:
        message = str(error)
    else:
        assert -(1 << 63) <= nanoseconds < 1 << 63
        return
    assert message.startswith("time: ")
    assert message.isascii()
