"""A job of two vertices, for tests of manager and node: source/0, source/1 => counts/0, counts/1."""

from __future__ import annotations

from streammine.engine.channel import InputChannel, OutputChannel
from streammine.engine.slice import SliceMachine
from streammine.model.contracts import Discipline
from streammine.model.control import Heartbeat, JobReport, SliceReport
from streammine.model.epochs import EpochDefinition
from streammine.model.ids import SliceId
from streammine.model.job import Edge, JobGraph, Vertex

GRAPH = JobGraph(
    (
        Vertex("source", "source", 2, Discipline.EPOCH, "a source"),
        Vertex("counts", "stateful", 2, Discipline.EPOCH, "commutative"),
    ),
    (Edge("source", "counts", 0, (), False, "partition", False),),
)
SLICES = tuple(map(str, GRAPH.slices))


def machine(slice_id: SliceId, generation: int = 1) -> SliceMachine:
    return SliceMachine(
        slice_id,
        tuple(InputChannel(each.number, 0, generation) for each in GRAPH.inputs[slice_id]),
        tuple(OutputChannel(1, each.number, generation, 1000) for each in GRAPH.outputs[slice_id]),
        EpochDefinition("count", 100),
        64,
    )


def heartbeat(
    node: str,
    version: int = 0,
    slices: tuple[str, ...] = (),
    finished: tuple[str, ...] = (),
    failed: str | None = None,
) -> Heartbeat:
    reports = tuple(
        SliceReport(name, 1, "running", 5, name in finished, {"rows_in": 3.0}) for name in slices
    )
    return Heartbeat(node, {}, (JobReport(1, version, version > 0, failed, reports),))
