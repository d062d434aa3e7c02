"""One expression, checked when it is built and evaluated over batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import cached_property, partial
from typing import Any, NoReturn

import polars as pl
import pyarrow as pa

from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators.expressions.divisors import (
    POWERS,
    divides,
    divisor_end,
    is_literal,
    value_per_row,
    with_alternation,
)
from streammine.operators.expressions.errors import (
    OF_VALUES,
    POLARS_ERRORS,
    always_wrong,
    failure_inside,
    failure_text,
    first_failing_row,
    no_fault_of_rows,
    reason_of,
    row_text,
)
from streammine.operators.expressions.frames import (
    null_rows,
    plain_array,
    plain_type,
    rows_of,
    type_text,
    without_minus_zero,
)
from streammine.operators.expressions.functions import (
    OWN_FUNCTIONS,
    CallError,
    date_of,
    greatest,
    timestamp_of,
)
from streammine.operators.expressions.logic import logical_operands
from streammine.operators.expressions.mixtures import unwanted_mixture
from streammine.operators.expressions.sql import sql_of, with_tried_casts, with_wide_casts
from streammine.operators.expressions.words import (
    Reading,
    Token,
    arguments_of,
    closing_bracket,
    literal_of,
    operator_of,
    split,
    text_of,
    words_of,
)

_OF_NUMBERS = words_of(
    """sqrt cbrt exp ln log log2 log10 log1p sin cos tan asin acos atan atan2 degrees radians pow power"""
)
"""Some of these would give null for a text, or take a time for its number of units."""

_PARSED_TYPES = {"timestamp": timestamp_of, "date": date_of}
"""What texts are cast to by functions of our own: Polars' SQL does not."""

_DEEPEST_CALL = 50
_DUMMIES: dict[Any, Any] = {
    pl.String: "",
    pl.Binary: b"\xff",
    pl.Boolean: False,
    pl.Date: date(1970, 1, 1),
    pl.Datetime: datetime(1970, 1, 1),
    pl.List: [],
}


class Expression:
    """One checked expression over a fixed input schema.

    `type` is the Arrow type of its values, decided when it is built and enforced on every batch.
    `needs` names the columns it reads, `label` shows it in messages.
    """

    def __init__(
        self, operator: str, text: str, schema: pa.Schema, *, tries_casts: bool = False
    ) -> None:
        """Parse and check `text`, an expression of `operator` over the columns of `schema`.

        `tries_casts`: every cast is a try_cast. Raises TopologyError that names the operator, the expression,
        what is wrong and what would be right.
        """
        self.operator = operator
        self.text = text
        self.label = f"expression {text if len(text) <= 200 else text[:200] + '…'!r}"
        self._place = f"operator {operator!r}: {self.label}"
        tokens = Reading(text, schema, self._fail).tokens()
        if tries_casts:
            tokens = with_tried_casts(tokens)
        tokens = with_wide_casts(tokens)
        columns = list(dict.fromkeys(token.text for token in tokens if token.kind == "column"))
        self.needs = frozenset(columns)
        self._column = columns[0] if len(tokens) == 1 and columns else None
        self._schema = pa.schema([schema.field(name) for name in columns])
        self._casts = any(token.text.lower() in ("cast", "try_cast", "::") for token in tokens)
        if self._column is not None:
            self.type = schema.field(self._column).type
            return
        self._calls: list[pl.Expr] = []
        self._whole_columns: set[str] = set()
        self._alternation = _free_name("alternation", columns) if divides(tokens) else None
        self._probe = self._completed(null_rows(self._schema))
        plain = self._without_calls(tokens)
        self._check_numbers(plain)
        self._polars = self._parsed(plain).alias("result")
        computed = (*self._calls, self._polars)
        if not any(self._alternation in each.meta.root_names() for each in computed):
            # only a literal that is divided by needs it
            self._alternation = None
        self.type = self._result_type()
        self._try_dummies()

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The values of all rows, in `type`. Raises UserCodeError where a value cannot be had."""
        try:
            return self.values(batch)
        except POLARS_ERRORS as error:
            raise self._failure(batch, error) from error

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """As `evaluate`. Raises one of POLARS_ERRORS, which does not tell the row."""
        if self._column is not None:
            return batch.column(self._column)
        rows = batch.num_rows
        series = self._computed(rows_of(batch, self._schema.names))
        if len(series) == 1:
            series = series.new_from_index(0, rows)
        values = series[:rows]
        assert len(values) == rows, "expressions are elementwise or constant"
        return without_minus_zero(plain_array(values, self.type))

    @property
    def column(self) -> str | None:
        """The column that it gives as it is, if it does."""
        return self._column

    @property
    def is_plain(self) -> bool:
        """Whether it is computed, and from columns of the batch alone."""
        if self._column is not None or not self.needs or self._calls:
            return False
        return set(self._polars.meta.root_names()) <= self.needs

    def _failure(self, batch: pa.RecordBatch, error: Exception) -> UserCodeError:
        """The error that tells the first row that can't be computed."""
        names = self._schema.names
        general = UserCodeError(f"{self._place} failed: {reason_of(error)}")
        if not names or no_fault_of_rows(error):
            return general

        def failure(start: int, end: int) -> Exception | None:
            try:
                self._computed(rows_of(batch.slice(start, end - start), names))
            except POLARS_ERRORS as found:
                return found
            return None

        row = first_failing_row(batch.num_rows, failure)
        by_itself = failure(row, row + 1)
        if by_itself is None:
            # it takes several rows, as want of memory does
            return general
        where = row_text(batch.select(names), row)
        advice = "; try_cast gives null there" if self._casts else ""
        return UserCodeError(
            f"{self._place} failed: {failure_text(by_itself)}, where {where}{advice}"
        )

    @cached_property
    def trying(self) -> Expression | None:
        """The same with null where a cast fails; None where nothing is cast."""
        if not self._casts:
            return None
        return Expression(self.operator, self.text, self._schema, tries_casts=True)

    def first_failure(self, batch: pa.RecordBatch, error: Exception) -> Exception:
        """What the first part of the expression fails with that fails on the batch, of which an evaluation
        told `error`; one of POLARS_ERRORS.

        Of several parts that fail Polars tells of the one that its threads come to first.
        """
        frame = self._completed(rows_of(batch, self._schema.names))
        for call in self._calls:
            try:
                frame = self._with(call, frame)
            except POLARS_ERRORS as found:
                return failure_inside(frame, call, found)
        return failure_inside(frame, self._polars, error)

    def _completed(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame if self._alternation is None else with_alternation(frame, self._alternation)

    def _computed(self, frame: pl.DataFrame) -> pl.Series:
        frame = self._completed(frame)
        for call in self._calls:
            frame = self._with(call, frame)
        return frame.select(self._polars)[:, 0]

    def _with(self, call: pl.Expr, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with the column that holds what a call gives."""
        frame = frame.with_columns(call)
        if (name := call.meta.output_name()) in self._whole_columns:
            # out of a frame and back a value is held once per row
            whole = frame.get_column(name)
            if whole.dtype.is_float():
                whole = pl.Series(name, without_minus_zero(whole.to_arrow()))
            frame = frame.with_columns(whole)
        return frame

    def _check_numbers(self, tokens: Sequence[Token]) -> None:
        """Refuse functions of numbers of anything else."""
        for index, token in enumerate(tokens):
            if token.kind != "function" or token.text.lower() not in _OF_NUMBERS:
                continue
            inside = tokens[index + 2 : self._closing(tokens, index + 1)]
            for number, argument in enumerate(split(inside, ","), 1):
                found = self._type_of(self._parsed_plainly(argument))
                if not (found.is_numeric() or found == pl.Null):
                    self._fail(
                        f"argument {number} of {token.text} must be a number, not {type_text(found)}"
                    )

    def _check_logic(self, tokens: Sequence[Token]) -> None:
        """Refuse `and`, `or` and `not` of anything but booleans."""
        for operand in logical_operands(tokens):
            expression = self._parsed_plainly(operand)
            found = self._type_of(expression)
            if found not in (pl.Boolean, pl.Null):
                self._fail(
                    f"'and', 'or' and 'not' are of booleans, and {text_of(operand)} is of type "
                    f"{type_text(found)}; compare it, as in x <> 0"
                )

    def _type_of(self, part: pl.Expr) -> pl.DataType:
        return self._over_nulls(partial(_only, part)).dtypes[0]

    def _without_calls(self, tokens: Sequence[Token], depth: int = 0) -> list[Token]:
        """The tokens with columns in place of the calls that Polars' SQL does not know."""
        if depth > _DEEPEST_CALL:
            self._fail(f"more than {_DEEPEST_CALL} calls stand in each other")
        found: list[Token] = []
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
                found.append(self._own_call(name, arguments_of(name, inside), depth))
            elif name == "position" and len(sides := split(inside, "in")) == 2:
                found.append(self._own_call("strpos", sides[::-1], depth))
            elif name != "position" and len(sides := split(inside, "as")) == 2:
                found += self._cast(token, sides[0], sides[1], depth)
            else:
                found += [token, tokens[index + 1], *inside, tokens[end]]
            index = end + 1
        return found

    def _closing(self, tokens: Sequence[Token], opening: int) -> int:
        """Where the bracket that opens there is closed."""
        closing = closing_bracket(tokens, opening)
        return self._fail("a bracket is not closed") if closing is None else closing

    def _own_call(self, name: str, arguments: Sequence[Sequence[Token]], depth: int) -> Token:
        """The column that holds what a function of our own gives."""
        function = OWN_FUNCTIONS[name]
        given: list[pl.Expr | str] = []
        types: list[Any] = []
        for number, argument in enumerate(arguments):
            if number in function.literal and len(argument) == 1:
                (token,) = argument
                if token.kind in ("text", "number"):
                    given.append(literal_of(token))
                    types.append(None)
                    continue
            value = self._argument(argument, depth)
            given.append(value)
            types.append(self._type_of(value))
        try:
            call = function.call(name, given, types)
        except CallError as error:
            self._fail(str(error))
        return self._new_column(call, f"{name}({', '.join(map(text_of, arguments))})")

    def _cast(
        self, cast: Token, value: Sequence[Token], target: Sequence[Token], depth: int
    ) -> list[Token]:
        """A cast as it is, or the column that holds what a text says as a time."""
        inside = self._without_calls(value, depth + 1)
        parser = _PARSED_TYPES.get(text_of(target).lower())
        if parser is not None:
            column = self._column_of(inside, depth)
            if self._probe.schema[column.text] == pl.String:
                strict = cast.text.lower() == "cast"
                parsed = parser(pl.col(column.text), strict)
                return [
                    self._new_column(parsed, f"{cast.text}({text_of(value)} as {text_of(target)})")
                ]
        opening, between, closing = (
            Token("operator", "("),
            Token("keyword", "as"),
            Token("operator", ")"),
        )
        return [cast, opening, *inside, between, *target, closing]

    def _argument(self, tokens: Sequence[Token], depth: int) -> pl.Expr:
        """A constant as it is, and the column of anything else."""
        if tokens and (is_literal(tokens) or (len(tokens) == 1 and tokens[0].kind == "text")):
            return self._parsed_plainly(tokens)
        return pl.col(self._column_of(tokens, depth).text)

    def _column_of(self, tokens: Sequence[Token], depth: int) -> Token:
        """The column that holds what these tokens give."""
        inside = self._without_calls(tokens, depth + 1)
        if len(inside) == 1 and inside[0].kind == "column":
            return inside[0]
        return self._new_column(self._parsed(inside), text_of(tokens))

    def _new_column(self, expression: pl.Expr, text: str) -> Token:
        name = _free_name(text, self._probe.columns)
        call = expression.alias(name)
        self._probe = self._over_nulls(lambda rows: rows.with_columns(call))
        self._calls.append(call)
        return Token("column", name)

    def _with_whole_operands(self, tokens: Sequence[Token]) -> list[Token]:
        """The tokens with a value per row where a single one would be computed with otherwise; see
        `divisors`."""
        found: list[Token] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            found.append(token)
            index += 1
            if operator_of(token) == "/":
                end = divisor_end(tokens, index, self._closing)
                found += self._whole_divisor(tokens[index:end])
            elif token.kind == "function" and token.text.lower() in POWERS:
                end = self._closing(tokens, index)
                base, *exponents = split(tokens[index + 1 : end], ",") or [[]]
                found += [tokens[index], *self._with_whole_operands(base)]
                for exponent in exponents:
                    found += [Token("operator", ","), *self._whole_exponent(exponent)]
            elif token.kind == "function" and token.text.lower() == "greatest":
                end = self._closing(tokens, index) + 1
                found[-1:] = self._greatest(tokens[index - 1 : end])
            else:
                continue
            index = end
        return found

    def _greatest(self, call: Sequence[Token]) -> list[Token]:
        """The call, or where it is of floats the column that knows of NaN."""
        inside = call[2:-1]
        arguments = split(inside, ",")
        types = [self._type_of(self._parsed_plainly(each)) for each in arguments]
        if not any(each.is_float() for each in types):
            return [*call[:2], *self._with_whole_operands(inside), call[-1]]
        values = [self._argument(each, 0) for each in arguments]
        floats = [value for value, kind in zip(values, types, strict=True) if kind.is_float()]
        return [self._new_column(greatest(values, floats), text_of(call))]

    def _whole_divisor(self, divisor: Sequence[Token]) -> Sequence[Token]:
        if divisor and is_literal(divisor):
            assert self._alternation is not None
            return value_per_row(divisor, self._alternation)
        return self._whole_column(divisor)

    def _whole_exponent(self, exponent: Sequence[Token]) -> Sequence[Token]:
        # x * x for pow(x, 2) in every batch
        return exponent if is_literal(exponent) else self._whole_column(exponent)

    def _whole_column(self, tokens: Sequence[Token]) -> Sequence[Token]:
        if not tokens or (len(tokens) == 1 and tokens[0].text in self.needs):
            return tokens
        column = self._column_of(tokens, 0)
        self._whole_columns.add(column.text)
        return [column]

    def _parsed(self, tokens: Sequence[Token]) -> pl.Expr:
        parsed = self._parsed_plainly(tokens)
        self._check_logic(tokens)
        if mixture := unwanted_mixture(parsed, self._type_of):
            self._fail(mixture)
        whole = self._with_whole_operands(tokens)
        return parsed if whole == list(tokens) else self._parsed_plainly(whole)

    def _parsed_plainly(self, tokens: Sequence[Token]) -> pl.Expr:
        try:
            parsed: pl.Expr = pl.sql_expr(sql_of(tokens, self._schema))
        except (*POLARS_ERRORS, ValueError) as error:
            self._fail(f"is no expression: {reason_of(error)}")
        if not parsed.meta.undo_aliases().meta.eq(parsed):
            # SQL would take the second one for a new name of the first
            self._fail("two values stand side by side; write what is to be done with them")
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
        if series.dtype.is_nested():
            self._fail(
                f"gives values of type {type_text(series.dtype)}; a column holds single values"
            )
        value_type = plain_type(series.to_arrow().type)
        if pa.types.is_null(value_type):
            self._fail("it is always null and has no type; write cast(null as TYPE)")
        if pa.types.is_integer(value_type) and value_type != pa.uint64() and not self._casts:
            return pa.int64()
        return value_type

    def _over_nulls(self, compute: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
        try:
            return compute(self._probe)
        except POLARS_ERRORS as error:
            if not self.needs or OF_VALUES not in str(error):
                self._refuse(error)
        # null rows may have a value that can't be cast: coalesce(word, '?')
        self._probe = self._probe.head(0)
        try:
            return compute(self._probe)
        except POLARS_ERRORS as error:
            self._refuse(error)

    def _try_dummies(self) -> None:
        """Refuse what fails whatever the values are, as can't be seen where all are null."""
        dummies = {
            name: pl.Series([_DUMMIES.get(kind.base_type())], dtype=kind)
            for name, kind in null_rows(self._schema).schema.items()
        }
        try:
            self._computed(pl.DataFrame(dummies))
        except POLARS_ERRORS as error:
            if always_wrong(error):
                self._refuse(error)

    def _refuse(self, error: Exception) -> NoReturn:
        there = ", ".join(f"{field.name}: {field.type}" for field in self._schema)
        self._fail(f"{reason_of(error)}. It reads {there or 'no column'}.")

    def _fail(self, reason: str) -> NoReturn:
        raise TopologyError(f"{self._place}: {reason}")


def evaluated(expressions: Sequence[Expression], batch: pa.RecordBatch) -> list[pa.Array]:
    """The values of several expressions over one batch. Raises UserCodeError."""
    try:
        return values_together(expressions, batch)
    except POLARS_ERRORS:
        # each by itself tells which one it was
        return [each.evaluate(batch) for each in expressions]


def values_together(expressions: Sequence[Expression], batch: pa.RecordBatch) -> list[pa.Array]:
    """As `evaluated`, computed together: one look at the batch for all of them, which is what a small batch
    costs. Raises one of POLARS_ERRORS."""
    together = [each for each in expressions if each.is_plain]
    found: dict[int, pa.Array] = {}
    if len(together) > 1:
        names = list(dict.fromkeys(name for each in together for name in each._schema.names))
        wanted = [each._polars.alias(str(place)) for place, each in enumerate(together)]
        frame = rows_of(batch, names).select(wanted)[: batch.num_rows]
        for place, each in enumerate(together):
            found[id(each)] = without_minus_zero(plain_array(frame[:, place], each.type))
    return [found[id(each)] if id(each) in found else each.values(batch) for each in expressions]


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _only(expression: pl.Expr, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(expression)
