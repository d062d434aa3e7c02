"""Slices of a loop in transcripts: a member, and a head, with what they end, say, hold and carry."""

from __future__ import annotations

import pytest

from streammine.engine import stimuli
from streammine.model.stamps import final
from tests.unit.small_loops import LoopPlayer, after, check, player


def test_a_member_tells_the_head_how_much_it_sent_back_in_each_round() -> None:
    check(
        player(head=False, restored=after(4), outer=False),
        """
        > 1 comes from 1
          subscribe 1 from 5/0
        > start
          subscribe 1 from 5/0
        > 1.0 data 5/0, the last says 0
          run accumulate 5/0 from 1, close 5/0
        > done out 9:5/1 out 9:5/1 closed 5/0
          credit on 1 for 5/1
          send 9.0 data 5/1
          send 9.1 data 5/1, the last says 2
        > 1.1 end 5/1 says 0
          credit on 1 for 5/2
          send 9.2 end 5/2 says 0
        > 1.2 end 5/f says 700
          credit on 1 for 5/f
          run close 5/f
        > done closed 5/f
          credit on 1 for 6/0
          send 9.3 end 6/0 says 700
          send 10.0 end 5
        """,
    )


def test_a_member_waits_for_its_own_entry_and_names_the_epoch_that_comes_there() -> None:
    check(
        player(head=False, restored=after(4)),
        """
        > 0 comes from 1
          subscribe 0 from 5
        > 1 comes from 1
          subscribe 0 from 5
          subscribe 1 from 5/0
        > 1.0 end 5/0 says 0
        > 0.0 data 5
        > start
          run accumulate 5/0 from 0
        > 0.1 end 5
        > done closed 5/0
          credit on 0 for 5
          credit on 1 for 5/1
          send 9.0 end 5/1 says 0
        > 1.1 end 5/f says 700
          credit on 1 for 5/f
          run close 5/f
        > done closed 5/f
          credit on 0 for 6
          credit on 1 for 6/0
          send 9.1 end 6/0 says 6
          send 10.0 end 5
        """,
    )


def test_what_a_member_sends_back_in_the_final_round_is_in_the_next_epoch() -> None:
    check(
        player(head=False, restored=after(4), outer=False),
        """
        > 1 comes from 1
          subscribe 1 from 5/0
        > start
          subscribe 1 from 5/0
        > 1.0 end 5/0 says 0
          credit on 1 for 5/1
          send 9.0 end 5/1 says 0
        > 1.1 data 5/f, the last says 700
          credit on 1 for 5/f
          run accumulate 5/f from 1, close 5/f
        > done out 9:6/0 out 10:5 closed 5/f
          credit on 1 for 6/0
          send 9.1 data 6/0, the last says 6
          send 10.0 data 5, the last
        """,
    )


def test_a_member_freezes_behind_the_final_round_and_passes_the_flag_on() -> None:
    check(
        player(head=False, restored=after(4), outer=False),
        """
        > 1 comes from 1
          subscribe 1 from 5/0
        > start
          subscribe 1 from 5/0
        > 1.0 end 5/0 says 0
          credit on 1 for 5/1
          send 9.0 end 5/1 says 0
        > 1.1 data 5/f, the last, flagged says 900
          credit on 1 for 5/f
          run accumulate 5/f from 1, close 5/f
        > done out 10:5 closed 5/f
          send 10.0 data 5
          run freeze 5 in full, data up to 5
        > 1.2 end 900/0 says 0
        > done frozen 5
          write snapshot 5
          credit on 1 for 900/1
          send 9.1 end 6/0, flagged says 900
          send 9.2 end 900/1 says 0
          send 10.1 end 5, flagged
        """,
    )


def test_a_head_carries_what_the_last_round_leaves() -> None:
    check(
        player(head=True, max_rounds=1, restored=after(4, 5)),
        """
        > 0 comes from 1
          subscribe 0 from 5
        > 1 comes from 1
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > start
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > 0.0 data 5, the last
          credit on 0 for 5
          credit on 1 for 5/0
          run accumulate 5/0 from 0, close 5/0
        > done out 8:5/0 out 10:5 closed 5/0
          credit on 1 for 5/1
          send 8.0 data 5/0, the last says 0
          send 10.0 data 5
        > 1.0 data 5/1, the last says 1
          credit on 1 for 5/f
          run close 5/f
        > done out 8:5/f closed 5/f
          credit on 1 for 6/0
          send 8.1 data 5/f, the last says 6
          send 10.1 end 5
        > 1.1 end 6/0 says 6
          credit on 0 for 6
        > 0.1 end 6
          run accumulate 6/0 from -2, close 6/0
        > done out 10:6 closed 6/0
          credit on 1 for 6/1
          send 8.2 end 6/0 says 0
          send 10.2 data 6
        """,
    )


def test_rows_of_a_round_are_handed_over_once_it_is_decided() -> None:
    check(
        player(head=True, restored=after(4, 5)),
        """
        > 0 comes from 1
          subscribe 0 from 5
        > 1 comes from 1
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > start
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > 0.0 data 5, the last
          credit on 0 for 5
          credit on 1 for 5/0
          run accumulate 5/0 from 0, close 5/0
        > done out 8:5/0 closed 5/0
          credit on 1 for 5/1
          send 8.0 data 5/0, the last says 0
        > 1.0 data 5/1
        > 1.1 data 5/1
        > 1.2 end 5/1 says 2
          run accumulate 5/1 from 1, accumulate 5/1 from 1, close 5/1
        """,
    )


def test_a_head_passes_the_flag_on_at_once_and_freezes_when_what_is_carried_is_complete() -> None:
    check(
        player(head=True, restored=after(4, 5)),
        """
        > 0 comes from 1
          subscribe 0 from 5
        > 1 comes from 1
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > start
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > 0.0 end 5, flagged
          credit on 0 for 5
          credit on 1 for 5/1
          send 8.0 end 5/0 says 0
        > 1.0 end 5/1 says 0
          credit on 1 for 6/0
          send 8.1 end 5/f, flagged says 6
          send 10.0 end 5, flagged
        > 0.1 end 6
        > 1.1 data 6/0
        > 1.2 end 6/0 says 6
          run freeze 5 in full, data up to 6
        > done frozen 5
          write snapshot 5
          credit on 0 for 6
          run accumulate 6/0 from 1, close 6/0
        > done closed 6/0
          credit on 1 for 6/1
          send 8.2 end 6/0 says 0
        """,
    )


def test_a_restored_head_begins_with_what_was_carried() -> None:
    check(
        player(head=True, restored=after(4, 5, rows=2)),
        """
        > 0 comes from 1
          subscribe 0 from 5
        > 1 comes from 1
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > start
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > 1.0 end 5/1 says 7
          credit on 0 for 5
          credit on 1 for 5/0
        > 0.0 end 5
          run accumulate 5/0 from -2, accumulate 5/0 from -2, close 5/0
        > done closed 5/0
          credit on 1 for 5/2
          send 8.0 end 5/0 says 0
          send 8.1 end 5/1 says 0
        """,
    )


def test_the_loop_is_over_when_the_input_is_and_nothing_is_carried() -> None:
    check(
        player(head=True, restored=after(4, 5)),
        """
        > 0 comes from 1
          subscribe 0 from 5
        > 1 comes from 1
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > start
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > 0.0 end inf after 5
          credit on 0 for 5
          credit on 1 for 5/1
          send 8.0 end 5/0 says 0
        > 1.0 end 5/1 says 0
          credit on 1 for 6/0
          send 8.1 end 5/f says inf
          send 10.0 end 5
        > 1.1 end 6/0 says inf
          credit on 0 for inf
          credit on 1 for inf
          run finish in 6
        > done finished
          finished
          send 8.2 end inf
          send 10.1 end inf
        > 1.2 end inf after 5
        """,
    )


def test_of_two_checkpoints_and_epochs_the_world_hears_epochs() -> None:
    machine = player(head=True, restored=after(4, 9)).machine
    assert machine.processed_epoch == 9
    assert machine.retained_after == 4
    machine.handle(stimuli.Directed(7, 7, 6))
    assert machine.retained_after == 6
    assert machine.outputs[8].retained_after == final(6)
    assert machine.outputs[10].retained_after == 6


def test_a_barrier_that_others_make_up_for_is_too_late_for_a_head_that_is_past_it() -> None:
    # it went from 5 to 8; a member that was rebuilt froze behind 6 all the same
    late = player(head=True, restored=after(5, 8))
    check(
        late,
        """
        > 0 comes from 1
          subscribe 0 from 6, at 8
        > 1 comes from 1
          subscribe 0 from 6, at 8
          subscribe 1 from 6/1, at 6/0
        > start
          subscribe 0 from 6, at 8
          subscribe 1 from 6/1, at 6/0
        > 0.0 end 8
          credit on 0 for 8
          credit on 1 for 8/1
          send 8.0 end 7/f says 8
          send 8.1 end 8/0 says 0
          send 10.0 end 7
        > 1.0 end 7/0, flagged says 7
        """,
    )
    assert late.machine.barriers == []


def test_a_head_that_has_jumped_over_a_barrier_but_not_begun_anything_freezes_there() -> None:
    check(
        player(head=True, restored=after(5, 8)),
        """
        > 0 comes from 1
          subscribe 0 from 6, at 8
        > 1 comes from 1
          subscribe 0 from 6, at 8
          subscribe 1 from 6/1, at 6/0
        > start
          subscribe 0 from 6, at 8
          subscribe 1 from 6/1, at 6/0
        > 1.0 end 7/0, flagged says 7
          credit on 0 for 6
          credit on 1 for 6/0
          run freeze 6 in full, data up to 5
        > done frozen 6
          write snapshot 6
          credit on 0 for 8
        """,
    )


def over_outside(directed: str, last: str = "end inf after 4") -> LoopPlayer:
    """A head that is in epoch 5, of whose input outside this was the last."""
    head = player(head=True, restored=after(4, 5))
    check(
        head,
        f"""
        > 0 comes from 1
          subscribe 0 from 5
        > 1 comes from 1
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > start
          subscribe 0 from 5
          subscribe 1 from 5/1, at 5/0
        > 0.0 {last}
          credit on 0 for 5
          credit on 1 for 5/1
          send 8.0 end 5/0 says 0
        > {directed}
        """,
    )
    return head


def test_a_head_that_nobody_feeds_any_more_flags_the_checkpoint_itself() -> None:
    check(
        over_outside("directed 5"),
        """
        > 1.0 end 5/1 says 0
          credit on 1 for 6/0
          send 8.1 end 5/f, flagged says inf
          send 10.0 end 5, flagged
        > 1.1 end 6/0 says 700
          run freeze 5 in full, data up to 4
        > done frozen 5
          write snapshot 5
          credit on 0 for 700
          credit on 1 for 700/1
          send 8.2 end 699/f says 700
          send 8.3 end 700/0 says 0
          send 10.1 end 699
        """,
    )


@pytest.mark.parametrize(
    ("directed", "last"),
    [
        ("directed 4", "end inf after 4"),
        ("directed 6", "end inf after 4"),
        ("directed 5 over", "end inf after 4"),
        ("directed 5", "end 5"),
    ],
)
def test_a_head_flags_no_other_epoch_and_none_for_those_who_feed_it(
    directed: str, last: str
) -> None:
    head = over_outside(directed, last)
    assert head("1.0 end 5/1 says 0")[1:] == [
        f"send 8.1 end 5/f says {'6' if last == 'end 5' else 'inf'}",
        "send 10.0 end 5",
    ]
    assert head.machine.barriers == []


def test_a_head_that_hears_of_a_checkpoint_too_late_freezes_where_others_flag() -> None:
    late = over_outside("directed 4")
    late("1.0 end 5/1 says 0")
    check(
        late,
        """
        > directed 5
        > 1.1 end 6/0, flagged says 700
          run freeze 5 in full, data up to 4
        """,
    )


def test_a_loop_that_is_over_goes_to_no_epoch_for_a_checkpoint() -> None:
    check(
        over_outside("directed 9"),
        """
        > 1.0 end 5/1 says 0
          credit on 1 for 6/0
          send 8.1 end 5/f says inf
          send 10.0 end 5
        > 1.1 end 6/0 says inf
          credit on 0 for inf
          credit on 1 for inf
          run finish in 5
        """,
    )
