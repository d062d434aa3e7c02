"""The pattern: combinations of events of one key that together mean something.

See docs/operators/pattern.md for what matches, and operators/patterns for how matches are found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from streammine.model.canonical import is_encodable
from streammine.model.contracts import Accumulator, Combiner, DeadRows, EpochClose, Traits
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology.keyed import EPOCH_COLUMN
from streammine.model.topology.patterning import Pattern
from streammine.operators.collected_rows import CollectedRows, in_one
from streammine.operators.event_time import EventTime
from streammine.operators.frozen import (
    Handover,
    check_version,
    decode_piece,
    encode_piece,
    row_pieces,
)
from streammine.operators.kernels.columns import fixed_values
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keys import check_key
from streammine.operators.map import check_column_name
from streammine.operators.patterns.intake import FITS, TIME, Intake
from streammine.operators.patterns.matching import EpochSpan, Matcher, empty_batch

_OUTPUT_ROWS_LIMIT = 65_536


class PatternMatch:
    """Matches of a pattern per key (a StatefulOperator that HoldsWindows, KeepsState and SetsAside).

    Keeps the rows that may still take part in a match: those at most `within` older than the watermark. A
    null key is a key like any other. Each match leaves in the epoch in which it is complete and certain.
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
        pattern: Pattern,
        time: EventTime,
        epoch: EpochDefinition,
    ) -> None:
        """Raises TopologyError for what the columns of `schema` can't be asked."""
        if epoch.kind != "time":
            raise TopologyError(
                f"operator {name!r}: a pattern needs time epochs, whose ends say what has come; write "
                "epoch: {time: 10s, column: ts}"
            )
        for key in keys:
            check_key(name, key, schema)
        for column in (*keys, *pattern.output):
            check_column_name(name, column)
        self.name = name
        self.keys: tuple[tuple[str, ...], ...] = (tuple(keys),)
        self._epoch = epoch
        self._within = pattern.within.microseconds
        self._matcher = Matcher(name, schema, pattern)
        self._intake = Intake(
            schema,
            time,
            self._matcher.columns_kept | set(keys),
            list(self._matcher.numbers),
            self._matcher.own,
            all_rows=pattern.matching == "strict",
        )
        self._keeps_all = pattern.matching == "strict"
        self.needs: tuple[frozenset[str] | None, ...] = (
            self._matcher.columns_read | {*keys, time.column},
        )
        self.output = pa.schema(
            [
                pa.field(EPOCH_COLUMN, pa.int64()),
                *(schema.field(key) for key in keys),
                *self._matcher.output,
            ]
        )
        for field in (*self.output, *self._intake.schema):
            if not is_encodable(field.type):
                raise TopologyError(
                    f"operator {name!r}: column {field.name!r} has type {field.type}, whose values have no "
                    "order; a pattern reads numbers, texts, times, and lists or structs of those"
                )
        self.output_order: tuple[str, ...] = tuple(self.output.names)
        self._held = self._none()
        self._watermark: int | None = None
        self._added: list[pa.RecordBatch] | None = None
        self._rounds: list[pa.RecordBatch] = []
        self._dead: DeadRows | None = None

    def prepare(self) -> None:
        """Load the kernels, so that the first epoch does not wait for them."""
        warm_up()

    def combiner(self) -> Combiner:
        raise AssertionError("a pattern has no combiner: its traits say so")

    def accumulator(self, port: int) -> CollectedRows:
        assert port == 0, f"a pattern has one port, not port {port}"
        return CollectedRows()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]:
        """Take in the epoch's rows; what leaves are the matches that it completes or makes certain."""
        (collected,) = accumulators
        assert isinstance(collected, CollectedRows), collected
        self._rounds += collected.batches
        if not epoch.last:
            return ()
        batches, self._rounds = self._rounds, []
        start, end = self._epoch.window(epoch.epoch)
        taken, self._dead = self._intake.take(batches, start)
        new = _whole(taken, self._none())
        rows = _whole([self._held, new], self._none())
        seen = fixed_values(rows.column(TIME)) < end
        # rows of times to come wait for their epoch
        present = rows if seen.all() else rows.filter(pa.array(seen))
        left = self._matcher.matches(
            present, self.keys[0], EpochSpan(epoch.epoch, start, end), self.output
        )
        self._keep(rows, new, end)
        return [
            left.slice(first, _OUTPUT_ROWS_LIMIT)
            for first in range(0, left.num_rows, _OUTPUT_ROWS_LIMIT)
        ]

    def take_dead(self) -> DeadRows | None:
        """See contracts.SetsAside: rows of the last epoch that were late or had no time."""
        dead, self._dead = self._dead, None
        return dead

    @property
    def due_epoch(self) -> int | None:
        """Where the first row that waits for its time, or the end of what could be the first match that waits
        for an absence, lies."""
        if self._watermark is None or not self._held.num_rows:
            return None
        times = fixed_values(self._held.column(TIME))
        due = [times[times >= self._watermark]]
        if waiting := self._matcher.waiting_bits:
            fits = fixed_values(self._held.column(FITS)) & np.uint64(waiting) != 0
            ends = times[fits] + self._within
            due.append(ends[ends >= self._watermark])
        first = min((int(each.min()) for each in due if len(each)), default=None)
        return None if first is None else first // self._epoch.length

    @property
    def state_nbytes(self) -> int:
        return int(self._held.nbytes)

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the rows that were added; who has expired follows from the watermark."""
        full = full or self._added is None
        rows = [self._held] if full or self._added is None else self._added
        self._added = []
        return Handover(full, _pieces(self._watermark, rows))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        first, _ = decode_piece(next(pieces))
        rows = [self._none() if full else self._held]
        for piece in pieces:
            rows += decode_piece(piece)[1]
        self._watermark = first["watermark"]
        self._added = None
        self._held = self._expired(_whole(rows, self._none()), self._watermark)

    def _keep(self, rows: pa.RecordBatch, new: pa.RecordBatch, watermark: int) -> None:
        """Go on with the rows that may still take part."""
        self._watermark = watermark
        self._held = self._expired(rows, watermark)
        if self._added is not None:
            added = [*self._added, new] if new.num_rows else self._added
            kept = (self._expired(batch, watermark) for batch in added)
            self._added = [batch for batch in kept if batch.num_rows]

    def _expired(self, rows: pa.RecordBatch, watermark: int | None) -> pa.RecordBatch:
        """The rows without those that nothing can need any more."""
        if watermark is None or not rows.num_rows:
            return rows
        times = fixed_values(rows.column(TIME))
        needed = times >= watermark - self._within * self._matcher.spans
        if not self._keeps_all:
            fits = fixed_values(rows.column(FITS))
            needed &= (fits & np.uint64(self._matcher.kept_bits) != 0) | (times >= watermark)
        return rows if needed.all() else rows.filter(pa.array(needed))

    def _none(self) -> pa.RecordBatch:
        return empty_batch(self._intake.schema)


def _whole(batches: Sequence[pa.RecordBatch], none: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as one batch."""
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return none
    return in_one(filled)


def _pieces(watermark: int | None, rows: Sequence[pa.RecordBatch]) -> Iterator[pa.Buffer]:
    yield encode_piece({"watermark": watermark})
    yield from row_pieces({}, rows)
