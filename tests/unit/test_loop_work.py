"""What a loop's slices hand to their operators: when, how much at a time, and with which watermark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammine.engine.slice_settings import BYTES_WORTH_A_RUN, RestoredTo
from streammine.engine.stimuli import CloseEpoch, Run
from streammine.engine.waiting import MOST_PER_RUN
from streammine.model.epochs import EpochDefinition
from streammine.model.stamps import stamp
from tests.unit.small_loops import LoopPlayer, after, check, player
from tests.unit.transcripts import ARRIVING_BYTES, frame_arrived


def member(restored: RestoredTo | None = None) -> LoopPlayer:
    """One that is fed by the loop alone."""
    made = player(head=False, restored=restored or after(4), outer=False)
    made("1 comes from 1")
    made("start")
    return made


def test_little_waits_until_its_round_can_be_closed() -> None:
    check(
        member(),
        """
        > 1.0 little 5/0
        > 1.1 little 5/0, the last says 0
          run accumulate 5/0 from 1, accumulate 5/0 from 1, close 5/0
        """,
    )


@pytest.mark.parametrize(("nbytes", "worth_it"), [(BYTES_WORTH_A_RUN, True), (1, False)])
def test_an_open_rounds_bytes_are_handed_over_when_they_are_worth_a_run(
    nbytes: int, worth_it: bool
) -> None:
    machine = member().machine
    frame = replace(frame_arrived(f"1.0 data {stamp(5)}", machine.generation), nbytes=nbytes)
    assert any(isinstance(each, Run) for each in machine.handle(frame)) == worth_it


def test_a_round_of_more_batches_than_a_run_takes_is_closed_by_the_last_run() -> None:
    busy = member()
    for sequence in range(MOST_PER_RUN):
        assert busy(f"1.{sequence} little 5/0") == []
    assert busy(f"1.{MOST_PER_RUN} little 5/0, the last says 0") == [
        "run " + ", ".join(["accumulate 5/0 from 1"] * MOST_PER_RUN)
    ]
    assert busy("done") == ["run accumulate 5/0 from 1, close 5/0"]


def test_an_epochs_time_has_come_with_its_last_round_only() -> None:
    epoch = EpochDefinition("time", 10, "ts")
    slow = member()
    slow.machine.epoch = epoch
    closes = []
    for line in (
        "1.0 data 5/0, the last says 0",
        "1.1 data 5/1, the last says 0",
        "1.2 data 5/f, the last says 6",
    ):
        (run,) = (each for each in slow.effects(line) if isinstance(each, Run))
        closes += [each for each in run.work if isinstance(each, CloseEpoch)]
        slow(f"done closed {closes[-1].epoch}")
    assert [each.watermark for each in closes] == [50, 50, 60]


def test_what_waits_at_a_member_beyond_the_limit_goes_to_disk() -> None:
    slow = player(head=False, restored=after(4), outer=False)
    slow.machine.settings = replace(slow.machine.settings, waiting_bytes=ARRIVING_BYTES)
    check(
        slow,
        """
        > 1 comes from 1
          subscribe 1 from 5/0
        > 1.0 data 5/0
        > 1.1 data 5/0
        > 1.2 data 5/0
          to disk: 1
        """,
    )


def test_what_a_head_holds_counts_as_waiting() -> None:
    head = player(head=True, restored=after(4, 5))
    head.machine.settings = replace(head.machine.settings, waiting_bytes=ARRIVING_BYTES)
    check(
        head,
        """
        > 0 comes from 1
          subscribe 0 from 5
        > 1 comes from 1
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > 1.0 data 5/1
        > 0.0 data 5
        > 1.1 data 5/1
          to disk: 1
        > 0.1 data 5
          to disk: 1
        """,
    )


# --- the last epoch that holds anything ----------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "last"), [("out 10:5", 5), ("out 9:6/0", 6), ("out 9:6/0 out 10:5", 6)]
)
def test_output_without_input_moves_the_last_epoch_on(out: str, last: int) -> None:
    # a window is due in an epoch in which nothing has come
    late = member(replace(after(4), due=5))
    late("1.0 end 5/0 says 0")
    late("1.1 end 5/f, flagged says 6")
    assert late(f"done {out} closed 5/f")[-1] == f"run freeze 5 in full, data up to {last}"
