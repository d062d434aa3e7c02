"""Slices that lose epochs under gap recovery, in transcripts (see tests/unit/transcripts.py)."""

from __future__ import annotations

from streammine.engine.losses import Losses
from streammine.engine.slice_settings import RestoredTo
from streammine.model.epochs import BEGINNING
from tests.unit.small_slices import check, operator

LEFT_OUT = RestoredTo(3, 3, left_out_until=7)
"""The state after epoch 3; it goes on with epoch 8."""


def test_what_is_left_out_is_ended_as_lost_at_once_and_the_input_is_asked_for_behind_it() -> None:
    check(
        operator(1, restored=LEFT_OUT, generation=2),
        """
        > 0 comes from 1
          subscribe 0 from 8, at 4
        > 8 subscribe 5
          announce on 8: next is 0
        > start
          subscribe 0 from 8
          credit on 0 for 8
          send 8.0 end 7, lost
        > 0.0 data 8, the last
          run accumulate 8 from 0, close 8
        > done closed 8 out 8:8
          credit on 0 for 9
          send 8.1 data 8, the last
        """,
    )


def test_a_window_that_was_open_leaves_before_its_end_is_told_as_lost() -> None:
    #   3 | 4 5 6 7 | 8       the window of 3 ends with 5
    restored = RestoredTo(3, 3, due=5, left_out_until=7)
    check(
        operator(1, restored=restored, generation=2, window_epochs=3),
        """
        > 0 comes from 1
          subscribe 0 from 8, at 4
        > 8 subscribe 4
          announce on 8: next is 0
        > start
          subscribe 0 from 8, at 5
          credit on 0 for 5
          send 8.0 end 4, lost
          run close 5
        > done closed 5 out 8:5
          credit on 0 for 8
          send 8.1 data 5
          send 8.2 end 7, lost
        """,
    )


def test_lost_ends_go_on_and_those_that_are_whole_stay_apart_from_them() -> None:
    #   channel 0:  5 lost   6    7
    #   channel 1:  5        6    7 lost
    check(
        operator(2),
        """
        > start
        > 0.0 end 5, lost
        > 1.0 end 5
          credit on 0 for 6
          credit on 1 for 6
          send 8.0 end 5, lost
        > 1.1 end 6
        > 1.2 end 7, lost
        > 0.1 end 8
          credit on 0 for 8
          credit on 1 for 8
          send 8.1 end 6
          send 8.2 end 7, lost
        """,
    )


def test_an_epoch_that_is_complete_is_not_lost_any_more() -> None:
    check(
        operator(1, restored=RestoredTo(5, 5), generation=2),
        """
        > start
        > 0 comes from 1
          subscribe 0 from 6
        > 0.0 end 5, lost
        > 0.1 end 6
          credit on 0 for 7
        > 8 subscribe 6
          announce on 8: next is 0
          send 8.0 end 6
        """,
    )


def test_a_window_is_lost_as_a_whole_and_a_snapshot_inside_it_says_so() -> None:
    #   windows of four: 4 5 6 7 | 8
    check(
        operator(1, mode="asynchronous", window_epochs=4),
        """
        > start
        > 0.0 end 3
          credit on 0 for 4
          send 8.0 end 3
        > 0.1 end 4, lost
          credit on 0 for 5
          send 8.1 end 4, lost
        > 0.2 end 5, flagged
          run freeze 5 in full, data up to none, lost up to 7
        > done frozen 5
          write snapshot 5
          credit on 0 for 6
          send 8.2 end 5, flagged, lost
        > 0.3 end 8
          credit on 0 for 9
          send 8.3 end 7, lost
          send 8.4 end 8
        """,
    )


def test_who_is_restored_inside_a_lost_window_goes_on_flagging_to_its_end() -> None:
    check(
        operator(1, restored=RestoredTo(5, 5, lost_until=7), generation=2, window_epochs=4),
        """
        > start
        > 0 comes from 1
          subscribe 0 from 6
        > 8 subscribe 6
          announce on 8: next is 0
        > 0.0 end 8
          credit on 0 for 9
          send 8.0 end 7, lost
          send 8.1 end 8
        """,
    )


def test_what_is_flushed_in_a_lost_window_is_lost() -> None:
    check(
        operator(1, window_epochs=4),
        """
        > start
        > 0.0 end 3
          credit on 0 for 4
          send 8.0 end 3
        > 0.1 end 4, lost
          credit on 0 for 5
          send 8.1 end 4, lost
        > 0.2 end inf after 5
          credit on 0 for inf
          send 8.2 end 5, lost
          run finish in 6
        > done finished out 8:6
          finished
          send 8.3 data 6, the last, lost
          send 8.4 end inf
        """,
    )


def test_a_committer_is_told_even_where_there_are_no_rows() -> None:
    check(
        operator(1, outputs=0),
        """
        > start
        > 0.0 end 5
          credit on 0 for 6
        > 0.1 end 8, lost
          credit on 0 for 8
          run close 8, lost 6 to 8
        > done closed 8
          credit on 0 for 9
        > 0.2 end 9
          credit on 0 for 10
        """,
    )


def test_what_is_over_everywhere_is_forgotten() -> None:
    player = operator(1, mode="asynchronous")
    for line in ("start", "0.0 end 5", "0.1 end 7, lost", "0.2 end 9"):
        player(line)
    assert list(player.machine.losses.epochs) == [(6, 7)]
    player("directed 12 retain 6")
    assert list(player.machine.losses.epochs) == [(7, 7)]
    player("directed 12 retain 8")
    assert not player.machine.losses


def test_a_lost_epoch_makes_all_windows_lost_that_hold_it() -> None:
    losses = Losses(6, 2)
    losses.missed(3, 4)
    # the last window that holds epoch 4 begins with it
    assert list(losses.epochs) == [(3, 9)]
    assert losses.beyond(2) == BEGINNING
    assert losses.beyond(3) == 7, "what is lost up to epoch 3 is in no later window"
    assert losses.beyond(4) == losses.beyond(8) == 9
    assert losses.beyond(9) == BEGINNING


def test_a_window_without_losses_is_whole() -> None:
    losses = Losses(4)
    losses.missed(1, 3)
    assert losses.beyond(3) == BEGINNING, "the window is over"
    assert losses.beyond(5) == BEGINNING, "what was lost lies before this window"
    assert losses.beyond(2) == 3
    losses.missed(9, 5)
    assert list(losses.epochs) == [(1, 3)], "there is nothing between 9 and 5"
