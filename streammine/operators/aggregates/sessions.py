"""Sessions that are open: per key, rows whose event times lie less than a gap apart.

A row at t stands for the interval [t, t + gap); a session is what intervals of one key that overlap come
to together. So which sessions there are depends on no order: rows are sorted by key and time, cut where a
gap lies between two of them, and what comes out is joined with the open sessions that it overlaps.
(Akidau et al., 'The Dataflow Model', VLDB 2015, section 2.2.2, merges such intervals one by one.)

Each session has a *slot*, where its times stand and its parts are kept; the slot of one that has left, or
was joined with another, stays empty until many are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.aggregates.intervals import Intervals, last_begun, overlapping
from streammine.operators.aggregates.keys import KeyTable
from streammine.operators.aggregates.state import AggregateLayout, GroupState

NEVER = -(2**63)
_SLOTS_ALWAYS_KEPT = 1024

BoolArray = npt.NDArray[np.bool_]


class OverSessions(NamedTuple):
    """Sessions that have left: their parts, by number, their times (int64 microseconds) and their keys."""

    state: GroupState
    starts: IntArray
    ends: IntArray
    keys: list[pa.Array]


class SessionGroups:
    """The open sessions of one slice, and for each key until when its sessions have left.

    `changed` are the slots that are not in a snapshot yet as they are, and `gone` the sessions that are open
    no more though a snapshot may hold them: those with serial numbers below `frozen_serial`. A session that
    left by `left_needed` can't be met any more.
    """

    def __init__(self, layout: AggregateLayout, gap_microseconds: int) -> None:
        self.table = KeyTable(layout.key_fields)
        self.state = GroupState(layout, self.table)
        self.sessions = Intervals.empty()
        self.live: BoolArray = np.zeros(0, dtype=np.bool_)
        self.changed: BoolArray = np.zeros(0, dtype=np.bool_)
        self.serials: IntArray = np.zeros(0, dtype=np.int64)
        self.next_serial = 0
        self.frozen_serial = 0
        self.gone: list[IntArray] = []
        self.left_until: IntArray = np.zeros(0, dtype=np.int64)
        self.left_needed = NEVER
        self._layout = layout
        self._gap = gap_microseconds

    @property
    def nbytes(self) -> int:
        slots = self.live.nbytes + self.changed.nbytes + self.serials.nbytes
        return self.state.nbytes + self.sessions.nbytes + slots + self.left_until.nbytes

    @property
    def first_end(self) -> int | None:
        """When the first of them ends, in microseconds."""
        lasts = self.sessions.lasts[self.live]
        return int(lasts.min()) + self._gap if lasts.size else None

    def ids(self, rows: pa.RecordBatch) -> IntArray:
        """The key of each row, as an id (int64)."""
        ids = self.table.ids(rows, self._layout.key_columns)
        self._know_keys()
        return ids

    def late(self, ids: IntArray, times: IntArray, over_until: int) -> BoolArray:
        """Which rows come too late, when all sessions that end by `over_until` have left.

        Those that lie before the end of a session of their key that has left; and those that would be one
        that has left by themselves, unless an open session reaches over them.
        """
        late: BoolArray = times < self.left_until[ids]
        old = np.flatnonzero(~late & (times <= over_until - self._gap))
        if old.size:
            slots = self._slots_of(ids[old])
            known = self.sessions.taken(slots)
            before = last_begun(known, ids[old], times[old])
            inside = before >= 0
            inside[inside] = times[old][inside] < known.lasts[before[inside]] + self._gap
            late[old[~inside]] = True
        return late

    def fold(self, rows: pa.RecordBatch, ids: IntArray, times: IntArray) -> None:
        """Add rows, of which none is late, each with its key and event time."""
        order = np.lexsort((times, ids))
        runs, run_of = overlapping(Intervals(ids[order], times[order], times[order]), self._gap)
        slots = self._slots_of(runs.keys)
        joined, session_of = overlapping(self.sessions.taken(slots).with_(runs), self._gap)
        target: IntArray = np.full(joined.keys.size, -1, dtype=np.int64)
        of_slots = session_of[: slots.size]
        # of several, the lowest: of what is assigned to one place the last stays
        target[of_slots[::-1]] = slots[::-1]
        new = np.flatnonzero(target < 0)
        target[new] = self._new_slots(new.size)
        self.sessions.put(target, joined)
        self.live[target] = True
        self.changed[target] = True
        row_slots = np.empty(order.size, dtype=np.int64)
        row_slots[order] = target[session_of[slots.size :]][run_of]
        self.state.fold(rows, row_slots, self.live.size)
        self._absorb(slots, target[of_slots])

    def take_over(self, watermark: int) -> OverSessions:
        """The sessions that end by the watermark; they are open no more."""
        over = np.flatnonzero(self.live & (self.sessions.lasts + self._gap <= watermark))
        state = GroupState(self._layout, self.table)
        if over.size:
            columns = self.state.encoded(over)
            state.fold_encoded(columns, np.arange(over.size, dtype=np.int64), over.size)
        taken = self.sessions.taken(over)
        ends = taken.lasts + self._gap
        keys = self.keys_of(taken.keys)
        np.maximum.at(self.left_until, taken.keys, ends)
        self._give_up(over)
        self.left_needed = watermark - self._gap
        self._tidy()
        return OverSessions(state, taken.starts, ends, keys)

    def keys_of(self, ids: IntArray) -> list[pa.Array]:
        """The key columns of some ids."""
        places = pa.array(ids)
        return [column.take(places) for column in self.table.keys_as_of_now()()]

    def restore(
        self, serials: IntArray, starts: IntArray, lasts: IntArray, partials: Sequence[pa.Array]
    ) -> None:
        """Take in sessions out of a snapshot, in place of what was known of them."""
        self.forget(serials)
        key_count = len(self._layout.keys)
        ids = self._ids_of(partials[:key_count], serials.size)
        slots = self._new_slots(serials.size)
        self.sessions.put(slots, Intervals(ids, starts, lasts))
        self.serials[slots] = serials
        self.live[slots] = True
        self.state.fold_encoded(partials[key_count:], slots, self.live.size)

    def restore_left(self, keys: Sequence[pa.Array], ends: IntArray) -> None:
        """Take in until when sessions of some keys have left."""
        ids = self._ids_of(keys, ends.size)
        np.maximum.at(self.left_until, ids, ends)

    def forget(self, serials: IntArray) -> None:
        """These sessions are open no more."""
        self.live &= ~np.isin(self.serials, serials)

    def _ids_of(self, keys: Sequence[pa.Array], rows: int) -> IntArray:
        groups: IntArray = np.arange(rows, dtype=np.int64)
        ids = self.table.ids_of(list(keys), groups)
        self._know_keys()
        return ids

    def _know_keys(self) -> None:
        new = self.table.size - self.left_until.size
        if new > 0:
            self.left_until = np.append(self.left_until, np.full(new, NEVER, dtype=np.int64))

    def _slots_of(self, ids: IntArray) -> IntArray:
        """The slots of all open sessions of these keys, ascending."""
        asked = np.zeros(self.table.size, dtype=np.bool_)
        asked[ids] = True
        return np.flatnonzero(self.live & asked[self.sessions.keys])

    def _new_slots(self, count: int) -> IntArray:
        slots: IntArray = self.live.size + np.arange(count, dtype=np.int64)
        self.sessions = self.sessions.with_(Intervals.zeros(count))
        self.live = np.append(self.live, np.zeros(count, dtype=np.bool_))
        self.changed = np.append(self.changed, np.zeros(count, dtype=np.bool_))
        self.serials = np.append(self.serials, self.next_serial + np.arange(count, dtype=np.int64))
        self.next_serial += count
        return slots

    def _absorb(self, slots: IntArray, targets: IntArray) -> None:
        """What is kept in these slots becomes part of what is kept in the targets."""
        moved = slots != targets
        if moved.any():
            columns = self.state.encoded(slots[moved])
            self.state.fold_encoded(columns, targets[moved], self.live.size)
            self._give_up(slots[moved])

    def _give_up(self, slots: IntArray) -> None:
        self.live[slots] = False
        serials = self.serials[slots]
        if (frozen := serials < self.frozen_serial).any():
            self.gone.append(serials[frozen])

    def _tidy(self) -> None:
        """Give up empty slots, and keys without open sessions of which none has left lately, when they are
        many."""
        kept = np.flatnonzero(self.live)
        if self.live.size <= max(_SLOTS_ALWAYS_KEPT, 2 * kept.size):
            return
        used = self.left_until > self.left_needed
        used[self.sessions.keys[kept]] = True
        if self.table.outgrown(int(np.count_nonzero(used))):
            ids = np.flatnonzero(used)
            table = KeyTable(self._layout.key_fields)
            number = np.zeros(self.table.size, dtype=np.int64)
            number[ids] = table.ids_of(self.table.keys_as_of_now()(), ids)
            left_until = np.full(table.size, NEVER, dtype=np.int64)
            left_until[number[ids]] = self.left_until[ids]
            self.table, self.left_until = table, left_until
            self.sessions = self.sessions.rekeyed(number)
        state = GroupState(self._layout, self.table)
        if kept.size:
            columns = self.state.encoded(kept)
            state.fold_encoded(columns, np.arange(kept.size, dtype=np.int64), kept.size)
        self.state = state
        self.sessions = self.sessions.taken(kept)
        self.serials, self.changed = self.serials[kept], self.changed[kept]
        self.live = np.ones(kept.size, dtype=np.bool_)
