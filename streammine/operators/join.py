"""The equi-join of two streams inside a tumbling window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.canonical import canonical_order
from streammine.model.contracts import Accumulator, Combiner, EpochClose, Traits
from streammine.model.errors import TopologyError
from streammine.model.topology.keyed import EPOCH_COLUMN
from streammine.operators import hash_join
from streammine.operators.frozen import (
    Handover,
    check_version,
    decode_piece,
    encode_piece,
    row_pieces,
)
from streammine.operators.hash_join import equal_pairs
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keys import check_key
from streammine.operators.windows import TumblingWindow

_OUTPUT_ROWS_LIMIT = 65_536
_SIDES = ("left", "right")

Sides = tuple[list[pa.RecordBatch], list[pa.RecordBatch]]
Rows = npt.NDArray[np.int32]


class EquiJoin:
    """Pairs of a left and a right row with equal keys in one window.

    A StatefulOperator that HoldsWindows and KeepsState.

    Port 0 is the left input, port 1 the right one. A null key equals nothing; -0.0 equals 0.0 and
    NaN equals NaN. The output has ``epoch``, the key columns under their left names, the left
    input's other columns and the right one's, those of taken names with the suffix.

    Which pairs there are depends on no order. The order in which they leave does, unless `ordered`:
    then it is the canonical order of whole rows, which costs a sort and which sinks do not need, as
    they know their rows by content.
    """

    traits = Traits(commutative=True, mergeable=True, combinable=False, deterministic=True)
    partial_schema: pa.Schema | None = None
    partial_keys: tuple[str, ...] = ()
    state_version = 1

    def __init__(
        self,
        name: str,
        left: pa.Schema,
        right: pa.Schema,
        on: tuple[Sequence[str], Sequence[str]],
        *,
        suffix: str = "_right",
        window: TumblingWindow | None = None,
        ordered: bool = False,
    ) -> None:
        """`on`: the key columns of both sides, compared in pairs. Raises TopologyError."""
        self.name = name
        self.keys: tuple[tuple[str, ...], ...] = (tuple(on[0]), tuple(on[1]))
        self.needs: tuple[frozenset[str] | None, ...] = (None, None)
        self._window = window or TumblingWindow()
        self._ordered = ordered
        self._check_keys((left, right))
        fields = [pa.field(EPOCH_COLUMN, pa.int64())]
        fields += [left.field(key) for key in self.keys[0]]
        rest = [field for field in left if field.name not in self.keys[0]]
        fields += rest
        taken = {field.name for field in fields}
        self._right_columns: list[str] = []
        for field in right:
            if field.name in self.keys[1]:
                continue
            output_name = field.name + suffix if field.name in taken else field.name
            self._right_columns.append(field.name)
            fields.append(field.with_name(output_name))
        self._check_output([field.name for field in fields], suffix)
        self.output = pa.schema(fields)
        self.output_order: tuple[str, ...] = tuple(self.output.names)
        self._windows: dict[int, Sides] = {}
        self._frozen_counts: dict[int, tuple[int, int]] | None = None

    def prepare(self) -> None:
        """Load the kernels, so that the first epoch does not wait for them."""
        warm_up()
        hash_join.load_kernels()

    def combiner(self) -> Combiner:
        raise AssertionError("a join has no combiner: its traits say so")

    def accumulator(self, port: int) -> JoinSide:
        assert port in (0, 1), f"a join has ports 0 and 1, not {port}"
        return JoinSide()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Iterator[pa.RecordBatch]:
        """Add the epoch to its window; what leaves are the windows that are over."""
        left_side, right_side = accumulators
        assert isinstance(left_side, JoinSide)
        assert isinstance(right_side, JoinSide)
        left, right = left_side.batches, right_side.batches
        if self._window.epochs == 1:
            return self._joined(epoch.epoch, (left, right))
        if left or right:
            kept = self._windows.setdefault(self._window.last_epoch(epoch.epoch), ([], []))
            kept[0].extend(left)
            kept[1].extend(right)
        over = sorted(last for last in self._windows if last <= epoch.epoch)
        windows = [(last, self._windows.pop(last)) for last in over]
        return chain.from_iterable(self._joined(last, sides) for last, sides in windows)

    @property
    def window_epochs(self) -> int:
        """See contracts.Forgets."""
        return self._window.epochs

    @property
    def due_epoch(self) -> int | None:
        """The end of the first open window."""
        return min(self._windows, default=None)

    @property
    def state_nbytes(self) -> int:
        return sum(
            int(batch.nbytes)
            for sides in self._windows.values()
            for side in sides
            for batch in side
        )

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the rows of open windows, which only become more."""
        full = full or self._frozen_counts is None
        before = {} if full else self._frozen_counts or {}
        added = []
        for last, sides in sorted(self._windows.items()):
            for port, side in enumerate(sides):
                known = before.get(last, (0, 0))[port]
                added.append((last, port, side[known:]))
        self._frozen_counts = {
            last: (len(left), len(right)) for last, (left, right) in self._windows.items()
        }
        return Handover(full, _pieces(sorted(self._windows), added))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        first, _ = decode_piece(next(pieces))
        kept = {} if full else self._windows
        self._windows = {last: kept.get(last, ([], [])) for last in first["windows"]}
        for piece in pieces:
            header, batches = decode_piece(piece)
            self._windows[header["window"]][header["port"]].extend(batches)

    def _joined(self, epoch: int, sides: Sides) -> Iterator[pa.RecordBatch]:
        batches = self._pairs(epoch, sides)
        if not self._ordered:
            return batches
        rows = pa.Table.from_batches(batches, self.output).combine_chunks()
        ordered = rows.take(pa.array(canonical_order(rows)))
        return iter(ordered.to_batches(max_chunksize=_OUTPUT_ROWS_LIMIT))

    def _pairs(self, epoch: int, sides: Sides) -> Iterator[pa.RecordBatch]:
        if not all(any(batch.num_rows for batch in side) for side in sides):
            return
        left, right = (_whole(side) for side in sides)
        keys = [
            [rows.column(name) for name in names]
            for rows, names in zip((left, right), self.keys, strict=True)
        ]
        left_names = self.output.names[1 : 1 + left.num_columns]
        for left_rows, right_rows in equal_pairs(keys[0], keys[1], _OUTPUT_ROWS_LIMIT):
            columns = [pa.repeat(pa.scalar(epoch, pa.int64()), len(left_rows))]
            columns += _taken(left, left_names, left_rows)
            columns += _taken(right, self._right_columns, right_rows)
            yield pa.record_batch(columns, schema=self.output)

    def _check_keys(self, schemas: tuple[pa.Schema, pa.Schema]) -> None:
        for side, keys, schema in zip(_SIDES, self.keys, schemas, strict=True):
            for key in keys:
                check_key(self.name, key, schema, f"{side} key")
        for left_key, right_key in zip(*self.keys, strict=True):
            left_type = schemas[0].field(left_key).type
            right_type = schemas[1].field(right_key).type
            if left_type != right_type:
                raise TopologyError(
                    f"operator {self.name!r}: join compares {left_key!r} of type {left_type} with "
                    f"{right_key!r} of type {right_type}; make them one type with a map before, "
                    f"for example cast({right_key} as ...)"
                )

    def _check_output(self, names: Sequence[str], suffix: str) -> None:
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise TopologyError(
                f"operator {self.name!r}: the join's output would have two columns {double[0]!r} "
                f"(every join adds {EPOCH_COLUMN!r}, and clashing right columns get {suffix!r}); "
                "rename one with a map before, or choose another suffix"
            )


class JoinSide:
    """The rows of one port that an open epoch has collected."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    @property
    def nbytes(self) -> int:
        return sum(int(batch.nbytes) for batch in self.batches)

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def merge(self, other: JoinSide) -> None:
        self.batches += other.batches


def _pieces(
    windows: Sequence[int], added: Sequence[tuple[int, int, list[pa.RecordBatch]]]
) -> Iterator[pa.Buffer]:
    yield encode_piece({"windows": list(windows)})
    for last, port, batches in added:
        yield from row_pieces({"window": last, "port": port}, batches)


def _whole(side: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of one side as one batch."""
    return side[0] if len(side) == 1 else pa.concat_batches(side)


def _taken(rows: pa.RecordBatch, names: Sequence[str], numbers: Rows) -> list[pa.Array]:
    places = pa.array(numbers)
    return [pc.take(rows.column(name), places, boundscheck=False) for name in names]
