"""How long a recovery would take, in numbers that can be checked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from replication.estimates import recovery_estimate, recovery_estimates
from streammine.model.recovery_assessment import RecoveryEstimate, SharedLoss, SliceOutlook
from streammine.model.recovery_policy import RecoverySemantics
from streammine.model.schemes import Scheme
from tests.unit.recovery_cases import (
    ACTIVE,
    COLD,
    DEPLOYED,
    HOT,
    MB,
    PASSIVE,
    STANDBY,
    TIMES,
    outlook,
)

# detect 0.5 s, switch 0.1 s, deploy 0.4 s, load 100 MB at 100 MB/s: 1 s. Since the checkpoint 20 MB came, and
# 20 MB more come in every second. Fetched, these are made up for at 60 - 20 MB/s, from a queue at 100 - 20.


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (PASSIVE, RecoveryEstimate(0.5, 0.1, 0.4, 1.0, (20 + 20 * 2.0) / 80)),
        (DEPLOYED, RecoveryEstimate(0.5, 0.1, 0.0, 1.0, (20 + 20 * 1.6) / 80)),
        (COLD, RecoveryEstimate(0.5, 0.1, 0.0, 0.0, (20 + 20 * 0.6) / 80)),
        (HOT, RecoveryEstimate(0.5, 0.1, 0.0, 0.0, (20 + 20 * 0.6) / 80)),
        (STANDBY, RecoveryEstimate(0.5, 0.1)),
        (ACTIVE, RecoveryEstimate()),
    ],
)
def test_every_scheme_has_left_what_it_has_not_done_before(
    scheme: Scheme, expected: RecoveryEstimate
) -> None:
    found = recovery_estimate(scheme, outlook(), TIMES, "precise")
    assert found.detect_seconds == pytest.approx(expected.detect_seconds)
    assert found.switch_seconds == pytest.approx(expected.switch_seconds)
    assert found.deploy_seconds == pytest.approx(expected.deploy_seconds)
    assert found.load_seconds == pytest.approx(expected.load_seconds)
    assert found.catch_up_seconds == pytest.approx(expected.catch_up_seconds)
    assert found.seconds == pytest.approx(found.outage_seconds + found.catch_up_seconds)


def seconds(found: SliceOutlook, semantics: RecoverySemantics = "precise") -> list[float]:
    estimates = recovery_estimates(found, TIMES, semantics)
    assert list(estimates) == list(Scheme)
    return [estimate.seconds for estimate in estimates.values()]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (outlook(), [2.75, 2.25, 1.0, 1.0, 0.6, 0.0]),
        # nothing comes in: only what has to be done is left
        (outlook(input_bytes_per_second=0.0), [2.0, 1.6, 0.6, 0.6, 0.6, 0.0]),
        # no state to speak of
        (outlook(load_bytes=0.0), [1.5, 1.0, 1.0, 1.0, 0.6, 0.0]),
        # checkpoints that are 3 s old leave 40 MB more
        (outlook(checkpoint_seconds=3.0), [3.25, 2.75, 1.5, 1.5, 0.6, 0.0]),
        # and so do 40 MB that wait
        (outlook(queued_bytes=40 * MB), [3.25, 2.75, 1.5, 1.5, 0.6, 0.0]),
        # where hardly anything of the rate is left, it takes long
        (
            outlook(input_bytes_per_second=75 * MB),
            [11.0, 9.4, 5.4, 5.4, 0.6, 0.0],
        ),
        # a slice that can't keep up is never where it would have been
        (outlook(processing_bytes_per_second=20 * MB), [math.inf] * 4 + [0.6, 0.0]),
        # input that waits: 100 MB/s without deduction, and nothing comes meanwhile
        (
            outlook(input_waits=True, input_bytes_per_second=60 * MB),
            [2.6, 2.2, 1.2, 1.2, 0.6, 0.0],
        ),
        # a standby that is behind by 24 MB needs 0.3 s at 80 MB/s, less than its turn takes to come
        (outlook(standby_queued_bytes=24 * MB), [2.75, 2.25, 1.0, 1.0, 0.6, 0.3]),
        (outlook(standby_queued_bytes=80 * MB), [2.75, 2.25, 1.0, 1.0, 1.0, 1.0]),
        # one node builds four operators, loads 300 MB, and has half of its time for this slice: 50 MB/s
        (
            outlook(shared=SharedLoss(4.0, ((4.0, 300 * MB),), 0.5)),
            [5.2 + (20 + 104) / 30, 3.6 + (20 + 72) / 30, *[0.6 + (20 + 12) / 30] * 2, 0.6, 0.0],
        ),
        # its input is twice as fast at its worst as it is now, that of the others is not: 2/3 of its time
        (
            outlook(input_bytes_per_second=50 * MB, shared=SharedLoss(1.0, (), 0.5)),
            [
                2.0 + (50 + 100) * 0.06,
                1.6 + (50 + 80) * 0.06,
                *[0.6 + (50 + 30) * 0.06] * 2,
                0.6,
                0.0,
            ],
        ),
        # others' shares are smaller than what the slice needs alone
        (outlook(shared=SharedLoss(1.0, ((1.0, 50 * MB),), 0.1)), [2.75, 2.25, 1.0, 1.0, 0.6, 0.0]),
    ],
)
def test_what_a_crash_would_find_decides(case: SliceOutlook, expected: list[float]) -> None:
    assert seconds(case) == pytest.approx(expected)


def test_every_slice_that_is_rebuilt_on_the_node_takes_its_time_to_load() -> None:
    times = replace(TIMES, loads=((0.0, 0.2), (100 * MB, 1.2)))
    three = outlook(shared=SharedLoss(3.0, ((3.0, 100 * MB),), 0.25))
    for scheme, expected in ((PASSIVE, 1.6), (DEPLOYED, 1.6), (COLD, 0.0)):
        assert recovery_estimate(scheme, three, times, "precise").load_seconds == pytest.approx(
            expected
        )
    nothing = replace(three, load_bytes=0.0, shared=SharedLoss(3.0, ((3.0, 0.0),), 0.25))
    assert recovery_estimate(PASSIVE, nothing, times, "precise").load_seconds == 0.0


def test_snapshots_of_other_sizes_take_their_own_time_and_the_slice_s_no_less() -> None:
    # 0.06 s for 60 MB, of which each byte more takes longer
    times = replace(TIMES, loads=((0.0, 0.0), (60 * MB, 0.06), (400 * MB, 4.0)))
    alone = outlook(load_bytes=400 * MB)
    for sizes, expected in (
        ((), 4.0),
        (((3.0, 30 * MB), (1.0, 400 * MB)), 4.03),
        # one of three nodes has a third of them
        (((1.0, 10 * MB), (1 / 3, 400 / 3 * MB)), 4.0),
        (((2.0, 800 * MB),), 8.0),
    ):
        found = replace(alone, shared=SharedLoss(1.0, sizes, 0.25))
        estimate = recovery_estimate(PASSIVE, found, times, "precise")
        assert estimate.load_seconds == pytest.approx(expected), sizes
    small = outlook(load_bytes=10 * MB, shared=SharedLoss(2.0, ((1.0, 10 * MB), (1.0, 400 * MB))))
    assert recovery_estimate(DEPLOYED, small, times, "precise").load_seconds == pytest.approx(4.01)


def test_gap_recovery_makes_up_only_for_what_comes_once_the_loss_is_known() -> None:
    # 20 MB/s for 1.5, 1.1 and 0.1 s, caught up with at 80 MB/s; who has a queue recovers as ever
    expected = [2.0 + 0.375, 1.6 + 0.275, 0.6 + 0.025, 1.0, 0.6, 0.0]
    assert seconds(outlook(), "gap") == pytest.approx(expected)
    # what came before makes no difference
    late = outlook(checkpoint_seconds=3.0, queued_bytes=40 * MB)
    assert seconds(late, "gap")[:3] == pytest.approx(expected[:3])
    waits = outlook(input_waits=True)
    assert seconds(waits, "gap")[:3] == pytest.approx([2.0, 1.6, 0.6])
    slow = outlook(processing_bytes_per_second=1 * MB)
    assert seconds(slow, "gap")[:3] == [math.inf] * 3
