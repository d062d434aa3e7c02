"""A job of two vertices, for tests of manager and node: source/0, source/1 => counts/0, counts/1."""

from __future__ import annotations

from collections.abc import Iterable

from streammine.engine.input_channel import InputChannel
from streammine.engine.node_stimuli import NewReplica
from streammine.engine.output_channel import OutputChannel
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import RestoredTo, SliceSettings
from streammine.model.control import DamagedSnapshot, Heartbeat, JobReport, SliceReport
from streammine.model.disciplines import Discipline
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.job import Edge, JobGraph, Vertex
from streammine.model.schemes import Scheme
from streammine.model.snapshots import RecoverySettings, SnapshotRecord

GRAPH = JobGraph(
    (
        Vertex("source", "source", 2, Discipline.EPOCH, "a source"),
        Vertex("counts", "stateful", 2, Discipline.EPOCH, "commutative"),
    ),
    (Edge("source", "counts", 0, (), False, "partition", False),),
)
SLICES = tuple(map(str, GRAPH.slices))
ASYNCHRONOUS = RecoverySettings("asynchronous", every_epochs=10, store="memory")


def machine(replica: NewReplica) -> SliceMachine:
    """What a shell builds of a replica."""
    slice_id, generation, restore = replica.slice, replica.generation, replica.restore
    restored = None
    if restore is not None:
        restored = RestoredTo(restore.epoch, restore.last_epoch, finished=restore.finished)
    begin = BEGINNING if restored is None else restored.epoch
    links = replica.links
    return SliceMachine(
        slice_id,
        generation,
        tuple(
            InputChannel(each.number, 0, generation, links.get(each.number, ()), begin)
            for each in GRAPH.inputs[slice_id]
        ),
        tuple(
            OutputChannel(1, each.number, generation, 1000, links.get(each.number, ()), begin, True)
            for each in GRAPH.outputs[slice_id]
        ),
        SliceSettings(EpochDefinition("count", 100), 64, "asynchronous"),
        restored,
    )


def record(slice_text: str, epoch: int, generation: int = 1) -> SnapshotRecord:
    return SnapshotRecord(epoch, generation, f"{slice_text}/{epoch}.{generation}", "sum", 10)


def report(
    slice_text: str,
    generation: int = 1,
    frontier: int = 5,
    finished: bool = False,
    retained_after: int = BEGINNING,
    accepted: int = BEGINNING,
    snapshots: Iterable[int] = (),
    rung: Scheme = Scheme.ACTIVE_REPLICATION,
    spent_plan: int = 0,
    outrun: bool = False,
) -> SliceReport:
    """`snapshots`: epochs that this replica has durable snapshots of."""
    records = tuple(record(slice_text, epoch, generation) for epoch in snapshots)
    return SliceReport(
        slice_text,
        generation,
        "finished" if finished else "running",
        INFINITY if finished else frontier,
        finished,
        retained_after,
        accepted,
        max((each.epoch for each in records), default=BEGINNING),
        BEGINNING,
        4,
        4 if finished else BEGINNING,
        records,
        {"rows_in": 3.0},
        rung.value,
        INFINITY if finished else frontier,
        spent_plan,
        outrun,
    )


def told_by(
    node: str,
    version: int,
    slices: Iterable[SliceReport] = (),
    failed: str | None = None,
    damaged: Iterable[DamagedSnapshot] = (),
    member: int | None = None,
) -> Heartbeat:
    """A node's heartbeat with its share of job 1. Nodes a, b, ... joined in this order."""
    share = JobReport(1, version, version > 0, failed, tuple(slices), tuple(damaged))
    return Heartbeat(node, member or "abcdefgh".index(node) + 1, {}, (share,))


def heartbeat(
    node: str,
    version: int = 0,
    slices: tuple[str, ...] = (),
    finished: tuple[str, ...] = (),
    failed: str | None = None,
) -> Heartbeat:
    """The heartbeat of a node with first replicas only."""
    return told_by(
        node, version, [report(name, finished=name in finished) for name in slices], failed
    )
