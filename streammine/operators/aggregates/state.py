"""The groups of one open epoch or window: which are there, and the parts of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.aggregates.definitions import Aggregate, PartKey
from streammine.operators.aggregates.functions import new_part
from streammine.operators.aggregates.keys import KeyTable
from streammine.operators.aggregates.parts import Part
from streammine.operators.conditions import Condition
from streammine.operators.kernels.columns import fixed_values
from streammine.operators.kernels.extremes import Count

_NO_COLUMN = pa.nulls(0)


@dataclass(frozen=True)
class AggregateLayout:
    """What an aggregate reads, keeps and gives: fixed once for all its states.

    `conditions`: those of the parts, by their texts.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    @cached_property
    def part_keys(self) -> tuple[PartKey, ...]:
        """Each part once, in order of first use."""
        return tuple(dict.fromkeys(key for item in self.aggregates for key in item.parts))

    @cached_property
    def columns_read(self) -> frozenset[str]:
        """The columns of keys, parts and conditions."""
        of_parts = {name for key in self.part_keys for name in (key.column, key.by) if name}
        of_conditions = {name for one in self.conditions.values() for name in one.needs}
        return frozenset({*self.keys, *of_parts, *of_conditions})

    @cached_property
    def columns_read_where(self) -> Mapping[str, list[str]]:
        """The columns of the parts of each condition."""
        return {
            text: sorted(
                {
                    name
                    for key in self.part_keys
                    for name in (key.column, key.by)
                    if key.where == text and name
                }
            )
            for text in self.conditions
        }

    @cached_property
    def key_columns(self) -> tuple[int, ...]:
        return tuple(self.schema.get_field_index(key) for key in self.keys)

    @cached_property
    def key_fields(self) -> tuple[pa.Field, ...]:
        return tuple(self.schema.field(key) for key in self.keys)

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """Keys, number of rows, then one column per part."""
        taken = set(self.keys)
        fields = list(self.key_fields)
        types = [new_part(key, self.schema).partial_type for key in self.part_keys]
        names = ["rows", *map(str, self.part_keys)]
        for name, value_type in zip(names, [pa.int64(), *types], strict=True):
            while name in taken:
                name += "'"
            taken.add(name)
            fields.append(pa.field(name, value_type))
        return pa.schema(fields)


class GroupState:
    """Groups found in rows or partials so far. Ids are those of `table`, which other states share.

    A group is there if it has rows; ids that only other epochs know have none.
    """

    def __init__(
        self,
        layout: AggregateLayout,
        table: KeyTable,
        rows: Count | None = None,
        parts: Mapping[PartKey, Part] | None = None,
    ) -> None:
        """`rows` and `parts`: of a state that exists, in groups of the table; by default empty ones."""
        self.layout = layout
        self.table = table
        self._rows = rows or Count()
        self._parts = dict(parts or {key: new_part(key, layout.schema) for key in layout.part_keys})

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + sum(part.nbytes for part in self._parts.values())

    def add_rows(self, batch: pa.RecordBatch) -> None:
        """Take in rows of the input's schema."""
        self.fold(batch, self.table.ids(batch, self.layout.key_columns), self.table.size)

    def fold(self, batch: pa.RecordBatch, ids: IntArray, size: int) -> None:
        """Take in rows of the input's schema, each for a group (int64[n]) of so many."""
        self._rows.add(ids, size)
        selections: dict[str | None, tuple[IntArray, pa.RecordBatch]] = {None: (ids, batch)}
        for text, condition in self.layout.conditions.items():
            holds = condition.holds(batch)
            read = batch.select(self.layout.columns_read_where[text])
            selections[text] = (ids[holds.to_numpy(zero_copy_only=False)], read.filter(holds))
        for key, part in self._parts.items():
            selected_ids, selected = selections[key.where]
            part.add(selected_ids, _read(selected, key), size)

    def add_partials(self, batch: pa.RecordBatch) -> None:
        """Take in rows of the partial schema."""
        key_count = len(self.layout.keys)
        ids = self.table.ids(batch, range(key_count))
        self.fold_encoded(batch.columns[key_count:], ids, self.table.size)

    def fold_encoded(self, columns: Sequence[pa.Array], ids: IntArray, size: int) -> None:
        """Take in what `encoded` gives, each row for a group (int64[n]) of so many."""
        self._rows.add_counts(ids, fixed_values(columns[0]), size)
        for part, column in zip(self._parts.values(), columns[1:], strict=True):
            part.add_partial(ids, column, size)

    def merge(self, other: GroupState, keys: Callable[[], list[pa.Array]] | None = None) -> None:
        """Take in another state of the same layout; `other` is not used again.

        `keys`: what its table's `keys_as_of_now` gave when its last group was added; by default now.
        """
        ids = other.ids_in(self.table, keys)
        size = max(self._rows.size, int(ids.max(initial=-1)) + 1)
        self._rows.resize(size)
        self._rows.merge(other._rows, ids)
        for part, merged in zip(self._parts.values(), other._parts.values(), strict=True):
            part.resize(size)
            part.merge(merged, ids)

    def ids_in(self, table: KeyTable, keys: Callable[[], list[pa.Array]] | None = None) -> IntArray:
        """The id of each group in another table (int64[n]); of one without rows, which adds nothing, any.

        `keys` as in `merge`.
        """
        if table is self.table:
            return np.arange(self._rows.size, dtype=np.int64)
        ids = np.zeros(self._rows.size, dtype=np.int64)
        present = self.present()
        keys = keys or self.table.keys_as_of_now()
        ids[present] = table.ids_of(keys(), present)
        return ids

    @property
    def rows(self) -> Count:
        """How many rows each group has."""
        return self._rows

    @property
    def parts(self) -> Mapping[PartKey, Part]:
        """The parts of all groups."""
        return self._parts

    def present(self) -> IntArray:
        """The ids of the groups that have rows (int64), ascending."""
        return np.flatnonzero(self._rows.finish())

    def encoded(self, groups: IntArray) -> list[pa.Array]:
        """Row counts and exact parts of some groups: the columns of the partial schema behind the keys."""
        columns = [pa.array(self._rows.finish()), *(part.encode() for part in self._parts.values())]
        return columns if groups.size == self._rows.size else _taken(columns, groups)

    def partials(self) -> pa.RecordBatch:
        """All groups in canonical order, in the partial schema."""
        counts, order, keys = self._selected()
        columns = [pa.array(counts), *(part.encode() for part in self._parts.values())]
        arrays = [*keys, *_taken(columns, order)]
        return pa.record_batch(arrays, schema=self.layout.partial_schema)

    def unordered_partials(
        self, keys: Callable[[], list[pa.Array]], nbytes: int
    ) -> Iterator[pa.RecordBatch]:
        """All groups by id, in the partial schema, in batches of about so many bytes.

        `keys` is what the table's `keys_as_of_now` gave when the last group was added. The table
        itself is not touched, so that other states may go on with it at the same time.
        """
        counts = self._rows.finish()
        ids = np.flatnonzero(counts)
        if not ids.size:
            return
        columns = [array.slice(0, counts.size) for array in keys()]
        columns += [pa.array(counts), *(part.encode() for part in self._parts.values())]
        whole = pa.record_batch(columns, schema=self.layout.partial_schema)
        step = max(1, whole.num_rows * nbytes // max(1, int(whole.nbytes)))
        for start in range(0, ids.size, step):
            some = ids[start : start + step]
            if some[-1] - some[0] + 1 == some.size:
                yield whole.slice(int(some[0]), some.size)
            else:
                yield whole.take(pa.array(some))

    def results(self) -> list[pa.Array]:
        """The columns of keys, then aggregates, of all groups in canonical order.

        Raises BeyondRangeError for a sum that its type can't hold; `key_text` names its group.
        """
        _, order, keys = self._selected()
        return [*keys, *_taken(self.finished(), order)]

    def finished(self) -> list[pa.Array]:
        """The columns of aggregates of all groups by id. Raises BeyondRangeError."""
        counts = self._rows.finish()
        return [item.finish(self._parts, counts) for item in self.layout.aggregates]

    @property
    def group_count(self) -> int:
        return int(np.count_nonzero(self._rows.finish()))

    def key_text(self, group: int) -> str:
        """The key of a group, for people."""
        present = np.zeros(self.table.size, dtype=np.bool_)
        present[group] = True
        _, keys = self.table.select(present)
        pairs = zip(self.layout.keys, keys, strict=True)
        return ", ".join(f"{name} = {array[0].as_py()!r}" for name, array in pairs) or "all rows"

    def _selected(self) -> tuple[IntArray, IntArray, list[pa.Array]]:
        """Row counts of all ids, then the ids that have rows and their keys in canonical order."""
        counts = self._rows.finish()
        order, keys = self.table.select(counts > 0)
        return counts, order, keys


def _read(batch: pa.RecordBatch, key: PartKey) -> pa.Array:
    """What a part is fed of a batch of the input."""
    if not key.column:
        return _NO_COLUMN
    column = batch.column(key.column)
    if key.by is None:
        return column
    return pa.StructArray.from_arrays([batch.column(key.by), column], ["by", "value"])


def _taken(columns: Sequence[pa.Array], order: IntArray) -> list[pa.Array]:
    rows = pa.array(order)
    return [column.take(rows) for column in columns]
