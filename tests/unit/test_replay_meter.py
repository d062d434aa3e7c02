"""How fast a vertex's replicas catch up, from what they have counted while they did."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine.engine.replay_meter import (
    ENOUGH_SECONDS,
    STEP_BYTES,
    WINDOW_SECONDS,
    ReplayCount,
    ReplayMeter,
)
from streammine.engine.stimuli import (
    Accumulate,
    CloseEpoch,
    Finish,
    Freeze,
    Output,
    Read,
    Work,
    WorkResult,
)

BATCH = pa.record_batch({"x": [1]})
ROWS = Accumulate(0, 0, 5, 0, BATCH)
CLOSES = (ROWS, ROWS, CloseEpoch(5, 50), CloseEpoch(9, 90))
MADE = (Output(8, 5, 10, 300, BATCH), Output(9, 5, 10, 400, BATCH))


@pytest.mark.parametrize(
    ("work", "late_bytes", "result", "nbytes"),
    [
        (CLOSES, 1000, WorkResult(MADE, closed=(5,)), 1000 + 3 * STEP_BYTES),
        # some were due in between, and the last is left
        (CLOSES, 1000, WorkResult(MADE, closed=(5, 7, 8)), 1000 + 5 * STEP_BYTES),
        (CLOSES, 0, WorkResult(MADE, closed=(5, 9)), None),
        ((Freeze(5, True, 5, None),), 0, WorkResult(), None),
        ((Finish(6),), 0, WorkResult(MADE), None),
        # a source that waits for its next row is in time
        ((Read(100),), 0, WorkResult(MADE), 700 + STEP_BYTES),
        ((Read(100),), 0, WorkResult(MADE, wake_after_seconds=0.01), None),
    ],
)
def test_what_is_done_late_is_counted(
    work: tuple[Work, ...], late_bytes: int, result: WorkResult, nbytes: float | None
) -> None:
    count = ReplayCount(5.0, 2.0)
    count.performed(work, late_bytes, result, 0.5)
    expected = ReplayCount(5.0, 2.0) if nbytes is None else ReplayCount(5.0 + nbytes, 2.5)
    assert count == expected
    assert count.counters() == {
        "replayed_bytes": expected.nbytes,
        "replay_seconds": expected.seconds,
    }


def note(meter: ReplayMeter, replica: object, nbytes: float, seconds: float) -> None:
    meter.note(replica, ReplayCount(nbytes, seconds).counters())


def test_a_rate_is_known_once_enough_was_measured_of_all_replicas_together() -> None:
    meter = ReplayMeter()
    meter.note("a", {})
    assert meter.bytes_per_second is None
    note(meter, "a", 100.0, ENOUGH_SECONDS / 2)
    note(meter, "a", 100.0, ENOUGH_SECONDS / 2)
    assert meter.bytes_per_second is None
    note(meter, "b", 300.0, ENOUGH_SECONDS / 2)
    assert meter.bytes_per_second == pytest.approx(400.0 / ENOUGH_SECONDS)


def test_what_was_measured_long_ago_is_forgotten() -> None:
    meter = ReplayMeter()
    note(meter, "a", 100.0, 1.0)
    note(meter, "a", 110.0, 1.0 + WINDOW_SECONDS / 2)
    assert meter.bytes_per_second == pytest.approx(110.0 / (1.0 + WINDOW_SECONDS / 2))
    note(meter, "a", 120.0, 1.0 + WINDOW_SECONDS)
    assert meter.bytes_per_second == pytest.approx(20.0 / WINDOW_SECONDS)


def test_a_replica_that_was_made_anew_counts_from_nothing() -> None:
    meter = ReplayMeter()
    note(meter, "a", 100.0, 1.0)
    note(meter, "a", 50.0, 0.25)
    assert meter.bytes_per_second == pytest.approx(150.0 / 1.25)
    # one that is gone is forgotten, what was measured of it is not
    meter.forget({"b"})
    note(meter, "a", 50.0, 0.25)
    assert meter.bytes_per_second == pytest.approx(200.0 / 1.5)
