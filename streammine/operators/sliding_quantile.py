"""Exact quantiles per key over sliding windows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import Accumulator, Combiner, DeadRows, EpochClose, IntArray, Traits
from streammine.model.errors import TopologyError
from streammine.model.topology.keyed import EPOCH_COLUMN
from streammine.operators.aggregates import key_order
from streammine.operators.aggregates.keys import KeyTable
from streammine.operators.collected_rows import CollectedRows
from streammine.operators.frozen import Handover, check_version
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keys import check_key
from streammine.operators.map import check_column_name
from streammine.operators.quantiles.images import Images
from streammine.operators.quantiles.panes import Pane, Panes
from streammine.operators.quantiles.sliding_order import Slide, SlidingOrder, load_kernels
from streammine.operators.quantiles.snapshots import Fresh, FreshRows, Frozen, Held, Restoring
from streammine.operators.set_aside import SetAside

START_COLUMN, END_COLUMN = "window_start", "window_end"
_OUTPUT_ROWS_LIMIT = 65_536
_BYTES_PER_ROW = 32
"""Of a result, besides its key."""

_LEAST_SHARE = 1 / 64
"""Of results among rows, that is reckoned with when memory is: after a while without any, many may come."""

_NOTHING = -1
"""The bits of no float that a quantile can be."""


@dataclass(frozen=True)
class Slides:
    """Windows of `lengths` whole epochs, ascending, that move by `slide` epochs, and each length is a
    multiple of that; `epoch_microseconds` is the length of an epoch."""

    lengths: tuple[int, ...]
    slide: int
    epoch_microseconds: int

    def ends_with(self, epoch: int) -> bool:
        """Whether windows end with this epoch."""
        return (epoch + 1) % self.slide == 0

    def next_end(self, epoch: int) -> int:
        """The first epoch from this one on with which windows end."""
        return epoch + (-(epoch + 1)) % self.slide


@dataclass(frozen=True)
class _Results:
    """Of the windows that end with an epoch: their numbers, and the float64s' bits (both int64[n])."""

    epoch: int
    numbers: IntArray
    bits: IntArray


class SlidingQuantile:
    """A quantile per key over windows that slide (a StatefulOperator that HoldsWindows, KeepsState,
    SetsAside and TellsTogether).

    The quantile `at` of n values is the one at place (n - 1) * at of them in ascending order, counted from 0;
    between two places it lies as far between their values, rounded once. At 1/2 it is the median, of an even
    number the mean of the middle two. A row belongs to the epoch in which it comes; rows whose value is null
    are set aside. With each slide leaves what differs from the slide before, a null where a key has no values
    any more; or, with `every_slide`, a row for every key and window with values.

    What enters between two slides waits in `_waiting`. Which rows the windows have, and which leave next, is
    known of the slides that were not done yet, too (`_panes`, `_closed`); the values and results (`_order`,
    `_told`) are as they were told last. A snapshot needs no results: they follow from the values.
    """

    traits = Traits(commutative=True, mergeable=True, combinable=False, deterministic=True)
    partial_schema: pa.Schema | None = None
    partial_keys: tuple[str, ...] = ()
    state_version = 1

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        of: str,
        slides: Slides,
        *,
        at: Fraction = Fraction(1, 2),
        into: str = "quantile",
        every_slide: bool = False,
    ) -> None:
        """The quantile of column `of`, in column `into` of the output. Raises TopologyError."""
        for key in keys:
            check_key(name, key, schema)
        _check_names(name, keys, into)
        self.name = name
        self._images = Images(name, of, schema)
        self._fields = [schema.field(key) for key in keys]
        self._slides = slides
        self._at = at
        self._every_slide = every_slide
        time = pa.timestamp("us")
        self.output = pa.schema(
            [
                pa.field(EPOCH_COLUMN, pa.int64()),
                pa.field(START_COLUMN, time),
                pa.field(END_COLUMN, time),
                *self._fields,
                pa.field(into, pa.float64()),
            ]
        )
        self.output_order: tuple[str, ...] = (EPOCH_COLUMN, *keys, START_COLUMN)
        self.keys: tuple[tuple[str, ...], ...] = (tuple(keys),)
        self.needs: tuple[frozenset[str] | None, ...] = (frozenset((*keys, of)),)
        self._dead = SetAside()
        self._handover: Handover | None = None
        self._begin()

    def _begin(self) -> None:
        """Nothing has come."""
        windows = len(self._slides.lengths)
        self._table = KeyTable(self._fields)
        if not self._fields:
            # the only group, which is known before its first row
            self._table.ids_of([], np.zeros(1, np.int64))
        self._order = SlidingOrder(
            windows, self._images.broad, self._at.numerator, self._at.denominator
        )
        self._panes = Panes(self._slides.lengths)
        self._waiting = FreshRows()
        self._closed: int | None = None
        """The epoch of the last slide."""
        self._told: IntArray | None = np.empty(0, np.int64)
        """The bits of the last result of each window of each key; None after a restore."""
        self._ranks: IntArray = np.empty(0, np.int64)
        self._slides_to_do: list[tuple[int, Slide]] = []
        """With the epochs that they end with."""
        self._told_share = 1.0
        """Of how many results there were for each row that came or left, lately."""
        self._unsaved = FreshRows()
        self._saved_keys: int | None = None
        """Of how many keys the snapshots know; None where nothing was saved."""

    def prepare(self) -> None:
        """Load the kernels, so that the first epoch does not wait for them."""
        warm_up()
        key_order.load_kernels()
        load_kernels()

    def combiner(self) -> Combiner:
        raise AssertionError("a quantile has no combiner: its traits say so")

    def accumulator(self, port: int) -> CollectedRows:
        assert port == 0, f"a quantile has one port, not port {port}"
        return CollectedRows()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Keep the epoch's values; where windows end with it, what leaves are their quantiles."""
        self.close_untold(epoch, accumulators)
        return [batch for batch, _ in self.tell()]

    def close_untold(self, epoch: EpochClose, accumulators: Sequence[Accumulator]) -> None:
        """See contracts.TellsTogether."""
        (collected,) = accumulators
        assert isinstance(collected, CollectedRows), collected
        fresh = self._read(epoch.epoch, collected.batches)
        if fresh is not None:
            self._waiting.append(fresh)
            if self._saved_keys is not None:
                self._unsaved.append(fresh)
        if self._slides.ends_with(epoch.epoch):
            self._slide(epoch.epoch)

    @property
    def untold_nbytes(self) -> int:
        """See contracts.TellsTogether."""
        rows = self._told_share * sum(slide.rows for _, slide in self._slides_to_do)
        if self._every_slide:
            rows = len(self._slides_to_do) * self._table.size * self._order.windows
        per_row = _BYTES_PER_ROW + self._table.nbytes / max(1, self._table.size)
        return math.ceil(rows * per_row)

    def tell(self) -> list[tuple[pa.RecordBatch, IntArray]]:
        """See contracts.TellsTogether."""
        to_do, self._slides_to_do = self._slides_to_do, []
        if not to_do:
            return []
        self._order.grow(self._table.size)
        of_slide, numbers, found = self._order.slide([slide for _, slide in to_do])
        by_slide = of_slide.argsort(kind="stable")
        numbers, found = numbers[by_slide], found[by_slide]
        bounds = np.searchsorted(of_slide[by_slide], np.arange(len(to_do) + 1)).tolist()
        results = []
        for (epoch, _), (start, stop) in zip(to_do, pairwise(bounds), strict=True):
            changed = self._take_results(numbers[start:stop], found[start:stop])
            assert self._told is not None
            if self._every_slide:
                changed = np.flatnonzero(self._told != _NOTHING)
            if changed.size:
                results.append(_Results(epoch, changed, self._told[changed]))
        rows = sum(slide.rows for _, slide in to_do)
        if rows:
            self._told_share = max(sum(each.numbers.size for each in results) / rows, _LEAST_SHARE)
        batches = self._batches(results)
        self._forget_emptied(numbers[found[:, 2] < 0])
        return batches

    @property
    def due_epoch(self) -> int | None:
        """The next end of windows with which anything comes to one or leaves it."""
        epochs = [fresh.pane.epoch for fresh in self._waiting.epochs[:1]]
        expiry = self._panes.next_expiry
        if expiry is not None:
            epochs.append(expiry)
            if self._every_slide:
                assert self._closed is not None, "windows have values since they were first told"
                epochs.append(self._closed + 1)
        return self._slides.next_end(min(epochs)) if epochs else None

    def take_dead(self) -> DeadRows | None:
        """See contracts.SetsAside: rows without a value."""
        return self._dead.take()

    @property
    def state_nbytes(self) -> int:
        told = 0 if self._told is None else self._told.nbytes
        rows = self._waiting.nbytes + self._unsaved.nbytes
        return self._order.nbytes + self._panes.nbytes + self._table.nbytes + told + rows

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the epochs since the last freeze; or the values of all keys where they
        lie, which are not written over before they are saved."""
        assert not self._slides_to_do, "results are told before a state is saved"
        if self._handover is not None:
            self._handover.give_up()
            self._order.release()
        known = self._saved_keys
        if full or known is None:
            full, known = True, 0
        frozen = Frozen(
            self._closed,
            self._fields,
            self._table.keys_as_of_now(),
            range(known, self._table.size),
            self._waiting.epochs.copy() if full else self._unsaved.epochs,
            Held.of(self._order, self._panes, self._table.size) if full else None,
        )
        self._saved_keys = self._table.size
        self._unsaved = FreshRows()
        self._handover = Handover(full, frozen.pieces())
        return self._handover

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState. Where the quantiles lie among the values is found with the next slide."""
        check_version(self.name, version, self.state_version)
        if full:
            self._begin()
        restoring = Restoring(self._table, self._order, self._panes)
        restoring.take(pieces)
        self._closed = restoring.closed
        waiting = [*self._waiting.epochs, *restoring.fresh]
        self._waiting = FreshRows()
        for fresh in waiting:
            if self._closed is not None and fresh.pane.epoch <= self._closed:
                self._enter(fresh)
            else:
                self._waiting.append(fresh)
        if self._closed is not None:
            self._expire(self._closed)
            self._order.forget_empty()
        self._told = None

    def _read(self, epoch: int, batches: Sequence[pa.RecordBatch]) -> Fresh | None:
        """The rows of an epoch that have a value; the others are set aside."""
        of = self._images.column
        keys: list[IntArray] = []
        images: list[IntArray] = []
        for batch in batches:
            if batch.column(of).null_count:
                valid = batch.column(of).is_valid()
                missing = batch.filter(pc.invert(valid))
                self._dead.add(f"{of} is null, and a quantile is of values", missing)
                batch = batch.filter(valid)
            if batch.num_rows:
                places = [batch.schema.get_field_index(field.name) for field in self._fields]
                keys.append(self._table.ids(batch, places))
                images.append(self._images.of(batch.column(of)))
        if not keys:
            return None
        pane = Pane.of(epoch, np.concatenate(keys), bool(self._fields))
        return Fresh.of(pane, np.concatenate(images), self._images.broad)

    def _slide(self, epoch: int) -> None:
        """Have the windows end with this epoch, and note what is to be told of it."""
        if self._handover is not None and self._handover.done:
            self._order.release()
        if self._told is None:
            self._take_results(*self._order.settle_all())
        for fresh in self._waiting.epochs:
            self._panes.add(fresh.pane)
        entering = [(fresh.pane.numbers, fresh.images) for fresh in self._waiting.epochs]
        leaving = [(window, pane.numbers) for window, pane in self._panes.expired(epoch)]
        self._slides_to_do.append((epoch, Slide(entering, leaving)))
        self._waiting = FreshRows()
        self._closed = epoch

    def _enter(self, fresh: Fresh) -> None:
        """The rows of an epoch come into all windows."""
        self._order.grow(self._table.size)
        self._order.take_in(fresh.pane.numbers, fresh.images)
        self._panes.add(fresh.pane)

    def _expire(self, epoch: int) -> None:
        """Windows that end with this epoch have no rows of epochs before them."""
        for window, pane in self._panes.expired(epoch):
            self._order.let_go(window, pane.numbers)

    def _take_results(self, numbers: IntArray, found: IntArray) -> IntArray:
        """Work out the quantiles of windows from what was found (see SlidingOrder.slide). Returns the
        numbers of those with another result than before."""
        windows = self._order.windows
        told = self._told
        if told is None or len(told) < self._order.keys * windows:
            told = np.full(self._order.keys * windows, _NOTHING, np.int64)
            if self._told is not None:
                told[: len(self._told)] = self._told
            self._told = told
        remainders = found[:, 2]
        places = found[:, 0], found[:, 1], remainders
        results = self._images.between(*places, self._at.denominator).view(np.int64)
        results[remainders < 0] = _NOTHING
        changed: IntArray = numbers[told[numbers] != results]
        told[numbers] = results
        return changed

    def _batches(self, results: Sequence[_Results]) -> list[tuple[pa.RecordBatch, IntArray]]:
        """Rows of results, in canonical order, and the epoch of each."""
        if not results:
            return []
        windows = self._order.windows
        order, columns = self._table.select(np.ones(self._table.size, np.bool_))
        if len(self._ranks) != len(order):
            self._ranks = np.empty(len(order), np.int64)
            self._ranks[order] = np.arange(len(order))
        place = np.repeat(np.arange(len(results)), [each.numbers.size for each in results])
        keys, window = np.divmod(np.concatenate([each.numbers for each in results]), windows)
        bits = np.concatenate([each.bits for each in results])
        ranks = self._ranks[keys]
        # the longest window starts first
        by = ((place * len(order) + ranks) * windows + (windows - 1 - window)).argsort()
        ranks, window, bits = ranks[by], window[by], bits[by]
        # epochs are in their places already
        epochs = np.array([each.epoch for each in results])[place]
        microseconds = self._slides.epoch_microseconds
        ends = (epochs + 1) * microseconds
        starts = ends - (np.array(self._slides.lengths, np.int64) * microseconds)[window]
        rows = pa.array(ranks)
        time = pa.timestamp("us")
        batch = pa.record_batch(
            [
                pa.array(epochs),
                pa.array(starts).view(time),
                pa.array(ends).view(time),
                *(column.take(rows) for column in columns),
                pa.array(bits.view(np.float64), mask=bits == _NOTHING),
            ],
            schema=self.output,
        )
        return [
            (batch.slice(first, _OUTPUT_ROWS_LIMIT), epochs[first : first + _OUTPUT_ROWS_LIMIT])
            for first in range(0, batch.num_rows, _OUTPUT_ROWS_LIMIT)
        ]

    def _forget_emptied(self, numbers: IntArray) -> None:
        """Give up the keys of those windows that have no values any more, where there are none in any window;
        and the table, once most of its keys are of that kind, and no rows of theirs wait."""
        keys = np.unique(numbers // self._order.windows)
        keys = keys[self._order.counts()[keys, -1] == 0]
        if not len(keys):
            return
        self._order.forget(keys)
        live = self._order.counts()[: self._table.size, -1] > 0
        for fresh in self._waiting.epochs:
            live[fresh.pane.numbers] = True
        if not self._table.outgrown(int(np.count_nonzero(live))):
            return
        kept, table = np.flatnonzero(live), KeyTable(self._fields)
        numbers = np.full(self._table.size, -1, np.int64)
        numbers[kept] = table.ids_of(self._table.keys_as_of_now()(), kept)
        self._table = table
        self._order.renumber(kept)
        self._panes.renumber(numbers)
        waiting, self._waiting = self._waiting.epochs, FreshRows()
        for fresh in waiting:
            self._waiting.append(replace(fresh, pane=fresh.pane.renumbered(numbers)))
        assert self._told is not None
        self._told = self._told.reshape(-1, self._order.windows)[kept].ravel()
        self._ranks = np.empty(0, np.int64)
        # the snapshots so far know the keys by their old numbers
        self._saved_keys = None
        self._unsaved = FreshRows()


def _check_names(name: str, keys: Sequence[str], into: str) -> None:
    own = (EPOCH_COLUMN, START_COLUMN, END_COLUMN)
    for column in (*keys, into):
        check_column_name(name, column)
        if column in own:
            raise TopologyError(
                f"operator {name!r}: the output has a column {column!r} already, which tells "
                "its epoch or window; give the other one another name"
            )
    if len(set(keys)) != len(keys):
        raise TopologyError(f"operator {name!r}: key names a column twice: {', '.join(keys)}")
    if into in keys:
        raise TopologyError(
            f"operator {name!r}: {into!r} is a key; name the quantile's column with into"
        )
