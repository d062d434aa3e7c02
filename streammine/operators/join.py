"""The equi-join of two streams inside windows that tumble or slide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from streammine.model.contracts import Accumulator, Combiner, EpochClose, Traits
from streammine.model.epochs import EpochDefinition
from streammine.model.topology.join_kinds import JoinKind
from streammine.operators import hash_join
from streammine.operators.collected_rows import CollectedRows
from streammine.operators.frozen import (
    Handover,
    check_version,
    decode_piece,
    encode_piece,
    row_pieces,
)
from streammine.operators.hash_join import equal_pairs, has_equal
from streammine.operators.joined_columns import OUTPUT_ROWS_LIMIT, JoinedColumns, whole
from streammine.operators.kernels.warming import warm_up
from streammine.operators.windows import AlignedWindows

Sides = tuple[list[pa.RecordBatch], list[pa.RecordBatch]]


class _Pane:
    """The rows of both sides; how many bytes they are is kept, as a long window has many batches."""

    def __init__(self) -> None:
        self.sides: Sides = ([], [])
        self.nbytes = 0

    def add(self, port: int, batches: Sequence[pa.RecordBatch]) -> None:
        self.sides[port].extend(batches)
        self.nbytes += sum(int(batch.nbytes) for batch in batches)


class EquiJoin:
    """Pairs of a left and a right row with equal keys in one window, and rows without a partner.

    A StatefulOperator that HoldsWindows and KeepsState.

    Port 0 is the left input, port 1 the right one. A null key equals nothing; -0.0 equals 0.0 and
    NaN equals NaN. The output is that of `JoinedColumns`. Windows that overlap are joined one by one: two
    rows meet once in each window that both lie in. What is kept are rows, by the pane that they came in.

    Which rows there are depends on no order. The order in which they leave does, unless `ordered`:
    then it is the canonical order of whole rows, which costs a sort and which sinks do not need, as
    they know their rows by content.
    """

    traits = Traits(commutative=True, mergeable=True, combinable=False, deterministic=True)
    partial_schema: pa.Schema | None = None
    partial_keys: tuple[str, ...] = ()
    state_version = 2

    def __init__(
        self,
        name: str,
        left: pa.Schema,
        right: pa.Schema,
        on: tuple[Sequence[str], Sequence[str]],
        *,
        kind: JoinKind = JoinKind.INNER,
        suffix: str = "_right",
        window: AlignedWindows | None = None,
        spans: EpochDefinition | None = None,
        ordered: bool = False,
    ) -> None:
        """`on`: the key columns of both sides, compared in pairs. `spans`: the epochs, if the output is to
        say when each window starts and ends. Raises TopologyError."""
        self.name = name
        keys = (tuple(on[0]), tuple(on[1]))
        self.keys: tuple[tuple[str, ...], ...] = keys
        self.needs: tuple[frozenset[str] | None, ...] = (
            None,
            None if kind.pairs else frozenset(keys[1]),
        )
        self._kind = kind
        self._window = window or AlignedWindows.tumbling()
        self._ordered = ordered
        self._schemas = (left, right)
        span = None if spans is None else partial(self._window.span, spans)
        self._columns = JoinedColumns(name, self._schemas, keys, kind, suffix, span=span)
        self.output = self._columns.schema
        self.output_order: tuple[str, ...] = tuple(self.output.names)
        self._panes: dict[int, _Pane] = {}
        self._closed: int | None = None
        self._frozen_counts: dict[int, tuple[int, int]] | None = None

    def prepare(self) -> None:
        """Load the kernels, so that the first epoch does not wait for them."""
        warm_up()
        hash_join.load_kernels()

    def combiner(self) -> Combiner:
        raise AssertionError("a join has no combiner: its traits say so")

    def accumulator(self, port: int) -> CollectedRows:
        assert port in (0, 1), f"a join has ports 0 and 1, not {port}"
        return CollectedRows()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Iterator[pa.RecordBatch]:
        """Add the epoch to its pane; what leaves is the window that ends now."""
        left_side, right_side = accumulators
        assert isinstance(left_side, CollectedRows)
        assert isinstance(right_side, CollectedRows)
        left, right = left_side.batches, right_side.batches
        window = self._window
        if window.epochs == 1:
            return self._joined(epoch.epoch, (left, right))
        self._closed = epoch.epoch
        if left or right:
            pane = self._panes.setdefault(window.pane_end(epoch.epoch), _Pane())
            pane.add(0, left)
            pane.add(1, right)
        if not window.ends_with(epoch.epoch):
            return iter(())
        inside = [pane.sides for _, pane in sorted(self._panes.items())]
        needed = window.first_needed(epoch.epoch)
        self._panes = {last: pane for last, pane in self._panes.items() if last >= needed}
        lefts, rights = ([batch for sides in inside for batch in sides[port]] for port in (0, 1))
        return self._joined(epoch.epoch, (lefts, rights))

    @property
    def window_epochs(self) -> int:
        """See contracts.Forgets."""
        return self._window.epochs

    @property
    def slide_epochs(self) -> int:
        """See contracts.Forgets."""
        return self._window.slide

    @property
    def due_epoch(self) -> int | None:
        """The end of the next window, while there are rows in it."""
        if not self._panes:
            return None
        assert self._closed is not None, "a pane comes with an epoch"
        return self._window.next_end(self._closed)

    @property
    def state_nbytes(self) -> int:
        return sum(pane.nbytes for pane in self._panes.values())

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the rows of panes, which only become more."""
        full = full or self._frozen_counts is None
        before = {} if full else self._frozen_counts or {}
        added = []
        for last, pane in sorted(self._panes.items()):
            for port, side in enumerate(pane.sides):
                known = before.get(last, (0, 0))[port]
                added.append((last, port, side[known:]))
        self._frozen_counts = {
            last: (len(pane.sides[0]), len(pane.sides[1])) for last, pane in self._panes.items()
        }
        return Handover(full, _pieces(sorted(self._panes), self._closed, added))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        first, _ = decode_piece(next(pieces))
        kept = {} if full else self._panes
        self._panes = {last: kept.get(last, _Pane()) for last in first["panes"]}
        self._closed = first["closed"]
        for piece in pieces:
            header, batches = decode_piece(piece)
            self._panes[header["pane"]].add(header["port"], batches)

    def _joined(self, epoch: int, sides: Sides) -> Iterator[pa.RecordBatch]:
        batches = self._pairs(epoch, sides)
        return self._columns.in_order(batches) if self._ordered else batches

    def _pairs(self, epoch: int, sides: Sides) -> Iterator[pa.RecordBatch]:
        """Everything that leaves of one window."""
        kind = self._kind
        filled = [any(batch.num_rows for batch in side) for side in sides]
        if not (all(filled) or (filled[0] and kind.left_alone) or (filled[1] and kind.right_alone)):
            return
        left, right = map(whole, sides, self._schemas)
        keys = [
            [rows.column(name) for name in names]
            for rows, names in zip((left, right), self.keys, strict=True)
        ]
        if not kind.pairs:
            met = has_equal(keys[0], keys[1])
            wanted = met if kind is JoinKind.SEMI else ~met
            yield from self._columns.left_alone(epoch, left, np.flatnonzero(wanted))
            return
        left_alone = np.full(left.num_rows if kind.left_alone else 0, True)
        right_alone = np.full(right.num_rows if kind.right_alone else 0, True)
        for left_rows, right_rows in equal_pairs(keys[0], keys[1], OUTPUT_ROWS_LIMIT):
            if kind.left_alone:
                left_alone[left_rows] = False
            if kind.right_alone:
                right_alone[right_rows] = False
            yield self._columns.pairs(epoch, left, left_rows, right, right_rows)
        yield from self._columns.left_alone(epoch, left, np.flatnonzero(left_alone))
        yield from self._columns.right_alone(epoch, right, np.flatnonzero(right_alone))


def _pieces(
    panes: Sequence[int],
    closed: int | None,
    added: Sequence[tuple[int, int, list[pa.RecordBatch]]],
) -> Iterator[pa.Buffer]:
    yield encode_piece({"panes": list(panes), "closed": closed})
    for last, port, batches in added:
        yield from row_pieces({"pane": last, "port": port}, batches)
