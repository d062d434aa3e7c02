"""When a change that a client asked for has come about: the plan says so, and replicas stand as it wants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammine.model.ids import SliceId
from streammine.model.job import Placement, Plan
from streammine.model.schemes import Scheme
from streammine.runtime.scheme_change import SchemeChange
from tests.unit.small_job import GRAPH

SLICES = GRAPH.slices_named("counts")
PASSIVE, DEPLOYED, COLD, HOT, STANDBY, ACTIVE = Scheme


def plan_with(scheme: Scheme, rung: Scheme | None, crowded: tuple[str, ...] = ()) -> Plan:
    """A person has set the scheme; further replicas, if any, are on b and stand on a rung."""
    further = () if rung is None else (Placement("b", 2, rung=rung),)
    placements = {slice_id: (Placement("a", 1), *further) for slice_id in GRAPH.slices}
    schemes = dict.fromkeys(SLICES, scheme)
    return Plan(1, 3, "run", placements, schemes=schemes, crowded=crowded, fixed=SLICES)


def stands(scheme: Scheme | None, plan: Plan | None, crowded_too: bool = False) -> bool:
    return SchemeChange(GRAPH, SLICES, scheme).stands(plan, crowded_too, "ab")


@pytest.mark.parametrize("scheme", list(Scheme))
def test_replicas_stand_where_the_scheme_wants_them(scheme: Scheme) -> None:
    for rung in (None, *Scheme):
        expected = rung is None if scheme is PASSIVE else rung is scheme
        assert stands(scheme, plan_with(scheme, rung)) == expected


def test_all_replicas_that_there_is_room_for_are_waited_for() -> None:
    three = replace(GRAPH, vertices=tuple(replace(each, replicas=3) for each in GRAPH.vertices))
    change = SchemeChange(three, SLICES, ACTIVE)
    two = plan_with(ACTIVE, ACTIVE)
    assert change.stands(two, False, "ab"), "there is no third node"
    assert change.stands(replace(two, draining=("c",)), False, "abc")
    assert not change.stands(two, False, "abc")
    third = {each: (*group, Placement("c", 3)) for each, group in two.placements.items()}
    assert change.stands(replace(two, placements=third), False, "abc")


def test_where_the_rung_stands_already_the_plan_must_say_so_too() -> None:
    plan = plan_with(COLD, COLD)
    assert stands(COLD, plan)
    assert not stands(COLD, None)
    assert not stands(COLD, replace(plan, fixed=())), "a controller has chosen the same"
    assert not stands(COLD, replace(plan, fixed=SLICES[:1]))
    assert not stands(COLD, replace(plan, schemes={SLICES[0]: COLD}))


def test_slices_are_handed_back_once_the_plan_has_none_of_them() -> None:
    plan = plan_with(COLD, COLD)
    assert not stands(None, None)
    assert not stands(None, plan)
    assert not stands(None, replace(plan, fixed=SLICES[1:]))
    assert stands(None, replace(plan, fixed=(SliceId("source", 0),)))


@pytest.mark.parametrize("scheme", [STANDBY, ACTIVE])
def test_on_a_crowded_node_replicas_wait_for_room(scheme: Scheme) -> None:
    plan = plan_with(scheme, HOT, crowded=("b", "c"))
    change = SchemeChange(GRAPH, SLICES, scheme)
    assert change.stands(plan, crowded_too=True, nodes="abc")
    assert not change.stands(plan, crowded_too=False, nodes="abc")
    assert change.waiting(plan) == ("b",)
    assert change.told_of_room(plan) == ": those on b wait until their node has time for them"
    # they are on their way there
    on_its_way = plan_with(scheme, COLD, crowded=("b",))
    assert not change.stands(on_its_way, crowded_too=True, nodes="abc")
    there = plan_with(scheme, scheme)
    assert change.stands(there, crowded_too=False, nodes="abc")
    assert change.waiting(there) == ()
    assert change.told_of_room(there) == ""


def test_what_does_not_process_waits_for_nothing() -> None:
    plan = plan_with(HOT, HOT, crowded=("b",))
    assert stands(HOT, plan)
    assert SchemeChange(GRAPH, SLICES, HOT).waiting(plan) == ()
