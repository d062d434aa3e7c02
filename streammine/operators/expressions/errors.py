"""What the errors of Polars tell people who write expressions."""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl
import pyarrow as pa
from polars.exceptions import PanicException, PolarsError

POLARS_ERRORS = (PolarsError, PanicException)

_ALWAYS_WRONG = re.compile(
    r"not supported|invalid utf8|regex error|cannot format|cannot cast|unsupported"
)
"""Messages that don't depend on the values."""

_TOO_FAR = "out-of-range datetime"
"""In the message of the panic over a time that no calendar reaches."""

OF_VALUES = "conversion from"
"""In messages that do."""

_ADVICE = {
    "to a string value (create native": "write date '2024-02-29' or timestamp '2024-02-29 12:30:00'",
    "comparison between series": "make them of one type with cast",
    "no function matches the given name and arguments: `log(": "write ln(x), log2(x), log10(x) or "
    "log(x, base)",
    "not allowed on date": "add an interval, like interval '1 day'",
    "to Boolean not supported": "compare it, like word = 'yes'",
    "raise an integer to a negative integer power": "make one of them a float, like pow(x, -1.0)",
}
"""By words of a message, what would be right."""

_CONVERSION = re.compile(
    r"conversion from `(.+?)` to `(.+?)` failed.*?: \[(.*?)\](?=\n\n|$)", re.DOTALL
)
_TYPES = {
    "str": "text",
    "f32": "float32",
    "f64": "float64",
    "datetime[μs]": "timestamp",
    "i128": "integer",
    "Utf8View": "text",
}
_INTEGER = re.compile(r"([iu])(\d+)")
_BETWEEN = ", "
"""Two values of a list."""
_LONGEST_VALUE = 60


def reason_of(error: Exception) -> str:
    """What is wrong, in one line, with what would be right where that is known."""
    message = str(error)
    advice = next((f"; {right}" for words, right in _ADVICE.items() if words in message), "")
    return f"{failure_text(error)}{advice}"


def no_fault_of_rows(error: Exception) -> bool:
    """Whether what went wrong lies in the machine, not in a value."""
    return isinstance(error, PanicException) and _TOO_FAR not in str(error)


def always_wrong(error: Exception) -> bool:
    return _ALWAYS_WRONG.search(str(error)) is not None


def failure_text(error: Exception) -> str:
    """What is wrong with a constant, or with a row of which two were computed."""
    message = str(error)
    conversion = _CONVERSION.search(message.strip())
    if conversion is None:
        return _first_line(message).replace("Utf8View", _type_name("Utf8View"))
    source, target, values = conversion.groups()
    one = values[: (len(values) - len(_BETWEEN)) // 2]
    if values != f"{one}{_BETWEEN}{one}":
        one = values
    shown = _shortened(one.replace("\n", "\\n"))
    return f"{_type_name(target)} can't hold {shown} of type {_type_name(source)}"


def first_failing_row(rows: int, failure: Callable[[int, int], Exception | None]) -> int:
    """The first row that fails by itself, of `rows` of which one does.

    `failure(start, end)` gives the error of one of these, if any.
    """
    start, end = 0, rows
    while end - start > 1:
        middle = (start + end) // 2
        if failure(start, middle) is not None:
            end = middle
        else:
            start = middle
    return start


def failure_inside(frame: pl.DataFrame, expression: pl.Expr, error: Exception) -> Exception:
    """What the first part of an expression fails with that fails by itself; `error` where none does."""
    for part in reversed(expression.meta.pop()):
        if part.meta.is_column():
            continue
        try:
            frame.select(part)
        except POLARS_ERRORS as found:
            return failure_inside(frame, part, found)
    return error


def row_text(batch: pa.RecordBatch, row: int) -> str:
    """The values of a row by their columns' names."""
    named = zip(batch.schema.names, batch.slice(row, 1).columns, strict=True)
    return ", ".join(f"{name} is {_value_text(column[0])}" for name, column in named)


def _value_text(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "null"
    # Python has no times beyond the year 9999
    plain = value.cast(pa.string()) if pa.types.is_temporal(value.type) else value
    plain = plain.as_py()
    return _shortened(repr(plain) if isinstance(plain, str | bytes) else str(plain))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _type_name(name: str) -> str:
    integer = _INTEGER.fullmatch(name)
    if integer is None or name in _TYPES:
        return _TYPES.get(name, name)
    return f"{'u' * (integer[1] == 'u')}int{integer[2]}"


def _first_line(message: str) -> str:
    """The first line; of a pattern that is none, what is wrong with it."""
    lines = [line.strip() for line in message.strip().split("\n")]
    what = next((line for line in lines if line.startswith("error: ")), "")
    if what and lines[0].startswith("regex error"):
        return f"not a pattern: {what.removeprefix('error: ').rstrip('.')}"
    return lines[0].rstrip(".")
