"""Managers at work, and what they do as text, for tests of the manager."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streammine.assembly import POLICIES
from streammine.engine.manager import ManagerMachine
from streammine.engine.manager_stimuli import (
    Direct,
    Elected,
    ManagerEffect,
    ManagerStimulus,
    NodesChanged,
    Offer,
    Reported,
    Ticked,
)
from streammine.engine.node_stimuli import (
    CheckpointsFound,
    CollectSnapshots,
    DeclareEnd,
    DeclarePlan,
    FindCheckpoints,
    JobSeen,
    KeepMemory,
    PlanSeen,
    PublishCheckpoint,
    ReplicasLack,
    SchemeDecided,
)
from streammine.model.job import Placement, Plan
from streammine.model.recovery import Checkpoint
from streammine.model.snapshots import RecoverySettings, Restore
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, SLICES, heartbeat, record, report, told_by
from tests.unit.transcripts import epoch_text

NODES = (("a", 1), ("b", 2))
ON_A, ON_B = ("source/0", "counts/0"), ("source/1", "counts/1")


def text(effect: ManagerEffect) -> str:
    match effect:
        case DeclarePlan(plan):
            return f"plan {plan.version}: {plan.phase}"
        case DeclareEnd(_, outcome):
            return f"end: {outcome.status}, {outcome.reason}"
        case Direct(directive):
            making, after = epoch_text(directive.making), epoch_text(directive.retain_after)
            return f"direct: make {making}, retain after {after}"
        case PublishCheckpoint(_, checkpoint):
            return f"write checkpoint {checkpoint.epoch}"
        case CollectSnapshots(_, keep):
            return f"keep checkpoints {[each.epoch for each in keep]}"
        case Offer(node, _):
            return f"offer to {node}"
        case FindCheckpoints():
            return "find checkpoints"
        case KeepMemory(_, memory):
            return f"remember {len(memory.decisions)} decisions"
        case ReplicasLack(_, lacks):
            return "; ".join(f"lack: {each}" for each in lacks) or "no lack"
        case SchemeDecided(_, decision):
            return f"decided: {decision.slice} {decision.previous} -> {decision.chosen}"


def told(manager: ManagerMachine, *stimuli: ManagerStimulus) -> list[str]:
    """What the manager does about all of these."""
    return [text(effect) for stimulus in stimuli for effect in manager.handle(stimulus)]


def new_manager() -> ManagerMachine:
    manager = ManagerMachine(POLICIES)
    manager.handle(Ticked(0.0, 1000.0))
    return manager


def leading(*nodes: str) -> ManagerMachine:
    manager = new_manager()
    members = tuple((name, place) for place, name in enumerate(nodes, 1))
    assert told(manager, Elected(True), NodesChanged(members)) == []
    return manager


def running(*nodes: str) -> ManagerMachine:
    """A manager whose job, without snapshots, runs on a and b."""
    manager = leading(*(nodes or ("a", "b")))
    deployed = [Reported(heartbeat("a", 1, ON_A)), Reported(heartbeat("b", 1, ON_B))]
    told_so = told(manager, JobSeen(1, GRAPH, 2), *deployed)
    assert told_so == ["plan 1: deploy", "plan 2: run"]
    return manager


def snapshotting(
    *nodes: str, recovery: RecoverySettings = ASYNCHRONOUS, deployed: bool = True
) -> ManagerMachine:
    """The same with a snapshot every ten epochs, of which none was made yet."""
    manager = leading(*(nodes or ("a", "b")))
    told_so = told(manager, JobSeen(1, GRAPH, 2, recovery), CheckpointsFound(1, ()))
    assert told_so == ["find checkpoints", "plan 1: deploy"]
    if deployed:
        for name, slices in (("a", ON_A), ("b", ON_B)):
            manager.handle(Reported(heartbeat(name, 1, slices)))
    return manager


def checkpoint(epoch: int) -> Checkpoint:
    return Checkpoint(epoch, {name: Restore(epoch, record(name, epoch)) for name in SLICES})


def hear(
    manager: ManagerMachine,
    node: str,
    *slices: str,
    frontier: int = 5,
    snapshots: tuple[int, ...] = (),
    retained_after: int | None = None,
) -> list[str]:
    """A node reports its first replicas, all alike."""
    reports = [report(name, 1, frontier, snapshots=snapshots) for name in slices]
    if retained_after is not None:
        reports = [replace(each, retained_after=retained_after) for each in reports]
    return told(manager, Reported(told_by(node, plan_of(manager).version, reports)))


def checkpointed(*nodes: str, found: tuple[int, ...] = (10, 20)) -> ManagerMachine:
    """A manager that took over a running job whose store holds complete checkpoints."""
    old = snapshotting(*nodes)
    new = new_manager()
    told(new, NodesChanged(tuple((name, at) for at, name in enumerate(nodes or ("a", "b"), 1))))
    told(new, JobSeen(1, GRAPH, 2, ASYNCHRONOUS), PlanSeen(plan_of(old)))
    assert told(new, Elected(True)) == ["find checkpoints"]
    told(new, CheckpointsFound(1, tuple(checkpoint(epoch) for epoch in found)))
    return new


def plan_of(manager: ManagerMachine) -> Plan:
    plan = manager.jobs[1].plan
    assert plan is not None
    return plan


def places(manager: ManagerMachine) -> dict[str, str]:
    """By slice, ``node`` or ``node: generation from epoch``; a move's two with ``, ``."""
    return {
        str(slice_id): ", ".join(map(_place, group))
        for slice_id, group in plan_of(manager).placements.items()
    }


def _place(each: Placement) -> str:
    if each.generation == 1:
        return each.node
    origin = "" if each.restore is None else f" from {each.restore.epoch}"
    return f"{each.node}: {each.generation}{origin}"


def planned(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line.startswith("plan")]
