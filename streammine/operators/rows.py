"""Row views: events from a batch, and a batch from the rows that user code returned."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.errors import TopologyError
from streammine.model.ids import HIDDEN_PREFIX
from streammine.model.suggestions import did_you_mean
from streammine.model.types import arrow_schema
from streammine.operators.exact_columns import exact_array

IntArray = npt.NDArray[np.int64]

PIECE_ROWS = 1024
"""Rows that user code returns are turned into columns after so many events.

Held for a whole batch they would be walked through by the garbage collector again and again, and
leave the processor's cache: that measured two to four times slower.
"""

_CONVERSION_ERRORS = (TypeError, ValueError, OverflowError, pa.ArrowException)


def declared_schema(columns: Mapping[str, str] | pa.Schema, place: str) -> pa.Schema:
    """The Arrow schema of a user's declared columns.

    Raises TopologyError, which starts with `place`.
    """
    if not isinstance(columns, (pa.Schema, Mapping)) or len(columns) == 0:
        raise TopologyError(
            f"{place}: output must name the columns that leave and their types, such as "
            '{"word": "string"}, or be an Arrow schema'
        )
    try:
        schema = columns if isinstance(columns, pa.Schema) else arrow_schema(columns)
    except ValueError as error:
        raise TopologyError(f"{place}: output: {error}") from error
    for name, kind in zip(schema.names, schema.types, strict=True):
        if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
            plain = "string" if pa.types.is_string_view(kind) else "binary"
            raise TopologyError(
                f"{place}: output: '{name}' has type {kind}; declare it {plain}, which all operators take"
            )
        if name.startswith(HIDDEN_PREFIX):
            raise TopologyError(f"{place}: output: '{name}': names with two underscores are taken")
        if schema.names.count(name) > 1:
            raise TopologyError(f"{place}: output: '{name}' is there twice")
    return schema


def column_values(column: pa.Array) -> list[Any]:
    """A column as Python values; temporal ones as integers in their unit. None for null."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    kind = column.type
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    if types.is_temporal(kind) and kind.bit_width in (32, 64):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        plain: list[Any] = column.to_pylist()
        return plain
    return (
        column.to_numpy(zero_copy_only=False).tolist()
        if not column.null_count
        else _with_nulls(column)
    )


def _with_nulls(column: pa.Array) -> list[Any]:
    filled = pc.fill_null(column, False if pa.types.is_boolean(column.type) else 0)
    values: list[Any] = filled.to_numpy(zero_copy_only=False).tolist()
    for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
        values[row] = None
    return values


class EventReader:
    """Turns batches into events: named tuples of the needed columns, in the schema's order."""

    def __init__(self, schema: pa.Schema, needs: Sequence[str] | None, place: str) -> None:
        """Raises TopologyError when a needed column is not there."""
        wanted = set(schema.names if needs is None else needs)
        for name in sorted(wanted - set(schema.names)):
            raise TopologyError(
                f"{place}: needs column '{name}', but its input has {', '.join(schema.names)}"
                f"{did_you_mean(name, schema.names)}"
            )
        self.names = tuple(name for name in schema.names if name in wanted)
        event = namedtuple("Event", self.names, rename=True)  # type: ignore[misc]
        self.make = partial(tuple.__new__, event)

    def events(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """One event per row, made as they are asked for."""
        if not self.names:
            return iter([self.make(())] * batch.num_rows)
        columns = [column_values(batch.column(name)) for name in self.names]
        return map(self.make, zip(*columns, strict=True))

    def event(self, batch: pa.RecordBatch, row: int) -> Any:
        """The event of one row."""
        return next(self.events(batch.slice(row, 1)))


class OutputTooLargeError(Exception):
    """Rows that are each right and can't be written as one batch."""


_NO_ROWS, _ONE_ROW, _MANY_ROWS, _UNORDERED = range(4)


def _form(kind: type) -> int:
    """What a result of this type stands for."""
    if kind is type(None):
        return _NO_ROWS
    if kind is list:
        return _MANY_ROWS
    if issubclass(kind, (tuple, dict, str, bytes)):
        return _ONE_ROW
    if issubclass(kind, (set, frozenset)):
        return _UNORDERED
    return _MANY_ROWS if hasattr(kind, "__iter__") else _ONE_ROW


_EAGER_TYPES = frozenset([type(None), list, tuple, dict, str, bytes, int, float, bool])


def materialized(result: Any) -> Any:
    """The result with lazy iterables run to their end, so that user code runs now and not later."""
    kind = type(result)
    if kind in _EAGER_TYPES or _form(kind) != _MANY_ROWS:
        return result
    return list(result)


class RowWriter:
    """Turns what user code returned into columns of the declared schema (see operators.api)."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._width = len(schema)
        self._columns_text = ", ".join(f"{field.name}: {field.type}" for field in schema)

    def write(
        self, results: list[Any], on_mistake: Callable[[int, str], None]
    ) -> tuple[pa.RecordBatch, IntArray | None]:
        """A batch of all rows, and for each row the index of its result; None: one row each.

        Results must be materialized. For each that doesn't fit, `on_mistake(index, message)` is
        called; where that returns, the result is taken for None.
        """
        try:
            return self._write(results)
        except _CONVERSION_ERRORS as error:
            mistakes = 0
            for index, message in self._mistakes(results):
                on_mistake(index, message)
                results[index] = None
                mistakes += 1
            if not mistakes:
                raise OutputTooLargeError(str(error)) from error
            return self._write(results)

    def _write(self, results: Sequence[Any]) -> tuple[pa.RecordBatch, IntArray | None]:
        rows, parents = self._flat(results)
        return pa.RecordBatch.from_arrays(self._columns(rows), schema=self.schema), parents

    def _flat(self, results: Sequence[Any]) -> tuple[Sequence[Any], IntArray | None]:
        forms = {_form(kind) for kind in set(map(type, results))}
        if forms == {_ONE_ROW}:
            return results, None
        if _UNORDERED in forms:
            raise TypeError("a set has no order that is the same everywhere; return sorted(…)")
        if forms - {_MANY_ROWS}:
            results = [
                ()
                if result is None
                else (result if _form(type(result)) == _MANY_ROWS else (result,))
                for result in results
            ]
        counts = np.fromiter(map(len, results), np.int64, len(results))
        parents = np.repeat(np.arange(len(results), dtype=np.int64), counts)
        return list(chain.from_iterable(results)), parents

    def _columns(self, rows: Sequence[Any]) -> list[pa.Array]:
        kinds = set(map(type, rows))
        if any(issubclass(kind, dict) for kind in kinds):
            rows = [self._from_dict(row) if isinstance(row, dict) else row for row in rows]
            kinds = set(map(type, rows))
        tuples = [issubclass(kind, tuple) for kind in kinds]
        columns: list[Sequence[Any]]
        if not rows:
            columns = [()] * self._width
        elif all(tuples):
            columns = list(zip(*rows, strict=True))
        elif self._width == 1:
            columns = [
                [row[0] if isinstance(row, tuple) else row for row in rows] if any(tuples) else rows
            ]
        else:
            raise TypeError("rows that are no tuples")
        if len(columns) != self._width:
            raise TypeError("rows of another width")
        return [
            self._column(values, field) for values, field in zip(columns, self.schema, strict=True)
        ]

    def _column(self, values: Sequence[Any], field: pa.Field) -> pa.Array:
        array = exact_array(values, field.type)
        if isinstance(array, pa.ChunkedArray):
            raise OverflowError("more than 2 GiB of text out of one batch; use smaller batches")
        if array.null_count and not field.nullable:
            raise ValueError("None in a column that is declared without nulls")
        return array

    def _from_dict(self, row: dict[str, Any]) -> tuple[Any, ...]:
        if row.keys() != set(self.schema.names):
            raise TypeError("a dict with other names")
        return tuple([row[name] for name in self.schema.names])

    def _mistakes(self, results: Sequence[Any]) -> Iterator[tuple[int, str]]:
        """Index of each result that can't be written, and what is wrong with it."""
        for index, result in enumerate(results):
            try:
                rows, _ = self._flat([result])
            except TypeError as reason:
                yield index, f"returned {_shown(result)}: {reason}"
                continue
            found = [mistake for row in rows if (mistake := self._row_mistake(row)) is not None]
            if found:
                yield index, found[0]

    def _row_mistake(self, row: Any) -> str | None:
        expected = f"expected is ({self._columns_text})"
        if isinstance(row, dict):
            if row.keys() != set(self.schema.names):
                return f"made a row with the columns {', '.join(map(str, row))}; {expected}"
            row = self._from_dict(row)
        if not isinstance(row, tuple):
            if self._width != 1:
                return f"made the row {_shown(row)}; a row is a tuple, and {expected}"
            row = (row,)
        if len(row) != self._width:
            return f"made the row {_shown(row)} of {len(row)} values; {expected}"
        for value, field in zip(row, self.schema, strict=True):
            try:
                self._column([value], field)
            except _CONVERSION_ERRORS as error:
                return (
                    f"made the value {_shown(value)} for column '{field.name}', "
                    f"which is {field.type}: {error}"
                )
        return None


def _shown(value: Any) -> str:
    text = repr(value)
    return (
        f"{text[:120]}… ({type(value).__name__})"
        if len(text) > 120
        else f"{text} ({type(value).__name__})"
    )


def checked_batch(
    result: Any, schema: pa.Schema, rows: int
) -> tuple[pa.RecordBatch, IntArray | None]:
    """What a batch-wise method returned, as (batch of the schema, parents or None: row by row).

    Raises TypeError or ValueError with a message that says what would be right.
    """
    if result is None:
        return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema), (
            np.empty(0, np.int64)
        )
    batch, parents = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(batch, pa.RecordBatch):
        raise TypeError(
            f"returned {_shown(result)}; right is a pyarrow.RecordBatch or (batch, parents)"
        )
    if batch.schema.names != schema.names:
        raise ValueError(
            f"returned the columns {', '.join(batch.schema.names)}; "
            f"declared are {', '.join(schema.names)}"
        )
    try:
        if not batch.schema.equals(schema, check_metadata=True):
            columns = zip(batch.columns, schema, strict=True)
            cast = [pc.cast(column, field.type) for column, field in columns]
            batch = pa.RecordBatch.from_arrays(cast, schema=schema)
    except pa.ArrowException as error:
        raise ValueError(f"returned columns that don't fit the declared types: {error}") from error
    if parents is None:
        if batch.num_rows != rows:
            raise ValueError(
                f"returned {batch.num_rows} rows for {rows}; return (batch, parents) as well, "
                "where parents[i] is the input row that row i came from"
            )
        return batch, None
    indices = np.asarray(parents, dtype=np.int64)
    if indices.shape != (batch.num_rows,):
        raise ValueError(f"returned {batch.num_rows} rows and parents of shape {indices.shape}")
    if indices.size and (
        indices[0] < 0 or indices[-1] >= rows or bool(np.any(indices[1:] < indices[:-1]))
    ):
        raise ValueError(f"returned parents that aren't ascending row numbers from 0 to {rows - 1}")
    return batch, indices


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch from any number of them."""
    if len(batches) == 1:
        return batches[0]
    columns = [
        pa.concat_arrays([batch.column(number) for batch in batches])
        if batches
        else pa.array([], field.type)
        for number, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
