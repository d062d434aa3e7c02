"""When the benchmark of schemes takes a loss as made up for."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.schemes import NEARBY_EPOCHS, STEPS, Cost, Recovery, _is_whole, _name, _row

from streammine.model.schemes import Scheme


def replica(node: str, phase: str = "running", frontier: int = 100) -> dict[str, Any]:
    return {"node": node, "phase": phase, "frontier": frontier}


@pytest.mark.parametrize(
    ("other", "whole"),
    [
        (replica("b"), True),
        (replica("b", "ready", 0), True),
        (replica("b", "deploying"), False),
        (replica("gone"), False),
        (replica("b", frontier=100 - NEARBY_EPOCHS), True),
        (replica("b", frontier=99 - NEARBY_EPOCHS), False),
    ],
)
def test_a_slice_is_whole_when_its_further_replica_has_caught_up_or_stands_ready(
    other: dict[str, Any], whole: bool
) -> None:
    assert _is_whole([replica("a"), other], 2, "gone") is whole


def test_a_slice_that_lacks_a_replica_is_not_whole() -> None:
    assert not _is_whole([replica("a")], 2, "gone")
    assert _is_whole([replica("a")], 1, "gone")
    assert not _is_whole([replica("a", "ready")], 1, "gone"), "nobody processes"


@pytest.mark.parametrize(
    ("seconds", "estimated", "ratio"),
    [(0.5, 0.25, 2.0), (0.0, 0.1, 1.0), (0.0, 0.4, 0.5), (0.5, 0.1, 2.5)],
    ids=["both can be told", "neither can", "too short to be told", "estimated too short"],
)
def test_what_can_not_be_told_from_the_usual_gaps_counts_as_just_that_long(
    seconds: float, estimated: float, ratio: float
) -> None:
    recovery = Recovery(seconds, seconds, 0.2, {"detect_seconds": estimated}, None, ())
    assert recovery.ratio == pytest.approx(ratio)


def row(times: list[float], estimated: list[float | None]) -> dict[str, Any]:
    """Of recoveries that took and were estimated to take so long."""
    recoveries = [
        Recovery(
            taken, taken, 0.1, None if each is None else dict.fromkeys(STEPS, each / 5), {}, ()
        )
        for taken, each in zip(times, estimated, strict=True)
    ]
    return _row(Scheme.DEPLOYED, 10, 10_000_000, recoveries, [Cost(1.0, 1e9)], "d")


@pytest.mark.parametrize(
    ("times", "ratio", "worst", "worst_within"),
    [
        ([1.0, 0.9, 1.8], 1.0, 1.8, True),
        ([1.0, 0.4, 2.2], 1.0, 0.4, False),
        ([1.0, 0.6, 2.2], 1.0, 2.2, False),
    ],
    ids=["all within", "too short is worst", "too long is worst"],
)
def test_the_worst_run_is_the_one_that_is_furthest_from_its_estimate(
    times: list[float], ratio: float, worst: float, worst_within: bool
) -> None:
    told = row(times, [1.0, 1.0, 1.0])
    assert (told["ratio"], told["worst_ratio"]) == (ratio, worst)
    assert (told["within"], told["worst_within"]) == (True, worst_within)


def test_what_was_estimated_to_take_for_ever_is_worst() -> None:
    told = row([1.0, 1.9, 1.0], [1.0, 1.0, float("inf")])
    assert (told["worst_ratio"], told["worst_within"]) == (0.0, False)


def test_a_run_without_an_estimate_has_neither_ratio() -> None:
    told = row([1.0, 1.0], [1.0, None])
    assert (told["ratio"], told["worst_ratio"], told["worst_within"]) == (None, None, False)


def test_a_run_of_some_schemes_or_sizes_is_kept_under_another_name() -> None:
    assert _name((), (10, 100, 500)) == "schemes"
    assert _name(tuple(Scheme), (500, 100, 10, 1000)) == "schemes"
    assert _name((), (10,)) == "schemes-10mb"
    assert _name(("deployed",), (10, 100, 500)) == "schemes-deployed"
    assert _name(("active-standby", "deployed"), (100, 10)) == (
        "schemes-deployed-active-standby-10mb-100mb"
    )
