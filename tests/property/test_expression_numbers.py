"""Numbers, truths and nulls in expressions against Python's own, over hostile values."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings

from tests.property.expression_cases import Case, Rows, assert_give, rows_for

Number = float | int


def wrapped(number: int) -> int:
    """As int64 holds it."""
    return (number + 2**63) % 2**64 - 2**63


def library(name: str) -> Any:
    """A function of numpy on floats, without its warnings."""

    def compute(*values: float) -> float:
        with np.errstate(all="ignore"):
            return float(getattr(np, name)(*(np.float64(value) for value in values)))

    return compute


def rank(number: Number) -> tuple[bool, Number]:
    """Orders as comparisons do: NaN equals NaN and is greater than every number; -0.0 is 0.0."""
    return (True, 0) if number != number else (False, number)


def quotient(f: float, g: float) -> float:
    return library("divide")(f, g)  # type: ignore[no-any-return]


def logarithm(x: float, base: float) -> float:
    return library("log")(x) / library("log")(base)


def single(f: float) -> float:
    """The float32 nearest to it."""
    try:
        return struct.unpack("<f", struct.pack("<f", f))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, f)


def whole(f: float) -> int | None:
    """Without what stands behind the point, where int64 can hold it."""
    if not math.isfinite(f) or not -(2**63) <= int(f) < 2**63:
        return None
    return int(f)


def within(bits: int) -> Any:
    return lambda i: i if -(2 ** (bits - 1)) <= i < 2 ** (bits - 1) else None


def read(digits: str) -> int | None:
    try:
        number = int(digits)
    except ValueError:
        return None
    return number if -(2**63) <= number < 2**63 else None


def first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def greatest(*values: Any) -> Any:
    return max((value for value in values if value is not None), key=rank, default=None)


def least(*values: Any) -> Any:
    return min((value for value in values if value is not None), key=rank, default=None)


def sign(number: Number) -> Number:
    return number if number != number or number == 0 else type(number)(math.copysign(1, number))


EXACT: dict[str, Case] = {
    "i + j": Case(lambda i, j: wrapped(i + j), "ij"),
    "i - j": Case(lambda i, j: wrapped(i - j), "ij"),
    "i * j": Case(lambda i, j: wrapped(i * j), "ij"),
    "-i": Case(lambda i: wrapped(-i), "i"),
    "f + g": Case(lambda f, g: f + g, "fg"),
    "f - g": Case(lambda f, g: f - g, "fg"),
    "f * g": Case(lambda f, g: f * g, "fg"),
    "f / g": Case(quotient, "fg"),
    "i / j": Case(lambda i, j: quotient(float(i), float(j)), "ij"),
    "-f": Case(lambda f: -f, "f"),
    "abs(i)": Case(lambda i: wrapped(abs(i)), "i"),
    "abs(f)": Case(abs, "f"),
    "sign(i)": Case(sign, "i"),
    "sign(f)": Case(sign, "f"),
    "ceil(f)": Case(library("ceil"), "f"),
    "ceiling(f)": Case(library("ceil"), "f"),
    "floor(f)": Case(library("floor"), "f"),
    "trunc(f)": Case(library("trunc"), "f"),
    "round(f)": Case(library("rint"), "f"),
    "round(cast(n as double) / 4, 1)": Case(lambda n: round(n / 4, 1), "n"),
    "floor(i)": Case(lambda i: i, "i"),
    "round(i)": Case(lambda i: i, "i"),
    "sqrt(f)": Case(library("sqrt"), "f"),
    "pi()": Case(lambda i: math.pi, "i", with_nulls=True),
    "i & j": Case(lambda i, j: i & j, "ij"),
    "i | j": Case(lambda i, j: i | j, "ij"),
    "bit_and(i, j)": Case(lambda i, j: i & j, "ij"),
    "bitand(i, j)": Case(lambda i, j: i & j, "ij"),
    "bit_or(i, j)": Case(lambda i, j: i | j, "ij"),
    "bitor(i, j)": Case(lambda i, j: i | j, "ij"),
    "bit_xor(i, j)": Case(lambda i, j: i ^ j, "ij"),
    "bitxor(i, j)": Case(lambda i, j: i ^ j, "ij"),
    "xor(i, j)": Case(lambda i, j: i ^ j, "ij"),
    "bit_not(i)": Case(lambda i: ~i, "i"),
    "f = g": Case(lambda f, g: rank(f) == rank(g), "fg"),
    "f <> g": Case(lambda f, g: rank(f) != rank(g), "fg"),
    "f < g": Case(lambda f, g: rank(f) < rank(g), "fg"),
    "f <= g": Case(lambda f, g: rank(f) <= rank(g), "fg"),
    "f > g": Case(lambda f, g: rank(f) > rank(g), "fg"),
    "f >= g": Case(lambda f, g: rank(f) >= rank(g), "fg"),
    "i < j": Case(lambda i, j: i < j, "ij"),
    "i between j and j + 1": Case(lambda i, j: j <= i <= wrapped(j + 1), "ij"),
    "i in (0, 1, -1)": Case(lambda i: i in (0, 1, -1), "i"),
    "f is distinct from g": Case(
        lambda f, g: (f is None) != (g is None) or (f is not None and rank(f) != rank(g)),
        "fg",
        with_nulls=True,
    ),
    "i is not distinct from j": Case(lambda i, j: i == j, "ij", with_nulls=True),
    "f is null": Case(lambda f: f is None, "f", with_nulls=True),
    "greatest(y, 0.5)": Case(lambda y: greatest(y, 0.5), "y", with_nulls=True),
    "greatest(f, 2.0)": Case(lambda f: greatest(f, 2.0), "f", with_nulls=True),
    "greatest(f, g, x)": Case(greatest, "fgx", with_nulls=True),
    "greatest(f, x / 2, 1)": Case(
        lambda f, x: greatest(f, None if x is None else x / 2, 1.0), "fx", with_nulls=True
    ),
    "least(f, 2.0)": Case(lambda f: least(f, 2.0), "f", with_nulls=True),
    "least(f, g)": Case(least, "fg", with_nulls=True),
    "greatest(i, j)": Case(greatest, "ij", with_nulls=True),
    "least(i, j, 7)": Case(lambda i, j: least(i, j, 7), "ij", with_nulls=True),
    "coalesce(f, g)": Case(first, "fg", with_nulls=True),
    "coalesce(i, j, 0)": Case(lambda i, j: first(i, j, 0), "ij", with_nulls=True),
    "ifnull(i, j)": Case(first, "ij", with_nulls=True),
    "nullif(i, j)": Case(lambda i, j: None if i == j else i, "ij", with_nulls=True),
    "nullif(f, g)": Case(
        lambda f, g: f if None in (f, g) or rank(f) != rank(g) else None, "fg", with_nulls=True
    ),
    "if(u, i, j)": Case(lambda u, i, j: i if u else j, "uij", with_nulls=True),
    "case when u then f when v then g end": Case(
        lambda u, v, f, g: f if u else g if v else None, "uvfg", with_nulls=True
    ),
    "case k when 1 then i when 2 then j else 0 end": Case(
        lambda k, i, j: {1: i, 2: j}.get(k, 0), "kij", with_nulls=True
    ),
    "not u": Case(lambda u: not u, "u"),
    "cast(i as double)": Case(float, "i"),
    "i::double": Case(float, "i"),
    "try_cast(f as bigint)": Case(whole, "f"),
    "try_cast(i as int)": Case(within(32), "i"),
    "try_cast(i as smallint)": Case(within(16), "i"),
    "try_cast(i as tinyint)": Case(within(8), "i"),
    "try_cast(i as ubigint)": Case(lambda i: i if i >= 0 else None, "i"),
    "cast(f as real)": Case(single, "f"),
    "cast(i as varchar)": Case(str, "i"),
    "cast(cast(f as varchar) as double)": Case(lambda f: f, "f"),
    "try_cast(digits as bigint)": Case(read, ["digits"]),
    "cast(cast(i as decimal(38, 2)) as bigint)": Case(lambda i: i, "i"),
    "cast(u as bigint)": Case(int, "u"),
    "cast(i as boolean)": Case(bool, "i"),
    "array_length(h)": Case(len, "h"),
    "array_contains(h, 2)": Case(lambda h: 2 in h, "h"),
    "array_contains(h, k)": Case(lambda h, k: k in h, "hk"),
    "array_contains(h, i)": Case(lambda h, i: i in h, "hi"),
    "array_get(h, m)": Case(lambda h, m: h[m - 1] if m <= len(h) else None, "hm"),
}
# the C libraries of two machines may differ in the last bit
NEARLY = {
    text: replace(case, ulps=4)
    for text, case in {
        "exp(y)": Case(library("exp"), "y"),
        "exp(f)": Case(library("exp"), "f"),
        "ln(f)": Case(library("log"), "f"),
        "log2(f)": Case(library("log2"), "f"),
        "log10(f)": Case(library("log10"), "f"),
        "log1p(f)": Case(library("log1p"), "f"),
        "log(x, 3)": Case(lambda x: logarithm(x, 3.0), "x"),
        "cbrt(f)": Case(library("cbrt"), "f"),
        "pow(f, y)": Case(library("power"), "fy"),
        "power(x, 2)": Case(lambda x: library("power")(x, 2.0), "x"),
        "sin(x)": Case(library("sin"), "x"),
        "cos(x)": Case(library("cos"), "x"),
        "tan(x)": Case(library("tan"), "x"),
        "asin(f)": Case(library("arcsin"), "f"),
        "acos(f)": Case(library("arccos"), "f"),
        "atan(f)": Case(library("arctan"), "f"),
        "atan2(f, g)": Case(library("arctan2"), "fg"),
        "degrees(x)": Case(library("degrees"), "x"),
        "radians(f)": Case(library("radians"), "f"),
    }.items()
}


@settings(max_examples=200, deadline=None)
@given(rows_for(EXACT))
def test_each_function_gives_what_python_gives(rows: Rows) -> None:
    assert_give(EXACT, rows)


@settings(max_examples=200, deadline=None)
@given(rows_for(NEARLY))
def test_each_function_of_the_c_library_gives_its_value_but_for_the_last_bits(rows: Rows) -> None:
    assert_give(NEARLY, rows)
