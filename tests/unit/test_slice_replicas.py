"""Slices among replicas that come and go, in transcripts (see tests/unit/transcripts.py)."""

from __future__ import annotations

from dataclasses import replace

from streammine.engine.kept import Kept
from streammine.engine.slice_settings import RestoredTo
from streammine.engine.stimuli import Accumulate, Run, Start, ToDisk
from streammine.simulation.rows import ROWS
from tests.unit.small_slices import check, operator, source
from tests.unit.transcripts import frame_arrived, played


def test_a_new_replica_subscribes_until_it_hears_of_the_sender() -> None:
    check(
        operator(generation=2),
        """
        > 0 comes from 1
          subscribe 0 from none
        > 1 comes from 3
          subscribe 0 from none
          subscribe 1@3 from none
        > 0 announced 0
        > beat
          subscribe 1@3 from none
        > 1@3.0 data 0
        > beat
        """,
    )


def test_a_new_receiver_gets_the_log_on_a_link_of_its_own() -> None:
    #   8 -> generation 1: 0 1 2 3 (sent)      8 -> generation 2: the same frames from epoch 2 on
    check(
        source(mode="asynchronous"),
        """
        > start
          run read 64
        > done out 8:1 out 8:2 out 8:3 open 4
          send 8.0 end 0
          send 8.1 data 1, the last
          send 8.2 data 2, the last
          send 8.3 data 3, the last
          run read 64
        > 8 goes to 1 2
        > 8@2 subscribe 2
          announce on 8@2: next is 0
          send 8@2.0 data 2, the last
          send 8@2.1 data 3, the last
        > 8@2 subscribe 2
          announce on 8@2: next is 2
        > 8@2 resend 1
          send 8@2.1 data 3, the last
        > done out 8:4 open 5
          send 8.4 data 4, the last
          send 8@2.2 data 4, the last
          run read 64
        > 8 goes to 2
        > done out 8:5 open 6
          send 8@2.3 data 5, the last
          run read 64
        > 8 resend 1
        > 8 credit 3
        """,
    )


def test_a_new_sender_leads_once_the_old_one_is_lost_and_nothing_of_the_old_one_is_kept() -> None:
    # of epoch 5 only a part came; it is discarded, and all of it comes from the new generation
    check(
        operator(inputs=1),
        """
        > start
        > 0.0 data 5
          run accumulate 5 from 0
        > 0.1 data 6
        > 0 comes from 2
          subscribe 0@2 from none
        > 0.2 data 5, the last
        > done
        > 0@2.0 data 5
          run discard 5 from 0, accumulate 5 from 0, discard 6 from 0
        > 0@2.1 data 5, the last
          credit on 0@2 for 5
          send 8.0 end 4
        > done
          run accumulate 5 from 0, close 5
        """,
    )


def test_the_share_of_other_channels_is_not_discarded() -> None:
    check(
        operator(),
        """
        > start
        > 0.0 little 5
        > 1.0 little 5
        > 1.1 end 5
        > 0 comes from 2
          subscribe 0@2 from none
        > 0@2.0 data 5, the last
          credit on 0@2 for 5
          credit on 1 for 5
          send 8.0 end 4
          run accumulate 5 from 1, discard 5 from 0, accumulate 5 from 0, close 5
        """,
    )


def test_credit_and_subscriptions_begin_where_the_receiver_stands() -> None:
    check(
        operator(),
        """
        > start
        > 0.0 end 5
        > 1.0 end 3
          credit on 0 for 4
          credit on 1 for 4
          send 8.0 end 3
        > 0 comes from 1 2
          subscribe 0@2 from 6, at 4
        > 1.1 end 4
          credit on 0 for 5
          credit on 0@2 for 5
          credit on 1 for 5
          send 8.1 end 4
        """,
    )


def test_a_second_sender_that_is_first_with_an_epoch_takes_over_the_lead() -> None:
    #   1:  data 5 ........................... data 5, end 5 (too late) ... data 6: waits
    #   2:          data 5, data 5, end 5 ..... data 6
    check(
        operator(inputs=1),
        """
        > start
        > 0 comes from 1 2
          subscribe 0@2 from none
        > 0.0 data 5
          run accumulate 5 from 0
        > 0@2.0 data 5
        > 0@2.1 data 5, the last
          credit on 0 for 5
          credit on 0@2 for 5
          send 8.0 end 4
        > done
          run discard 5 from 0, accumulate 5 from 0, accumulate 5 from 0, close 5
        > 0.1 data 5, the last
        > done closed 5
          credit on 0 for 6
          credit on 0@2 for 6
          send 8.1 end 5
        > 0.2 data 6
        > 0@2.2 data 6
          run accumulate 6 from 0
        """,
    )


def test_a_slower_sender_waits_and_what_the_leader_has_completed_is_dropped() -> None:
    player = operator(inputs=1)
    check(
        player,
        """
        > start
        > 0 comes from 1 2
          subscribe 0@2 from none
        > 0@2.0 data 5
        > 0.0 data 5, the last
          credit on 0 for 5
          credit on 0@2 for 5
          send 8.0 end 4
          run accumulate 5 from 0, close 5
        > done closed 5
          credit on 0 for 6
          credit on 0@2 for 6
          send 8.1 end 5
        > 0@2.1 data 5, the last
        """,
    )
    assert player.machine.inputs[0].feeds[2].waiting == []


def test_a_former_leader_leads_again_and_is_asked_for_what_was_thrown_away() -> None:
    #   1 leads with parts of 5 and 6, 2 completes 5 and leads, 2 is lost: 1 comes again from its 6
    check(
        operator(inputs=1),
        """
        > start
        > 0 comes from 1 2
          subscribe 0@2 from none
        > 0.0 data 5
          run accumulate 5 from 0
        > 0.1 data 6
        > 0@2.0 data 5, the last
          credit on 0 for 5
          credit on 0@2 for 5
          send 8.0 end 4
        > 0.2 data 5, the last
        > 0.3 data 6
        > done
          run discard 5 from 0, accumulate 5 from 0, close 5
        > done closed 5
          credit on 0 for 6
          credit on 0@2 for 6
          send 8.1 end 5
        > 0 comes from 1
          ask 0 for frames from 1
        > 0.1 data 6
          run discard 6 from 0, accumulate 6 from 0
        > 0.2 data 5, the last
        > 0.3 data 6
        > done
          run accumulate 6 from 0
        """,
    )


def test_frames_of_a_generation_that_the_plan_does_not_list_are_dropped() -> None:
    check(
        operator(inputs=1),
        """
        > start
        > 0@7.0 data 5
        > 0@7.1 end inf
        > 0@7 announced 5
        > 0 comes from 2
          subscribe 0@2 from none
        > 0.0 data 5
        > 0 announced 5
        """,
    )


def test_what_is_meant_for_another_generation_of_this_slice_is_left_alone() -> None:
    player = operator(inputs=1, generation=2)
    player("0 comes from 1")
    player("start")
    assert player.machine.handle(frame_arrived("0.0 data 5", receiver=1)) == []
    assert player.machine.inputs[0].feeds[1].expected == 0


def test_work_of_epochs_that_receivers_have_been_given_says_so() -> None:
    # the receiver has everything below 8 from the other one; the last epoch in a row is in step again
    check(
        operator(inputs=1, generation=2, restored=RestoredTo(4, 4)),
        """
        > 0 comes from 1
          subscribe 0 from 5
        > start
          subscribe 0 from 5
        > 8 subscribe 8
          announce on 8: next is 0
        > 0.0 data 5, the last
          run once more accumulate 5 from 0, close 5
        > 0.1 data 6, the last
        > 0.2 data 7, the last
        > done closed 5 out 8:5
          credit on 0 for 6
          run once more accumulate 6 from 0, close 6
        > done closed 6 out 8:6
          credit on 0 for 7
          run accumulate 7 from 0, close 7
        """,
    )


def test_a_slice_without_any_receiver_makes_a_budgets_worth_ahead() -> None:
    check(
        source(budget=15, generation=2),
        """
        > start
          run read 64
        > done out 8:1 open 2
          run read 64
        > done out 8:2 open 3
        > 8 goes to 3
        > 8@3 subscribe 2
          announce on 8@3: next is 0
          send 8@3.0 data 2, the last
          run read 64
        """,
    )


def test_the_fastest_receiver_sets_the_pace_and_the_slower_one_reads_the_log() -> None:
    check(
        source(budget=10),
        """
        > start
          run read 64
        > 8@2 subscribe none
          announce on 8@2: next is 0
        > done out 8:1 out 8:2 open 3
          send 8.0 end 0
          send 8.1 data 1, the last
          send 8@2.0 end 0
          send 8@2.1 data 1, the last
        > 8 credit 2
          send 8.2 data 2, the last
          run read 64
        > 8@2 credit 2
          send 8@2.2 data 2, the last
        """,
    )


def test_who_asks_for_an_epoch_that_is_not_kept_any_more_is_linked_once_it_is_past_it() -> None:
    player = source(mode="asynchronous")
    played("> start\n> done out 8:1 out 8:2 open 3\n> 8 credit 3\n> directed 9 retain 1", player)
    assert player("8@2 subscribe 1") == []
    assert player("beat") == []
    assert player("8@2 subscribe 2")[1:] == ["send 8@2.0 data 2, the last"]


def test_what_waits_beyond_the_limit_goes_to_disk_and_so_does_what_is_retained() -> None:
    player = operator(inputs=1, retained_bytes=15)
    machine = player.machine
    machine.settings = replace(machine.settings, waiting_bytes=1 << 20)
    check(
        player,
        """
        > start
        > 0.0 data 1
          run accumulate 1 from 0
        > 0.1 data 1
        > 0.2 data 1
        > 0.3 data 1, the last
          to disk: 1
          credit on 0 for 1
          send 8.0 end 0
        > done
          run accumulate 1 from 0, accumulate 1 from 0, accumulate 1 from 0, close 1
        > done closed 1 out 8:1 out 8:1
          credit on 0 for 2
          send 8.1 data 1
          send 8.2 data 1, the last
          to disk: 1
        """,
    )


def test_a_body_on_its_way_to_disk_is_the_one_that_is_handed_over() -> None:
    player = operator(inputs=1)
    machine = player.machine
    machine.settings = replace(machine.settings, waiting_bytes=0)
    assert player("0.0 data 1") == []
    (to_disk,) = machine.handle(frame_arrived("0.1 data 1"))
    assert isinstance(to_disk, ToDisk)
    (run,) = machine.handle(Start())
    assert isinstance(run, Run)
    first, second = (work for work in run.work if isinstance(work, Accumulate))
    assert first.body == "batch", "the first one was within the limit"
    assert (second.body,) == to_disk.bodies
    assert isinstance(second.body, Kept)


def test_a_replica_that_waits_to_be_started_may_be_asked_for_what_it_passed_on() -> None:
    """The ends of empty epochs, of which the network may lose some; its rows say so."""
    check(
        operator(),
        """
        > 0.0 end 5
        > 1.0 end 7
          credit on 0 for 6
          credit on 1 for 6
          send 8.0 end 5
        > 8 resend 0
          send 8.0 end 5
        """,
    )
    assert ("slice", "deployed: ResendAsked") in ROWS
