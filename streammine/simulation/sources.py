"""Sources out of tables in memory, with positions, epochs and lateness as the real readers have them.

Which slice reads which stretch of rows, and how many rows come at once, is chance: neither may change
the output. But where bags are merged by channel, all seeds share the rows out alike.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray, Position
from streammine.model.epochs import BEGINNING, FIRST_TIME, INFINITY, EpochDefinition
from streammine.model.errors import InputError
from streammine.model.modules import load_object
from streammine.model.readable_rows import readable_rows
from streammine.model.source_contracts import Delivery, Piece
from streammine.model.source_order import (
    NO_TIME,
    merge_keys,
    running_maximum,
    usable_event_times,
)
from streammine.model.topology import FilesSource, GeneratorSource, LogSource
from streammine.operators.generators import BUILT_IN
from streammine.simulation.paces import Pace

AnySource = FilesSource | GeneratorSource | LogSource
_MOST_STRETCHES = 12
_IDLE_READS = 0.05


@dataclass(frozen=True)
class OrderedRows:
    """A whole source: its rows in the order in which they are numbered.

    `epochs`, `files` and `rows` (int64, int32, int64) and `reasons` (None: the row can be used) are by
    place in that order; `times` and `reached` (int64 microseconds), the highest usable time up to each place,
    only for time epochs. `merged`: a row's place is its position.
    """

    batch: pa.RecordBatch
    epochs: IntArray
    files: npt.NDArray[np.int32]
    rows: IntArray
    times: IntArray | None
    reasons: dict[int, str]
    merged: bool = False
    reached: IntArray | None = None

    @cached_property
    def lowest_from(self) -> IntArray:
        """For each place, and the one behind the last, the lowest epoch there or behind it."""
        return np.minimum.accumulate(np.append(self.epochs, INFINITY)[::-1])[::-1]


def source_tables(
    name: str, settings: AnySource, given: pa.Table | Sequence[pa.Table] | None
) -> list[pa.Table]:
    """One table per file. Raises InputError where nothing fits the source's declaration."""
    if given is not None:
        tables = [given] if isinstance(given, pa.Table) else list(given)
        if not tables:
            raise InputError(f"source {name!r}: give at least one table, an empty one if need be")
        declared = settings.arrow_schema if isinstance(settings, FilesSource) else None
        try:
            return [_as_declared(table, declared or tables[0].schema) for table in tables]
        except (KeyError, pa.ArrowInvalid) as error:
            raise InputError(
                f"source {name!r}: its tables don't fit its schema: {error}"
            ) from error
    if isinstance(settings, GeneratorSource):
        kind = BUILT_IN.get(settings.generator) or load_object(settings.generator, ".")
        generator = kind(**settings.with_)
        batch = generator.rows(0, settings.rows, settings.seed)
        return [pa.Table.from_batches([batch], generator.schema)]
    raise InputError(f"source {name!r} is not a generator; give its rows in `inputs`")


def _as_declared(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema)


def ordered_rows(
    tables: Sequence[pa.Table], settings: AnySource, epoch: EpochDefinition
) -> OrderedRows:
    """Number the rows of all files and find their epochs, or why they can't be used."""
    counts = [table.num_rows for table in tables]
    files = np.repeat(np.arange(len(tables), dtype=np.int32), counts)
    rows = np.concatenate([np.arange(count, dtype=np.int64) for count in counts])
    whole = pa.concat_tables(tables).combine_chunks()
    batch = whole.to_batches()[0] if whole.num_rows else _empty_batch(whole.schema)
    merge_by = settings.merge_by if isinstance(settings, FilesSource) else None
    static = isinstance(settings, FilesSource) and settings.static
    if epoch.kind == "time" and not static:
        lateness = settings.lateness.microseconds if isinstance(settings, FilesSource) else 0
        return _by_time(batch, counts, files, rows, epoch, lateness)
    reasons: dict[int, str] = {}
    if merge_by is not None:
        keys, usable = merge_keys(batch.column(merge_by))
        reached = _per_file(keys, usable, counts)
        order = np.lexsort((rows, files, reached))
        batch, files, rows = batch.take(pa.array(order)), files[order], rows[order]
        if usable is not None:
            bad = np.flatnonzero(~usable[order]).tolist()
            reasons = dict.fromkeys(bad, f"merge_by column '{merge_by}' is missing")
    numbers = np.arange(len(rows), dtype=np.int64)
    merged = merge_by is not None
    if static:
        epochs = np.full(len(rows), epoch.before_all)
        times = np.full(len(rows), FIRST_TIME) if epoch.kind == "time" else None
        return OrderedRows(batch, epochs, files, rows, times, reasons, merged)
    return OrderedRows(batch, epoch.of_rows(numbers), files, rows, None, reasons, merged)


def _by_time(
    batch: pa.RecordBatch,
    counts: list[int],
    files: npt.NDArray[np.int32],
    rows: IntArray,
    epoch: EpochDefinition,
    lateness_microseconds: int,
) -> OrderedRows:
    """Files side by side, in the order of the epochs that they have reached."""
    times, usable = usable_event_times(batch.column(epoch.column), epoch.unit)
    reached = _per_file(times, usable, counts)
    firsts = np.cumsum([0, *counts])[:-1]
    before = np.concatenate([np.array([BEGINNING], np.int64), reached[:-1]])[: len(reached)]
    before[firsts[firsts < len(before)]] = BEGINNING
    started = before != BEGINNING
    # times reach nowhere near the beginning, but the difference must not wrap round
    bound = np.maximum(before, BEGINNING + 1 + lateness_microseconds) - lateness_microseconds
    closed_below = epoch.of_time(bound)
    late = started & (epoch.of_time(times) < closed_below)
    reasons = dict.fromkeys(np.flatnonzero(late).tolist(), "late: its epoch is closed")
    if usable is not None:
        missing = f"event time column '{epoch.column}' is missing"
        reasons |= dict.fromkeys(np.flatnonzero(~usable).tolist(), missing)
    reached = _started(reached, counts)
    order = np.lexsort((rows, files, epoch.of_time(reached)))
    dead = late if usable is None else late | ~usable
    epochs = np.where(dead, epoch.of_time(reached), epoch.of_time(times))
    place_of = np.empty(len(order), np.int64)
    place_of[order] = np.arange(len(order))
    return OrderedRows(
        batch.take(pa.array(order)),
        epochs[order],
        files[order],
        rows[order],
        times[order],
        {int(place_of[index]): reason for index, reason in sorted(reasons.items())},
        reached=np.maximum.accumulate(reached[order]),
    )


def _per_file(
    values: IntArray, usable: npt.NDArray[np.bool_] | None, counts: list[int]
) -> IntArray:
    """The running maximum of each file's usable values."""
    parts = [np.empty(0, np.int64)]
    start = 0
    for count in counts:
        mine = None if usable is None else usable[start : start + count]
        parts.append(running_maximum(values[start : start + count], mine, BEGINNING))
        start += count
    return np.concatenate(parts)


def _started(reached: IntArray, counts: list[int]) -> IntArray:
    """The same with each file's first time before that, or NO_TIME in a file without any."""
    reached = reached.copy()
    start = 0
    for count in counts:
        mine = reached[start : start + count]
        known = mine[mine != BEGINNING]
        mine[mine == BEGINNING] = known[0] if len(known) else NO_TIME
        start += count
    return reached


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)


def shared_out(count: int, slices: int, random: Random) -> list[IntArray]:
    """Places [0, count) shared out: stretches between random cuts, each to a random slice."""
    cuts = sorted(random.randrange(count + 1) for _ in range(random.randint(0, _MOST_STRETCHES)))
    shares: list[list[IntArray]] = [[] for _ in range(slices)]
    for first, last in zip([0, *cuts], [*cuts, count], strict=True):
        shares[random.randrange(slices)].append(np.arange(first, last, dtype=np.int64))
    empty = np.empty(0, np.int64)
    return [np.concatenate([empty, *share]) for share in shares]


class TableReader:
    """One slice's share (`places`) of a source: a SourceReader that reads in portions by chance.

    Where there is a pace, no epoch is over before all rows of the source up to its end are due.
    """

    def __init__(
        self,
        name: str,
        source: OrderedRows,
        places: IntArray,
        columns: tuple[str, ...] | None,
        pace: Pace | None,
        random: Random | None,
        position: Position | None = None,
    ) -> None:
        self._name = name
        self._source = source
        self._places = places
        names = source.batch.schema.names if columns is None else list(columns)
        # a batch needs a column to have rows
        self._batch = source.batch.select(names or source.batch.schema.names[:1])
        self._pace = pace
        self._random = random
        self._at = 0 if position is None else position["place"]
        good = np.array([place not in source.reasons for place in places.tolist()], np.bool_)
        self._good = good
        self._lowest_from = np.minimum.accumulate(np.append(source.epochs[places], INFINITY)[::-1])[
            ::-1
        ]
        self._told_epoch = BEGINNING

    @property
    def total_rows(self) -> int | None:
        return int(self._source.batch.num_rows)

    def close(self) -> None:
        """Nothing was opened."""

    def position(self) -> Position:
        """See SourceReader."""
        return {"place": self._at}

    def read(self, rows: int, elapsed_seconds: float, given_below: int = BEGINNING) -> Delivery:
        """See SourceReader."""
        start = self._at
        wanted = min(len(self._places), start + self._portion(rows))
        count = len(self._source.epochs)
        bound = count if self._pace is None else min(count, self._pace.due_bound(elapsed_seconds))
        due = start + int(self._places[start:wanted].searchsorted(bound))
        stop = min(wanted, max(due, int(self._lowest_from.searchsorted(given_below))))
        self._at = stop
        exhausted = stop == len(self._places)
        waits_for = None if stop == wanted else int(self._places[stop])
        open_epoch = int(self._lowest_from[stop])
        if not exhausted:
            whole = self._source.lowest_from
            over = max(int(whole[bound]), given_below)
            if waits_for is not None and over < open_epoch:
                waits_for = min(waits_for, int(whole.searchsorted(whole[bound], "right")) - 1)
            open_epoch = min(open_epoch, over)
        self._told_epoch = max(self._told_epoch, open_epoch)
        wake_after_seconds = None
        if waits_for is not None:
            assert self._pace is not None
            due_seconds = self._pace.due_seconds(waits_for)
            wake_after_seconds = max(0.001, due_seconds - elapsed_seconds)
        return Delivery(
            tuple(self._pieces(start, stop)),
            self._told_epoch,
            stop - start,
            self._dead(start, stop),
            exhausted,
            wake_after_seconds,
        )

    def _portion(self, rows: int) -> int:
        if self._random is None:
            return rows
        if self._random.random() < _IDLE_READS:
            return 0
        return self._random.randint(1, rows)

    def _pieces(self, start: int, stop: int) -> list[Piece]:
        source = self._source
        places = self._places[start:stop][self._good[start:stop]]
        places = places[np.argsort(source.epochs[places], kind="stable")]
        pieces = []
        for part in np.split(places, np.flatnonzero(np.diff(source.epochs[places])) + 1):
            if not len(part):
                continue
            files, rows = source.files[part], source.rows[part]
            if source.merged:
                files, rows = np.zeros(len(part), np.int32), part
            contiguous = files[0] == files[-1] and bool((np.diff(rows) == 1).all())
            pieces.append(
                Piece(
                    int(source.epochs[part[0]]),
                    self._batch.take(pa.array(part)),
                    file=int(files[0]),
                    row=int(rows[0]),
                    files=None if contiguous else files,
                    rows=None if contiguous else rows,
                    times=None if source.times is None else source.times[part],
                )
            )
        return pieces

    def _dead(self, start: int, stop: int) -> tuple[tuple[int, DeadRows], ...]:
        places = self._places[start:stop][~self._good[start:stop]]
        epochs = self._source.epochs[places]
        return tuple(
            (epoch, self._dead_at(places[epochs == epoch].tolist()))
            for epoch in np.unique(epochs).tolist()
        )

    def _dead_at(self, places: list[int]) -> DeadRows:
        source = self._source
        rows = readable_rows(source.batch.take(pa.array(places, pa.int64())))
        return DeadRows(
            tuple(source.reasons[place] for place in places),
            tuple(json.dumps(row, default=str, ensure_ascii=False) for row in rows),
            tuple(f"{self._name}/{source.files[place]}" for place in places),
            tuple(int(source.rows[place]) for place in places),
        )
