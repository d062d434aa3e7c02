"""SQL-like expressions over the columns of a batch, for `map` and `filter`.

The text is cut into tokens and every word in it must be a column of the input, a function of
`FUNCTIONS` or a keyword of `KEYWORDS`. So what is not elementwise and deterministic (aggregates,
window functions, sub-queries, random numbers, the clock) cannot be written. What is left is parsed
and evaluated by Polars, on Arrow memory without copies where the types allow it. Calls of functions
that its SQL lacks (`expression_functions`) are computed before, each as a column that the rest reads.

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

docs/operators/expressions.md describes the language for its users.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple, NoReturn

import polars as pl
import polars.exceptions
import pyarrow as pa

from streammine.model.errors import TopologyError, UserCodeError
from streammine.model.suggestions import did_you_mean, listed
from streammine.model.topology.parts import LONGEST_TEXT
from streammine.operators.expression_functions import (
    OWN_FUNCTIONS,
    CallError,
    date_of,
    timestamp_of,
)
from streammine.operators.polars_frames import frame_of, plain_array, plain_type


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _words(
    """abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log2 log10 log1p pow power mod div
    sin cos tan asin acos atan atan2 degrees radians pi
    greatest least coalesce ifnull nullif if
    length char_length character_length octet_length bit_length lower upper initcap trim ltrim rtrim
    left right substr substring replace reverse starts_with ends_with position concat concat_ws
    split_part regexp_like
    cast try_cast extract date_part year month day hour minute second
    bit_and bit_or bit_xor bit_not bitand bitor bitxor xor
    array_length array_contains array_get"""
) | frozenset(OWN_FUNCTIONS)
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
    """length char_length character_length octet_length bit_length extract date_part year month day hour
    minute second array_length"""
)
"""Their Polars results are narrow or unsigned; ``length(a) - length(b)`` must not wrap around."""

_PARSED_TYPES = {"timestamp": timestamp_of, "date": date_of}
"""What texts are cast to by functions of our own: Polars' SQL does not."""

_DEEPEST_CALL = 50
_ADVICE = {
    "to a string value (create native": "write date '2024-02-29' or timestamp '2024-02-29 12:30:00'",
    "comparison between series": "make them of one type with cast",
    "no function matches the given name and arguments: `log(": "write ln(x), log2(x), log10(x) or "
    "log(x, base)",
    "not allowed on date": "add an interval, like interval '1 day'",
}
"""By words of a message of Polars, what would be right."""

_ALWAYS_WRONG = re.compile(r"not supported|invalid utf8|regex error|cannot format|unsupported")
"""Messages of Polars that don't depend on the values."""

_OF_VALUES = "conversion from"
"""In messages of Polars that do."""

_DUMMIES: dict[Any, Any] = {
    pl.String: "",
    pl.Binary: b"\xff",
    pl.Boolean: False,
    pl.Date: date(1970, 1, 1),
    pl.Datetime: datetime(1970, 1, 1),
}

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d]\w*)
    |(?P<operator>\|\||<=>|!~\*?|~\*?|<=|>=|<>|!=|::|//|[-+*/%<>=(),&|^~])""",
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
        self._calls: list[pl.Expr] = []
        self._probe = _null_rows(self._schema)
        self._polars = self._parsed(self._without_calls(tokens)).alias("result")
        self.type = self._result_type()
        self._try_dummies()

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The values of all rows, in `type`. Raises UserCodeError where a value cannot be had."""
        if self._column is not None:
            return batch.column(self._column)
        rows = batch.num_rows
        frame = _frame(batch.select(self._schema.names)) if self.needs else _ONE_ROW
        try:
            series = self._computed(frame)
        except polars.exceptions.PolarsError as error:
            raise UserCodeError(f"{self._label} failed: {_first_line(error)}") from error
        if len(series) != rows or not self.needs:
            assert len(series) == 1, "expressions are elementwise or constant"
            series = series.new_from_index(0, rows)
        return plain_array(series, self.type)

    def _computed(self, frame: pl.DataFrame) -> pl.Series:
        for call in self._calls:
            frame = frame.with_columns(call)
        return frame.select(self._polars)[:, 0]

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
                    if word in ("extract", "date_part"):
                        self._check_date_part(word, tokens[index + 2 : index + 3])
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

    def _check_date_part(self, function: str, argument: list[_Token]) -> None:
        part = argument[0].text.strip("'").lower() if argument else ""
        if part not in _DATE_PARTS:
            advice = "; write epoch_s(time)" if part == "epoch" else ""
            self._fail(
                f"{function} knows no {part!r}{advice}; parts of a time: "
                f"{', '.join(sorted(_DATE_PARTS))}"
            )

    def _without_calls(self, tokens: Sequence[_Token], depth: int = 0) -> list[_Token]:
        """The tokens with columns in place of the calls that Polars' SQL does not know."""
        if depth > _DEEPEST_CALL:
            self._fail(f"more than {_DEEPEST_CALL} calls stand in each other")
        found: list[_Token] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            name = token.text.lower()
            own = name in OWN_FUNCTIONS or name in ("cast", "try_cast", "position")
            if token.kind != "function" or not own:
                found.append(token)
                index += 1
                continue
            end = self._closing(tokens, index + 1)
            inside = tokens[index + 2 : end]
            if name in OWN_FUNCTIONS:
                found.append(self._own_call(name, _split(inside, ","), depth))
            elif name == "position" and len(sides := _split(inside, "in")) == 2:
                found.append(self._own_call("strpos", sides[::-1], depth))
            elif name != "position" and len(sides := _split(inside, "as")) == 2:
                found += self._cast(token, sides[0], sides[1], depth)
            else:
                found += [token, tokens[index + 1], *inside, tokens[end]]
            index = end + 1
        return found

    def _closing(self, tokens: Sequence[_Token], opening: int) -> int:
        """Where the bracket that opens there is closed."""
        open_brackets = 0
        for index in range(opening, len(tokens)):
            open_brackets += {"(": 1, ")": -1}.get(_operator(tokens[index]), 0)
            if open_brackets == 0:
                return index
        return self._fail("a bracket is not closed")

    def _own_call(self, name: str, arguments: Sequence[Sequence[_Token]], depth: int) -> _Token:
        """The column that holds what a function of our own gives."""
        function = OWN_FUNCTIONS[name]
        given: list[pl.Expr | str] = []
        types: list[Any] = []
        for number, argument in enumerate(arguments):
            if number in function.literal and len(argument) == 1:
                (token,) = argument
                if token.kind in ("text", "number"):
                    given.append(_literal(token))
                    types.append(None)
                    continue
            column = self._column_of(argument, depth)
            given.append(pl.col(column.text))
            types.append(self._probe.schema[column.text])
        try:
            call = function.call(name, given, types)
        except CallError as error:
            self._fail(str(error))
        return self._new_column(call, f"{name}({', '.join(map(_text, arguments))})")

    def _cast(
        self, cast: _Token, value: Sequence[_Token], target: Sequence[_Token], depth: int
    ) -> list[_Token]:
        """A cast as it is, or the column that holds what a text says as a time."""
        inside = self._without_calls(value, depth + 1)
        parser = _PARSED_TYPES.get(_text(target).lower())
        if parser is not None:
            column = self._column_of(inside, depth)
            if self._probe.schema[column.text] == pl.String:
                strict = cast.text.lower() == "cast"
                parsed = parser(pl.col(column.text), strict)
                return [self._new_column(parsed, f"{cast.text}({_text(value)} as {_text(target)})")]
        opening, between, closing = (
            _Token("operator", "("),
            _Token("keyword", "as"),
            _Token("operator", ")"),
        )
        return [cast, opening, *inside, between, *target, closing]

    def _column_of(self, tokens: Sequence[_Token], depth: int) -> _Token:
        """The column that holds what these tokens give."""
        inside = self._without_calls(tokens, depth + 1)
        if len(inside) == 1 and inside[0].kind == "column":
            return inside[0]
        return self._new_column(self._parsed(inside), _text(tokens))

    def _new_column(self, expression: pl.Expr, text: str) -> _Token:
        name = text
        while name in self._probe.columns:
            name += "'"
        call = expression.alias(name)
        self._probe = self._over_nulls(lambda rows: rows.with_columns(call))
        self._calls.append(call)
        return _Token("column", name)

    def _parsed(self, tokens: Sequence[_Token]) -> pl.Expr:
        try:
            parsed: pl.Expr = pl.sql_expr(_sql(tokens, self._schema))
        except (polars.exceptions.PolarsError, ValueError) as error:
            self._fail(f"is no expression: {_first_line(error)}{_advice(error)}")
        read = set(parsed.meta.root_names())
        known = set(self._probe.columns)
        if not read <= known:
            self._fail(f"reads {sorted(read - known)}, which are no columns of the input")
        return parsed

    def _result_type(self) -> pa.DataType:
        """Type of the result, found by evaluating over rows of nulls."""
        series = self._over_nulls(lambda rows: rows.select(self._polars))[:, 0]
        if len(series) not in (1, self._probe.height):
            self._fail("it does not give one value per row")
        if series.dtype in (pl.Int128, pl.UInt128):
            self._fail("gives integers of 128 bits; cast the uint64 column: cast(column as bigint)")
        value_type = plain_type(series.to_arrow().type)
        if pa.types.is_null(value_type):
            self._fail("it is always null and has no type; write cast(null as TYPE)")
        if pa.types.is_nested(value_type):
            self._fail(f"gives values of type {value_type}; a column holds single values")
        if pa.types.is_integer(value_type) and value_type != pa.uint64() and not self._casts:
            return pa.int64()
        return value_type

    def _over_nulls(self, compute: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
        try:
            return compute(self._probe)
        except polars.exceptions.PolarsError as error:
            if not self.needs or _OF_VALUES not in str(error):
                self._refuse(error)
        # null rows may have a value that can't be cast: coalesce(word, '?')
        self._probe = self._probe.head(0)
        return compute(self._probe)

    def _try_dummies(self) -> None:
        """Refuse what fails whatever the values are, as can't be seen where all are null."""
        dummies = {
            name: pl.Series([_DUMMIES.get(kind.base_type())], dtype=kind)
            for name, kind in _null_rows(self._schema).schema.items()
        }
        try:
            self._computed(pl.DataFrame(dummies))
        except polars.exceptions.PolarsError as error:
            if _ALWAYS_WRONG.search(str(error)) is not None:
                self._refuse(error)

    def _refuse(self, error: Exception) -> NoReturn:
        there = ", ".join(f"{field.name}: {field.type}" for field in self._schema)
        self._fail(f"{_first_line(error)}{_advice(error)}. It reads {there or 'no column'}.")

    def _fail(self, reason: str) -> NoReturn:
        raise TopologyError(f"{self._label}: {reason}")


_ONE_ROW = pl.DataFrame({"": [0]})


def unknown_column(name: str, schema: pa.Schema) -> str:
    """What to say of a column that `schema` does not have."""
    hint = did_you_mean(name, schema.names) or "."
    return f"unknown column {name!r}{hint} Its input has: {listed(schema.names, 50) or 'none'}."


def _null_rows(schema: pa.Schema) -> pl.DataFrame:
    """Three rows of nothing but nulls; where there are no columns, one row."""
    nulls = [pa.nulls(3, field.type) for field in schema]
    return _frame(pa.record_batch(nulls, schema=schema)) if nulls else _ONE_ROW


def _operator(token: _Token) -> str:
    return token.text if token.kind == "operator" else ""


def _split(tokens: Sequence[_Token], separator: str) -> list[list[_Token]]:
    """The tokens between separators that stand in no bracket; no tokens: none."""
    parts: list[list[_Token]] = [[]] if tokens else []
    open_brackets = 0
    for token in tokens:
        open_brackets += {"(": 1, ")": -1}.get(_operator(token), 0)
        separates = token.kind in ("operator", "keyword") and token.text.lower() == separator
        if separates and open_brackets == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _literal(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'") if token.kind == "text" else token.text


def _text(tokens: Sequence[_Token]) -> str:
    return " ".join(token.text for token in tokens)


def _advice(error: Exception) -> str:
    message = str(error)
    return next((f"; {right}" for words, right in _ADVICE.items() if words in message), "")


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
