"""When the manager takes losses for a loop that the next nodes would die in, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammine.engine import manager as machine
from streammine.engine.manager import ManagerMachine
from streammine.engine.manager_stimuli import Elected, NodesChanged, Reported, Ticked
from streammine.engine.node_stimuli import CheckpointsFound, JobSeen, PlanSeen
from streammine.engine.rebuilding import CALM_SECONDS
from streammine.model.control import DamagedSnapshot
from streammine.model.job import Placement
from tests.unit.managing import (
    ON_A,
    ON_B,
    checkpoint,
    checkpointed,
    hear,
    new_manager,
    plan_of,
    planned,
    snapshotting,
    told,
)
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, SLICES, record, report, told_by

A, B, C = ("a", 1), ("b", 2), ("c", 3)


def lose(manager: ManagerMachine, *members: int, frontier: int = 25) -> list[str]:
    """Node b is lost and comes back, for each of `members`; what it hosted gets as far as `frontier`."""
    lines: list[str] = []
    for member in members:
        lines += told(manager, NodesChanged((A, ("b", member))))
        plan = plan_of(manager)
        there = [
            report(str(slice_id), each.generation, frontier)
            for slice_id, group in plan.placements.items()
            for each in group
            if each.node == "b"
        ]
        lines += told(manager, Reported(told_by("b", plan.version, there, member=member)))
    return lines


def test_a_job_that_dies_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_REBUILT", 2)
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    lines = lose(manager, 3, 4, 5, 6)
    assert planned(lines) == ["plan 3: run", "plan 4: run", "plan 5: run"]
    (end,) = [line for line in lines if line.startswith("end")]
    assert end.startswith(
        "end: failed, nodes died 3 times in a row without the job getting beyond epoch 24; how they"
    )


def test_a_job_that_gets_further_between_losses_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_REBUILT", 2)
    manager = checkpointed()
    for member in range(3, 20):
        hear(manager, "a", *ON_A, frontier=25 + member)
        assert len(planned(lose(manager, member, frontier=25 + member))) == 1
    lines = lose(manager, 20, 21, 22, frontier=44)
    assert [line for line in lines if line.startswith("end")]


def test_nodes_that_are_lost_together_count_once() -> None:
    """Their sessions end one after the other, and nobody tells of a plan in between."""
    members = (A, B, C, ("d", 4))
    slices = dict(zip(GRAPH.slices, members, strict=True))
    plan = replace(
        plan_of(snapshotting()),
        placements={each: (Placement(name, 1, at),) for each, (name, at) in slices.items()},
    )
    manager = new_manager()
    told(manager, NodesChanged(members), JobSeen(1, GRAPH, 4, ASYNCHRONOUS), PlanSeen(plan))
    told(manager, Elected(True), CheckpointsFound(1, (checkpoint(20),)))
    for slice_id, (name, at) in slices.items():
        told(
            manager,
            Reported(told_by(name, plan.version, [report(str(slice_id), 1, 25)], member=at)),
        )
    for left in (3, 2, 1):
        assert len(planned(told(manager, NodesChanged(members[:left])))) == 1
        assert plan_of(manager).rebuilt == 1
    told(manager, Reported(told_by("a", plan_of(manager).version)))
    told(manager, NodesChanged((("e", 5),)))
    assert plan_of(manager).rebuilt == 2


def test_a_node_that_dies_while_it_is_made_ready_counts_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody ever tells of the plan, but the node was there for nothing else."""
    monkeypatch.setattr(machine, "MOST_REBUILT", 2)
    manager = checkpointed("a")
    hear(manager, "a", *SLICES, frontier=25)
    lines: list[str] = []
    for member in range(3, 7):
        lines += told(manager, NodesChanged((("a", member),)))
    assert [line for line in lines if line.startswith("end")]


def test_all_who_were_there_before_are_lost_together() -> None:
    """Then whoever makes up for them was not what they died of."""
    manager = checkpointed("a", "b", "c")
    hear(manager, "a", *ON_A, frontier=25)
    hear(manager, "c")
    for left in ((A, C), (C,)):
        assert len(planned(told(manager, NodesChanged(left)))) == 1
        assert plan_of(manager).rebuilt == 1


def test_a_damaged_snapshot_is_no_loss_of_nodes() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    told(manager, NodesChanged((A,)))
    alive = [report(name, frontier=25) for name in ON_A] + [report("source/1", 3, 21)]
    bad = DamagedSnapshot("counts/1", 3, record("counts/1", 20).name, "checksum")
    told_so = told(manager, Reported(told_by("a", 3, alive, damaged=[bad])))
    assert planned(told_so) == ["plan 4: run"]
    assert plan_of(manager).rebuilt == 1


@pytest.mark.parametrize("heard", [("source/0", "counts/0"), ("counts/0",)])
def test_a_job_has_got_as_far_as_the_last_of_its_slices_have(heard: tuple[str, ...]) -> None:
    """What sources have read ahead is not done."""
    manager = checkpointed()
    for node, index in (("a", 0), ("b", 1)):
        frontiers = {"source": 45, "counts": 25 + index}
        reports = [
            report(f"{name.partition('/')[0]}/{index}", 1, frontiers[name.partition("/")[0]])
            for name in heard
        ]
        told(manager, Reported(told_by(node, plan_of(manager).version, reports)))
    told(manager, NodesChanged((A,)))
    assert plan_of(manager).reached == 24


def test_a_calm_begins_when_all_that_the_plan_wants_is_there() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    hear(manager, "b", *ON_B, frontier=25)
    told(manager, NodesChanged((A, ("b", 3))))
    version = plan_of(manager).version
    there = [report(name, version, 25) for name in ON_B]
    for now in range(1, int(CALM_SECONDS) + 12, 10):
        told(manager, Ticked(float(now), 0.0))
        hear(manager, "a", *ON_A, frontier=25)
        # for the first half it still builds
        known = version - 1 if now < CALM_SECONDS / 2 else version
        told(manager, Reported(told_by("b", known, there, member=3)))
    assert plan_of(manager).version == version
    lose(manager, 4)
    assert plan_of(manager).rebuilt == 2


@pytest.mark.parametrize(("calm_seconds", "rebuilt"), [(CALM_SECONDS - 10, 2), (CALM_SECONDS, 1)])
def test_a_loss_after_a_long_calm_begins_to_count_anew(calm_seconds: float, rebuilt: int) -> None:
    """A job that has nothing to do gets no further, and loses nodes like others."""
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    lose(manager, 3)
    assert plan_of(manager).rebuilt == 1
    version = plan_of(manager).version
    for now in range(1, int(calm_seconds) + 2, 10):
        told(manager, Ticked(float(now), 0.0))
        hear(manager, "a", *ON_A, frontier=25)
        told(
            manager,
            Reported(told_by("b", version, [report(name, 2, 25) for name in ON_B], member=3)),
        )
    assert plan_of(manager).version == version
    lose(manager, 4)
    assert plan_of(manager).rebuilt == rebuilt


def test_losses_in_vain_are_counted_over_managers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_REBUILT", 2)
    old = checkpointed()
    hear(old, "a", *ON_A, frontier=25)
    lose(old, 3, 4)
    new = new_manager()
    told(new, NodesChanged((A, ("b", 4))), JobSeen(1, GRAPH, 2, ASYNCHRONOUS))
    told(new, PlanSeen(plan_of(old)), Elected(True))
    told(new, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    hear(new, "a", *ON_A, frontier=25)
    lines = lose(new, 5, 6)
    assert [line for line in lines if line.startswith("end")]
