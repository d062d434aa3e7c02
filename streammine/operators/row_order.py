"""The order of rows inside the groups of a key: by some of their columns, ties by all of them.

Between two rows of a group decides the first of these in which they differ:

1. the columns of the order, one after the other, ascending or descending. Null comes last either way, NaN is
   greater than every number, -0.0 equals 0.0, texts go by their UTF-8 bytes;
2. the canonical order of the whole rows, ascending (see model.canonical).

So only rows that are the same in every column are left to chance, and there it can't be seen. Groups stand in
the canonical order of their keys, in which -0.0 is 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.canonical import canonical_order, is_encodable
from streammine.model.contracts import IntArray
from streammine.model.errors import TopologyError
from streammine.model.topology.ordering import OrderTerm
from streammine.operators.equality import encoded_values, unequal
from streammine.operators.expressions import unknown_column
from streammine.operators.kernels.columns import fixed_values
from streammine.operators.keys import check_key

Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Arranged:
    """Rows in order: their numbers (int64), and at each place (bool) whether another group begins there, and
    whether the row differs from the one before in its group or in the columns of the order."""

    rows: IntArray
    group_begins: Flags
    differs: Flags

    @property
    def group_starts(self) -> IntArray:
        """At each place, the place where its group begins (int64)."""
        places = np.arange(len(self.rows), dtype=np.int64)
        return np.maximum.accumulate(np.where(self.group_begins, places, 0))


class RowOrder:
    """The order of the rows of one schema: groups of `keys`, and `terms` inside of them."""

    def __init__(
        self, operator: str, schema: pa.Schema, keys: Sequence[str], terms: Sequence[OrderTerm]
    ) -> None:
        """Raises TopologyError for columns that are not there, or whose values have no order."""
        for key in keys:
            check_key(operator, key, schema)
        for term in terms:
            if term.column not in schema.names:
                raise TopologyError(
                    f"operator {operator!r}: by: {unknown_column(term.column, schema)}"
                )
        for field in schema:
            if not is_encodable(field.type):
                raise TopologyError(
                    f"operator {operator!r}: column {field.name!r} has type {field.type}, whose values have "
                    "no canonical order, and ties are broken by all columns; leave it out with a map before"
                )
        self.schema = schema
        self.keys = tuple(keys)
        self.terms = tuple(terms)
        self._others = [name for name in schema.names if name not in keys]
        self._float_keys = [key for key in keys if pa.types.is_floating(schema.field(key).type)]

    def with_normal_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with 0.0 for -0.0 in its keys, which are equal, so that any of them may leave."""
        for key in self._float_keys:
            place = batch.schema.get_field_index(key)
            batch = batch.set_column(
                place, batch.schema.field(place), _without_minus(batch.column(place))
            )
        return batch

    @property
    def leads_with_words(self) -> bool:
        """Whether the first column of the order has `leading_words`."""
        return bool(self.terms) and _has_words(self.schema.field(self.terms[0].column).type)

    def leading_words(self, batch: pa.RecordBatch) -> Words:
        """A number per row: where one is less than another, the row comes before the other in its group."""
        term = self.terms[0]
        return _words(batch.column(term.column), term.descending)

    def arranged(self, batch: pa.RecordBatch) -> Arranged:
        """All rows of a batch in their order."""
        columns = [_ascending(batch.column(key)) for key in self.keys]
        for term in self.terms:
            array = batch.column(term.column)
            columns.append(_descending(array) if term.descending else _ascending(array))
        if not columns:
            columns = [pa.repeat(pa.scalar(0, pa.int8()), batch.num_rows)]
        names = [str(number) for number in range(len(columns))]
        order = canonical_order(pa.record_batch(columns, names), names)
        places = pa.array(order)
        ordered = [column.take(places) for column in columns]
        group_begins = _differences(ordered[: len(self.keys)], batch.num_rows)
        differs = group_begins | _differences(ordered[len(self.keys) :], batch.num_rows)
        return Arranged(self._without_ties(batch, order, differs), group_begins, differs)

    def _without_ties(self, batch: pa.RecordBatch, order: IntArray, differs: Flags) -> IntArray:
        tied = ~differs
        if not tied.any():
            return order
        tied[:-1] |= tied[1:]
        places = np.flatnonzero(tied)
        rows = batch.take(pa.array(order[places]))
        runs = pa.array(np.cumsum(differs)[places])
        columns = [runs, *(rows.column(name) for name in self._others)]
        # by number, as columns may have any name
        inside = canonical_order(
            pa.record_batch(columns, [str(number) for number in range(len(columns))])
        )
        order = order.copy()
        order[places] = order[places][inside]
        return order


def _has_words(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
        or types.is_duration(kind)
    )


def _words(array: pa.Array, descending: bool) -> Words:
    """Numbers that order as the values do, null last; uint64."""
    kind = array.type
    if pa.types.is_floating(kind):
        words = _float_words(fixed_values(array))
    elif pa.types.is_unsigned_integer(kind):
        words = fixed_values(array).astype(np.uint64)
    else:
        words = fixed_values(array).astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)
    if descending:
        words = ~words
    if array.null_count:
        present = array.is_valid().to_numpy(zero_copy_only=False)
        words = np.where(present, words, np.iinfo(np.uint64).max)
    return words


def _float_words(values: npt.NDArray[np.floating]) -> Words:
    wide = values.astype(np.float64) + 0.0
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.uint64)
    sign = np.uint64(1 << 63)
    words: Words = np.where(bits & sign, ~bits, bits | sign)
    return words


def _ascending(array: pa.Array) -> pa.Array:
    """A column that Arrow can compare, in the order of the values; nulls stay nulls."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _ascending(array.dictionary_decode())
    if pa.types.is_floating(kind):
        return _word_column(array, descending=False)
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return encoded_values(array)
    return array


def _descending(array: pa.Array) -> pa.Array:
    kind = array.type
    if _has_words(kind):
        return _word_column(array, descending=True)
    if pa.types.is_decimal(kind):
        return pc.negate(array)
    return _descending_codes(array)


def _word_column(array: pa.Array, descending: bool) -> pa.Array:
    words = _words(array, descending)
    if not array.null_count:
        return pa.array(words)
    return pa.array(words, mask=~array.is_valid().to_numpy(zero_copy_only=False))


def _descending_codes(array: pa.Array) -> pa.Array:
    """Numbers of the distinct values (int64), the greatest value's the least."""
    values = _ascending(array)
    order = canonical_order(pa.record_batch([values], ["value"]))
    codes = np.empty(len(array), np.int64)
    numbers = np.cumsum(_differences([values.take(pa.array(order))], len(array)), dtype=np.int64)
    codes[order] = -numbers
    if not array.null_count:
        return pa.array(codes)
    return pa.array(codes, mask=~array.is_valid().to_numpy(zero_copy_only=False))


def _without_minus(array: pa.Array) -> pa.Array:
    """The floats of an array, with 0.0 for -0.0."""
    if pa.types.is_float16(array.type):
        return _without_minus(array.cast(pa.float32())).cast(array.type)
    return pc.add(array, pa.scalar(0.0, array.type))


def _differences(ordered: Sequence[pa.Array], rows: int) -> Flags:
    """At each place, whether it is the first one or any column has another value than the one before."""
    differs = np.zeros(rows, np.bool_)
    differs[:1] = True
    for column in ordered:
        if rows > 1:
            differs[1:] |= unequal(column.slice(1), column.slice(0, rows - 1))
    return differs
