"""The slice's protocol, in transcripts (see tests/unit/transcripts.py for how to read them)."""

from __future__ import annotations

import pytest

from streammine.engine.slice_settings import Phase
from streammine.engine.stimuli import Run, Start, WorkDone, WorkResult
from streammine.engine.waiting import MOST_PER_RUN
from streammine.model.epochs import INFINITY
from streammine.model.errors import ProtocolError
from tests.unit.small_slices import check, operator, source
from tests.unit.transcripts import ARRIVING_BYTES, played


def test_an_epoch_is_accumulated_at_once_and_closed_when_all_channels_have_ended_it() -> None:
    # 0: data 5, end 5 ----\
    #                        counts --8--> results of 5, end 5
    # 1: ... data 5, end 5 -/
    check(
        operator(),
        """
        > start
        > 0.0 data 5
          run accumulate 5 from 0
        > done
        > 0.1 end 5
        > 1.0 data 5
          run accumulate 5 from 1
        > done
        > 1.1 end 5
          credit on 0 for 5
          credit on 1 for 5
          send 8.0 end 4
          run close 5
        > done closed 5 out 8:5
          credit on 0 for 6
          credit on 1 for 6
          send 8.1 data 5, the last
        """,
    )


def test_small_batches_wait_until_their_epoch_can_be_closed_or_they_are_enough() -> None:
    check(
        operator(),
        """
        > start
        > 0.0 little 5
        > 1.0 little 5
        > 1.1 end 5
        > 0.1 end 5
          credit on 0 for 5
          credit on 1 for 5
          send 8.0 end 4
          run accumulate 5 from 0, accumulate 5 from 1, close 5
        > done closed 5
          credit on 0 for 6
          credit on 1 for 6
          send 8.1 end 5
        > 0.2 little 6
        > 0.3 data 6
          run accumulate 6 from 0, accumulate 6 from 0
        """,
    )


def test_what_is_taken_while_several_epochs_wait_is_said() -> None:
    player = operator(inputs=1)

    def runs(*script: str) -> list[tuple[int, int]]:
        """Of each run of work: how many works, and the late bytes."""
        effects = [each for line in script for each in player.effects(line)]
        return [(len(each.work), each.late_bytes) for each in effects if isinstance(each, Run)]

    # it keeps up with epoch 5, though more has come by its end
    assert runs("start", "0.0 little 5", "0.1 end 5") == [(2, 0)]
    assert runs("0.2 little 6", "0.3 little 6", "0.4 end 6", "0.5 data 7", "0.6 end 7") == []
    # a little frame has one byte
    assert runs("0.7 little 8", "done closed 5") == [(5, 2 + ARRIVING_BYTES)]
    # epoch 8 is not complete yet
    assert runs("0.8 end 8", "done closed 6 closed 7") == [(2, 0)]


def test_an_epochs_end_may_come_with_its_last_data() -> None:
    check(
        operator(),
        """
        > start
        > 0.0 data 5
          run accumulate 5 from 0
        > done
        > 0.1 data 5, the last
          run accumulate 5 from 0
        > done
        > 1.0 data 5, the last
          credit on 0 for 5
          credit on 1 for 5
          send 8.0 end 4
          run accumulate 5 from 1, close 5
        > done closed 5
          credit on 0 for 6
          credit on 1 for 6
          send 8.1 end 5
        """,
    )


def test_a_lost_last_frame_is_asked_for_and_brings_its_data_and_its_end() -> None:
    check(
        operator(inputs=1),
        """
        > start
        > 0.0 data 1
          run accumulate 1 from 0
        > done
        > 0.2 data 2, the last
          ask 0 for frames from 1
        > 0.1 data 1, the last
          credit on 0 for 1
          send 8.0 end 0
          run accumulate 1 from 0, close 1
        > done closed 1
          credit on 0 for 2
          send 8.1 end 1
        > 0.1 data 1, the last
        > 0.2 data 2, the last
          run accumulate 2 from 0, close 2
        """,
    )


def test_later_epochs_are_accumulated_early_and_closed_in_order() -> None:
    check(
        operator(inputs=1),
        """
        > start
        > 0.0 data 1
          run accumulate 1 from 0
        > 0.1 end 1
          credit on 0 for 1
          send 8.0 end 0
        > 0.2 data 2
        > 0.3 end 2
        > done
          run accumulate 2 from 0, close 1
        > done closed 1
          credit on 0 for 2
          send 8.1 end 1
          run close 2
        > done closed 2
          credit on 0 for 3
          send 8.2 end 2
        """,
    )


def test_an_epoch_without_data_costs_no_work() -> None:
    check(
        operator(),
        """
        > start
        > 0.0 end 99
        > 1.0 end 98
          credit on 0 for 99
          credit on 1 for 99
          send 8.0 end 98
        """,
    )


def test_a_window_that_is_due_is_closed_without_data_also_at_the_end_of_the_input() -> None:
    check(
        operator(inputs=1),
        """
        > start
        > 0.0 data 1
          run accumulate 1 from 0
        > done
        > 0.1 end 1
          credit on 0 for 1
          send 8.0 end 0
          run close 1
        > done closed 1 due 3
          credit on 0 for 2
          send 8.1 end 1
        > 0.2 end inf
          credit on 0 for 3
          run close 3
        > done closed 3 out 8:3
          credit on 0 for inf
          send 8.2 data 3, the last
          run finish in 4
        > done finished
          finished
          send 8.3 end inf
        """,
    )


def test_a_window_of_which_nothing_leaves_does_not_end_the_epoch_that_flushes_need() -> None:
    # 4 is due, too, and gives nothing: whoever flushes what came of 1 does it in 2
    check(
        operator(inputs=1),
        """
        > start
        > 0.0 data 1, the last
          credit on 0 for 1
          send 8.0 end 0
          run accumulate 1 from 0, close 1
        > done closed 1 out 8:1 due 4
          credit on 0 for 2
          send 8.1 data 1, the last
        > 0.1 end inf
          credit on 0 for 4
          run close 4
        > done closed 4
          credit on 0 for inf
          run finish in 2
        > done out 8:2 finished
          finished
          send 8.2 data 2
          send 8.3 end inf
        """,
    )


def test_nothing_runs_before_the_start_and_nothing_is_lost_by_it() -> None:
    check(
        operator(inputs=1),
        """
        > 0.0 data 1
        > 0.1 end 1
          credit on 0 for 1
          send 8.0 end 0
        > start
          run accumulate 1 from 0, close 1
        """,
    )


def test_one_run_of_work_is_bounded_and_the_close_waits_for_the_last_batch() -> None:
    player = operator(inputs=1)
    frames = [f"> 0.{place} data 0" for place in range(MOST_PER_RUN + 3)]
    end = f"> 0.{len(frames)} end 0"
    text = played("\n".join([*frames, end, "> start", "> done"]), player)
    first, second = [line for line in text.splitlines() if line.startswith("  run")]
    assert first.count("accumulate") == MOST_PER_RUN
    assert "close" not in first
    assert second.count("accumulate") == 3
    assert second.endswith("close 0")


def test_a_gap_is_asked_for_once_and_what_comes_again_is_dropped() -> None:
    check(
        operator(inputs=1),
        """
        > start
        > 0.1 data 1
          ask 0 for frames from 0
        > 0.2 end 1
        > 0.0 data 1
          run accumulate 1 from 0
        > 0.0 data 1
        > 0.1 data 1
        > 0.2 end 1
          credit on 0 for 1
          send 8.0 end 0
        > done
          run accumulate 1 from 0, close 1
        """,
    )


def test_a_lost_tail_is_asked_for_when_the_sender_announces_it() -> None:
    check(
        operator(inputs=1),
        """
        > start
        > 0.0 data 1
          run accumulate 1 from 0
        > 0 announced 1
        > 0 announced 3
        > 0 announced 3
        > beat
        > beat
        > 0 announced 3
          ask 0 for frames from 1
        > 0.1 data 1
        > 0.2 end 1
          credit on 0 for 1
          send 8.0 end 0
        > 0 announced 3
        """,
    )


def test_frames_are_kept_until_credit_passes_their_epoch_and_sent_again_when_asked_for() -> None:
    check(
        source(),
        """
        > start
          run read 64
        > done out 8:1 out 8:1 open 2
          send 8.0 end 0
          send 8.1 data 1
          send 8.2 data 1, the last
          run read 64
        > 8 resend 1
          send 8.1 data 1
          send 8.2 data 1, the last
        > beat
          announce on 8: next is 3
        > 8 credit 2
        > 8 resend 3
        > beat
        """,
    )


def test_a_source_without_credit_does_not_read_on() -> None:
    # a frame is 10 bytes, the budget 15: one of a later epoch fits
    check(
        source(budget=15),
        """
        > start
          run read 64
        > done out 8:1 out 8:2 out 8:3 open 3
          send 8.0 end 0
          send 8.1 data 1, the last
        > 8 credit 1
          send 8.2 data 2, the last
        > 8 credit 2
          send 8.3 data 3
          run read 64
        """,
    )


def test_an_operator_without_credit_accumulates_but_does_not_close() -> None:
    check(
        operator(inputs=1, budget=5),
        """
        > start
        > 0.0 data 1
          run accumulate 1 from 0
        > done
        > 0.1 end 1
          credit on 0 for 1
          send 8.0 end 0
          run close 1
        > done closed 1 out 8:1 out 8:1
          credit on 0 for 2
          send 8.1 data 1
        > 0.2 data 2
          run accumulate 2 from 0
        > 0.3 end 2
        > done
        > 8 credit 1
          send 8.2 data 1, the last
          run close 2
        """,
    )


def test_a_source_out_of_order_ends_no_epoch_that_is_still_open_in_it() -> None:
    check(
        source(),
        """
        > start
          run read 64
        > done out 8:5 out 8:7 open 5 last 7
          send 8.0 end 4
          send 8.1 data 5
          send 8.2 data 7
          run read 64
        > done out 8:5 out 8:6 open 7 last 6
          send 8.3 data 5, the last
          send 8.4 data 6, the last
          run read 64
        """,
    )


def test_a_source_out_of_order_reads_on_without_credit_until_it_has_ended_what_is_awaited() -> None:
    # the receiver waits for the end of 5, which stands behind frames of 6 and 7 in the FIFO
    check(
        source(budget=15),
        """
        > start
          run read 64
        > done out 8:6 out 8:7 open 5 last 7
          send 8.0 end 4
          send 8.1 data 6
        > 8 credit 5
          run read 64
        > done out 8:5 open 6
          send 8.2 data 7
          send 8.3 data 5, the last
          run read 64
        > done out 8:7 open 7
          send 8.4 end 6
        > 8 credit 7
          send 8.5 data 7
          run read 64
        """,
    )


def test_a_source_at_its_end_flushes_after_the_last_epoch_that_held_data() -> None:
    check(
        source(),
        """
        > start
          run read 64
        > done out 8:3 over last 3
          send 8.0 end 2
          send 8.1 data 3, the last
          run finish in 4
        > done finished
          finished
          send 8.2 end inf
        """,
    )


def test_a_paced_source_sleeps_until_it_is_woken() -> None:
    check(
        source(),
        """
        > start
          run read 64
        > done open 3 wake
          wake after 1 s
          send 8.0 end 2
        > 8 credit 3
        > woken
          run read 64
        """,
    )


def test_a_source_that_ended_while_it_slept_is_woken_in_vain() -> None:
    # another replica has given everything meanwhile, so nothing waits for its time any more
    check(
        source(),
        """
        > start
          run read 64
        > done open 3 wake
          wake after 1 s
          send 8.0 end 2
        > 8 credit 6
          run once more read 64
        > done out 8:5 over last 5
          send 8.1 end 4
          send 8.2 data 5, the last
          run finish in 6
        > done finished
          finished
          send 8.3 end inf
        > woken
        """,
    )


def test_the_end_of_the_input_tells_how_far_data_went_anywhere_upstream() -> None:
    player = operator()
    played("> start\n> 0.0 end inf\n> 1.0 end inf", player)
    header_epoch = player.machine.outputs[8].ended
    assert header_epoch < 0, "no data, no epoch to end"
    assert player.machine.processed_below == INFINITY
    assert player.machine.busy
    player.machine.handle(WorkDone(WorkResult(finished=True)))
    assert player.machine.phase is Phase.FINISHED


def test_a_frame_after_the_end_of_its_epoch_breaks_the_protocol() -> None:
    player = operator(inputs=1)
    played("> start\n> 0.0 end 5", player)
    with pytest.raises(ProtocolError, match="epoch 5 after the end of epoch 5"):
        player("0.1 data 5")


def test_a_broken_rule_fails_with_the_stimuli_that_led_to_it() -> None:
    player = operator(inputs=1)
    player("start")
    with pytest.raises(AssertionError, match=r"(?s)counts/0 started twice.*Start\(\)"):
        player.machine.handle(Start())
    with pytest.raises(AssertionError, match="work done that was not under way"):
        player("done")
