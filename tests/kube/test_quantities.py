from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks import parse_quantity

AMOUNTS = {
    "0": 0,
    "1": 1,
    "007": 7,
    "100m": Fraction(1, 10),
    "1500m": Fraction(3, 2),
    "1.5": Fraction(3, 2),
    "1.": 1,
    ".5": Fraction(1, 2),
    "+.5": Fraction(1, 2),
    "-1.5": Fraction(-3, 2),
    "-0": 0,
    "1n": Fraction(1, 10**9),
    "1u": Fraction(1, 10**6),
    "1k": 1000,
    "1M": 10**6,
    "1G": 10**9,
    "1T": 10**12,
    "1P": 10**15,
    "1E": 10**18,
    "1Ki": 2**10,
    "1Mi": 2**20,
    "1Gi": 2**30,
    "1Ti": 2**40,
    "1Pi": 2**50,
    "1Ei": 2**60,
    "1.5Gi": 3 * 2**29,
    "0.1Ki": Fraction(1024, 10),
    "1e3": 1000,
    "1E3": 1000,
    "1e+3": 1000,
    "12e-1": Fraction(6, 5),
    "1e-003": Fraction(1, 1000),
    "1e0": 1,
    "-2e2": -200,
    "18446744073709551616": 2**64,
    "9007199254740993": 9007199254740993,
    # No quantity is finer than a billionth, and no quantity is rounded to zero.
    "0.1n": Fraction(1, 10**9),
    "1e-100": Fraction(1, 10**9),
    "1.0000000001": Fraction(10**9 + 1, 10**9),
    "-0.1n": Fraction(-1, 10**9),
    "0.00000000001Ki": Fraction(11, 10**9),
    "0e-100": 0,
    # Binary suffixes end at 64 bits.
    "8Ei": 2**63 - 1,
    "-9Ei": -(2**63 - 1),
    "9E": 9 * 10**18,
    "10E": 10**19,
    "1e100": 10**100,
}

BAD = [
    *("", " ", "+", "-", ".", "-.", "m", "Ki", ".m", "e3", "+-1", "--1", "1 ", " 1", "1\n", "1 Gi", "1,5"),
    *("1.1.1", "1.1.m", "1+1", "0x10", "1_000", "\u0661", "\uff11", "inf", "nan", "Infinity", "NaN"),
    *("1K", "1ki", "1mi", "1ni", "1GI", "1gi", "1GB", "1GiB", "1g", "1t", "1p", "1KiB", "1Mi1", "1mm", "1i", "1Zi"),
    *("1e", "1e-", "1e+", "1e1.5", "1e3Ki", "1e3m", "1Ee3", "1e3e3", "1E-", "cpu", "1e101", "1e-101", "1e999999999"),
    *("1" * 101, "0." + "0" * 100),
]


@pytest.mark.parametrize(("text", "amount"), AMOUNTS.items())
def test_amounts(text: str, amount: Fraction | int) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", BAD, ids=lambda text: ascii(text)[:30])
def test_invalid_quantities_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="invalid quantity ") as error:
        parse_quantity(text)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("number", "amount"),
    [(2, 2), (0, 0), (-1, -1), (0.5, Fraction(1, 2)), (0.1, Fraction(1, 10)), (1e16, 10**16), (2**63, 2**63)],
)
def test_numbers(number: float, amount: Fraction | int) -> None:
    assert parse_quantity(number) == amount


@pytest.mark.parametrize(
    "value", [None, True, False, [], {}, ["1"], b"1", float("nan"), float("inf"), 10**101, 1 + 2j], ids=repr
)
def test_other_values_are_rejected(value: Any) -> None:
    parse_quantity(1)
    parse_quantity(0)
    with pytest.raises(ValueError, match="invalid quantity "):
        parse_quantity(value)


def test_the_message_has_the_reason() -> None:
    with pytest.raises(ValueError, match=r"^invalid quantity '1GB': unknown unit GB: use one of n u m k M G T P E Ki "):
        parse_quantity("1GB")
    with pytest.raises(ValueError, match=r"^invalid quantity \['1'\]: it must be a string or a number$"):
        parse_quantity(["1"])


def test_quantities_compare_by_value() -> None:
    texts = ["1e3", "1Ki", "1100m", "-1", "0.9", "1k", "1M", "1Mi", "999u"]
    assert sorted(texts, key=parse_quantity) == ["-1", "999u", "0.9", "1100m", "1e3", "1k", "1Ki", "1M", "1Mi"]
    assert parse_quantity("1000m") == parse_quantity("1") == parse_quantity("1.000") == parse_quantity(1)
    assert parse_quantity("0.1") + parse_quantity("0.2") == parse_quantity("0.3")


SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "e3": 10**3}


@given(
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**6),
    st.text("0123456789", max_size=6),
    st.sampled_from([*SUFFIXES]),
)
def test_a_quantity_is_its_number_times_its_unit(sign: str, whole: int, part: str, suffix: str) -> None:
    number = Fraction(f"{sign}{whole}.{part}0")
    assert parse_quantity(f"{sign}{whole}.{part}{suffix}") == number * SUFFIXES[suffix]


@given(st.integers(-(10**30), 10**30))
def test_billionths_are_exact(billionths: int) -> None:
    assert parse_quantity(f"{billionths}n") == parse_quantity(f"{billionths}e-9") == Fraction(billionths, 10**9)


@given(st.text("0123456789.+-eEinumkKMGTP ", max_size=8) | st.text(max_size=12))
def test_no_other_error_is_raised(text: str) -> None:
    with suppress(ValueError):
        assert (parse_quantity(text) * 10**9).denominator == 1
