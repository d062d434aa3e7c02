"""What the benchmark of load spikes makes of counters and queues over time."""

from __future__ import annotations

import pytest

from scripts.benchmarks.load_spikes import LoadShape, counted_between, drained_after

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


@pytest.mark.parametrize(
    ("levels", "drained"),
    [
        ([(9.5, 0.0), (11.0, 40.0), (12.0, 100.0), (13.0, 30.0), (14.0, 5.0)], 4.0),
        ([(9.5, 8.0), (11.0, 40.0), (12.0, 100.0), (13.0, 8.0), (14.0, 0.0)], 3.0),
        ([(9.5, 0.0), (11.0, 1.0), (12.0, 100.0), (13.0, 30.0), (14.0, 6.0)], None),
        ([(9.5, 0.0), (31.0, 50.0)], None),
    ],
    ids=["to a twentieth", "to what it was before", "not enough", "nobody looked"],
)
def test_a_queue_is_drained_when_hardly_anything_is_left(
    levels: list[tuple[float, float]], drained: float | None
) -> None:
    assert drained_after(levels, 10.0, 30.0) == drained
