"""The manager under gap recovery: which epochs a lost slice leaves out, and where nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from streammine.assembly import reason_to_keep
from streammine.engine.leaving_out import left_out as find_left_out
from streammine.engine.manager import ManagerMachine
from streammine.engine.manager_stimuli import NodesChanged, Reported
from streammine.model.disciplines import Discipline
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Edge, JobGraph, Loop, Vertex
from streammine.model.recovery_policy import RecoveryGoal, RecoverySemantics
from streammine.model.snapshots import Restore
from tests.unit.managing import ON_A, checkpointed, hear, plan_of, planned, told
from tests.unit.small_job import GRAPH, record, report, told_by

A, C = ("a", 1), ("c", 3)


def losing(
    *nodes: str,
    semantics: RecoverySemantics = "gap",
    window_epochs: int | None = 1,
    found: tuple[int, ...] = (10, 20),
) -> ManagerMachine:
    """A manager with the complete checkpoints `found`, and a job whose counts may be lost."""
    manager = checkpointed(*nodes, found=found)
    job = manager.jobs[1]
    job.recovery = replace(job.recovery, goal=RecoveryGoal(2.0, semantics))
    source, counts = GRAPH.vertices
    job.graph = replace(GRAPH, vertices=(source, replace(counts, window_epochs=window_epochs)))
    return manager


def left_out(manager: ManagerMachine) -> dict[str, int]:
    """Up to where the slices leave epochs out."""
    restores = {
        str(slice_id): group[0].restore for slice_id, group in plan_of(manager).placements.items()
    }
    return {
        name: each.left_out_until
        for name, each in restores.items()
        if each is not None and each.left_out_until != BEGINNING
    }


def reported(manager: ManagerMachine, node: str, frontiers: dict[str, int]) -> None:
    reports = [report(name, 1, frontier) for name, frontier in frontiers.items()]
    told(manager, Reported(told_by(node, plan_of(manager).version, reports)))


def test_what_the_senders_that_live_have_ended_is_left_out() -> None:
    # of counts/1's senders source/0 lives; source/1, lost with it, sends again from its checkpoint on
    manager = losing()
    reported(manager, "a", {"source/0": 27, "counts/0": 25})
    assert planned(told(manager, NodesChanged((A,)))) == ["plan 3: run"]
    assert left_out(manager) == {"counts/1": 26}


def test_the_slowest_of_the_senders_that_live_counts() -> None:
    manager = losing("a", "b", "c")
    placements = plan_of(manager).placements
    moved = {
        SliceId("source", 1): tuple(
            replace(each, node="c", member=3) for each in placements[SliceId("source", 1)]
        )
    }
    manager.jobs[1].plan = replace(plan_of(manager), placements=placements | moved)
    reported(manager, "a", {"source/0": 27, "counts/0": 25})
    reported(manager, "c", {"source/1": 24})
    told(manager, NodesChanged((A, C)))
    assert left_out(manager) == {"counts/1": 23}


@pytest.mark.parametrize(
    ("semantics", "window_epochs", "frontier"),
    [
        ("precise", 1, 27),
        # it keeps state without end
        ("gap", None, 27),
        # nothing came since the checkpoint
        ("gap", 1, 21),
    ],
)
def test_nothing_is_left_out_where_it_is_not_wanted_or_not_bounded_or_not_there(
    semantics: RecoverySemantics, window_epochs: int | None, frontier: int
) -> None:
    manager = losing(semantics=semantics, window_epochs=window_epochs)
    reported(manager, "a", {"source/0": frontier, "counts/0": 21})
    assert planned(told(manager, NodesChanged((A,)))) == ["plan 3: run"]
    assert left_out(manager) == {}


def test_nothing_is_left_out_without_a_snapshot_or_once_the_input_is_over() -> None:
    manager = losing()
    finished = [report("source/0", finished=True), report("counts/0", 1, 25)]
    told(manager, Reported(told_by("a", 2, finished)))
    assert planned(told(manager, NodesChanged((A,)))) == ["plan 3: run"]
    assert left_out(manager) == {}
    manager = losing(found=())
    hear(manager, "a", *ON_A, frontier=25)
    assert planned(told(manager, NodesChanged((A,)))) == ["plan 3: run"]
    assert plan_of(manager).placements[SliceId("counts", 1)][0].restore is None
    assert left_out(manager) == {}


def test_nothing_is_left_out_where_another_replica_goes_on() -> None:
    # as where it makes again what the living one no longer holds
    manager = losing()
    reported(manager, "a", {"source/0": 27, "counts/0": 25})
    reported(manager, "b", {"source/1": 27, "counts/1": 25})
    counts = SliceId("counts", 0)
    restore = Restore(20, record("counts/0", 20))
    kept = plan_of(manager).placements
    alone = kept | {counts: ()}
    job = manager.jobs[1]
    assert find_left_out(job, kept, {counts: restore}) == {counts: restore}
    left = replace(restore, left_out_until=26)
    assert find_left_out(job, alone, {counts: restore}) == {counts: left}


def test_nothing_is_left_out_where_all_senders_are_lost_too() -> None:
    manager = losing()
    hear(manager, "a", *ON_A, frontier=25)
    assert planned(told(manager, NodesChanged(()), NodesChanged((C,)))) == ["plan 3: run"]
    assert left_out(manager) == {}


def test_who_is_lost_again_on_the_way_leaves_out_more() -> None:
    manager = losing("a", "b", "c")
    reported(manager, "a", {"source/0": 27, "counts/0": 25})
    reported(manager, "c", {})
    told(manager, NodesChanged((A, C)))
    assert left_out(manager) == {"counts/1": 26}
    reported(manager, "a", {"source/0": 31, "counts/0": 25})
    told(manager, NodesChanged((A,)))
    assert left_out(manager) == {"counts/1": 30}


def test_further_replicas_begin_behind_what_is_left_out() -> None:
    manager = losing()
    reported(manager, "a", {"source/0": 27, "counts/0": 25})
    told(manager, NodesChanged((A,)))
    job = manager.jobs[1]
    counts = SliceId("counts", 1)
    reports = [report(name, 1, 28) for name in ON_A] + [
        report("source/1", 3, 28),
        report("counts/1", 3, 28),
    ]
    told(manager, Reported(told_by("a", 3, reports)))
    assert job.known
    assert job.origins([SliceId("counts", 0)]) is not None, "this one has lost nothing"
    assert job.origins([counts]) is None


# --- which operators --------------------------------------------------------------------------------


def chain(windows: Sequence[int | None], loops: tuple[Loop, ...] = ()) -> JobGraph:
    """source -> a -> b -> ... -> sink -> committer; `windows` are those of a, b, ..."""
    names = "abcdef"[: len(windows)]
    operators = [
        Vertex(name, "stateful", 1, Discipline.EPOCH, "", window_epochs=window)
        for name, window in zip(names, windows, strict=True)
    ]
    vertices = (
        Vertex("source", "source", 1, Discipline.EPOCH, ""),
        *operators,
        Vertex("sink", "sink", 1, Discipline.EPOCH, ""),
        Vertex("sink.committer", "committer", 1, Discipline.EPOCH, ""),
    )
    edges = tuple(
        Edge(a.name, b.name, 0, (), False, "forward", False) for a, b in pairwise(vertices)
    )
    return JobGraph(vertices, edges, loops)


@pytest.mark.parametrize(
    ("windows", "expected"),
    [((1, 3), "ab"), ((1, None), ""), ((None, 1), "b"), ((2, None, 1), "c")],
)
def test_an_operator_may_lose_if_it_and_all_behind_it_forget(
    windows: Sequence[int | None], expected: str
) -> None:
    graph = chain(windows)
    assert "".join(each.name for each in graph.vertices if each.name in graph.may_lose) == expected


def test_nothing_that_leads_to_replicas_that_agree_may_lose() -> None:
    graph = chain((1, 1, 1))
    agreeing = tuple(
        replace(each, discipline=Discipline.CONSENSUS) if each.name == "b" else each
        for each in graph.vertices
    )
    graph = replace(graph, vertices=agreeing)
    assert [each.name for each in graph.vertices if each.name in graph.may_lose] == ["c"]
    assert reason_to_keep(graph, "a") == "'b', which it leads to, has discipline consensus"


def test_nothing_that_leads_to_a_loop_may_lose() -> None:
    graph = chain((1, 1, 1), (Loop("b", ("b",), (("b", "b"),), 10),))
    assert [each.name for each in graph.vertices if each.name in graph.may_lose] == ["c"]
    assert graph.never_forgetting("a") == ("b",)
    assert reason_to_keep(graph, "b") == "it goes round in a loop"
