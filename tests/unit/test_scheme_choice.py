"""Which scheme is taken for which state and which load, and when a scheme is left."""

from __future__ import annotations

import pytest

from replication.scheme_choice import choose
from streammine.model.recovery_assessment import Assessment, RecoveryEstimate
from streammine.model.recovery_policy import CostWeights, RecoveryGoal, RecoverySemantics
from streammine.model.schemes import Scheme
from tests.unit.recovery_cases import (
    ACTIVE,
    COLD,
    DEPLOYED,
    HOT,
    PASSIVE,
    SLICE,
    STANDBY,
    seen,
    settled,
)

TWO_SECONDS = RecoveryGoal(2.0)


def assessed(seconds: list[float], costs: list[float]) -> Assessment:
    return Assessment(
        estimates={
            scheme: RecoveryEstimate(detect_seconds=each)
            for scheme, each in zip(Scheme, seconds, strict=True)
        },
        costs=dict(zip(Scheme, costs, strict=True)),
    )


LADDER = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


# The estimates for 2 s, of which 1.6 s may be used up, are (in seconds):
#
#   state   input    passive  deployed  cold and hot  standby
#     5 MB   0 MB/s    1.05      0.65       0.6         0.6
#     5 MB  10 MB/s    1.46      0.98       0.92        0.6
#     5 MB  20 MB/s    2.08      1.48       1.4         0.6
#    40 MB  10 MB/s    1.88      1.4        0.92        0.6
#    40 MB  20 MB/s    2.6       2.0        1.4         0.6
#    40 MB  35 MB/s    5.0       4.04       2.84        0.6
#   100 MB  10 MB/s    2.6       2.12       0.92        0.6
#   100 MB  70 MB/s    never     never      never       0.6
@pytest.mark.parametrize(
    ("state_mb", "input_mb", "chosen"),
    [
        (5, 0, PASSIVE),
        (5, 10, PASSIVE),
        (5, 20, DEPLOYED),
        (40, 10, DEPLOYED),
        (40, 20, COLD),
        (40, 35, STANDBY),
        (100, 10, COLD),
        (100, 70, STANDBY),
    ],
)
def test_the_more_state_and_the_more_input_the_higher_the_rung(
    state_mb: float, input_mb: float, chosen: Scheme
) -> None:
    # what keeps a standby up to date costs nothing here, so the ladder's order is that of the costs
    goal = RecoveryGoal(2.0, weights=CostWeights(cpu=0, network=0.1))
    busy = seen(state_mb, input_mb, output_bytes_per_second=100e6)
    assert settled(goal, busy).stances[SLICE].scheme is chosen


@pytest.mark.parametrize(
    ("max_seconds", "semantics", "chosen"),
    [
        (0.5, "precise", ACTIVE),
        (0.8, "precise", STANDBY),
        (1.3, "precise", STANDBY),
        (2.0, "precise", COLD),
        (3.7, "precise", DEPLOYED),
        (4.4, "precise", PASSIVE),
        (0.5, "gap", ACTIVE),
        (0.9, "gap", COLD),
        (2.7, "gap", DEPLOYED),
        (3.5, "gap", PASSIVE),
    ],
)
def test_the_more_time_there_is_the_lower_the_rung(
    max_seconds: float, semantics: RecoverySemantics, chosen: Scheme
) -> None:
    # 3.5, 2.9, 1.4, 1.4, 0.6 and 0 s; with gaps 2.75, 2.15 and 0.65 instead of the first three
    goal = RecoveryGoal(max_seconds, semantics)
    assert settled(goal, seen(100, 20, may_lose=True)).stances[SLICE].scheme is chosen


def test_what_may_not_lose_is_recovered_precisely_whatever_the_semantics() -> None:
    stance = settled(RecoveryGoal(3.5, "gap"), seen(100, 20, may_lose=False)).stances[SLICE]
    assert (
        stance.scheme is COLD
    )  # the others' estimates are above 2.8 s, which passive takes with gaps
    assert stance.assessment.estimates[PASSIVE].seconds == pytest.approx(3.5)


def test_a_scheme_that_fits_is_not_left_for_one_that_costs_hardly_less() -> None:
    seconds = [9.0, 9.0, 1.0, 1.0, 1.0, 0.0]
    for cost, chosen in ((1.53, STANDBY), (1.48, COLD)):
        assessment = assessed(seconds, [0.0, 1.0, cost, 1.55, 1.54, 1.6])
        assert choose(STANDBY, assessment, TWO_SECONDS, may_save=True)[0] is chosen
    # neither is it left where it costs nothing at all
    free = assessed([1.0] * 6, [0.0] * 6)
    assert choose(PASSIVE, free, TWO_SECONDS, may_save=True)[0] is PASSIVE


def test_weights_say_what_is_cheapest() -> None:
    # for 1.3 s there are cold (0.1 core, 10 MB/s) and active standby (0.2 core, 5 MB/s)
    for weights, chosen in (
        (CostWeights(network=0), COLD),
        (CostWeights(cpu=0), STANDBY),
    ):
        goal = RecoveryGoal(1.3, weights=weights)
        assert settled(goal, seen(100, 5)).stances[SLICE].scheme is chosen


def test_of_equally_cheap_schemes_the_fastest_is_taken() -> None:
    goal = RecoveryGoal(60.0, weights=CostWeights(1, 1, 1, nodes=0))
    # without a weight for nodes, an operator that only stands there is free
    assert settled(goal, seen(100, 20)).stances[SLICE].scheme is DEPLOYED


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ([1.7, 1.5, 1.0, 1.0, 0.6, 0.0], PASSIVE),
        ([1.9, 1.7, 1.0, 1.0, 0.6, 0.0], PASSIVE),
        ([2.1, 1.7, 1.5, 1.0, 0.6, 0.0], COLD),
        ([2.1, 1.7, 1.7, 1.7, 1.7, 1.7], DEPLOYED),
        ([2.1, 2.1, 2.1, 2.1, 2.1, 2.1], ACTIVE),
    ],
)
@pytest.mark.parametrize("may_save", [True, False])
def test_a_scheme_is_left_when_it_no_longer_fits_for_one_with_a_margin(
    seconds: list[float], chosen: Scheme, may_save: bool
) -> None:
    found, _ = choose(PASSIVE, assessed(seconds, LADDER), TWO_SECONDS, may_save)
    assert found is chosen


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ([1.7, 1.5, 1.0, 1.0, 0.6, 0.0], DEPLOYED),
        ([1.7, 1.7, 1.7, 1.0, 0.6, 0.0], HOT),
        ([1.5, 1.5, 1.0, 1.0, 0.6, 0.0], PASSIVE),
    ],
)
def test_a_cheaper_scheme_is_taken_only_with_a_margin_and_only_when_that_is_allowed(
    seconds: list[float], chosen: Scheme
) -> None:
    assessment = assessed(seconds, LADDER)
    assert choose(ACTIVE, assessment, TWO_SECONDS, may_save=True)[0] is chosen
    held, reason = choose(ACTIVE, assessment, TWO_SECONDS, may_save=False)
    assert held is ACTIVE
    assert reason == f"it fits; {chosen} is cheaper, but the last change is too recent"


@pytest.mark.parametrize(
    ("present", "seconds", "reason"),
    [
        (
            PASSIVE,
            [2.5, 1.7, 1.5, 1.0, 0.6, 0.0],
            "passive-replication would take 2.5 s of 2 s; the cheapest within 1.6 s",
        ),
        (
            PASSIVE,
            [2.5, 1.7, 1.7, 1.7, 1.7, 1.7],
            "passive-replication would take 2.5 s of 2 s; the cheapest that fits, barely",
        ),
        (PASSIVE, [2.5] * 6, "nothing fits into 2 s"),
        (ACTIVE, [1.5] * 6, "the cheapest within 1.6 s"),
        (PASSIVE, [1.5] * 6, "the cheapest that fits"),
        (PASSIVE, [1.9] * 6, "it fits, and nothing else does with a margin"),
    ],
)
def test_the_reason_says_why(present: Scheme, seconds: list[float], reason: str) -> None:
    assert choose(present, assessed(seconds, LADDER), TWO_SECONDS, may_save=True)[1] == reason
