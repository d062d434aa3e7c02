"""What measured steps say about the next recovery."""

from __future__ import annotations

import pytest

from replication.recovery_history import WINDOW, RecoveryHistory
from streammine.model.recovery_assessment import StepTimes
from streammine.model.recovery_policy import Measurement, Step
from tests.unit.recovery_cases import MB, MEASURED

Size = tuple[float, float]
"""The seconds that a snapshot took, and its megabytes."""


def known(loaded: list[Size], saved: list[Size] | None = None) -> StepTimes:
    """What is known, of loading from these, oldest first."""
    history = RecoveryHistory()
    for measurement in MEASURED[:3]:
        history.add(measurement)
    for step, sizes in ((Step.LOAD, loaded), (Step.SAVE, saved or [])):
        for seconds, megabytes in sizes:
            history.add(Measurement(step, seconds, megabytes * MB))
    return history.times


def test_a_step_takes_the_median_of_its_newest_times() -> None:
    history = RecoveryHistory()
    for measurement in MEASURED:
        history.add(measurement)
    for seconds in (0.7, 9.0):
        history.add(Measurement(Step.DEPLOY, seconds))
    assert history.times.deploy_seconds == 0.7
    for _ in range(WINDOW):
        history.add(Measurement(Step.DEPLOY, 0.2))
    assert history.times.deploy_seconds == 0.2


def test_of_one_size_time_goes_with_the_bytes() -> None:
    times = known([(2.0, 200.0)])
    assert times.loads == ((0.0, 0.0), (200 * MB, 2.0))
    assert times.loading_seconds(50 * MB) == pytest.approx(0.5)
    assert times.loading_seconds(400 * MB) == pytest.approx(4.0)
    assert times.loading_seconds(0.0) == 0.0


def test_sizes_between_are_on_the_straight_line_and_small_ones_take_a_time_for_each() -> None:
    times = known([(2.0, 200.0), (0.1, 5.0), (0.06, 1.0)])
    assert times.loads[0] == (0.0, pytest.approx(0.05))
    for megabytes, seconds in ((0.1, 0.051), (3.0, 0.08), (102.5, 1.05), (300.0, 3.0)):
        assert times.loading_seconds(megabytes * MB) == pytest.approx(seconds)
    assert times.loading_seconds(0.0) == 0.0, "where there is nothing to load"


def test_snapshots_of_one_node_are_loaded_one_after_the_other() -> None:
    times = known([(2.0, 200.0), (0.1, 5.0), (0.06, 1.0)])
    assert times.loading_seconds(4 * MB, snapshots=4.0) == pytest.approx(4 * 0.06)
    assert times.loading_seconds(600 * MB, snapshots=2.0) == pytest.approx(2 * 3.0)
    assert times.loading_seconds(0.0, snapshots=4.0) == 0.0


def test_a_size_that_is_quick_says_nothing_of_the_others() -> None:
    """Many middling snapshots do not make large ones quick, nor small ones slow."""
    times = known([(4.0, 400.0)] * 2 + [(0.06, 60.0)] * WINDOW + [(0.02, 0.5)] * WINDOW)
    assert times.loading_seconds(400 * MB) == pytest.approx(4.0)
    assert times.loading_seconds(60 * MB) == pytest.approx(0.06)
    assert times.loading_seconds(0.5 * MB) == pytest.approx(0.02)


@pytest.mark.parametrize("order", [1, -1])
def test_a_larger_size_never_takes_less(order: int) -> None:
    times = known([(1.0, 100.0), (3.0, 60.0), (9.0, 10.0), (9.0, 9.0), (2.0, 1.0)][::order])
    pooled = (2 * 9.0 + 3.0 + 1.0) / 4
    assert times.loads[1:] == (
        (1.0 * MB, 2.0),
        (9.5 * MB, pooled),
        (60 * MB, pooled),
        (100 * MB, pooled),
    )


def test_many_measurements_of_a_size_outweigh_one_of_another() -> None:
    times = known([(0.1, 1.0)] * 15 + [(0.02, 10.0)])
    assert times.loads[1:] == ((1 * MB, pytest.approx(0.095)), (10 * MB, pytest.approx(0.095)))


def test_where_the_line_leads_below_nothing_snapshots_of_nothing_take_none() -> None:
    assert known([(4.0, 40.0), (0.1, 4.0)]).loads[0] == (0.0, 0.0)


def test_of_each_size_the_newest_count() -> None:
    times = known([(9.0, 200.0), (9.0, 1.0)] * 3 + [(2.0, 200.0), (0.03, 1.0)] * WINDOW)
    assert times.loads[1:] == ((1 * MB, 0.03), (200 * MB, 2.0))


def test_what_has_not_been_loaded_yet_has_a_stand_in() -> None:
    saved = [(0.1, 1.0), (2.0, 100.0)]
    assert known([], saved).loads[1:] == ((1 * MB, 0.1), (100 * MB, 2.0))
    larger = known([(0.5, 1.0)], saved)
    assert larger.loads[1:] == ((1 * MB, 0.5), (100 * MB, 2.0)), "what was saved is much larger"
    assert known([(0.5, 11.0)], saved).loads[1:] == ((11 * MB, 0.5),), "not so much"


def test_what_was_saved_never_makes_up_for_what_was_loaded() -> None:
    times = known([(2.0, 1.0)], [(0.1, 100.0)] * WINDOW + [(0.3, 400.0), (0.2, 20_000.0)])
    assert times.loads[1:] == ((1 * MB, 2.0), (100 * MB, 2.0), (400 * MB, 2.0), (20_000 * MB, 2.0))
    falling = known([], [(3.0, 1.0), (1.0, 10.0)])
    assert falling.loads[1:] == ((1 * MB, 2.0), (10 * MB, 2.0))


def test_until_a_loss_was_detected_it_takes_the_longest_time_that_it_may() -> None:
    history = RecoveryHistory(detection_seconds=4.0)
    for measurement in (*MEASURED[1:3], Measurement(Step.SAVE, 2.0, 100 * MB)):
        history.add(measurement)
    assert history.times.detect_seconds == 4.0
    history.add(Measurement(Step.DETECT, 0.5))
    assert history.times.detect_seconds == 0.5


def test_one_loss_that_went_unnoticed_for_long_counts_among_many_that_did_not() -> None:
    history = RecoveryHistory(detection_seconds=4.0)
    for measurement in MEASURED:
        history.add(measurement)
    for seconds in (0.1, 3.9, *[0.1] * (WINDOW - 2)):
        history.add(Measurement(Step.DETECT, seconds))
    assert history.times.detect_seconds == 3.9
    for _ in range(2):
        history.add(Measurement(Step.DETECT, 0.1))
    assert history.times.detect_seconds == 0.1, "it is long ago"


def test_an_instant_is_measured_too_and_what_has_no_bytes_is_not() -> None:
    times = known([(0.0, 1e-4), (0.5, 0.0)])
    assert 0 < times.loading_seconds(100.0) <= 1e-6
