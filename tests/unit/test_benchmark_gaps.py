"""What the benchmarks of fault tolerance make of commit times and budgets."""

from __future__ import annotations

import pytest

from scripts.benchmarks.gaps import (
    RecoveryTimes,
    SliceBudgets,
    behind,
    caught_up_after,
    delay,
    longest_gap,
    memory_bound,
    recovered,
    recovery_times,
)
from scripts.benchmarks.stalled import BUDGETS
from streammine.assembly.environment import channel_budget

COMMITS = [10.0, 10.1, 10.2, 11.2, 11.3, 11.8]
"""One a tenth of a second, a long gap from 10.2 on, and a shorter one at the end."""


def test_the_longest_gap_is_that_of_the_asked_stretch() -> None:
    assert longest_gap(COMMITS, 10.0, 12.0) == pytest.approx(1.0)
    assert longest_gap(COMMITS, 11.2, 12.0) == pytest.approx(0.5)
    assert longest_gap(COMMITS, 10.0, 10.2) == pytest.approx(0.1)


def test_a_gap_counts_where_the_stretch_lies_in_the_middle_of_it() -> None:
    assert longest_gap(COMMITS, 10.5, 10.6) == pytest.approx(1.0)


def test_a_gap_that_begins_in_the_stretch_counts() -> None:
    assert longest_gap(COMMITS, 10.05, 10.25) == pytest.approx(1.0)


def test_times_may_come_in_any_order() -> None:
    assert longest_gap(COMMITS[::-1], 10.0, 12.0) == pytest.approx(1.0)


@pytest.mark.parametrize("times", [[], [10.0], [10.0, 11.0]])
def test_no_gap_around_a_stretch_is_an_error(times: list[float]) -> None:
    with pytest.raises(ValueError, match="no two commits"):
        longest_gap(times, 20.0, 21.0)


def test_recovery_ends_with_the_first_commit_after_the_plan() -> None:
    """kill 10.15, a commit on its way 10.2, plan 10.6, output 11.2."""
    times = recovery_times(10.15, 10.6, COMMITS)
    assert times == RecoveryTimes(pytest.approx(0.45), pytest.approx(1.05))
    assert times.rest == pytest.approx(0.6)


def test_a_recovery_without_output_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was committed"):
        recovery_times(11.7, 11.9, COMMITS)


def test_a_plan_from_before_the_kill_is_an_error() -> None:
    with pytest.raises(ValueError, match="older"):
        recovery_times(10.6, 10.5, COMMITS)


def test_caught_up_is_when_delays_are_usual_again() -> None:
    delays = [
        (9.0, 3.0),
        (9.5, 0.1),
        (10.1, 0.1),
        (11.0, 0.9),
        (11.1, 0.4),
        (11.2, 0.2),
        (12.0, 5.0),
    ]
    assert caught_up_after(10.0, delays, 0.2) == pytest.approx(1.2)


def test_never_late_and_late_to_the_end_are_no_catching_up() -> None:
    assert caught_up_after(10.0, [(9.0, 3.0), (10.5, 0.1)], 0.2) is None
    assert caught_up_after(10.0, [(10.5, 1.0), (11.0, 0.9)], 0.2) is None


def test_behind_is_the_delay_of_the_last_commit_up_to_a_moment() -> None:
    """Epochs 4 and 5 end 1.0 and 1.2 s after the start at 10.0."""
    commits = [(4, 11.1), (5, 11.5), (6, 19.0)]
    assert behind(commits, 10.0, 0.2, 12.0) == pytest.approx(0.3)
    assert behind(commits, 10.0, 0.2, 11.2) == pytest.approx(0.1)


def test_the_bound_adds_the_budgets_of_what_a_slice_has() -> None:
    """A source has no input, a committer no output."""
    budgets = SliceBudgets(waiting=1, retained=10, bag=100, channels=1000)
    assert memory_bound(5, [], budgets) == 5
    assert memory_bound(5, ["source"], budgets) == 15
    assert memory_bound(5, ["committer"], budgets) == 1106
    assert memory_bound(5, ["source", "stateful", "sink"], budgets) == 5 + 10 + 2 * 1111


@pytest.mark.parametrize("channels", [1, 4, 32])
def test_the_bound_of_a_stalled_slice_has_all_its_channels(channels: int) -> None:
    assert channels * channel_budget(channels) <= BUDGETS.channels


def late(*commits: tuple[float, float]) -> list[tuple[float, float]]:
    """Ten commits in time before 11.0, and what comes then."""
    return [(10.0 + tenth / 10, 0.02) for tenth in range(10)] + list(commits)


def test_an_epoch_is_late_by_what_passes_from_its_end_to_its_commit() -> None:
    assert delay(4, 10.7, began=10.0, epoch_seconds=0.1) == pytest.approx(0.2)


def test_output_is_recovered_when_it_is_in_time_again() -> None:
    seen = late((12.0, 1.0), (12.1, 0.5), (12.2, 0.02), (12.3, 0.3))
    times = recovered(10.95, seen, 10.0, 0.1)
    assert times.outage == pytest.approx(1.05)
    assert times.caught_up == pytest.approx(1.25)
    assert times.told_from == pytest.approx(0.2), "the usual gap and an epoch"


def test_what_is_never_in_time_again_counts_to_the_last_commit() -> None:
    times = recovered(10.95, late((12.0, 1.0), (12.1, 0.5)), 10.0, 0.1)
    assert times.caught_up == pytest.approx(1.15)


@pytest.mark.parametrize(
    "after",
    [
        ((11.0, 0.02), (11.1, 0.02)),
        ((11.0, 0.02), (11.05, 0.07)),
        ((11.3, 0.02), (11.4, 0.02)),
        ((11.0, 0.02), (11.19, 0.11), (11.2, 0.02)),
    ],
    ids=["as before", "late without a gap", "a gap, and in time", "less than an epoch"],
)
def test_output_that_goes_on_has_nothing_to_recover_from(
    after: tuple[tuple[float, float], ...],
) -> None:
    assert recovered(10.95, late(*after), 10.0, 0.1).caught_up == 0.0


@pytest.mark.parametrize("killed", [9.5, 12.5])
def test_commits_before_and_after_the_kill_are_needed_to_tell(killed: float) -> None:
    with pytest.raises(ValueError, match="nothing was committed"):
        recovered(killed, late((12.0, 1.0)), 9.0, 0.1)
