"""Rows of which only some columns are decoded before somebody asks for the rest.

A receiver that is passed over gives no row of most epochs, and to see which epochs its rows have, it needs
nothing but their time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray


class Demand:
    """How many of the rows that were read have been asked for."""

    def __init__(self) -> None:
        self._read = 0
        self._taken = 0

    def read(self, rows: int) -> None:
        self._read += rows

    def take(self, rows: int) -> None:
        self._taken += rows

    @property
    def low(self) -> bool:
        """Less than half of them were."""
        return 2 * self._taken < self._read

    def begin_anew(self) -> None:
        """With the rows that are read from now on."""
        self._read = self._taken = 0


class DecodedLater:
    """Rows in a file. `ready`: the columns of `schema` that are decoded already; `decode` gives the rest, if
    there is any."""

    def __init__(
        self,
        ready: pa.RecordBatch,
        schema: pa.Schema,
        decode: Callable[[], pa.RecordBatch] | None,
        demand: Demand,
    ) -> None:
        self.ready = ready
        self.schema = schema
        self.demand = demand
        self._decode = decode
        demand.read(ready.num_rows)

    def all_columns(self) -> pa.RecordBatch:
        """Raises what `decode` does."""
        if self._decode is not None and self.ready.num_columns < len(self.schema):
            parts = (self.ready, self._decode())
            columns = {name: part.column(name) for part in parts for name in part.schema.names}
            arrays = [columns[name] for name in self.schema.names]
            self.ready = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return self.ready


class DeferredBatch:
    """Of rows that are decoded later those at `places`, and the columns `names`. It is used like a record
    batch, and decodes them when it has to give values that are not there yet."""

    def __init__(self, rows: DecodedLater, names: Sequence[str], places: range | IntArray) -> None:
        self._rows = rows
        self._names = list(names)
        self._places = places
        self.num_rows = len(places)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([self._rows.schema.field(name) for name in self._names])

    @property
    def columns(self) -> list[pa.Array]:
        return list(self.read().columns)

    def column(self, name: str) -> pa.Array:
        ready = self._rows.ready
        if name not in ready.schema.names:
            ready = self._rows.all_columns()
        return self._of(ready.column(name))

    def select(self, names: Sequence[str]) -> DeferredBatch:
        return DeferredBatch(self._rows, names, self._places)

    def slice(self, offset: int, length: int) -> DeferredBatch:
        return DeferredBatch(self._rows, self._names, self._places[offset : offset + length])

    def take(self, indices: pa.Array) -> DeferredBatch:
        at: IntArray = indices.to_numpy()
        places = self._places
        chosen = places.start + at if isinstance(places, range) else places[at]
        return DeferredBatch(self._rows, self._names, chosen)

    def filter(self, mask: pa.Array) -> DeferredBatch:
        return self.take(pa.array(np.flatnonzero(mask)))

    def read(self) -> pa.RecordBatch:
        """The rows themselves."""
        self._rows.demand.take(self.num_rows)
        batch = self._rows.all_columns()
        if self._names != batch.schema.names:
            batch = batch.select(self._names)
        return self._of(batch)

    def _of(self, whole: pa.Array | pa.RecordBatch) -> pa.Array | pa.RecordBatch:
        places = self._places
        if isinstance(places, range):
            return whole if len(places) == len(whole) else whole.slice(places.start, len(places))
        return whole.take(pa.array(places))


def decoded(batch: pa.RecordBatch, demand: Demand) -> DeferredBatch:
    """A batch of which nothing has to be decoded any more; it only notes how much of it is asked for."""
    rows = DecodedLater(batch, batch.schema, None, demand)
    return DeferredBatch(rows, batch.schema.names, range(batch.num_rows))
