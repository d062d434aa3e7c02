"""Fault plans: drawn from a seed, cut down by leaving faults out; and shrinking."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammine.simulation.faults import GROUPS, FaultKind, FaultPlan, draw_plan, parse_kinds
from streammine.simulation.shrinking import shrink

ALL = tuple(FaultKind)


def test_a_seed_stands_for_one_plan() -> None:
    plans = [draw_plan(seed, ALL, 200) for seed in range(50)]
    assert plans == [draw_plan(seed, ALL, 200) for seed in range(50)]
    assert len({str(plan) for plan in plans}) == 50


def test_faults_come_in_order_while_the_job_is_going_on() -> None:
    for seed in range(200):
        plan = draw_plan(seed, ALL, 200, most=12)
        moments = [(fault.after_closes, fault.at_seconds) for fault in plan.faults]
        assert moments == sorted(moments)
        assert 1 <= len(moments) <= 12
        last = max(closes for closes, _ in moments)
        assert last < 200 or FaultKind.CORRUPT in {fault.kind for fault in plan.faults}


def test_every_kind_is_drawn_and_a_blob_is_damaged_once_at_most() -> None:
    drawn = [fault.kind for seed in range(300) for fault in draw_plan(seed, ALL, 200).faults]
    assert set(drawn) == set(ALL)
    for seed in range(300):
        kinds = [fault.kind for fault in draw_plan(seed, [FaultKind.CORRUPT], 200).faults]
        assert kinds == [FaultKind.CORRUPT]


def test_where_a_blob_is_damaged_somebody_dies_later_who_would_need_it() -> None:
    for seed in range(300):
        faults = draw_plan(seed, [FaultKind.CORRUPT, FaultKind.CRASH], 200).faults
        damaged = [each.after_closes for each in faults if each.kind is FaultKind.CORRUPT]
        if damaged and len(faults) < 16:
            assert any(
                each.kind is FaultKind.CRASH and each.after_closes > damaged[0] for each in faults
            )


def test_only_the_kinds_asked_for_are_drawn() -> None:
    kinds = parse_kinds("crash, session")
    assert kinds == (FaultKind.CRASH, *GROUPS["session"])
    drawn = {fault.kind for seed in range(100) for fault in draw_plan(seed, kinds, 200).faults}
    assert drawn == set(kinds)
    assert draw_plan(1, parse_kinds("none"), 200) == FaultPlan()


def test_an_unknown_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"there is no fault 'crush'; there are all, none, .*crash"
    ):
        parse_kinds("pause,crush")


def test_a_part_of_a_plan_comes_as_in_the_whole() -> None:
    plan = draw_plan(3, ALL, 200, most=10)
    assert plan.only([0, 2]).faults == (plan.faults[0], plan.faults[2])
    assert plan.only([]) == FaultPlan()


@given(
    st.integers(1, 24).flatmap(
        lambda count: st.tuples(
            st.just(count), st.sets(st.integers(0, count - 1), min_size=1, max_size=5)
        )
    )
)
def test_shrinking_leaves_what_is_needed_and_nothing_else(case: tuple[int, set[int]]) -> None:
    count, needed = case

    def fails(numbers: Sequence[int]) -> bool:
        return needed <= set(numbers)

    assert shrink(range(count), fails) == sorted(needed)


def test_a_failure_without_any_fault_shrinks_to_none() -> None:
    assert shrink(range(7), lambda numbers: True) == []


def test_shrinking_stops_after_so_many_trials() -> None:
    trials = []

    def fails(numbers: Sequence[int]) -> bool:
        trials.append(numbers)
        return {0, 9, 17, 31} <= set(numbers)

    kept = shrink(range(32), fails, most_trials=5)
    assert {0, 9, 17, 31} <= set(kept)
    assert len(trials) <= 6
