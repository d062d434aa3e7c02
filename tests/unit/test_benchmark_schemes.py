"""When the benchmark of schemes takes a loss as made up for."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.schemes import NEARBY_EPOCHS, Recovery, _is_whole


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
