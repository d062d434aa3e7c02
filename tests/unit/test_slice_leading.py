"""Replicas of which another one leads: they freeze nothing and pass barriers on, until they lead."""

from __future__ import annotations

from streammine.engine.stimuli import Read, Run, Start
from tests.unit.small_loops import after
from tests.unit.small_loops import check as check_loop
from tests.unit.small_loops import player as loop_player
from tests.unit.small_slices import check, operator, source


def test_who_does_not_lead_passes_a_barrier_on_without_freezing() -> None:
    check(
        operator(inputs=1, mode="asynchronous"),
        """
        > leads not
        > start
        > 0.0 data 5, the last, flagged
          credit on 0 for 5
          send 8.0 end 4
          run accumulate 5 from 0, close 5
        > 0.1 data 6
        > done closed 5 out 8:5
          send 8.1 data 5
          credit on 0 for 6
          send 8.2 end 5, flagged
          run accumulate 6 from 0
        """,
    )


def test_barriers_that_lie_one_behind_the_other_are_all_passed() -> None:
    check(
        operator(inputs=1, mode="asynchronous"),
        """
        > leads not
        > 0.0 end 5, flagged
          credit on 0 for 5
          send 8.0 end 4
        > 0.1 end 6, flagged
        > 0.2 end 7
        > start
          credit on 0 for 6
          send 8.1 end 5, flagged
          credit on 0 for 8
          send 8.2 end 6, flagged
          send 8.3 end 7
        """,
    )


def test_a_barrier_is_passed_when_the_work_before_it_is_done_and_no_earlier() -> None:
    # 5 is at work while its end comes from both channels
    check(
        operator(mode="asynchronous"),
        """
        > leads not
        > start
        > 0.0 data 5
          run accumulate 5 from 0
        > 0.1 end 5, flagged
        > 1.0 end 5
          credit on 0 for 5
          credit on 1 for 5
          send 8.0 end 4
        > done
          run close 5
        > done closed 5
          credit on 0 for 6
          credit on 1 for 6
          send 8.1 end 5, flagged
        """,
    )


def test_a_source_that_does_not_lead_agrees_to_a_barrier_and_reads_on_behind_it() -> None:
    player = source(mode="asynchronous")
    check(
        player,
        """
        > leads not
        > start
          run read 64
        > directed 6
          progressed
        > done out 8:5 out 8:7 open 7 last 7
          send 8.0 end 4
          send 8.1 data 5
          send 8.2 end 6, flagged
          send 8.3 data 7
          run read 64
        """,
    )
    assert (player.machine.accepted, player.machine.frozen, player.machine.skipped) == (6, 6, 6)


def test_a_source_that_does_not_lead_is_over_without_a_snapshot_of_its_last_barrier() -> None:
    check(
        source(mode="asynchronous"),
        """
        > leads not
        > start
          run read 64
        > directed 5
          progressed
        > done out 8:5 over last 5
          send 8.0 end 4
          send 8.1 data 5, the last, flagged
          run finish in 6
        > done finished
          finished
          send 8.2 end inf
        """,
    )


def test_who_comes_to_lead_freezes_at_the_next_barrier_in_full() -> None:
    player = operator(inputs=1, mode="asynchronous")
    check(
        player,
        """
        > leads not
        > start
        > 0.0 end 5, flagged
          credit on 0 for 5
          send 8.0 end 4
          credit on 0 for 6
          send 8.1 end 5, flagged
        > leads
        > 0.1 end 7, flagged
          credit on 0 for 7
          send 8.2 end 6
          run freeze 7 in full, data up to none
        > done frozen 7
          write snapshot 7
          credit on 0 for 8
          send 8.3 end 7, flagged
        """,
    )
    assert (player.machine.frozen, player.machine.skipped) == (7, 5)


def test_who_comes_to_lead_once_more_adds_nothing_to_what_may_have_been_removed() -> None:
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
        > written 5
          progressed
        > leads not
        > 0.1 end 7, flagged
          credit on 0 for 7
          send 8.2 end 6
          credit on 0 for 8
          send 8.3 end 7, flagged
        > leads
        > 0.2 end 9, flagged
          credit on 0 for 9
          send 8.4 end 8
          run freeze 9 in full, data up to none
        """,
    )


def test_who_comes_to_lead_before_a_barrier_that_it_has_heard_of_freezes_there() -> None:
    check(
        operator(mode="asynchronous"),
        """
        > leads not
        > start
        > 0.0 end 5, flagged
        > leads
        > 1.0 end 5
          credit on 0 for 5
          credit on 1 for 5
          send 8.0 end 4
          run freeze 5 in full, data up to none
        """,
    )


def test_a_barrier_that_was_passed_is_not_frozen_at_when_its_flag_comes_once_more() -> None:
    # the replica that led is lost between passing 5 on and its snapshot; 5 comes again from a new sender
    check(
        operator(inputs=1, mode="asynchronous"),
        """
        > leads not
        > start
        > 0.0 end 5, flagged
          credit on 0 for 5
          send 8.0 end 4
          credit on 0 for 6
          send 8.1 end 5, flagged
        > leads
        > 0 comes from 2
          subscribe 0@2 from 6
        > 0@2.0 end 5, flagged
        """,
    )


def test_a_synchronous_snapshot_stops_those_who_do_not_lead_too() -> None:
    check(
        operator(inputs=1, mode="synchronous"),
        """
        > leads not
        > start
        > directed 5
        > 0.0 end 5, flagged
          credit on 0 for 5
          send 8.0 end 4
          credit on 0 for 6
          send 8.1 end 5, flagged
        > 0.1 data 6, the last
        > directed 5 over
          run accumulate 6 from 0, close 6
        """,
    )


def test_a_member_of_a_loop_that_does_not_lead_passes_the_flag_on_behind_the_final_round() -> None:
    check_loop(
        loop_player(head=False, restored=after(4), outer=False),
        """
        > leads not
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
        > 1.2 end 900/0 says 0
        > done out 10:5 closed 5/f
          send 10.0 data 5
          credit on 1 for 900/1
          send 9.1 end 6/0, flagged says 900
          send 9.2 end 900/1 says 0
          send 10.1 end 5, flagged
        """,
    )


def test_a_head_of_a_loop_that_does_not_lead_flags_the_end_and_goes_on() -> None:
    check_loop(
        loop_player(head=True, restored=after(4, 5)),
        """
        > leads not
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
          credit on 0 for 6
          run accumulate 6/0 from 1, close 6/0
        > done closed 6/0
          credit on 1 for 6/1
          send 8.2 end 6/0 says 0
        """,
    )


def test_who_stands_behind_takes_one_batch_at_a_turn() -> None:
    # each is large enough for a run, and others on its node wait meanwhile
    check(
        operator(inputs=1),
        """
        > stands behind
        > start
        > 0.0 data 5
          run accumulate 5 from 0
        > 0.1 data 5
        > 0.2 data 5, the last
          credit on 0 for 5
          send 8.0 end 4
        > done
          run accumulate 5 from 0
        > done
          run accumulate 5 from 0, close 5
        """,
    )


def test_who_leads_takes_all_that_waits() -> None:
    check(
        operator(inputs=1),
        """
        > stands behind
        > start
        > 0.0 data 5
          run accumulate 5 from 0
        > 0.1 data 5
        > 0.2 data 5, the last
          credit on 0 for 5
          send 8.0 end 4
        > leads
        > done
          run accumulate 5 from 0, accumulate 5 from 0, close 5
        """,
    )


def test_small_batches_behind_another_one_go_together() -> None:
    check(
        operator(inputs=1),
        """
        > stands behind
        > start
        > 0.0 little 5
        > 0.1 little 5
        > 0.2 end 5
          credit on 0 for 5
          send 8.0 end 4
          run accumulate 5 from 0, accumulate 5 from 0, close 5
        """,
    )


def test_a_source_that_stands_behind_reads_once_at_a_turn() -> None:
    player = source()
    player("stands behind")
    (run,) = player.machine.handle(Start())
    assert isinstance(run, Run)
    (read,) = run.work
    assert isinstance(read, Read)
    assert read.times == 1
