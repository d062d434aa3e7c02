"""Order among the rows of a union: the hidden columns that make one order of several streams' own.

Rows of a union stand by event time, then by the place of their stream in the union, then in their
stream's own order. A stream whose rows have no event time, that of an operator which closes epochs, stands
before all that have one, as strict order does with inputs of several ports.

Columns, most significant first: event time, if any stream has it; ``__place<n>`` (int32), where n is the
number of unions before; the streams' own order columns. Where all streams have the same ones, they share
them. Else each has its own, ``__<place>_…``, and nulls in those of the others, which are never compared:
places differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streammine.model.contracts import Derived
from streammine.model.ids import HIDDEN_PREFIX, TIME_COLUMN

_PLACE_STEM = "__place"
_BEFORE_ALL = np.iinfo(np.int64).min

Fields = Sequence[pa.Field]


@dataclass(frozen=True)
class UnionOrder:
    """The order columns of the rows that come from one of a union's streams.

    `fields` are the union's, `own` the stream's own columns by the names that they have in it.
    """

    fields: tuple[pa.Field, ...]
    place: int
    own: Mapping[str, str]

    def ordered(self, before: pa.RecordBatch, derived: Derived) -> pa.RecordBatch:
        """The rows that the union made of a batch, with the order columns of the union."""
        assert derived.parents is None, "a union passes all rows on"
        rows = before.num_rows
        columns = list(derived.batch.columns)
        names = list(derived.batch.schema.names)
        for field in self.fields:
            names.append(field.name)
            if field.name in self.own:
                columns.append(before.column(self.own[field.name]))
            elif field.name == TIME_COLUMN:
                columns.append(pa.array(np.full(rows, _BEFORE_ALL)))
            elif field.name.startswith(_PLACE_STEM):
                columns.append(pa.array(np.full(rows, self.place, np.int32)))
            else:
                columns.append(pa.nulls(rows, field.type))
        return pa.record_batch(columns, names=names)


def union_orders(streams: Sequence[Fields]) -> tuple[UnionOrder, ...]:
    """For each stream of a union, whose rows are ordered by these fields, how they become the union's."""
    timed = any(field.name == TIME_COLUMN for fields in streams for field in fields)
    own = [[field for field in fields if field.name != TIME_COLUMN] for fields in streams]
    shared = all(_same(fields, own[0]) for fields in own[1:])
    renamed = [
        [
            (field.name if shared else f"__{place}_{field.name.removeprefix(HIDDEN_PREFIX)}", field)
            for field in fields
        ]
        for place, fields in enumerate(own)
    ]
    carried: dict[str, pa.DataType] = {}
    for pairs in renamed:
        carried.update({name: field.type for name, field in pairs})
    places = sum(name.startswith(_PLACE_STEM) for name in carried)
    fields = (
        *([pa.field(TIME_COLUMN, pa.int64())] if timed else []),
        pa.field(f"{_PLACE_STEM}{places}", pa.int32()),
        *(pa.field(name, kind) for name, kind in carried.items()),
    )
    return tuple(
        UnionOrder(fields, place, _own_columns(pairs, streams[place]))
        for place, pairs in enumerate(renamed)
    )


def _same(left: Fields, right: Fields) -> bool:
    return [(each.name, each.type) for each in left] == [(each.name, each.type) for each in right]


def _own_columns(pairs: Sequence[tuple[str, pa.Field]], fields: Fields) -> dict[str, str]:
    own = {name: field.name for name, field in pairs}
    if any(field.name == TIME_COLUMN for field in fields):
        own[TIME_COLUMN] = TIME_COLUMN
    return own
