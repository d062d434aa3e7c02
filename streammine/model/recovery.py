"""Words of recovery: snapshots, checkpoints, and how a slice comes to life again (DESIGN §5).

A *snapshot* is one slice's committed state after an epoch; a *checkpoint* is the snapshots of all slices
after one epoch. The manager names a checkpoint's epoch ahead of the sources; each source that has not ended
it yet accepts, and flags its end; so every slice freezes between the same two epochs, which makes the
checkpoint a consistent global state without channel contents (Carbone et al. 2015, section 3).
Where the input of a loop's head is over, the head flags it.

`engine` runs the protocol, `replication` decides and writes; they meet here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph
from streammine.model.snapshots import Restore, SnapshotRecord


@dataclass(frozen=True)
class SliceStanding:
    """What the manager knows of a slice's replica that leads, from its reports; and of the `others`.

    `frontier`: every epoch below it is processed. `retained_after`: every epoch above it can be sent again.
    `accepted` (sources) and `frozen` are the highest checkpoint epochs that it has agreed to and passed;
    `skipped` the highest that it makes no snapshot of: it did not lead there, or began with that state.
    `final_epoch`: a finished slice's last epoch with output, else None. `snapshots`: newest last.
    """

    generation: int
    frontier: int = BEGINNING
    retained_after: int = BEGINNING
    accepted: int = BEGINNING
    frozen: int = BEGINNING
    skipped: int = BEGINNING
    final_epoch: int | None = None
    last_epoch: int = BEGINNING
    snapshots: tuple[SnapshotRecord, ...] = ()
    others: tuple[SliceStanding, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: what each slice restores from after `epoch`."""

    epoch: int
    slices: dict[str, Restore]


# --- the checkpoint coordinator: part of the manager, implemented in `replication` ---------------


@dataclass(frozen=True, slots=True)
class Propose:
    """Name `epoch` to all nodes, again and again until something newer is named."""

    epoch: int


@dataclass(frozen=True, slots=True)
class PublishCheckpoint:
    """Write a complete checkpoint's manifest; then say `published`."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class PruneTo:
    """Two complete checkpoints stand; nobody will ask for epochs up to `retain_after` again."""

    retain_after: int


@dataclass(frozen=True, slots=True)
class CollectSnapshots:
    """Remove every snapshot and checkpoint that these (oldest first) don't need."""

    keep: tuple[Checkpoint, ...]


CheckpointEffect = Propose | PublishCheckpoint | PruneTo | CollectSnapshots


class CheckpointCoordinator(Protocol):
    """Names checkpoints and notices when they are complete. One per job, on the manager; pure."""

    @property
    def proposed(self) -> int:
        """The newest epoch named, BEGINNING before the first."""
        ...

    @property
    def making(self) -> int:
        """The epoch of the checkpoint in the making, BEGINNING when there is none."""
        ...

    @property
    def complete(self) -> tuple[Checkpoint, ...]:
        """The complete checkpoints that are kept, oldest first; two at most."""
        ...

    def adopt(self, complete: Sequence[Checkpoint]) -> None:
        """Checkpoints that were found in the store when this manager took over."""
        ...

    def observe(
        self, now_seconds: float, standings: Mapping[SliceId, SliceStanding]
    ) -> list[CheckpointEffect]:
        """Look at the latest reports of all slices; called with every heartbeat and report."""
        ...

    def published(self, epoch: int, error: str | None) -> list[CheckpointEffect]:
        """The manifest of `epoch` is in the store, or could not be written."""
        ...


@dataclass(frozen=True)
class LineStanding:
    """A slice as the recovery line sees it.

    `alive` with `lacks_from`: it may still ask for epochs from there on; `retained_after`: any replica of it
    can send every epoch above that one again, and some replica every epoch above `held_after`. `snapshots`:
    epochs that it can be restored to; the beginning is always one.
    """

    alive: bool
    lacks_from: int = BEGINNING
    retained_after: int = BEGINNING
    snapshots: tuple[int, ...] = ()
    held_after: int = BEGINNING


class RecoveryLine(Protocol):
    """Chooses what each lost slice is restored to (DESIGN §5, the recovery line)."""

    def __call__(
        self, graph: JobGraph, standings: Mapping[SliceId, LineStanding]
    ) -> dict[SliceId, int]:
        """Epoch by slice that must be rebuilt, BEGINNING for "from nothing". Living slices are named only
        where they no longer hold what somebody needs."""
        ...
