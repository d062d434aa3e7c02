"""What a shell hands to the slices that it hosts, and what it gets for each replica."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from replication import Layer, LoadedSnapshot, load_snapshot
from streammine.engine.processor import OperatorProcessor, Processor
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import (
    RETAINED_BYTES_IN_MEMORY,
    WAITING_BYTES_IN_MEMORY,
    RestoredTo,
)
from streammine.engine.stimuli import TakeState
from streammine.model.agreement import AgreementSettings
from streammine.model.contracts import (
    BatchSpill,
    KeepsState,
    Position,
    SequentialOperator,
    StatefulOperator,
    Store,
    StoreOpener,
)
from streammine.model.ids import SliceId
from streammine.model.job import SinkTarget, Vertex
from streammine.model.snapshots import Restore, SnapshotMode, SnapshotRecord
from streammine.model.source_contracts import SourceReader

_Operator = StatefulOperator | SequentialOperator

CHANNEL_BUDGET_BYTES = 4 << 20
"""What a channel may hold of later epochs.

A sender that runs ahead of the others costs memory here, in accumulators, and there, in retained frames;
and the further it may run, the longer a checkpoint takes that lies ahead of all senders.
"""

SLICE_BUDGET_BYTES = 32 << 20
"""What all channels into one slice may hold of later epochs together, unless they are very many."""

SMALLEST_BUDGET_BYTES = 1 << 20
"""Of a channel, however many there are."""

DEAD_LETTERS_COMMIT_EVERY = 64
"""Epochs in a group of the dead-letter output."""

DEFAULT_READ_ROWS = 1 << 16

AGREEMENT = AgreementSettings(every_decision_stored=True, bags_come=True)
"""Decisions are small, for they name bags that their receivers keep. So each is stored, and holds when
all replicas are lost at once, or the job is resumed."""


def channel_budget(channels: int) -> int:
    """The credit in bytes of each of so many channels into one slice."""
    return max(SMALLEST_BUDGET_BYTES, min(CHANNEL_BUDGET_BYTES, SLICE_BUDGET_BYTES // channels))


def not_measured(epoch: int) -> None:
    """Nobody knows when an epoch's rows were read."""


@dataclass(frozen=True)
class Environment:
    """What a shell hands to the slices it hosts.

    `open_reader` opens (source, slice index, columns needed or None for all, place to go on from); it is
    called when the job runs, not before. `open_store` opens a sink's folder or URL; `targets` says where
    each sink goes. `snapshots` is the store that replicas are restored from. `channel_budget_bytes` replaces
    each channel's share of credit, for tests of narrow channels. `agreement`: how patient replicas are that
    agree with others on their input. `delay_of`: how many milliseconds ago an epoch's oldest row was read;
    None where that is not measured.
    """

    open_reader: Callable[[str, int, tuple[str, ...] | None, Position | None], SourceReader]
    open_store: StoreOpener
    targets: Mapping[str, SinkTarget]
    open_spill: Callable[[], BatchSpill]
    bag_memory_bytes: int = 256 << 20
    read_rows: int = DEFAULT_READ_ROWS
    channel_budget_bytes: int | None = None
    snapshot_mode: SnapshotMode = "none"
    snapshots: Store | None = None
    agreement: AgreementSettings = AGREEMENT
    waiting_bytes: int = WAITING_BYTES_IN_MEMORY
    retained_bytes: int = RETAINED_BYTES_IN_MEMORY
    delay_of: Callable[[int], float | None] = not_measured


@dataclass(frozen=True)
class BuiltSlice:
    """A replica's machine and processor. `spill` takes what the machine sends to disk. `snapshot` is still to
    be taken in. `prepared`: it is ready, but for that. `taken_bytes`: what was read for the state of an
    operator that stood by."""

    machine: SliceMachine
    processor: Processor
    spill: BatchSpill
    restore: Restore | None = None
    snapshot: LoadedSnapshot | None = field(default=None, repr=False)
    prepared: bool = False
    taken_bytes: int = 0

    def prepare(self) -> None:
        """Import user code, load kernels, and take in the snapshot's state.

        Raises SnapshotDamagedError and StateVersionError, besides what user code raises.
        """
        self.prepare_operator()
        self.take_snapshot()

    def prepare_operator(self) -> None:
        if not self.prepared:
            self.processor.prepare()

    def take_snapshot(self) -> None:
        if self.snapshot is not None and isinstance(self.processor, OperatorProcessor):
            assert self.restore is not None
            assert self.restore.record is not None
            self.processor.restore(self.restore.record, _contents(self.snapshot.layers))

    def close(self) -> None:
        self.processor.close()
        self.spill.close()


def taken_from(
    seat: BuiltSlice, vertex: Vertex, restore: Restore | None, snapshot: LoadedSnapshot | None
) -> int | None:
    """Bring the operator that stood by to that state: how many bytes were read for it, or None where it can't
    be. Sinks are of one generation."""
    processor = seat.processor
    if vertex.kind != "stateful" or restore is None or snapshot is None:
        return None
    assert isinstance(processor, OperatorProcessor)
    if processor.held == restore.record:
        return 0
    return processor.perform((TakeState(restore),), 0.0).taken_bytes


def lacking(snapshot: LoadedSnapshot, held: SnapshotRecord | None) -> tuple[Layer, ...]:
    """The layers that a state lacks which is that of the snapshot `held`: all, where the chain has it not."""
    known = [] if held is None else [each.epoch for each in snapshot.layers]
    if held is None or held.epoch not in known:
        return snapshot.layers
    return snapshot.layers[known.index(held.epoch) + 1 :]


class StateLoader:
    """Brings an operator to a snapshot's state: by the increments alone where it holds an earlier one of the
    chain, else by filling a new operator."""

    def __init__(
        self, slice_id: SliceId, environment: Environment, new_operator: Callable[[], _Operator]
    ) -> None:
        self._slice_id = slice_id
        self._environment = environment
        self._new_operator = new_operator

    def __call__(
        self, operator: _Operator, held: SnapshotRecord | None, restore: Restore
    ) -> tuple[_Operator, RestoredTo, int]:
        """The operator, where it has been brought to, and how many bytes were read for it. Raises
        SnapshotDamagedError; an operator that increments were added to is not to be used then.
        """
        snapshot = loaded_snapshot(self._slice_id, restore, self._environment)
        taken = restored_to(restore, snapshot)
        assert snapshot is not None, "a snapshot that is taken has a record"
        assert taken is not None
        layers = lacking(snapshot, held)
        if len(layers) == len(snapshot.layers):
            operator = self._new_operator()
            operator.prepare()
        if isinstance(operator, KeepsState):
            for version, full, pieces in _contents(layers):
                operator.restore(version, full, pieces)
        return operator, taken, sum(each.nbytes for each in layers)


def _contents(layers: Iterable[Layer]) -> Iterator[tuple[int, bool, Iterator[pa.Buffer]]]:
    return ((each.state_version, each.full, each.pieces) for each in layers)


def loaded_snapshot(
    slice_id: SliceId, restore: Restore | None, environment: Environment
) -> LoadedSnapshot | None:
    if restore is None or restore.record is None:
        return None
    assert environment.snapshots is not None, "a job that is restored has a store"
    return load_snapshot(environment.snapshots, restore.record, slice_id)


def restored_to(restore: Restore | None, snapshot: LoadedSnapshot | None) -> RestoredTo | None:
    if restore is None:
        return None
    if snapshot is None:
        return RestoredTo(restore.epoch, restore.last_epoch, finished=restore.finished)
    return RestoredTo(
        snapshot.epoch,
        snapshot.last_epoch,
        snapshot.due,
        carried=snapshot.carried(),
        left_out_until=restore.left_out_until,
        lost_until=snapshot.lost_until,
    )
