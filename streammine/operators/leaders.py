"""The foremost keys of a ranking, told whenever what they show changes, event by event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import EpochClose, IntArray, Traits
from streammine.model.errors import TopologyError
from streammine.model.topology.leading import Leading
from streammine.operators.collected_rows import in_one
from streammine.operators.event_order import checked_order, is_by_event, place_values
from streammine.operators.expressions import Expression, evaluated, unknown_column
from streammine.operators.frozen import (
    Handover,
    check_version,
    decode_piece,
    encode_piece,
    row_pieces,
)
from streammine.operators.kernels import leading
from streammine.operators.kernels.group_states import extended
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keys import check_key
from streammine.operators.map import check_column_name
from streammine.operators.measures import Known, Measure, ranks_of
from streammine.operators.ranking import Ranking, Told
from streammine.operators.rows_in_time import KeyIds

Mask = npt.NDArray[np.bool_]

_SORTED_SHARE = 16
"""Numbers that are a smaller share of those that there may be are sorted, and not marked among all."""


@dataclass(frozen=True)
class _Changes:
    """The changes of an epoch in their order. `rows`: their numbers among all rows of all ports, in turn.
    `order`: see Leaders._order_values; `known` and `before`: what is known of their keys after each, and was
    before all of them."""

    rows: IntArray
    ids: IntArray
    by_event: Mask
    tells: Mask
    order: npt.NDArray[np.int64]
    known: list[Known]
    before: list[Known]


class Leaders:
    """Ranks keys by an expression over what is known of them, and tells the foremost.

    A SequentialOperator that GoesByTime and KeepsState, and takes its ports one by one (`merges_ports`). Rows
    of all ports that stem from one event are one change: the foremost are looked at behind the last of them,
    and told if they are others, or show something else, than when they were told last. What time alone
    changes is told with the next event.

    Of equal rank, the key stands in front that an event has changed more recently; of those that one event
    has changed, the one whose row came last, where the rows of a later port come later. A key of which all
    is as if it had never been is forgotten.

    Not one event after the other, but column by column: what is known of the keys after each change, what
    they are ranked by, and, of the keys that were told, what they show. Only the ranking itself goes event by
    event, in a kernel.
    """

    traits = Traits(commutative=False, mergeable=False)
    merges_ports = True
    state_version = 1

    def __init__(
        self,
        name: str,
        inputs: Sequence[pa.Schema],
        key: Sequence[str],
        settings: Leading,
        *,
        orders: Sequence[Sequence[pa.Field]] = (),
        carries_order: bool = False,
    ) -> None:
        """`orders`: for each port, the fields that order its rows. Raises TopologyError."""
        self.name = name
        self._key = tuple(key)
        self._keep = settings.keep
        self._check_columns(inputs)
        self.keys: tuple[tuple[str, ...], ...] = ((),) * len(inputs)
        self._measures = [
            Measure(name, column, call, inputs) for column, call in settings.measures.items()
        ]
        fields = [inputs[0].field(each) for each in key]
        self._seen = pa.schema(
            [*fields, *(pa.field(each.name, each.type) for each in self._measures)]
        )
        self._by = Expression(name, settings.by, self._seen)
        if not (pa.types.is_integer(self._by.type) or pa.types.is_floating(self._by.type)):
            raise TopologyError(
                f"operator {name!r}: by: {settings.by!r} gives values of type {self._by.type}; keys are "
                "ranked by numbers"
            )
        self._show = {
            column: Expression(name, text, self._seen) for column, text in settings.show.items()
        }
        for column in settings.output_columns:
            check_column_name(name, column)
        shown = frozenset().union(*(each.needs for each in self._show.values()))
        self._shown = [place for place, each in enumerate(self._measures) if each.name in shown]
        self.needs: tuple[frozenset[str] | None, ...] = tuple(
            frozenset([*key, *self._keep, *(m.column for m in self._measures if port in m.ports)])
            for port in range(len(inputs))
        )
        self.output = pa.schema(
            [inputs[0].field(each) for each in self._keep]
            + [
                pa.field(f"{column}_{place}", expression.type)
                for place in range(1, settings.count + 1)
                for column, expression in self._show.items()
            ]
        )
        self._count = settings.count
        self._orders = [checked_order(name, order) for order in orders or [()] * len(inputs)]
        self._check_orders()
        events = _event_columns(self._orders[0])
        self.hidden = tuple(
            field
            for place, field in enumerate(self._orders[0])
            if place == 0 or field.name in events
        )
        self.output_order = tuple(field.name for field in self.hidden)
        self._hidden_types = [field.type.to_pandas_dtype() for field in self.hidden]
        self._carries_order = carries_order
        self._whole_output = self.output
        if carries_order:
            self._whole_output = pa.schema([*self.output, *self.hidden])
        self._ids = KeyIds([field.type for field in fields])
        self._ranking = Ranking(settings.count, 2 * len(self._shown))
        self._a_change: IntArray = np.empty(0, np.int64)
        """By key, one of the changes that are looked at, if one is of that key; else any number."""
        self._stale = False
        self._changed: IntArray | None = None

    def _check_columns(self, inputs: Sequence[pa.Schema]) -> None:
        for port, schema in enumerate(inputs):
            for each in self._key:
                check_key(self.name, each, schema)
            for each in self._keep:
                if each not in schema.names:
                    raise TopologyError(
                        f"operator {self.name!r}: keep: {unknown_column(each, schema)}"
                    )
            for each in (*self._key, *self._keep):
                found, wanted = schema.field(each).type, inputs[0].field(each).type
                if found != wanted:
                    raise TopologyError(
                        f"operator {self.name!r}: column {each!r} has type {wanted} in input 1 and {found} "
                        f"in input {port + 1}; make them one type with a map before"
                    )

    def _check_orders(self) -> None:
        events = [_event_columns(order) for order in self._orders]
        if any(each != events[0] for each in events):
            raise TopologyError(
                f"operator {self.name!r}: its inputs don't stem from one source by way of the same kinds of "
                "operators, so which of their rows are of one event can't be told; let each be a recent or "
                "a latest that reads from that source, also by way of map and filter"
            )

    def prepare(self) -> None:
        """Load the kernels."""
        warm_up()
        leading.load_kernels()

    def run(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        """See contracts.SequentialOperator."""
        return [batch for batch, _ in self.run_through(epoch, bag)]

    def run_through(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[tuple[pa.RecordBatch, IntArray]]:
        """See contracts.GoesByTime."""
        ports: list[list[pa.RecordBatch]] = [[] for _ in self._orders]
        for port, batch in bag:
            if batch.num_rows:
                ports[port].append(batch)
        batches = [(port, in_one(parts)) for port, parts in enumerate(ports) if parts]
        if not batches:
            return []
        if self._stale:
            self._rank_all()
        changes = self._followed(batches)
        told = self._ranked(changes)
        output = []
        if told.by.size:
            epochs = epoch.definition.of_time(changes.order[0, told.by])
            output.append((self._told(batches, changes, told), epochs))
        self._tidy()
        return output

    # --- what changes ---------------------------------------------------------------------------

    def _followed(self, batches: Sequence[tuple[int, pa.RecordBatch]]) -> _Changes:
        """The rows of all ports as changes in one order, and what is known of their keys after each."""
        orders = [self._order_values(port, batch) for port, batch in batches]
        rows = np.arange(batches[0][1].num_rows)
        order = orders[0]
        for other in orders[1:]:
            merged = np.empty(order.shape[1] + other.shape[1], np.int64)
            leading.merge_in_order(order, other, merged)
            order = np.ascontiguousarray(np.concatenate([order, other], axis=1)[:, merged])
            rows = np.concatenate([rows, np.arange(rows.size, merged.size)])[merged]
        columns = [self._ids.ids([b.column(k) for k in self._key], b.num_rows) for _, b in batches]
        ids = _in_turn(columns, rows)
        self._note_changed(ids)
        self._ranking.grow(self._ids.size)
        before, known = [], []
        for measure in self._measures:
            values = [measure.values(batch, port) for port, batch in batches]
            carries = _in_turn([np.full(v[0].size, has) for v, has in values], rows)
            bits = _in_turn([v[0] for v, _ in values], rows)
            valid = _in_turn([v[1] for v, _ in values], rows)
            measure.grow(self._ids.size)
            before.append(measure.of(ids))
            known.append(measure.follow(ids, carries, (bits, valid)))
        by_event = order[1] != 0
        # the columns before the last are those that say which event it is
        last = np.ones(ids.size, np.bool_)
        last[:-1] = (order[:-1, 1:] != order[:-1, :-1]).any(axis=0)
        return _Changes(rows, ids, by_event, by_event & last, order, known, before)

    def _order_values(self, port: int, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """By which rows of all ports are put in one order (int64[columns, rows]): event time, whether it is
        an event, its place; and last what tells the rows of one event from each other."""
        events = _event_columns(self._orders[port])
        names = [field.name for field in self._orders[port]]
        values = place_values(batch, names)
        found = dict(zip(names, values, strict=True))
        by_event = np.ones(batch.num_rows, np.int64)
        for name in filter(is_by_event, names):
            # where several operators follow each other, time alone may have moved the first of them
            by_event &= found[name]
        places = [found[name] for name in events]
        return np.stack([values[0], by_event, *places, np.full(batch.num_rows, port)])

    def _ranked(self, changes: _Changes) -> Told:
        ranks, listed = self._ranks(changes.ids, changes.known)
        first = np.ones(changes.ids.size, np.bool_)
        for measure, known in zip(self._measures, changes.known, strict=True):
            first &= measure.as_first(known)
        shown = [part for place in self._shown for part in changes.known[place]]
        return self._ranking.advance(
            changes.ids, ranks, listed, first & ~listed, changes.by_event, changes.tells, shown
        )

    # --- what is told ---------------------------------------------------------------------------

    def _told(
        self, batches: Sequence[tuple[int, pa.RecordBatch]], changes: _Changes, told: Told
    ) -> pa.RecordBatch:
        triggers = pa.array(changes.rows[told.by])
        output: list[pa.Array] = []
        for name in self._keep:
            parts = [batch.column(name) for _, batch in batches]
            whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
            output.append(whole.take(triggers))
        # what is shown is computed once for each key and change that is told, however often
        of_change, of_key, numbers = _numbered(told.places, changes.ids.size, self._ids.size)
        ids = np.concatenate([changes.ids[of_change], of_key])
        known: list[Known] = []
        for (values, there), (old, was_there) in zip(
            changes.known, self._before(changes, of_key), strict=True
        ):
            known.append(
                (
                    np.concatenate([values[of_change], old]),
                    np.concatenate([there[of_change], was_there]),
                )
            )
        seen = self._batch(self._ids.keys(ids), known)
        # all that stand first, then all that stand second, and so on: one column each
        found = numbers.T.ravel()
        takes = pa.array(found, mask=found < 0)
        shown = [values.take(takes) for values in evaluated(list(self._show.values()), seen)]
        rows = told.by.size
        for place in range(self._count):
            output += [values.slice(place * rows, rows) for values in shown]
        if self._carries_order:
            times, _, *places, _ = changes.order[:, told.by]
            for values, kind in zip((times, *places), self._hidden_types, strict=True):
                output.append(pa.array(values.astype(kind)))
        return pa.RecordBatch.from_arrays(output, schema=self._whole_output)

    def _before(self, changes: _Changes, keys: IntArray) -> list[Known]:
        """What was known of some keys before all changes."""
        ids = changes.ids
        self._a_change = extended(self._a_change, self._ids.size, 0)
        self._a_change[ids] = np.arange(ids.size)
        place = np.minimum(self._a_change[keys], ids.size - 1)
        changed = ids[place] == keys
        place = place[changed]
        found = []
        for measure, before in zip(self._measures, changes.before, strict=True):
            held, known = measure.of(keys)
            held[changed], known[changed] = before[0][place], before[1][place]
            found.append((held, known))
        return found

    def _ranks(self, ids: IntArray, known: Sequence[Known]) -> tuple[IntArray, Mask]:
        """What keys are ranked by when that is known of them, and which are listed."""
        for measure, values in zip(self._measures, known, strict=True):
            if measure.name == self._by.column:
                return measure.ranks(values)
        return ranks_of(self._by.evaluate(self._for_ranking(ids, known)))

    def _for_ranking(self, ids: IntArray, known: Sequence[Known]) -> pa.RecordBatch:
        """What the keys are ranked by; key columns, which cost most, only where they are needed."""
        if self._by.needs.isdisjoint(self._key):
            return self._batch(
                [pa.nulls(ids.size, self._seen.field(k).type) for k in self._key], known
            )
        return self._batch(self._ids.keys(ids), known)

    def _batch(self, keys: list[pa.Array], known: Sequence[Known]) -> pa.RecordBatch:
        arrays = [
            measure.array(values) for measure, values in zip(self._measures, known, strict=True)
        ]
        return pa.RecordBatch.from_arrays([*keys, *arrays], schema=self._seen)

    # --- state ----------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Forget keys of which nothing is known, where there are many."""
        keys = self._ids.size
        if not self._ids.outgrown(0):
            return
        used = self._ranking.used(keys)
        for measure in self._measures:
            used |= ~measure.as_first(measure.of(np.arange(keys)))
        kept = np.flatnonzero(used).astype(np.int64)
        if not self._ids.outgrown(kept.size):
            return
        self._ids.keep(kept)
        self._ranking.keep(kept)
        for measure in self._measures:
            measure.select(kept)
        self._rank_all()
        # what is forgotten now would stay in what was frozen before
        self._changed = None

    def _rank_all(self) -> None:
        """Rank the keys by what is known of them."""
        ids = np.arange(self._ids.size)
        for measure in self._measures:
            measure.grow(ids.size)
        known = [measure.of(ids) for measure in self._measures]
        ranks, listed = self._ranks(ids, known)
        self._ranking.rebuild(
            ranks, listed, [part for place in self._shown for part in known[place]]
        )
        self._stale = False

    def _note_changed(self, ids: IntArray) -> None:
        if self._changed is not None:
            self._changed = extended(self._changed, self._ids.size, 0)
            self._changed[ids] = 1

    @property
    def state_nbytes(self) -> int:
        held = sum(measure.nbytes for measure in self._measures)
        return held + self._ids.nbytes + self._ranking.nbytes

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: what is known of the keys that changed, and what was told last."""
        full = full or self._changed is None
        if full or self._changed is None:
            ids: IntArray = np.arange(self._ids.size)
        else:
            ids = np.flatnonzero(self._changed).astype(np.int64)
        ranking = self._ranking
        ranking.grow(self._ids.size)
        for measure in self._measures:
            measure.grow(self._ids.size)
        columns = [part for measure in self._measures for part in measure.of(ids)]
        rows = [ranking.stamps[ids], *columns]
        places = np.flatnonzero(ranking.last_ids >= 0)
        last = [places, *ranking.last_shown[:, places]]
        self._changed = np.zeros(self._ids.size, np.int64)
        header = {"next_stamp": ranking.next_stamp}
        return Handover(
            full,
            _pieces(header, self._ids.keys_as_of_now(), ranking.last_ids[places], last, ids, rows),
        )

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        if full:
            self._ids = KeyIds(self._ids.types)
            self._ranking = Ranking(self._count, 2 * len(self._shown))
            for measure in self._measures:
                measure.select(np.empty(0, np.int64))
        ranking = self._ranking
        for piece in pieces:
            header, batches = decode_piece(piece)
            for batch in batches:
                width = len(self._key)
                ids = self._ids.ids(batch.columns[:width], batch.num_rows)
                ranking.grow(self._ids.size)
                first, *values = (
                    column.to_numpy(zero_copy_only=False) for column in batch.columns[width:]
                )
                if "next_stamp" in header:
                    ranking.tell(first, ids, values)
                    continue
                ranking.stamps[ids] = first
                pairs = zip(values[::2], values[1::2], strict=True)
                for measure, known in zip(self._measures, pairs, strict=True):
                    measure.grow(self._ids.size)
                    measure.put(ids, known)
            ranking.next_stamp = header.get("next_stamp", ranking.next_stamp)
        self._stale = True
        self._changed = None


def _pieces(
    header: dict[str, int],
    keys: Callable[[], list[pa.Array]],
    last_ids: IntArray,
    last: Sequence[npt.NDArray[Any]],
    ids: IntArray,
    rows: Sequence[npt.NDArray[Any]],
) -> Iterator[pa.Buffer]:
    known = keys()
    yield encode_piece(header, _rows_of(known, last_ids, last))
    if ids.size:
        yield from row_pieces({}, [_rows_of(known, ids, rows)])


def _rows_of(
    keys: Sequence[pa.Array], ids: IntArray, columns: Sequence[npt.NDArray[Any]]
) -> pa.RecordBatch:
    arrays = [each.take(pa.array(ids)) for each in keys] + [pa.array(each) for each in columns]
    return pa.record_batch(arrays, names=[str(place) for place in range(len(arrays))])


def _event_columns(order: Sequence[pa.Field]) -> list[str]:
    """The columns that say of which event a row is, besides event time and whether it is an event."""
    names = [field.name for field in order[1:]]
    return [name for name in names if not is_by_event(name) and not name.startswith("__index")]


def _in_turn(parts: Sequence[npt.NDArray[Any]], rows: IntArray) -> npt.NDArray[Any]:
    """What the rows of all ports have, in the order of changes."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)[rows]


def _numbered(
    places: npt.NDArray[np.int64], changes: int, keys: int
) -> tuple[IntArray, IntArray, npt.NDArray[np.int64]]:
    """What `places` tell of (see Told) as numbers from 0 on: the changes among them, the keys, which come
    after these, and the number at each place, -1 for nobody."""
    flat = np.where(places <= -2, changes - 2 - places, places)
    if _SORTED_SHARE * flat.size < changes + keys:
        found = np.unique(flat[flat >= 0])
        split = int(np.searchsorted(found, changes))
        return (
            found[:split],
            found[split:] - changes,
            np.where(flat >= 0, found.searchsorted(flat), -1),
        )
    used = np.zeros(changes + keys, np.bool_)
    used[flat[flat >= 0]] = True
    number = np.cumsum(used) - 1
    found = np.flatnonzero(used)
    split = int(np.searchsorted(found, changes))
    return found[:split], found[split:] - changes, np.where(flat >= 0, number[flat], -1)
