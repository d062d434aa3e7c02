"""The manager of a job whose slices have replicas: first places, losses, drains and moves.

A slice is drawn as the nodes of its replicas, the one that leads first; ``b:4<20`` is a replica of generation
4 that is built from the snapshot of epoch 20, and ``(b)`` one that is to leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from streammine.engine.job_status import job_status
from streammine.engine.manager_stimuli import (
    DrainAsked,
    Elected,
    MoveAsked,
    NodesChanged,
    Reported,
    Ticked,
)
from streammine.engine.node_stimuli import (
    CheckpointPublished,
    CheckpointsFound,
    JobSeen,
    PlanSeen,
    ReplicasLack,
)
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Placement, Plan
from streammine.model.schemes import Scheme
from streammine.model.snapshots import Restore
from tests.unit.managing import checkpoint, leading, new_manager, plan_of, planned, told
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, report, told_by

COUNTS = SliceId("counts", 0)


def replicated(replicas: int) -> JobGraph:
    active = {"replicas": replicas, "scheme": Scheme.ACTIVE_REPLICATION}
    return JobGraph(tuple(replace(each, **active) for each in GRAPH.vertices), GRAPH.edges)


def agreeing() -> JobGraph:
    """Both replicas of the counts agree on their input."""
    source, counts = GRAPH.vertices
    counts = replace(counts, replicas=2, scheme=Scheme.ACTIVE_REPLICATION)
    (edge,) = GRAPH.edges
    return JobGraph((source, counts), (replace(edge, stages=("feed",), either=True),))


class Managed:
    """A manager and its job of `replicas` on the nodes a, b, ..., with complete checkpoints 10 and 20."""

    def __init__(
        self,
        nodes: str,
        replicas: int = 2,
        wanted: int | None = None,
        graph: JobGraph | None = None,
    ) -> None:
        self.nodes = nodes
        self.manager = leading(*nodes)
        self.plans: list[Plan] = []
        seen = JobSeen(1, graph or replicated(replicas), wanted or len(nodes), ASYNCHRONOUS)
        told(self.manager, seen, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
        self.hear()
        self.hear()

    @property
    def plan(self) -> Plan:
        return plan_of(self.manager)

    def hear(
        self,
        frontier: int = 25,
        snapshots: tuple[int, ...] = (),
        behind: Mapping[int, int] | None = None,
        nodes: str | None = None,
    ) -> list[str]:
        """Nodes report all replicas that the plan puts there; those of the generations in `behind` stand at
        another epoch."""
        lines = []
        frontiers = behind or {}
        for node in self.nodes if nodes is None else nodes:
            reports = [
                report(
                    str(slice_id),
                    each.generation,
                    frontiers.get(each.generation, frontier),
                    accepted=max(snapshots, default=BEGINNING),
                    # only who leads makes them
                    snapshots=snapshots if each == group[0] else (),
                )
                for slice_id, group in self.plan.placements.items()
                for each in group
                if each.node == node
            ]
            lines += told(self.manager, Reported(told_by(node, self.plan.version, reports)))
        return planned(lines)

    def checkpoint(self, epoch: int, behind: Mapping[int, int] | None = None) -> None:
        """All who lead make their snapshots of an epoch, and the checkpoint is written."""
        self.hear(epoch + 5, (epoch,), behind)
        told(self.manager, CheckpointPublished(1, epoch, None))

    def live(self, nodes: str) -> list[str]:
        """These nodes are members now."""
        self.nodes = nodes
        members = tuple((node, "abcdefgh".index(node) + 1) for node in nodes)
        return planned(told(self.manager, NodesChanged(members), Ticked(0.0, 1000.0)))

    def drawn(self) -> dict[str, str]:
        return {
            str(slice_id): " ".join(map(_drawn, group))
            for slice_id, group in self.plan.placements.items()
        }


def _drawn(each: Placement) -> str:
    text = each.node
    if each.generation > 3:
        text += f":{each.generation}"
    if each.restore is not None:
        text += f"<{each.restore.epoch}"
    return f"({text})" if each.leaving else text


def replicas_of(plan: Plan) -> set[tuple[SliceId, int, str]]:
    """Slice, generation and node of each replica."""
    return {
        (one, each.generation, each.node)
        for one, group in plan.placements.items()
        for each in group
    }


def test_the_first_plan_numbers_the_replicas_of_each_slice() -> None:
    job = Managed("abc", replicas=3)
    assert [each.generation for each in job.plan.placements[COUNTS]] == [1, 2, 3]
    assert job.drawn() == {
        "source/0": "a b c",
        "source/1": "b c a",
        "counts/0": "b a c",
        "counts/1": "c a b",
    }


def test_of_two_members_of_one_name_the_first_plan_takes_one() -> None:
    manager = leading("a", "b")
    told(manager, NodesChanged((("a", 1), ("b", 2), ("a", 3))))
    told(manager, JobSeen(1, replicated(2), 2, ASYNCHRONOUS))
    assert {each.member for group in plan_of(manager).placements.values() for each in group} == {
        2,
        3,
    }


def test_a_lost_replica_is_no_loss_where_there_is_no_other_node() -> None:
    job = Managed("ab")
    assert job.live("a") == ["plan 3: run"]
    assert set(job.drawn().values()) == {"a"}
    assert job.hear() == []
    assert job.plan.rebuilt == 0


def test_a_lost_replica_is_made_up_for_on_another_node() -> None:
    job = Managed("abc")
    assert job.drawn()["counts/0"] == "b a"
    assert job.live("ac") == ["plan 3: run"], "one plan for all of it"
    assert job.drawn() == {
        "source/0": "a c:4<20",
        "source/1": "c a:4<20",
        "counts/0": "a c:4<20",
        "counts/1": "c a",
    }


def test_what_is_rebuilt_does_not_wait_for_what_is_only_missing() -> None:
    job = Managed("abcd")
    assert job.drawn() | {"source/1": "b c", "counts/0": "c d", "counts/1": "d a"} == job.drawn()
    before = job.plan
    assert job.live("ab") == ["plan 3: run", "plan 4: run"]
    added = replicas_of(job.plan) - replicas_of(before)
    assert {(str(one), generation) for one, generation, _ in added} == {
        ("counts/0", 4),
        ("source/1", 5),
        ("counts/0", 5),
        ("counts/1", 5),
    }


def test_a_new_manager_makes_up_for_a_node_that_it_never_heard_in_one_plan_too() -> None:
    job = Managed("abc")
    old, job.manager, job.nodes = job.plan, new_manager(), "ac"
    members = (("a", 1), ("b", 2), ("c", 3))
    told(job.manager, NodesChanged(members), JobSeen(1, replicated(2), 3, ASYNCHRONOUS))
    told(job.manager, PlanSeen(old), Elected(True))
    told(job.manager, NodesChanged((members[0], members[2])))
    told(job.manager, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    assert job.hear() == ["plan 3: run"]
    assert job.drawn()["counts/0"] == "a c:4<20"


def test_what_is_lost_beside_a_node_that_is_emptied_does_not_keep_it_there() -> None:
    job = Managed("ab")
    told(job.manager, DrainAsked("b"))
    assert set(job.drawn().values()) == {"(b) a", "a (b)"}, "there is no other node"
    job.live("bcd")
    assert job.drawn() == {
        "source/0": "(b) c:7<20",
        "source/1": "(b) d:7<20",
        "counts/0": "(b) c:7<20",
        "counts/1": "(b) d:7<20",
    }


def test_a_node_that_joins_gets_what_is_missing() -> None:
    job = Managed("ab")
    job.live("a")
    assert job.live("ac") == ["plan 4: run"]
    assert job.drawn()["counts/1"] == "a c:5<20"


def test_all_replicas_of_a_slice_that_are_lost_are_made_up_for_one_after_the_other() -> None:
    job = Managed("abc")
    assert job.live("c") == ["plan 3: run"]
    assert job.drawn() == {
        "source/0": "c:4<20",
        "source/1": "c",
        "counts/0": "c:4<20",
        "counts/1": "c",
    }
    assert job.plan.rebuilt == 1
    job.hear()
    assert job.live("cd") == ["plan 4: run"]
    assert set(job.drawn().values()) == {"c:4<20 d:5<20", "c d:5<20"}


@pytest.mark.parametrize("replicas", [2, 3, 5])
def test_no_generation_is_ever_used_twice(replicas: int) -> None:
    job = Managed("abcdef", replicas)
    used = {each[:2] for each in replicas_of(job.plan)}
    for nodes in ("acdef", "acd", "cd", "d", "de", "aed", "ae", "aefg", "g"):
        before = replicas_of(job.plan)
        job.live(nodes)
        job.hear()
        new = {each[:2] for each in replicas_of(job.plan) - before}
        assert not new & used
        used |= new


def test_a_drain_puts_replicas_elsewhere_and_the_old_ones_go_when_the_new_ones_have_caught_up() -> (
    None
):
    job = Managed("abc")
    told(job.manager, DrainAsked("b"))
    assert job.drawn()["counts/0"] == "(b) a c:5<20"
    assert job.drawn()["source/0"] == "a (b) c:5<20", "who leads goes on doing so"
    assert job.hear(behind={5: 22}) == []
    job.hear()
    assert job.drawn() == {
        "source/0": "a c:5<20",
        "source/1": "c a:5<20",
        "counts/0": "a c:5<20",
        "counts/1": "c a",
    }


def test_a_drain_without_room_leaves_what_is_there_to_the_others() -> None:
    job = Managed("ab")
    told(job.manager, DrainAsked("b"))
    assert job.drawn()["counts/1"] == "(b) a"
    assert job.hear() == ["plan 5: run"]
    assert set(job.drawn().values()) == {"a"}
    assert job.hear() == []


def test_a_drain_without_room_waits_for_those_that_are_behind() -> None:
    # what c has is still to catch up
    job = Managed("ab")
    job.live("a")
    job.live("ac")
    job.hear(behind={5: 21})
    told(job.manager, DrainAsked("a"))
    assert set(job.drawn().values()) == {"(a) c:5<20"}
    assert job.hear(behind={5: 21}) == []
    job.hear()
    assert set(job.drawn().values()) == {"c:5<20"}


def test_who_is_to_leave_stays_where_another_is_lost() -> None:
    job = Managed("abc")
    told(job.manager, DrainAsked("b"))
    assert job.drawn()["counts/0"] == "(b) a c:5<20"
    job.live("ab")
    assert job.drawn()["counts/0"] in ("b a", "(b) a")
    assert job.hear(behind={5: 22}) != []
    assert "a" in job.drawn()["counts/0"]


def test_a_move_takes_the_replica_that_leads_and_leaves_the_others() -> None:
    job = Managed("abc")
    told(job.manager, MoveAsked(1, COUNTS, "c", True))
    assert job.drawn()["counts/0"] == "(b) a c:4<20"
    assert job.hear(behind={4: 22}) == []
    assert job.hear() == ["plan 4: run"]
    assert job.drawn()["counts/0"] == "a c:4<20"


def test_a_slice_is_not_moved_to_where_another_replica_of_it_is() -> None:
    job = Managed("ab")
    assert job.manager.refusal(MoveAsked(1, COUNTS, "a", True)) == "counts/0 is on a already"


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_job_is_finished_when_one_replica_of_each_slice_is(lost: str) -> None:
    job = Managed("ab")
    (node,) = {"a", "b"} - {lost}
    reports = [report(str(each), group_generation(job, each, node), finished=True)
               for each in job.plan.placements]  # fmt: skip
    heard = Reported(told_by(node, job.plan.version, reports))
    assert told(job.manager, heard)[-1] == "end: finished, None"


def group_generation(job: Managed, slice_id: SliceId, node: str) -> int:
    return next(each.generation for each in job.plan.placements[slice_id] if each.node == node)


def test_nothing_that_a_slow_replica_may_ask_for_is_pruned() -> None:
    # the second replicas stand at 12 while checkpoint after checkpoint is made
    job = Managed("ab")
    for epoch in (30, 40):
        job.checkpoint(epoch, behind={2: 12})
    assert [each.epoch for each in job.manager.jobs[1].coordinator.complete] == [30, 40]
    assert job.manager.jobs[1].retain_after == 11
    job.checkpoint(50)
    assert job.manager.jobs[1].retain_after == 40


def test_nothing_that_the_new_leader_may_ask_for_is_pruned() -> None:
    # who led has made the snapshot of 30, and is lost before it counts; who leads now stands at 12
    job = Managed("ab")
    job.hear(35, (30,), {2: 12})
    job.live("b")
    told(job.manager, CheckpointPublished(1, 30, None))
    job.hear(13, behind={2: 12})
    told(job.manager, Ticked(1.0, 1000.0))
    assert job.manager.jobs[1].retain_after <= 11


def test_nothing_that_a_replica_on_its_way_may_ask_for_is_pruned() -> None:
    job = Managed("abc")
    job.live("ac")
    assert job.drawn()["counts/0"] == "a c:4<20"
    for epoch in (30, 40, 50):
        for node in "ac":
            reports = [
                report(str(slice_id), each.generation, epoch + 5, snapshots=(epoch,))
                for slice_id, group in job.plan.placements.items()
                for each in group
                if each.node == node and each.generation < 4
            ]
            told(job.manager, Reported(told_by(node, job.plan.version, reports)))
        told(job.manager, CheckpointPublished(1, epoch, None))
    assert job.manager.jobs[1].retain_after == 20


def test_the_status_tells_of_every_replica_which_node_has_it_and_whether_it_leads() -> None:
    job = Managed("abc")
    job.live("ac")
    tree = job_status(job.manager.jobs[1], job.manager.live)
    assert isinstance(tree["slices"], dict)
    shown = [
        {name: each[name] for name in ("node", "generation", "leads", "phase", "frontier")}
        for each in tree["slices"]["counts/0"]["replicas"]
    ]
    assert shown == [
        {"node": "a", "generation": 2, "leads": True, "phase": "running", "frontier": 25},
        {"node": "c", "generation": 4, "leads": False, "phase": "deploying", "frontier": BEGINNING},
    ]


@pytest.mark.parametrize(("began", "origin"), [(None, 20), (10, 20), (20, 20), (30, None)])
@pytest.mark.parametrize("place", [0, 1])
def test_who_agrees_with_others_begins_where_all_of_them_have_been(
    began: int | None, origin: int | None, place: int
) -> None:
    """A slice that was rebuilt alone, from a snapshot of no complete checkpoint, knows nothing of what was
    decided before; and who learns waits for it."""
    managed = Managed("ab", graph=agreeing())
    job = managed.manager.jobs[1]
    group = list(managed.plan.placements[COUNTS])
    group[place] = replace(group[place], restore=None if began is None else Restore(began, None))
    job.plan = replace(managed.plan, placements=managed.plan.placements | {COUNTS: tuple(group)})
    origins = job.origins([COUNTS])
    assert (origins and origins[COUNTS] and origins[COUNTS].epoch) == origin


def test_nobody_begins_the_job_anew_for_a_replica_that_lives_and_was_far_behind() -> None:
    """Of what lies before the older of two complete checkpoints, what was agreed on is forgotten."""
    managed = Managed("ab", graph=agreeing())
    (second,) = managed.plan.placements[SliceId("counts", 0)][1:]
    assert second.node == "b"
    managed.hear(behind={second.generation: 5})
    told(managed.manager, NodesChanged((("b", 2),)))
    origins = {
        str(slice_id): group[0].restore.epoch if group[0].restore is not None else None
        for slice_id, group in managed.plan.placements.items()
    }
    assert origins == {"source/0": 20, "source/1": None, "counts/0": 20, "counts/1": None}


@pytest.mark.parametrize(("frontier", "followed"), [(20, False), (21, True), (25, True)])
def test_what_was_agreed_on_is_kept_for_whoever_has_not_followed_it(
    frontier: int, followed: bool
) -> None:
    managed = Managed("ab", graph=agreeing())
    (second,) = managed.plan.placements[COUNTS][1:]
    managed.hear(behind={second.generation: frontier})
    assert managed.manager.jobs[1].all_followed(20) == followed


def test_what_was_agreed_on_is_kept_for_whoever_is_still_being_built() -> None:
    managed = Managed("ab", graph=agreeing())
    job = managed.manager.jobs[1]
    group = managed.plan.placements[COUNTS]
    built = replace(group[1], generation=9, restore=Restore(10, None))
    job.plan = replace(
        managed.plan, placements=managed.plan.placements | {COUNTS: (group[0], built)}
    )
    assert job.all_followed(10)
    assert not job.all_followed(20)


# --- too few nodes ------------------------------------------------------------------------------


def lacks_told(job: Managed, nodes: str) -> list[str]:
    """What is told of replicas without a node once these are there, and all plans that follow are done."""
    members = tuple((node, "abcdefgh".index(node) + 1) for node in nodes)
    job.nodes = nodes
    effects = job.manager.handle(NodesChanged(members))
    for _ in range(8):
        for node in nodes:
            reports = [
                report(str(slice_id), each.generation, 25)
                for slice_id, group in job.plan.placements.items()
                for each in group
                if each.node == node
            ]
            heard = Reported(told_by(node, job.plan.version, reports))
            effects += job.manager.handle(heard)
        effects += job.manager.handle(Ticked(0.0, 1000.0))
    told_of = [each for each in effects if isinstance(each, ReplicasLack)]
    return [each for one in told_of for each in map(str, one.lacks or ("no lack",))]


def test_what_has_no_node_is_told_and_placed_when_nodes_join() -> None:
    job = Managed("ab", replicas=4, wanted=4)
    assert {len(group) for group in job.plan.placements.values()} == {2}
    tree: Any = job_status(job.manager.jobs[1], job.manager.live)
    assert tree["lacking"] == [
        {"vertices": ("source", "counts"), "wanted": 4, "placed": 2, "nodes": 2}
    ]
    three = lacks_told(job, "abc")
    assert three[-1] == (
        "source, counts: 4 replicas of each slice wanted, 3 placed: only 3 nodes are there for them; "
        "the others are placed when nodes join"
    )
    assert {len(group) for group in job.plan.placements.values()} == {3}
    assert lacks_told(job, "abcd") == ["no lack"]
    assert {len({each.node for each in group}) for group in job.plan.placements.values()} == {4}
    tree = job_status(job.manager.jobs[1], job.manager.live)
    assert tree["lacking"] == []


def test_a_node_that_is_to_be_emptied_is_no_place() -> None:
    job = Managed("ab")
    assert lacks_told(job, "ab") == []
    job.manager.handle(DrainAsked("b"))
    (told_of,) = lacks_told(job, "ab")[-1:]
    assert "2 replicas of each slice wanted, 1 placed: only 1 node is there for them" in told_of
