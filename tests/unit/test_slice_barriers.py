"""Barriers, snapshots and restored slices, in transcripts (see tests/unit/transcripts.py)."""

from __future__ import annotations

import pytest

from streammine.engine.slice_settings import Phase, RestoredTo
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import OutputError
from tests.unit.small_slices import check, operator, source
from tests.unit.transcripts import played


def test_a_source_agrees_to_a_barrier_ahead_and_freezes_right_behind_its_flagged_end() -> None:
    #   rows:  5 | 7       the barrier: behind 6, which holds nothing
    check(
        source(mode="asynchronous"),
        """
        > start
          run read 64
        > done out 8:5 open 5 last 5
          send 8.0 end 4
          send 8.1 data 5
          run read 64
        > directed 6
          progressed
        > done out 8:7 open 7 last 7
          send 8.2 end 6, flagged
          send 8.3 data 7
          run freeze 6 in full, data up to 7
        > done frozen 6
          write snapshot 6
          run read 64
        > written 6
          progressed
        """,
    )


def test_the_flag_rides_on_the_last_data_of_the_epoch() -> None:
    check(
        source(mode="asynchronous"),
        """
        > directed 5
          progressed
        > start
          run read 64
        > done out 8:5 out 8:6 open 6 last 6
          send 8.0 end 4
          send 8.1 data 5, the last, flagged
          send 8.2 data 6
          run freeze 5 in full, data up to 6
        """,
    )


def test_a_source_that_has_ended_the_epoch_refuses_and_a_later_one_is_taken() -> None:
    player = source(mode="asynchronous")
    check(
        player,
        """
        > start
          run read 64
        > done out 8:5 open 6 last 5
          send 8.0 end 4
          send 8.1 data 5, the last
          run read 64
        > directed 5
        > directed 6
          progressed
        > directed 6
        """,
    )
    assert player.machine.accepted == 6


def test_a_source_never_takes_back_what_it_agreed_to() -> None:
    # 6 is given up for 8, but other slices may count on it: both are flagged, one after the other
    check(
        source(mode="asynchronous"),
        """
        > start
          run read 64
        > directed 6
          progressed
        > directed 8
          progressed
        > done open 9
          send 8.0 end 6, flagged
          send 8.1 end 8, flagged
          run freeze 6 in full, data up to none
        > done frozen 6
          write snapshot 6
          run read 64
        > written 6
          progressed
        > done out 8:9 open 9 last 9
          send 8.2 data 9
          run freeze 8, data up to 9
        """,
    )


def test_a_source_at_its_end_freezes_first_and_refuses_what_comes_later() -> None:
    player = source(mode="asynchronous")
    check(
        player,
        """
        > start
          run read 64
        > directed 5
          progressed
        > done out 8:5 over last 5
          send 8.0 end 4
          send 8.1 data 5, the last, flagged
          run freeze 5 in full, data up to 5
        > directed 6
        > done frozen 5
          write snapshot 5
          run finish in 6
        > done finished
          finished
          send 8.2 end inf
        > directed 9
        """,
    )
    assert (player.machine.accepted, player.machine.final_epoch) == (5, 5)


def test_a_barrier_beyond_the_last_data_is_met_by_the_end_itself() -> None:
    player = source(mode="asynchronous")
    check(
        player,
        """
        > start
          run read 64
        > directed 9
          progressed
        > done out 8:5 over last 5
          send 8.0 end 4
          send 8.1 data 5, the last
          run finish in 6
        > done finished
          finished
          send 8.2 end inf
        """,
    )
    assert player.machine.final_epoch == 5


def test_a_source_is_not_over_before_its_last_dead_rows() -> None:
    # dead rows of 8 leave behind the last data: who has state after 7 lacks them
    player = source(outputs=2, mode="asynchronous")
    played("> start\n> directed 7\n> done out 8:5 out 9:8 over last 8\n> done finished", player)
    assert player.machine.phase is Phase.FINISHED
    assert player.machine.final_epoch == 8


def test_a_slice_freezes_when_all_channels_have_ended_the_barrier_and_closes_nothing_beyond() -> (
    None
):
    #   0: data 5, end 5 flagged, data 6, end 6
    #   1:                                       end 4, end 5 flagged, end 6
    check(
        operator(mode="asynchronous"),
        """
        > start
        > 0.0 data 5, the last, flagged
          run accumulate 5 from 0
        > done
        > 0.1 data 6, the last
          run accumulate 6 from 0
        > done
        > 1.0 end 4
          credit on 0 for 5
          credit on 1 for 5
          send 8.0 end 4
        > 1.1 end 5, flagged
          run close 5
        > 1.2 end 6
        > done closed 5 out 8:5
          send 8.1 data 5
          run freeze 5 in full, data up to 6
        > done frozen 5
          write snapshot 5
          credit on 0 for 6
          credit on 1 for 6
          send 8.2 end 5, flagged
          run close 6
        > written 5
          progressed
        """,
    )


def test_a_barrier_without_data_goes_on_at_once() -> None:
    check(
        operator(inputs=1, mode="asynchronous"),
        """
        > start
        > 0.0 end 5, flagged
          credit on 0 for 5
          send 8.0 end 4
          run freeze 5 in full, data up to none
        > done frozen 5
          write snapshot 5
          credit on 0 for 6
          send 8.1 end 5, flagged
        """,
    )


def test_one_channel_may_flag_what_the_others_pass_in_a_longer_end() -> None:
    # the source behind channel 1 refused: the checkpoint never completes, and nothing waits for it
    check(
        operator(mode="asynchronous"),
        """
        > start
        > 1.0 end 9
        > 0.0 end 5, flagged
          credit on 0 for 5
          credit on 1 for 5
          send 8.0 end 4
          run freeze 5 in full, data up to none
        > 0.1 end 9
        > done frozen 5
          write snapshot 5
          credit on 0 for 10
          credit on 1 for 10
          send 8.1 end 5, flagged
          send 8.2 end 9
        """,
    )


def test_two_barriers_queue_behind_a_snapshot_that_is_being_written() -> None:
    check(
        operator(inputs=1, mode="asynchronous"),
        """
        > start
        > 0.0 end 5, flagged
          credit on 0 for 5
          send 8.0 end 4
          run freeze 5 in full, data up to none
        > done frozen 5
          write snapshot 5
          credit on 0 for 6
          send 8.1 end 5, flagged
        > 0.1 data 6, the last, flagged
          run accumulate 6 from 0, close 6
        > 0.2 data 7, the last, flagged
        > 0.3 data 8
        > done closed 6 out 8:6
          send 8.2 data 6
        > written 5
          progressed
          run freeze 6, data up to 8
        > done frozen 6
          write snapshot 6
          credit on 0 for 7
          send 8.3 end 6, flagged
          run accumulate 7 from 0, close 7
        > done closed 7
        > written 6
          progressed
          run freeze 7, data up to 8
        """,
    )


def test_a_due_window_and_the_machines_share_are_in_the_snapshot() -> None:
    check(
        operator(inputs=1, mode="asynchronous"),
        """
        > start
        > 0.0 data 1, the last
          credit on 0 for 1
          send 8.0 end 0
          run accumulate 1 from 0, close 1
        > done closed 1 due 9
          credit on 0 for 2
          send 8.1 end 1
        > 0.1 end 5, flagged
          credit on 0 for 5
          send 8.2 end 4
          run freeze 5 in full, data up to 1, due 9
        """,
    )


def test_the_end_of_the_input_waits_behind_the_barrier() -> None:
    check(
        operator(inputs=1, mode="asynchronous"),
        """
        > start
        > 0.0 end 5, flagged
          credit on 0 for 5
          send 8.0 end 4
          run freeze 5 in full, data up to none
        > 0.1 end inf after 5
        > done frozen 5
          write snapshot 5
          credit on 0 for inf
          send 8.1 end 5, flagged
          run finish in 6
        """,
    )


def test_three_snapshots_that_fail_in_a_row_are_an_error_that_names_the_slice() -> None:
    player = operator(inputs=1, mode="asynchronous")
    player("start")
    for place, epoch in enumerate((5, 6, 7)):
        player(f"0.{place} end {epoch}, flagged")
        assert player(f"done frozen {epoch}")[0] == f"write snapshot {epoch}"
        if epoch < 7:
            assert player("written not")[0] == "progressed"
    with pytest.raises(OutputError, match=r"counts/0: 3 snapshots in a row.*`snapshot: store`"):
        player("written not")


def test_after_a_failure_the_next_snapshot_is_a_full_one_and_counts_anew() -> None:
    player = operator(inputs=1, mode="asynchronous")
    player("start")
    runs = []
    for place, outcome in enumerate(("well", "well", "not", "well", "not", "not", "well")):
        runs.append(player(f"0.{place} end {place}, flagged")[-1])
        player(f"done frozen {place}")
        player("written not" if outcome == "not" else f"written {place}")
    assert ["full" in run for run in runs] == [True, False, False, True, False, True, True]


@pytest.mark.parametrize("sources", [True, False])
def test_a_synchronous_snapshot_stops_the_slice_until_the_checkpoint_is_complete(
    sources: bool,
) -> None:
    if sources:
        check(
            source(mode="synchronous"),
            """
            > start
              run read 64
            > directed 5
              progressed
            > done out 8:6 open 6 last 6
              send 8.0 end 5, flagged
              send 8.1 data 6
              run freeze 5 in full, data up to 6
            > done frozen 5
              write snapshot 5
            > written 5
              progressed
            > directed 5 over
              run read 64
            """,
        )
        return
    check(
        operator(inputs=1, mode="synchronous"),
        """
        > start
        > directed 5
        > 0.0 end 5, flagged
          credit on 0 for 5
          send 8.0 end 4
          run freeze 5 in full, data up to none
        > done frozen 5
          write snapshot 5
          credit on 0 for 6
          send 8.1 end 5, flagged
        > 0.1 data 6
        > written 5
          progressed
        > directed 5 over
          run accumulate 6 from 0
        """,
    )


def test_a_synchronous_snapshot_that_is_given_up_stops_nobody_any_longer() -> None:
    player = operator(inputs=1, mode="synchronous")
    played("> start\n> directed 5\n> 0.0 end 5, flagged\n> done frozen 5\n> 0.1 data 6", player)
    assert player.machine.halted
    assert player("directed 5 over") == ["run accumulate 6 from 0"]


def test_a_restored_slice_begins_behind_its_snapshot_and_drops_what_lies_in_it() -> None:
    check(
        operator(inputs=1, generation=2, restored=RestoredTo(5, 5, due=7)),
        """
        > 0 comes from 1
          subscribe 0 from 6
        > start
          subscribe 0 from 6
        > 0.0 data 5
        > 0.1 data 6
          run accumulate 6 from 0
        > done
        > 0.2 end 6
          run close 6
        > done closed 6 due 7 out 8:6
          credit on 0 for 7
        > 8 subscribe 6
          announce on 8: next is 0
          send 8.0 data 6, the last
        > 0.3 end 8
          run close 7
        """,
    )


def test_a_restored_slice_freezes_at_barriers_beyond_its_snapshot_alone() -> None:
    # the barrier of its own snapshot comes once more in the replay, and is not frozen at twice
    check(
        operator(inputs=1, generation=2, mode="asynchronous", restored=RestoredTo(5, 5)),
        """
        > 0 comes from 1
          subscribe 0 from 6
        > start
          subscribe 0 from 6
        > 0.0 data 5, the last, flagged
        > 0.1 end 6, flagged
          run freeze 6 in full, data up to 5
        """,
    )


def test_a_replayed_barrier_whose_checkpoint_is_over_is_passed_by() -> None:
    # 6 is over, 8 in the making; of 9 nothing is known here yet
    check(
        operator(inputs=1, generation=2, mode="asynchronous", restored=RestoredTo(5, 5)),
        """
        > 0 comes from 1
          subscribe 0 from 6
        > start
          subscribe 0 from 6
        > directed 8
        > 0.0 end 6, flagged
          credit on 0 for 7
        > 0.1 end 8, flagged
          credit on 0 for 8
          run freeze 8 in full, data up to 5
        > done frozen 8
          write snapshot 8
          credit on 0 for 9
        > written 8
          progressed
        > 0.2 end 9, flagged
          run freeze 9, data up to 5
        """,
    )


def test_a_barrier_of_the_last_checkpoint_that_was_named_is_passed_by_once_it_is_over() -> None:
    check(
        operator(inputs=1, generation=2, mode="asynchronous", restored=RestoredTo(5, 5)),
        """
        > 0 comes from 1
          subscribe 0 from 6
        > start
          subscribe 0 from 6
        > directed 6 over
        > 0.0 end 6, flagged
          credit on 0 for 7
        """,
    )


def test_a_restored_source_agrees_to_barriers_beyond_its_snapshot_alone() -> None:
    player = source(generation=2, mode="asynchronous", restored=RestoredTo(5, 5))
    assert player("directed 5") == []
    assert player("directed 6") == ["progressed"]
    assert (player.machine.frozen, player.machine.skipped) == (5, 5)


def test_a_slice_restored_from_a_finished_one_has_nothing_to_do_but_to_say_so() -> None:
    player = operator(
        inputs=1, generation=2, mode="asynchronous", restored=RestoredTo(9, 7, finished=True)
    )
    check(
        player,
        """
        > 0 comes from 1
          subscribe 0 from inf
        > start
          subscribe 0 from inf
        > 0 announced 0
        > 0.0 end inf after 7
        > 8 subscribe 10 at 10
          announce on 8: next is 0
          send 8.0 end inf
        > 8 credit inf
        > beat
          announce on 8: next is 1
          credit on 0 for inf
        """,
    )
    assert player.machine.phase is Phase.FINISHED
    assert player.machine.final_epoch == 8
    assert player.machine.processed_below == INFINITY
    header = player.machine.outputs[8].entries[0]
    assert (header.epoch, header.watermark) == (INFINITY, 7)


def test_a_source_restored_from_a_finished_one_reads_nothing() -> None:
    player = source(generation=2, mode="asynchronous", restored=RestoredTo(9, 7, finished=True))
    check(
        player,
        """
        > start
        > 8 subscribe 10
          announce on 8: next is 0
          send 8.0 end inf
        > directed 12
        """,
    )
    assert player.machine.accepted == BEGINNING
