"""The output of joins: which columns it has, and batches of it out of the rows of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.canonical import canonical_order
from streammine.model.errors import TopologyError
from streammine.model.topology.join_kinds import JoinKind
from streammine.model.topology.keyed import EPOCH_COLUMN, SPAN_COLUMNS
from streammine.operators.collected_rows import in_one
from streammine.operators.keys import check_key
from streammine.operators.windows import SPAN_TYPE

OUTPUT_ROWS_LIMIT = 65_536
"""Rows of one output batch, at most."""

Rows = npt.NDArray[np.integer[Any]]
"""Numbers of rows of one side."""

Side: TypeAlias = pa.RecordBatch | pa.Table
"""Rows of one side that others are taken from; a Table has few chunks."""

Keys = tuple[tuple[str, ...], tuple[str, ...]]

Span = Callable[[int], tuple[int, int]]
"""Start and end, in microseconds, of the window that leaves in an epoch."""


class JoinedColumns:
    """The columns of a join's output, `schema`, and how they are taken from its inputs.

    They are ``epoch``, where spans are asked for ``window_start`` and ``window_end``, the key columns under
    their left names, the left input's other columns and the right one's, those of taken names with the
    suffix. A column ``epoch`` of an input gives way to that of the output: it said in which epoch the row
    left where it was made. A row without a partner has its own key and nulls in the other side's columns.
    Semi and anti joins have no columns of the right input.
    """

    def __init__(
        self,
        operator: str,
        schemas: tuple[pa.Schema, pa.Schema],
        keys: Keys,
        kind: JoinKind,
        suffix: str,
        hidden: Sequence[str] = (),
        span: Span | None = None,
    ) -> None:
        """`keys`: the key columns of both sides, compared in pairs; `hidden`: right columns that do not
        leave; `span`: what the output is to say of each window. Raises TopologyError."""
        self._operator = operator
        self._keys = keys
        self._span = span
        self._check_keys(schemas)
        left, right = schemas
        right_keys = dict(zip(keys[0], (right.field(key) for key in keys[1]), strict=True))
        fields = [pa.field(EPOCH_COLUMN, pa.int64())]
        if span is not None:
            self._check_spans(left)
            fields += [pa.field(name, SPAN_TYPE) for name in SPAN_COLUMNS]
        first_key = len(fields)
        for key in keys[0]:
            field = left.field(key)
            # the key of a right row that is alone
            absent = kind.right_alone and right_keys[key].nullable
            fields.append(field.with_nullable(field.nullable or absent))
        self._left_columns = [name for name in left.names if name not in (*keys[0], EPOCH_COLUMN)]
        for name in self._left_columns:
            field = left.field(name)
            fields.append(field.with_nullable(field.nullable or kind.right_alone))
        taken = {field.name for field in fields}
        self._right_columns: list[str] = []
        for field in right if kind.pairs else ():
            if field.name in (*keys[1], *hidden, EPOCH_COLUMN):
                continue
            self._right_columns.append(field.name)
            name = field.name + suffix if field.name in taken else field.name
            nullable = field.nullable or kind.left_alone
            fields.append(field.with_name(name).with_nullable(nullable))
        self._check_output([field.name for field in fields], suffix)
        self.schema = pa.schema(fields)
        first_left = first_key + len(keys[0])
        first_right = first_left + len(self._left_columns)
        self._left_fields = fields[first_left:first_right]
        self._right_fields = fields[first_right:]

    def pairs(
        self, epoch: int, left: Side, left_rows: Rows, right: Side, right_rows: Rows
    ) -> pa.RecordBatch:
        """Rows of both sides, one pair each."""
        taken = pa.array(left_rows)
        columns = _taken(left, (*self._keys[0], *self._left_columns), taken)
        columns += _taken(right, self._right_columns, pa.array(right_rows))
        return self._batch(epoch, columns, len(taken))

    def left_alone(self, epoch: int, left: Side, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Left rows without the right side's columns, in bounded batches."""
        for taken in _portions(rows):
            columns = _taken(left, (*self._keys[0], *self._left_columns), taken)
            columns += [pa.nulls(len(taken), field.type) for field in self._right_fields]
            yield self._batch(epoch, columns, len(taken))

    def right_alone(self, epoch: int, right: Side, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Right rows without the left side's columns, in bounded batches."""
        for taken in _portions(rows):
            columns = _taken(right, self._keys[1], taken)
            columns += [pa.nulls(len(taken), field.type) for field in self._left_fields]
            columns += _taken(right, self._right_columns, taken)
            yield self._batch(epoch, columns, len(taken))

    def in_order(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of all the batches in the canonical order of whole rows."""
        rows = pa.Table.from_batches(batches, self.schema).combine_chunks()
        ordered = rows.take(pa.array(canonical_order(rows)))
        return iter(ordered.to_batches(max_chunksize=OUTPUT_ROWS_LIMIT))

    def _batch(self, epoch: int, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
        first = [pa.repeat(pa.scalar(epoch, pa.int64()), rows)]
        if self._span is not None:
            first += [pa.repeat(pa.scalar(end, SPAN_TYPE), rows) for end in self._span(epoch)]
        return pa.record_batch([*first, *columns], schema=self.schema)

    def _check_spans(self, left: pa.Schema) -> None:
        for column in SPAN_COLUMNS:
            if column in left.names:
                raise TopologyError(
                    f"operator {self._operator!r}: column {column!r} says when the window starts or ends, "
                    "which a join with a window of time adds; rename that of the left input with a map before"
                )

    def _check_keys(self, schemas: tuple[pa.Schema, pa.Schema]) -> None:
        for side, keys, schema in zip(("left", "right"), self._keys, schemas, strict=True):
            for key in keys:
                check_key(self._operator, key, schema, f"{side} key")
        for left_key, right_key in zip(*self._keys, strict=True):
            left_type = schemas[0].field(left_key).type
            right_type = schemas[1].field(right_key).type
            if left_type != right_type:
                raise TopologyError(
                    f"operator {self._operator!r}: join compares {left_key!r} of type {left_type} with "
                    f"{right_key!r} of type {right_type}; make them one type with a map before, "
                    f"for example cast({right_key} as ...)"
                )

    def _check_output(self, names: Sequence[str], suffix: str) -> None:
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise TopologyError(
                f"operator {self._operator!r}: the join's output would have two columns {double[0]!r} "
                f"(right columns of names that are taken get {suffix!r}); "
                "rename one with a map before, or choose another suffix"
            )


def _portions(rows: Rows) -> Iterator[pa.Array]:
    for start in range(0, len(rows), OUTPUT_ROWS_LIMIT):
        yield pa.array(rows[start : start + OUTPUT_ROWS_LIMIT])


def _taken(side: Side, names: Sequence[str], places: pa.Array) -> list[pa.Array]:
    taken = [pc.take(side.column(name), places, boundscheck=False) for name in names]
    if isinstance(side, pa.RecordBatch):
        return taken
    return [pa.concat_arrays(column.chunks) for column in taken]


def whole(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of all the batches as one."""
    if not batches:
        return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)
    return in_one(batches)
