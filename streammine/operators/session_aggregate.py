"""The keyed aggregate over sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Unpack

import numpy as np
import pyarrow as pa

from streammine.model.canonical import canonical_order
from streammine.model.contracts import Accumulator, Combiner, DeadRows, EpochClose, IntArray, Traits
from streammine.model.durations import Duration
from streammine.model.topology.aggregates import AggregateCall
from streammine.model.topology.keyed import EPOCH_COLUMN, SPAN_COLUMNS
from streammine.operators.aggregate import AggregateBase, AggregateSettings
from streammine.operators.aggregates.definitions import BeyondRangeError
from streammine.operators.aggregates.sessions import OverSessions, SessionGroups
from streammine.operators.collected_rows import CollectedRows
from streammine.operators.event_time import EventTime
from streammine.operators.frozen import (
    Handover,
    Header,
    check_version,
    decode_piece,
    encode_piece,
    row_pieces,
)
from streammine.operators.set_aside import SetAside
from streammine.operators.windows import SPAN_TYPE


class SessionAggregate(AggregateBase):
    """Aggregates per key and session (a StatefulOperator that HoldsWindows, KeepsState and SetsAside).

    A session leaves with the first epoch that ends at or after the session's last row plus the gap.
    Rows are looked at one by one, so nothing is combined before the shuffle.
    """

    traits = Traits(commutative=True, mergeable=True, combinable=False, deterministic=True)

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        aggregates: Mapping[str, AggregateCall],
        *,
        event_time: EventTime,
        gap: Duration,
        **settings: Unpack[AggregateSettings],
    ) -> None:
        """As `AggregateBase`; `event_time`: that of the rows, `gap`: how long a key is silent between two
        sessions. Raises TopologyError."""
        super().__init__(name, schema, keys, aggregates, **settings)
        assert not self._combined, "sessions know no partials"
        self.output_order = (EPOCH_COLUMN, *keys, SPAN_COLUMNS[0])
        needs = self.needs[0]
        assert needs is not None, "an aggregate reads some columns"
        self.needs = (needs | {event_time.column},)
        self.partial_schema = None
        self.partial_keys = ()
        self._time = event_time
        self._gap = gap
        self._epoch_microseconds = event_time.epoch.length
        self._groups = SessionGroups(self._layout, gap.microseconds)
        self._dead = SetAside()
        self._handover: Handover | None = None

    def combiner(self) -> Combiner:
        raise AssertionError("sessions have no combiner: their traits say so")

    def accumulator(self, port: int) -> CollectedRows:
        assert port == 0, f"an aggregate has one port, not port {port}"
        return CollectedRows()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Add the epoch's rows to their sessions; what leaves are those that are over."""
        (collected,) = accumulators
        assert isinstance(collected, CollectedRows), collected
        if self._handover is not None:
            self._handover.finish()
        if collected.batches:
            rows = pa.concat_batches(collected.batches)
            self._fold(rows, epoch.definition.watermark(epoch.epoch - 1))
        return self._left(epoch.epoch, self._groups.take_over(epoch.watermark))

    @property
    def due_epoch(self) -> int | None:
        """The epoch with which the first session is over."""
        end = self._groups.first_end
        return None if end is None else (end - 1) // self._epoch_microseconds

    @property
    def state_nbytes(self) -> int:
        return self._groups.nbytes

    def take_dead(self) -> DeadRows | None:
        """See contracts.SetsAside: rows without event time, and late ones."""
        return self._dead.take()

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the sessions that have changed, and which are open no more."""
        if self._handover is None:
            full = True
        else:
            self._handover.give_up()
        groups = self._groups
        slots = np.flatnonzero(groups.live if full else groups.live & groups.changed)
        gone = [] if full else groups.gone
        groups.gone = []
        groups.changed[:] = False
        groups.frozen_serial = groups.next_serial
        pieces = chain(
            [encode_piece({"next_serial": groups.next_serial})],
            _gone_pieces(gone),
            _session_pieces(groups, slots),
            _left_pieces(groups),
        )
        self._handover = Handover(full, pieces)
        return self._handover

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        if full:
            self._groups = SessionGroups(self._layout, self._gap.microseconds)
        first, _ = decode_piece(next(pieces))
        for piece in pieces:
            header, batches = decode_piece(piece)
            for batch in batches:
                self._restore(header, batch)
        self._groups.next_serial = first["next_serial"]

    def _restore(self, header: Header, batch: pa.RecordBatch) -> None:
        numbers = batch.column(0).to_numpy()
        if header["of"] == "gone":
            self._groups.forget(numbers)
        elif header["of"] == "left":
            self._groups.restore_left(batch.columns[1:], numbers)
        else:
            starts, lasts = (batch.column(place).to_numpy() for place in (1, 2))
            self._groups.restore(numbers, starts, lasts, batch.columns[3:])

    def _fold(self, rows: pa.RecordBatch, over_until: int) -> None:
        """Add rows, when the sessions that end by `over_until` have left."""
        times, timed = self._time.of(rows)
        if timed.size < rows.num_rows:
            untimed = np.setdiff1d(np.arange(rows.num_rows), timed)
            self._set_aside(
                rows, untimed, f"no event time in column {self._time.column!r}, which sessions need"
            )
            rows = rows.take(pa.array(timed))
        ids = self._groups.ids(rows)
        late = self._groups.late(ids, times, over_until)
        if late.any():
            self._set_aside(
                rows, np.flatnonzero(late), f"late: its session, with a gap of {self._gap}, is over"
            )
            used = np.flatnonzero(~late)
            rows, ids, times = rows.take(pa.array(used)), ids[used], times[used]
        if rows.num_rows:
            self._groups.fold(rows, ids, times)

    def _set_aside(self, rows: pa.RecordBatch, places: IntArray, reason: str) -> None:
        dead = rows.take(pa.array(places))
        self._dead.add(reason, dead.take(pa.array(canonical_order(dead))))

    def _left(self, epoch: int, over: OverSessions) -> list[pa.RecordBatch]:
        count = over.starts.size
        if not count:
            return []
        try:
            results = over.state.finished()
        except BeyondRangeError as error:
            values = [column[error.group].as_py() for column in over.keys]
            pairs = zip(self._layout.keys, values, strict=True)
            key = ", ".join(f"{name} = {value!r}" for name, value in pairs) or "all rows"
            raise self._failure(epoch, key, error) from error
        epochs = pa.repeat(pa.scalar(epoch, pa.int64()), count)
        span = [pa.array(over.starts, SPAN_TYPE), pa.array(over.ends, SPAN_TYPE)]
        batch = pa.record_batch([epochs, *span, *over.keys, *results], schema=self.output)
        return self._chosen(batch.take(pa.array(canonical_order(batch, self.output_order))))


def _gone_pieces(gone: Sequence[IntArray]) -> Iterator[pa.Buffer]:
    yield from row_pieces({"of": "gone"}, (_numbered([pa.array(serials)]) for serials in gone))


def _session_pieces(groups: SessionGroups, slots: IntArray) -> Iterator[pa.Buffer]:
    if not slots.size:
        return
    sessions = groups.sessions.taken(slots)
    columns = [pa.array(groups.serials[slots]), pa.array(sessions.starts), pa.array(sessions.lasts)]
    columns += groups.keys_of(sessions.keys)
    columns += groups.state.encoded(slots)
    yield from row_pieces({"of": "sessions"}, [_numbered(columns)])


def _left_pieces(groups: SessionGroups) -> Iterator[pa.Buffer]:
    """Until when sessions have left, of the keys of which one has that can still be met."""
    ids = np.flatnonzero(groups.left_until > groups.left_needed)
    if ids.size:
        columns = [pa.array(groups.left_until[ids]), *groups.keys_of(ids)]
        yield from row_pieces({"of": "left"}, [_numbered(columns)])


def _numbered(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.record_batch(list(columns), [str(number) for number in range(len(columns))])
