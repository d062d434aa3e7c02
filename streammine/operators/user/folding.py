"""A Reducer's accumulators by key: events and partials folded in, partials handed out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import length_hint
from typing import Any

import numpy as np
import pyarrow as pa

from streammine.operators.api import Reducer
from streammine.operators.plain_data import (
    NotPlainError,
    decode,
    encode_all_canonical,
    encode_canonical,
)
from streammine.operators.python_columns import column_of, encoded_column, values_of
from streammine.operators.rows import EventReader, IntArray
from streammine.operators.state import Key
from streammine.operators.user.errors import DeadLetters, Failures
from streammine.operators.user.groups import KeyGroups, python_keys, shown_keys

_BYTES_PER_GROUP = 64
_SCALARS = (type(None), bool, int, float)


@dataclass(frozen=True)
class FoldPlan:
    """What all accumulators of one Reducer share."""

    code: Reducer
    reader: EventReader
    failures: Failures
    keys: tuple[pa.Field, ...]
    partial_schema: pa.Schema
    by_batch: bool
    serializes: bool

    @property
    def partial_column(self) -> str:
        name: str = self.partial_schema.names[-1]
        return name

    @property
    def events_are_keys(self) -> bool:
        """Whether all events of a key are equal, so that one object can stand for them."""
        by_name = {field.name: field.type for field in self.keys}
        return all(
            name in by_name and not pa.types.is_floating(by_name[name])
            for name in self.reader.names
        )


class Folding:
    """Accumulators of one open epoch, port and channel; also a Combiner."""

    def __init__(self, plan: FoldPlan) -> None:
        self._plan = plan
        self.dead = DeadLetters()
        self.watch: Callable[[IntArray], None] | None = None
        """Called with the groups that are about to change."""
        self._clear()

    def _clear(self) -> None:
        plan = self._plan
        self._groups = KeyGroups(plan.keys)
        self._accumulators: list[Any] = []
        self._events: list[Any] = []
        self._shares_events = plan.events_are_keys and not plan.by_batch
        self._unused: set[int] = set()
        self._bytes_in = 0

    @property
    def nbytes(self) -> int:
        """An estimate: an accumulator that can grow is taken to hold what came in, and no more."""
        grows = bool(self._accumulators) and not isinstance(self._accumulators[0], _SCALARS)
        fixed = self._groups.nbytes + _BYTES_PER_GROUP * len(self._accumulators)
        return fixed + (self._bytes_in if grows else 0)

    @property
    def partial_schema(self) -> pa.Schema:
        """Keys, and the encoded accumulator."""
        return self._plan.partial_schema

    @property
    def is_empty(self) -> bool:
        """Whether nothing came in."""
        return self._groups.size == 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Fold in events, or partials where the batch holds these. Raises UserCodeError."""
        self._bytes_in += batch.nbytes
        columns = [batch.column(field.name) for field in self._plan.keys]
        if self._plan.partial_column in batch.schema.names:
            self._shares_events = False
            ids, _ = self._groups.ids(columns, batch.num_rows)
            self._merge(ids, self._decoded(batch))
            return
        ids, first_rows = self._groups.ids(columns, batch.num_rows)
        if self.watch is not None:
            self.watch(ids)
        opened: set[int] = set()
        if self._plan.failures.dead_letter:
            opened.update(range(len(self._accumulators), self._groups.size))
        self._accumulators += [self._created() for _ in range(len(first_rows))]
        if self._unused:
            opened |= self._revive(ids)
        if self._plan.by_batch:
            self._add_batches(batch, ids)
            return
        events = self._plan.reader.events(batch)
        if self._shares_events:
            self._events += self._plan.reader.events(batch.take(pa.array(first_rows)))
            events = map(self._events.__getitem__, ids.tolist())
        self._add_events(batch, ids, events, opened)

    def merge(self, other: Folding) -> None:
        """Fold another one's accumulators in. Raises UserCodeError."""
        self.dead.absorb(other.dead)
        self._bytes_in += other._bytes_in
        self._shares_events = False
        ids, columns, accumulators = other.ordered()
        mine, _ = self._groups.ids(columns, len(ids))
        if self.watch is not None:
            self.watch(mine)
        self._merge(mine, iter(accumulators))

    def ordered(self) -> tuple[IntArray, list[pa.Array], list[Any]]:
        """Ids, key columns and accumulators in canonical order of the keys."""
        used = None
        if self._unused:
            every = np.arange(self._groups.size)
            used = every[~np.isin(every, list(self._unused))]
        ids, columns = self._groups.ordered(used)
        return ids, columns, list(map(self._accumulators.__getitem__, ids.tolist()))

    def used_groups(self) -> list[int]:
        """Ids of the groups that would leave."""
        return [group for group in range(self._groups.size) if group not in self._unused]

    def keys_as_of_now(self) -> Callable[[], list[pa.Array]]:
        """Makes the key columns of the groups known now, by id; may run on another thread."""
        return self._groups.keys_as_of_now()

    def captured(self, groups: Iterable[int]) -> pa.Array:
        """The accumulators of groups for a snapshot. Raises UserCodeError."""
        accumulators = list(map(self._accumulators.__getitem__, groups))
        if self._plan.serializes:
            contents = (partial(_accumulator_text, each) for each in accumulators)
            return encoded_column(list(map(self._serialized, accumulators, contents)))
        try:
            # dicts keep their order here, as what the user's code makes of it must not change
            return column_of(accumulators)
        except NotPlainError as error:
            message = f"is missing: an accumulator holds what can't be saved by itself: {error}"
            content = next(_accumulator_text(each) for each in accumulators if not _is_plain(each))
            raise self._plan.failures.wrong("serialize", message, content) from error

    def restore(self, rows: pa.RecordBatch, migrate: Callable[[Any], Any] | None) -> None:
        """Take in saved accumulators with their keys in place of older ones.

        `migrate` gets the accumulator, or its bytes where the Reducer serializes, and returns such.
        Raises UserCodeError.
        """
        self._shares_events = False
        self._bytes_in += int(rows.nbytes)
        columns = rows.columns[:-1]
        ids, _ = self._groups.ids(columns, rows.num_rows)
        serializes = self._plan.serializes
        saved = rows.column(len(columns))
        contents = saved.to_pylist() if serializes else values_of(saved)
        for group, content in zip(ids.tolist(), contents, strict=True):
            if migrate is not None:
                content = migrate(content)
            accumulator = self._deserialized(content) if serializes else content
            if group < len(self._accumulators):
                self._accumulators[group] = accumulator
            else:
                self._accumulators.append(accumulator)

    def partials(self) -> pa.RecordBatch:
        """See contracts.Combiner. Raises UserCodeError."""
        _, columns, accumulators = self.ordered()
        encoded = self._encoded(accumulators, columns)
        batch = pa.RecordBatch.from_arrays(
            [*columns, pa.array(encoded, pa.binary())], schema=self._plan.partial_schema
        )
        self._clear()
        return batch

    def take_dead(self) -> Any:
        """DeadRows collected since the last call, or None. For combiners, after `partials`."""
        return self.dead.take()

    def hand_over_dead(self) -> DeadLetters:
        """What would be in `take_dead`, for another collection."""
        dead, self.dead = self.dead, DeadLetters()
        return dead

    def _created(self) -> Any:
        try:
            return self._plan.code.create()
        except Exception as error:
            raise self._plan.failures.raised("create", error, "a new key") from error

    def _add_events(
        self, batch: pa.RecordBatch, ids: IntArray, events: Iterator[Any], opened: set[int]
    ) -> None:
        """Call the user's `add` once per event, in order."""
        add = self._plan.code.add
        accumulators = self._accumulators
        waiting = iter(ids.tolist())
        pairs = zip(waiting, events, strict=False)
        failed: list[int] = []
        while True:
            try:
                for group, event in pairs:
                    accumulators[group] = add(accumulators[group], event)
            except Exception as error:
                row = len(ids) - length_hint(waiting) - 1
                failed.append(row)
                self._failed(batch, row, int(ids[row]), error)
            else:
                break
        if failed:
            self._mark_unused(ids, np.array(failed), opened)

    def _failed(self, batch: pa.RecordBatch, row: int, group: int, error: Exception) -> None:
        event = self._plan.reader.event(batch, row)
        hint = ""
        if self._accumulators[group] is None:
            hint = " (the accumulator was None: add and merge must return it)"
        self._plan.failures.event_raised("add", error, event, hint, self.dead)

    def _mark_unused(self, ids: IntArray, failed: IntArray, opened: set[int]) -> None:
        """Groups that this batch opened with failed events alone don't leave."""
        failures = np.bincount(ids[failed], minlength=self._groups.size)
        rows = np.bincount(ids, minlength=self._groups.size)
        self._unused |= opened.intersection(
            np.flatnonzero((rows > 0) & (failures == rows)).tolist()
        )

    def _revive(self, ids: IntArray) -> set[int]:
        """Unused groups that have rows now start anew."""
        revived = self._unused.intersection(ids.tolist())
        for group in revived:
            self._accumulators[group] = self._created()
        self._unused -= revived
        return revived

    def _add_batches(self, batch: pa.RecordBatch, ids: IntArray) -> None:
        order = np.argsort(ids, kind="stable")
        grouped = batch.select(self._plan.reader.names).take(pa.array(order))
        sorted_ids = ids[order]
        starts = np.flatnonzero(np.diff(sorted_ids, prepend=-1))
        ends = np.append(starts[1:], len(ids))
        add_batch = self._plan.code.add_batch
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            group = int(sorted_ids[start])
            rows = grouped.slice(start, end - start)
            try:
                self._accumulators[group] = add_batch(self._accumulators[group], rows)
            except Exception as error:
                content = f"batch of {end - start} rows, the first: "
                first = rows.slice(0, 1).to_pylist()[0]
                text = f"{content}{first!r}"[:600]
                raise self._plan.failures.raised("add_batch", error, text) from error

    def _merge(self, ids: IntArray, others: Iterator[Any]) -> None:
        accumulators = self._accumulators
        merge = self._plan.code.merge
        for group, other in zip(ids.tolist(), others, strict=True):
            if group < len(accumulators) and group not in self._unused:
                try:
                    accumulators[group] = merge(accumulators[group], other)
                except Exception as error:
                    content = f"accumulators: {accumulators[group]!r:.200} and {other!r:.200}"
                    raise self._plan.failures.raised("merge", error, content) from error
            elif group < len(accumulators):
                self._unused.discard(group)
                accumulators[group] = other
            else:
                accumulators.append(other)

    def _decoded(self, batch: pa.RecordBatch) -> Iterator[Any]:
        encoded = batch.column(self._plan.partial_column).to_pylist()
        return map(self._deserialized if self._plan.serializes else decode, encoded)

    def _deserialized(self, data: bytes) -> Any:
        try:
            return self._plan.code.deserialize(data)
        except Exception as error:
            content = f"{len(data)} bytes: {data[:60]!r}"
            raise self._plan.failures.raised("deserialize", error, content) from error

    def _encoded(self, accumulators: list[Any], columns: list[pa.Array]) -> list[bytes]:
        if self._plan.serializes:
            return [
                self._serialized(value, partial(self._key_text, columns, row))
                for row, value in enumerate(accumulators)
            ]
        try:
            return encode_all_canonical(accumulators)
        except NotPlainError as error:
            row = next(row for row, value in enumerate(accumulators) if not _is_plain(value))
            message = f"is missing: an accumulator holds what can't travel by itself: {error}"
            raise self._plan.failures.wrong(
                "serialize", message, self._key_text(columns, row)
            ) from error

    def _serialized(self, accumulator: Any, content: Callable[[], str]) -> bytes:
        try:
            data: Any = self._plan.code.serialize(accumulator)
        except Exception as error:
            raise self._plan.failures.raised("serialize", error, content()) from error
        if not isinstance(data, bytes):
            message = f"returned {type(data).__name__}; right is bytes"
            raise self._plan.failures.wrong("serialize", message, content())
        return data

    def _key_text(self, columns: list[pa.Array], row: int) -> str:
        keys: list[Key] = python_keys([column.slice(row, 1) for column in columns], 1)
        return f"key: {shown_keys(keys, len(columns))[0]!r}"


def _accumulator_text(accumulator: Any) -> str:
    return f"accumulator: {accumulator!r:.200}"


def _is_plain(value: Any) -> bool:
    try:
        encode_canonical(value)
    except NotPlainError:
        return False
    return True
