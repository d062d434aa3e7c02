"""SQL-like expressions over the columns of a batch, for `map` and `filter`.

The text is cut into tokens and every word in it must be a column of the input, a function of
`FUNCTIONS` or a keyword of `KEYWORDS`. So what is not elementwise and deterministic (aggregates,
window functions, sub-queries, random numbers, the clock) cannot be written. What is left is parsed
and evaluated by Polars, on Arrow memory without copies where the types allow it.

What the values are:

- Integers narrower than 64 bits are widened to int64 (unsigned ones to uint64 where the column has
  64 bits) in every expression that computes; an expression that only names a column keeps its type.
- int64 arithmetic wraps around at its bounds (two's complement), the same on every machine.
- ``/`` gives a float64; ``x / 0`` is an infinity, ``0 / 0`` is NaN. ``//`` and ``%`` take integers
  and give null where the divisor is 0.
- A number with a point is a float64, except where a decimal column is read; there it is a decimal.
- Null in, null out. Comparisons know three values; ``coalesce``, ``nullif``, ``case``,
  ``is null`` and ``is not distinct from`` treat nulls.
- NaN equals NaN and is greater than every number.
- Text is compared by its UTF-8 bytes; ``length`` counts characters; ``upper`` and ``lower`` follow
  Unicode, not a locale.
- ``cast`` of a value that does not fit fails; ``try_cast`` gives null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import polars as pl
import polars.exceptions
import pyarrow as pa

from streammine.model.errors import TopologyError, UserCodeError
from streammine.model.suggestions import did_you_mean, listed
from streammine.model.topology.parts import LONGEST_TEXT
from streammine.operators.polars_frames import frame_of, plain_array, plain_type


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _words(
    """abs ceil ceiling floor round sign sqrt cbrt exp ln log log2 log10 log1p pow power mod div
    sin cos tan asin acos atan atan2 degrees radians
    greatest least coalesce ifnull nullif if
    length char_length character_length octet_length bit_length lower upper initcap trim ltrim rtrim
    btrim left right substr substring replace reverse starts_with ends_with strpos position concat
    concat_ws regexp_like
    cast try_cast extract date_part year month day hour minute second
    bit_and bit_or bit_xor bitand bitor bitxor xor"""
)
"""Functions that give one value per row and depend on that row only."""

KEYWORDS = _words(
    """and or not is null true false case when then else end in between like ilike distinct from as
    for interval both leading trailing"""
)
"""Words of the language; a column of such a name is written in double quotes."""

_TYPES = _words(
    """tinyint smallint int int2 int4 int8 integer bigint unsigned utinyint usmallint uinteger
    ubigint float float4 float8 real double precision decimal numeric boolean bool char varchar text
    string bytea date timestamp"""
)
_DATE_PARTS = _words(
    """year quarter month week day hour minute second millisecond microsecond dow isodow doy isoyear
    decade century"""
)
_INTEGER_FUNCTIONS = _words(
    """length char_length character_length octet_length bit_length strpos position extract date_part
    year month day hour minute second"""
)
"""Their Polars results are narrow or unsigned; ``length(a) - length(b)`` must not wrap around."""

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d]\w*)
    |(?P<operator>\|\||<=>|<=|>=|<>|!=|::|//|[-+*/%<>=(),&|^~])""",
    re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str


class Expression:
    """One checked expression over a fixed input schema.

    `type` is the Arrow type of its values, decided when it is built and enforced on every batch.
    `needs` names the columns it reads.
    """

    def __init__(self, operator: str, text: str, schema: pa.Schema) -> None:
        """Parse and check `text`, an expression of `operator` over the columns of `schema`.

        Raises TopologyError that names the operator, the expression, what is wrong and what would
        be right.
        """
        self.operator = operator
        self.text = text
        shown = text if len(text) <= 200 else text[:200] + "…"
        self._label = f"operator {operator!r}: expression {shown!r}"
        tokens = self._resolved(self._tokens(), schema)
        columns = list(dict.fromkeys(token.text for token in tokens if token.kind == "column"))
        self.needs = frozenset(columns)
        self._column = columns[0] if len(tokens) == 1 and columns else None
        self._schema = pa.schema([schema.field(name) for name in columns])
        self._casts = any(token.text.lower() in ("cast", "try_cast", "::") for token in tokens)
        if self._column is not None:
            self.type = schema.field(self._column).type
            return
        self._polars = self._parsed(_sql(tokens, self._schema), columns)
        self.type = self._result_type()

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The values of all rows, in `type`. Raises UserCodeError where a value cannot be had."""
        if self._column is not None:
            return batch.column(self._column)
        rows = batch.num_rows
        frame = _frame(batch.select(self._schema.names)) if self.needs else _ONE_ROW
        try:
            series = frame.select(self._polars)[:, 0]
        except polars.exceptions.PolarsError as error:
            raise UserCodeError(f"{self._label} failed: {_first_line(error)}") from error
        if len(series) != rows or not self.needs:
            assert len(series) == 1, "expressions are elementwise or constant"
            series = series.new_from_index(0, rows)
        return plain_array(series, self.type)

    def _tokens(self) -> list[_Token]:
        if len(self.text) > LONGEST_TEXT:
            # Its tree could be too deep for the stacks of those who walk it.
            self._fail(f"it has {len(self.text)} characters; {LONGEST_TEXT} are the limit")
        if not self.text.strip():
            self._fail("it is empty; write a column, a constant or a computation")
        tokens = []
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                self._fail(
                    f"can't read {self.text[position:][:12]!r} at character {position + 1}; texts "
                    "stand in single quotes, column names with special characters in double ones"
                )
            position = match.end()
            kind = str(match.lastgroup)
            if kind != "space":
                tokens.append(_Token(kind, match.group()))
        return tokens

    def _resolved(self, tokens: list[_Token], schema: pa.Schema) -> list[_Token]:
        """The tokens with every word known for what it is; raises TopologyError for other words."""
        resolved = []
        for index, token in enumerate(tokens):
            kind, text = token
            word = text.lower()
            if kind == "quoted":
                text = text[1:-1].replace('""', '"')
                kind = "column"
            elif kind == "word":
                before = tokens[index - 1].text.lower() if index else ""
                after = tokens[index + 1] if index + 1 < len(tokens) else _Token("end", "")
                if (
                    word in KEYWORDS
                    or (word in _TYPES and (before in ("as", "::") or before in _TYPES))
                    or (word in ("date", "timestamp") and after.kind == "text")
                    or (word in _DATE_PARTS and after.text.lower() == "from")
                ):
                    kind = "keyword"
                elif after.text == "(":
                    kind = "function"
                    self._check_function(text)
                else:
                    kind = "column"
            if kind == "column":
                self._check_column(text, schema)
            resolved.append(_Token(kind, text))
        return resolved

    def _check_column(self, name: str, schema: pa.Schema) -> None:
        count = schema.names.count(name)
        if count > 1:
            self._fail(f"column {name!r} occurs {count} times in the input")
        if count == 0:
            self._fail(unknown_column(name, schema))

    def _check_function(self, name: str) -> None:
        if name.lower() not in FUNCTIONS:
            self._fail(
                f"function {name!r} can't be used here{did_you_mean(name, FUNCTIONS) or ';'} "
                f"functions that take one row at a time: {listed(sorted(FUNCTIONS), 100)}."
            )

    def _parsed(self, sql: str, columns: list[str]) -> pl.Expr:
        try:
            parsed: pl.Expr = pl.sql_expr(sql)
        except (polars.exceptions.PolarsError, ValueError) as error:
            self._fail(f"is no expression: {_first_line(error)}")
        read = set(parsed.meta.root_names())
        if not read <= set(columns):
            self._fail(f"reads {sorted(read - set(columns))}, which are no columns of the input")
        return parsed.alias("result")

    def _result_type(self) -> pa.DataType:
        """Type of the result, found by evaluating over no rows and over rows of nulls."""
        try:
            nulls = [pa.nulls(3, field.type) for field in self._schema]
            frame = _frame(pa.record_batch(nulls, schema=self._schema)) if nulls else _ONE_ROW
            series = frame.select(self._polars)[:, 0]
        except polars.exceptions.PolarsError as error:
            there = ", ".join(f"{field.name}: {field.type}" for field in self._schema)
            self._fail(f"{_first_line(error)}. It reads {there or 'no column'}.")
        if len(series) not in (1, 3):
            self._fail("it does not give one value per row")
        value_type = plain_type(series.to_arrow().type)
        if pa.types.is_null(value_type):
            self._fail("it is always null and has no type; write cast(null as TYPE)")
        if pa.types.is_nested(value_type):
            self._fail(f"gives values of type {value_type}; a column holds single values")
        if pa.types.is_signed_integer(value_type) and not self._casts:
            return pa.int64()
        return value_type

    def _fail(self, reason: str) -> NoReturn:
        raise TopologyError(f"{self._label}: {reason}")


_ONE_ROW = pl.DataFrame({"": [0]})


def unknown_column(name: str, schema: pa.Schema) -> str:
    """What to say of a column that `schema` does not have."""
    hint = did_you_mean(name, schema.names) or "."
    return f"unknown column {name!r}{hint} Its input has: {listed(schema.names, 50) or 'none'}."


def _sql(tokens: Sequence[_Token], schema: pa.Schema) -> str:
    """The checked tokens as SQL: columns quoted, numbers and function results typed as promised."""
    decimals = any(pa.types.is_decimal(field.type) for field in schema)
    words: list[str] = []
    open_casts: list[bool] = []
    for index, (kind, text) in enumerate(tokens):
        if kind == "column":
            words.append('"' + text.replace('"', '""') + '"')
        elif kind == "number" and "." in text and "e" not in text.lower() and not decimals:
            words.append(f"{text}e0")
        elif kind == "function" and text.lower() in _INTEGER_FUNCTIONS:
            words.append(f"cast({text}")
        else:
            words.append(text)
        if text == "(" and kind == "operator":
            called = tokens[index - 1] if index else _Token("", "")
            open_casts.append(
                called.kind == "function" and called.text.lower() in _INTEGER_FUNCTIONS
            )
        elif text == ")" and kind == "operator" and open_casts and open_casts.pop():
            words.append("as bigint)")
    return " ".join(words)


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    """The batch for Polars, integers below 64 bits widened so that they do not wrap around."""
    frame = frame_of(batch)
    narrow = [
        name
        for name, dtype in frame.schema.items()
        if dtype.is_integer() and dtype not in (pl.Int64, pl.UInt64)
    ]
    return frame.with_columns(pl.col(narrow).cast(pl.Int64)) if narrow else frame


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0].rstrip(".")
