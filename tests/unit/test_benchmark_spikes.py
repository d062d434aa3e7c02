"""What the benchmark of load spikes makes of counters and queues over time."""

from __future__ import annotations

import pytest
from benchmarks.load_spikes import Backlog, LoadShape, backlog, changes, counted_between
from benchmarks.spikes import Spiked, _backlog_figures, _stepped_down, _usual_waiting

SHAPE = LoadShape(base=100, spike=500, spikes=2)


def test_a_spike_lasts_two_seconds_in_every_twenty() -> None:
    counts = SHAPE.counts(0.1)
    assert len(counts) == 500
    assert [tick for tick, count in enumerate(counts) if count == 50] == [
        *range(100, 120),
        *range(300, 320),
    ]
    assert set(counts) == {10, 50}


def test_a_counter_grows_evenly_between_two_looks() -> None:
    counted = [(0.0, 0.0), (1.0, 100.0), (3.0, 500.0)]
    assert counted_between(counted, 0.5, 2.0) == pytest.approx(250.0)
    assert counted_between(counted, 2.0, 9.0) == pytest.approx(200.0), "nothing is known of later"


def test_a_longer_spike_ends_later() -> None:
    counts = LoadShape(base=100, spike=500, spikes=1, spike_seconds=3.5).counts(0.1)
    assert [tick for tick, count in enumerate(counts) if count == 50] == [*range(100, 135)]


@pytest.mark.parametrize(
    ("levels", "usual", "left"),
    [
        ([(11.0, 40.0), (12.0, 100.0), (13.0, 30.0), (14.0, 5.0)], 0.0, Backlog(2.0)),
        ([(11.0, 40.0), (12.0, 100.0), (13.0, 8.0), (14.0, 0.0)], 8.0, Backlog(1.0)),
        ([(12.5, 100.0), (13.0, 5.0), (14.0, 6.0), (15.0, 4.0), (16.0, 0.0)], 0.0, Backlog(3.0)),
        ([(12.5, 100.0), (13.0, 5.0), (14.0, 1.0), (29.5, 6.0), (30.5, 0.0)], 0.0, Backlog(None)),
        ([(11.0, 100.0), (11.5, 5.0), (12.0, 1.0)], 0.0, Backlog(0.0)),
        ([(11.0, 1.0), (12.0, 100.0), (13.0, 30.0), (14.0, 6.0)], 0.0, Backlog(None)),
        ([(11.0, 100.0), (13.0, 20.0), (14.0, 0.0)], 51.0, None),
        ([(11.0, 0.0), (14.0, 0.0)], 0.0, None),
        ([(9.5, 0.0), (31.0, 50.0)], 0.0, None),
    ],
    ids=[
        "to a twentieth",
        "to what is usual",
        "after a dip",
        "a dip, and not empty before the next",
        "before the end",
        "not enough",
        "full anyway",
        "never anything",
        "nobody looked",
    ],
)
def test_a_queue_is_drained_when_hardly_anything_is_left_until_the_next_spike(
    levels: list[tuple[float, float]], usual: float, left: Backlog | None
) -> None:
    assert backlog(levels, 10.0, 12.0, 30.0, usual) == left


def test_a_queue_that_no_spike_filled_is_not_one_that_was_not_drained() -> None:
    told = _backlog_figures([None, Backlog(None), Backlog(1.0), Backlog(4.0)])
    assert (told["filled"], told["drained"]) == (3, 2)
    assert told["drained_after_seconds"] == 4.0
    assert told["median_drained_after_seconds"] == 2.5


def test_usual_is_what_waited_in_any_run_before_the_first_spike_once_it_was_warm() -> None:
    runs = [
        Spiked(waiting=[(1.0, 90.0), (5.0, 3.0), (11.0, 80.0)]),
        Spiked(waiting=[(1.0, 70.0), (9.5, 4.0), (10.0, 60.0)]),
    ]
    assert _usual_waiting(runs, SHAPE) == 4.0


def test_only_what_differs_from_the_look_before_is_a_change() -> None:
    assert changes([(0.0, 0.0), (1.0, 0.0), (2.0, 2.0), (3.0, 2.0), (4.0, 0.0)]) == [
        (0.0, 0.0),
        (2.0, 2.0),
        (4.0, 0.0),
    ]
    assert changes([]) == []


@pytest.mark.parametrize(
    ("seconds", "paused", "told"),
    [
        (2.0, [(0.0, 0)], "nobody stepped down, as nobody does in spikes of no more than 3 s"),
        (5.0, [(0.0, 0)], "NOBODY stepped down, though a spike has 5 s"),
        (5.0, [(0.0, 0), (13.5, 2), (18.0, 0)], "0 from 0.0 s, 2 from 13.5 s, 0 from 18.0 s"),
    ],
    ids=["short spikes", "long spikes", "some did"],
)
def test_the_table_says_who_stepped_down_or_that_nobody_did(
    seconds: float, paused: list[tuple[float, int]], told: str
) -> None:
    runs = [{"paused_replicas": paused}, {"paused_replicas": [(0.0, 0)]}]
    figures = {
        "spike_seconds": seconds,
        "crowded_seconds": 3.0,
        "paused_replicas": max(level for _, level in paused),
        "runs": {"with": runs},
    }
    assert told in _stepped_down(figures)
