"""A small graph, and what its slices may tell the checkpoint coordinator."""

from __future__ import annotations

from replication import Coordinator
from streammine.model.disciplines import Discipline
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.model.job import Edge, JobGraph, Vertex
from streammine.model.recovery import (
    CheckpointEffect,
    Propose,
    PublishCheckpoint,
    SliceStanding,
)
from streammine.model.snapshots import RecoverySettings, SnapshotRecord

S, T, X, Y = (SliceId(name, 0) for name in ("s", "t", "x", "y"))
GRAPH = JobGraph(
    (
        Vertex("s", "source", 1, Discipline.EPOCH, ""),
        Vertex("t", "source", 1, Discipline.EPOCH, ""),
        Vertex("x", "stateful", 1, Discipline.EPOCH, ""),
        Vertex("y", "sink", 1, Discipline.EPOCH, ""),
    ),
    (
        Edge("s", "x", 0, (), False, "partition", False),
        Edge("t", "x", 1, (), False, "partition", False),
        Edge("x", "y", 0, (), False, "partition", False),
    ),
)
EVERY_TEN_SECONDS = RecoverySettings("asynchronous", every_seconds=10.0)
EVERY_HUNDRED_EPOCHS = RecoverySettings("asynchronous", every_epochs=100)
Standings = dict[SliceId, SliceStanding]


def record(epoch: int, generation: int = 1) -> SnapshotRecord:
    return SnapshotRecord(epoch, generation, f"{epoch}-{generation}", "", 1)


def at(frontier: int, generation: int = 1) -> SliceStanding:
    return SliceStanding(generation, frontier)


def frozen(epoch: int, *, written: bool = True, generation: int = 1) -> SliceStanding:
    records = (record(epoch, generation),) if written else ()
    return SliceStanding(generation, epoch + 1, BEGINNING, epoch, epoch, snapshots=records)


def finished(last: int, generation: int = 1) -> SliceStanding:
    return SliceStanding(generation, INFINITY, final_epoch=last, last_epoch=last)


def everywhere(standing: SliceStanding) -> Standings:
    return dict.fromkeys((S, T, X, Y), standing)


def at_epochs(s: int, t: int) -> Standings:
    return {S: at(s), T: at(t), X: at(min(s, t)), Y: at(min(s, t))}


def collecting(epoch: int = 101, how: RecoverySettings = EVERY_TEN_SECONDS) -> Coordinator:
    """One that has just named an epoch."""
    coordinator = Coordinator(GRAPH, how)
    coordinator.observe(0.0, {})
    assert coordinator.observe(10.0, everywhere(at(epoch - 1))) == [Propose(epoch)]
    return coordinator


def complete(coordinator: Coordinator, now: float, epoch: int) -> list[CheckpointEffect]:
    (effect,) = coordinator.observe(now, everywhere(frozen(epoch)))
    assert isinstance(effect, PublishCheckpoint)
    assert effect.checkpoint.epoch == epoch
    return coordinator.published(epoch, None)
