"""`deduplicate` within a length of event time: the first or last row of each burst of a key.

A *burst* begins with a row and holds the rows of its key that come less than `within` after that one. The
row that comes then begins the next. So whether two rows are of one burst follows from the event times of
their key alone. A key is forgotten once the watermark tells that its burst is over.

Rows are looked at when the watermark has passed them: until then others may come before. Those that come
when it has passed already are late: what they would have changed has left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.canonical import canonical_order
from streammine.model.contracts import (
    Accumulator,
    Combiner,
    DeadRows,
    EpochClose,
    IntArray,
    Traits,
)
from streammine.model.epochs import EpochDefinition
from streammine.model.topology.keyed import EPOCH_COLUMN
from streammine.model.topology.ordering import OrderTerm
from streammine.operators.best_rows import in_batches
from streammine.operators.event_time import EventTime
from streammine.operators.first_rows import Gathering, OrderedInput, epoch_column
from streammine.operators.frozen import (
    Handover,
    check_version,
    decode_piece,
    encode_piece,
    row_pieces,
)
from streammine.operators.kernels import bursts as kernels
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keyed_rows import KeyedRows
from streammine.operators.row_order import RowOrder
from streammine.operators.set_aside import SetAside

_TIME, _START = "__time", "__start"
"""The event time of a row, and when its burst began, in microseconds."""

NO_TIME = "it has no event time"
LATE = "it is late: the watermark had passed its event time when it came"


class DistinctWithin:
    """The first or last row of each burst (a StatefulOperator that HoldsWindows, KeepsState and SetsAside).

    The first row leaves when the watermark has passed it, the last one when it has passed the burst. Of rows
    of equal times the one counts that is first in canonical order. The output has ``epoch``, the key columns,
    and the input's others. Rows without an event time and late ones are set aside.
    """

    traits = Traits()
    partial_schema: pa.Schema | None = None
    partial_keys: tuple[str, ...] = ()
    state_version = 1

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        time: EventTime,
        epoch: EpochDefinition,
        within_microseconds: int,
        *,
        last: bool = False,
    ) -> None:
        """Raises TopologyError."""
        assert epoch.kind == "time", "bursts end by the watermark"
        self.name = name
        self.input = OrderedInput(name, schema, keys, [OrderTerm(time.column, descending=False)])
        self.keys: tuple[tuple[str, ...], ...] = (tuple(keys),)
        self.needs: tuple[frozenset[str] | None, ...] = (self.input.needs,)
        self.output = pa.schema(
            [
                pa.field(EPOCH_COLUMN, pa.int64()),
                *self.input.key_fields,
                *self.input.other_fields,
            ]
        )
        ordering = [EPOCH_COLUMN, *keys, time.column]
        self.output_order: tuple[str, ...] = tuple(dict.fromkeys(ordering))
        self._time = time
        self._epoch = epoch
        self._within = within_microseconds
        self._last = last
        self._timed = pa.schema([*self.input.schema, pa.field(_TIME, pa.int64())])
        self._order = RowOrder(name, self._timed, keys, [OrderTerm(_TIME, descending=False)])
        kept = self.input.schema if last else pa.schema(self.input.key_fields)
        self._bursts = KeyedRows(pa.schema([*kept, pa.field(_START, pa.int64())]), keys)
        self._ahead = _no_rows(self._timed)
        """Rows that the watermark has not passed."""
        self._due: int | None = None
        self._dead = SetAside()

    def prepare(self) -> None:
        """Load the kernels, so that the first epoch does not wait for them."""
        warm_up()
        kernels.load_kernels()

    def combiner(self) -> Combiner:
        raise AssertionError("it has no combiner: its traits say so")

    def accumulator(self, port: int) -> Gathering:
        assert port == 0, f"it has one port, not port {port}"
        return self.input.gathering(None)

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """What leaves are first rows that the watermark has passed, or last ones of bursts that it has."""
        (collected,) = accumulators
        assert isinstance(collected, Gathering), collected
        rows = self._ready(epoch, collected.batches)
        leaving = self._last_rows(rows, epoch) if self._last else self._first_rows(rows, epoch)
        self._due = self._next_due()
        return in_batches(self._output_rows(epoch.epoch, leaving))

    @property
    def due_epoch(self) -> int | None:
        """The first epoch by whose end the watermark has passed a row that waits, or a burst's end."""
        return self._due

    @property
    def state_nbytes(self) -> int:
        return self._bursts.nbytes + int(self._ahead.nbytes)

    def take_dead(self) -> DeadRows | None:
        """See contracts.SetsAside."""
        return self._dead.take()

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: what became of keys, and all rows that wait, which are few."""
        full, bursts = self._bursts.freeze(full)
        ahead = row_pieces({"ahead": True}, [self._ahead])
        return Handover(full, chain([encode_piece({})], bursts, ahead))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        decode_piece(next(pieces))
        if full:
            self._bursts.restore_anew()
        ahead = []
        for piece in pieces:
            header, batches = decode_piece(piece)
            if "keyed" in header:
                self._bursts.restore(header, batches)
            else:
                ahead += batches
        self._ahead = pa.concat_batches([_no_rows(self._timed), *ahead])
        self._due = self._next_due()

    # --- what comes -----------------------------------------------------------------------------

    def _ready(self, epoch: EpochClose, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """The rows that the watermark passes with this epoch, with their times."""
        passed = epoch.definition.watermark(epoch.epoch - 1)
        together = [self._ahead]
        for batch in batches:
            times, numbers = self._time.of(batch)
            late = times < passed
            self._set_aside(batch, numbers, late)
            rows = batch.take(pa.array(numbers[~late]))
            columns = [*rows.columns, pa.array(times[~late])]
            together.append(pa.record_batch(columns, schema=self._timed))
        rows = pa.concat_batches(together)
        ready = rows.column(_TIME).to_numpy() < epoch.watermark
        if ready.all():
            self._ahead = _no_rows(self._timed)
            return rows
        self._ahead = rows.filter(pa.array(~ready))
        return rows.filter(pa.array(ready))

    def _set_aside(
        self, batch: pa.RecordBatch, numbers: IntArray, late: npt.NDArray[np.bool_]
    ) -> None:
        if len(numbers) < batch.num_rows:
            without = np.setdiff1d(np.arange(batch.num_rows), numbers)
            self._dead.add(NO_TIME, batch.take(pa.array(without)))
        if late.any():
            self._dead.add(LATE, batch.take(pa.array(numbers[late])))

    # --- bursts ---------------------------------------------------------------------------------

    def _first_rows(self, rows: pa.RecordBatch, epoch: EpochClose) -> pa.RecordBatch:
        found = _Found(self, self._that_may_begin(rows))
        last = np.append(found.group_begins[1:], True)[: len(found.starts)]
        self._put(found, last & found.begun)
        self._bursts.expire(_START, epoch.watermark - self._within)
        return found.rows.filter(pa.array(found.begins))

    def _that_may_begin(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that may begin a burst: of many rows of few keys hardly any has to be sorted."""
        numbers = self._bursts.numbers(rows)
        times: IntArray = rows.column(_TIME).to_numpy()
        may = ~self._bursts.has(numbers)
        known = np.flatnonzero(~may)
        may[known] = times[known] - self._starts(numbers[known]) >= self._within
        numbers, times = numbers[may], times[may]
        # not by the number of the key, as there may be many more keys than rows
        keys, places = np.unique(numbers, return_inverse=True)
        first = np.full(len(keys), np.iinfo(np.int64).max)
        np.minimum.at(first, places, times)
        behind = times - first[places]
        may[may] = (behind == 0) | (behind >= self._within)
        return rows.filter(pa.array(may))

    def _last_rows(self, rows: pa.RecordBatch, epoch: EpochClose) -> pa.RecordBatch:
        found = _Found(self, rows)
        over_before = epoch.watermark - self._within
        numbers = self._bursts.all()
        over = numbers[self._starts(numbers) <= over_before]
        # a burst that goes on here has another last row
        gone_on = found.numbers[~found.begun]
        left = self._bursts.rows(np.setdiff1d(over, gone_on), self._timed.names[:-1])
        self._bursts.drop(over)
        last = found.last_of_bursts()
        ended = found.starts <= over_before
        self._put(found, last & ~ended)
        self._bursts.clean()
        leaving = found.rows.filter(pa.array(last & ended)).select(self._timed.names[:-1])
        return pa.concat_batches([leaving, left])

    def _put(self, found: _Found, places: npt.NDArray[np.bool_]) -> None:
        """Remember bursts by their rows at these places, one of each key."""
        kept = found.rows.filter(pa.array(places))
        columns = [kept.column(name) for name in self._bursts.schema.names[:-1]]
        columns.append(pa.array(found.starts[places]))
        rows = pa.record_batch(columns, schema=self._bursts.schema)
        self._bursts.put(found.numbers[places], rows)

    def _starts(self, numbers: IntArray) -> IntArray:
        starts: IntArray = self._bursts.rows(numbers, [_START]).column(0).to_numpy()
        return starts

    def _next_due(self) -> int | None:
        ends = []
        if self._ahead.num_rows:
            # the watermark passes a time with the epoch that it lies in
            ends.append(int(self._ahead.column(_TIME).to_numpy().min()) + 1)
        if self._last and len(self._bursts):
            ends.append(int(self._starts(self._bursts.all()).min()) + self._within)
        return None if not ends else -(-min(ends) // self._epoch.length) - 1

    def _output_rows(self, epoch: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(name) for name in self.output.names[1:]]
        columns.insert(0, epoch_column(epoch, rows.num_rows))
        batch = pa.record_batch(columns, schema=self.output)
        return batch.take(pa.array(canonical_order(batch, self.output_order)))


class _Found:
    """Rows in the order of their keys and times, and the bursts that they belong to."""

    def __init__(self, operator: DistinctWithin, rows: pa.RecordBatch) -> None:
        arranged = operator._order.arranged(rows)
        self.rows = rows.take(pa.array(arranged.rows))
        self.group_begins = arranged.group_begins
        self._differs = arranged.differs
        firsts = self.rows.filter(pa.array(self.group_begins))
        numbers = operator._bursts.numbers(firsts)
        known = np.full(len(numbers), kernels.NO_START, np.int64)
        has = operator._bursts.has(numbers)
        known[has] = operator._starts(numbers[has])
        count = rows.num_rows
        self.begins: npt.NDArray[np.bool_] = np.empty(count, np.bool_)
        self.starts: IntArray = np.empty(count, np.int64)
        times = self.rows.column(_TIME).to_numpy()
        kernels.find_bursts(
            self.group_begins, times, known, operator._within, self.begins, self.starts
        )
        groups = np.cumsum(self.group_begins) - 1
        self.numbers: IntArray = numbers[groups]
        self.begun = self.starts != known[groups]
        """Whether the burst of each row is another than the one known before."""

    def last_of_bursts(self) -> npt.NDArray[np.bool_]:
        """At which places the last rows of bursts stand: of equal times the first."""
        burst_begins = self.begins | self.group_begins
        # a run of equal times is the last one of its burst where another burst begins behind it
        runs = np.flatnonzero(self._differs)
        last = np.zeros(len(self.starts), np.bool_)
        if len(runs):
            following = np.append(burst_begins[runs[1:]], True)
            last[runs[following]] = True
        return last


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
