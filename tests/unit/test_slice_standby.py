"""Slices that stand by and are promoted, in transcripts (see tests/unit/transcripts.py)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine.engine.kept import Kept
from streammine.engine.output_channel import OutputChannel
from streammine.engine.stimuli import Accumulate
from streammine.engine.waiting import WaitingWork
from streammine.model.epochs import BEGINNING
from streammine.model.schemes import Scheme
from tests.unit.memory_spill import MemorySpill
from tests.unit.small_slices import check, operator, source
from tests.unit.transcripts import SlicePlayer, played


def standing(rung: str, inputs: int = 1, budget: int = 1000) -> SlicePlayer:
    """Runs, on a rung, with one channel out whose receiver has credited nothing."""
    player = operator(inputs, mode="asynchronous", budget=budget)
    assert played(f"> stands {rung}\n> start", player) == f"> stands {rung}\n> start"
    return player


def queued() -> SlicePlayer:
    """A hot standby that has epochs 1 to 4; the receiver has processed those up to 2."""
    player = standing("passive-standby-hot")
    check(
        player,
        """
        > 0.0 data 1, the last
          credit on 0 for 2
        > 0.1 data 2, the last
          credit on 0 for 3
        > 0.2 data 3, the last
          credit on 0 for 4
        > 0.3 data 4, the last
          credit on 0 for 5
        > 8 credit 3
        """,
    )
    return player


# --- silent channels ------------------------------------------------------------------------------


def test_an_active_standby_works_and_says_nothing_until_it_is_promoted() -> None:
    check(
        standing("active-standby"),
        """
        > 0.0 data 1, the last
          credit on 0 for 1
          run accumulate 1 from 0, close 1
        > done out 8:1 closed 1
          credit on 0 for 2
        > 0.1 data 2, the last
          run accumulate 2 from 0, close 2
        > done out 8:2 closed 2
          credit on 0 for 3
        > beat
          credit on 0 for 3
        > 8 resend 0
        > stands active-replication
          send 8.0 end 0
          send 8.1 data 1, the last
          send 8.2 data 2, the last
        """,
    )


def test_it_begins_with_what_each_receiver_lacks() -> None:
    #   8 -> generation 1 has processed epoch 1     8 -> generation 2 came late, and stands behind 2
    check(
        standing("active-standby"),
        """
        > 0.0 data 1, the last
          credit on 0 for 1
          run accumulate 1 from 0, close 1
        > done out 8:1 closed 1
          credit on 0 for 2
        > 0.1 data 2, the last
          run accumulate 2 from 0, close 2
        > done out 8:2 closed 2
          credit on 0 for 3
        > 0.2 data 3, the last
          run accumulate 3 from 0, close 3
        > done out 8:3 closed 3
          credit on 0 for 4
        > 8 goes to 1 2
        > 8@2 subscribe 3
          announce on 8@2: next is 0
        > 8 credit 2
        > stands active-replication
          send 8.0 data 2, the last
          send 8.1 data 3, the last
          send 8@2.0 data 3, the last
        """,
    )


def test_who_has_all_is_sent_what_is_made_later_only() -> None:
    check(
        standing("active-standby"),
        """
        > 0.0 data 1, the last
          credit on 0 for 1
          run accumulate 1 from 0, close 1
        > done out 8:1 closed 1
          credit on 0 for 2
        > 8 credit 2
        > stands active-replication
        > 0.1 data 2, the last
          run accumulate 2 from 0, close 2
        > done out 8:2 closed 2
          credit on 0 for 3
          send 8.0 data 2, the last
        """,
    )


def test_who_stands_by_makes_no_more_than_the_budget_ahead_of_its_receivers() -> None:
    # a frame has 10 bytes: that of epoch 2 is one too many
    check(
        standing("active-standby", budget=15),
        """
        > 0.0 data 1, the last
          credit on 0 for 1
          run accumulate 1 from 0, close 1
        > done out 8:1 closed 1
          credit on 0 for 2
        > 0.1 data 2, the last
          run accumulate 2 from 0, close 2
        > done out 8:2 closed 2
          credit on 0 for 3
        > 0.2 data 3, the last
          run accumulate 3 from 0
        > done
        > 8 credit 2
          run close 3
        """,
    )


def test_a_source_that_stands_by_reads_no_more_than_the_budget_ahead() -> None:
    player = source(mode="asynchronous", budget=15)
    check(
        player,
        """
        > stands active-standby
        > start
          run read 64
        > done out 8:0 out 8:1 open 2
        > 8 credit 1
          run read 64
        > done out 8:2 out 8:3 open 4
        > stands active-replication
          send 8.0 data 1, the last
          send 8.1 data 2, the last
        """,
    )


def test_whoever_only_queues_sets_no_pace() -> None:
    # generation 2 takes all that comes; generation 1, which works, has credited nothing
    check(
        source(mode="asynchronous", budget=15),
        """
        > start
          run read 64
        > 8 goes to 1 2, queueing 2
        > 8@2 subscribe 1
          announce on 8@2: next is 0
        > done out 8:1 out 8:2 out 8:3 open 4
          send 8.0 end 0
          send 8.1 data 1, the last
          send 8@2.0 data 1, the last
          send 8@2.1 data 2, the last
        > 8@2 credit 3
          send 8@2.2 data 3, the last
        > 8@2 credit 4
        > 8 credit 2
          send 8.2 data 2, the last
          send 8.3 data 3, the last
          run read 64
        """,
    )


def test_what_has_spoken_never_falls_silent() -> None:
    channel = OutputChannel(1, 8, 1, 1000, (1,))
    channel.data(1, 1, "batch", 10)
    assert channel.sendable()
    with pytest.raises(AssertionError, match="it has spoken"):
        channel.hush()
    with pytest.raises(AssertionError, match="goes on where it is"):
        channel.restart(1)


# --- hot standby ----------------------------------------------------------------------------------


def test_a_hot_standby_queues_and_says_once_how_far() -> None:
    player = standing("passive-standby-hot", inputs=2)
    check(
        player,
        """
        > 0.0 data 1, the last
        > 0.1 data 2, the last
        > 1.0 data 1, the last
          credit on 0 for 2
          credit on 1 for 2
        """,
    )
    assert player.machine.processed_epoch == BEGINNING
    assert player.machine.received_below == 2


def test_it_takes_the_state_that_it_is_offered_and_goes_on_behind_it() -> None:
    player = queued()
    queue = player.machine.waiting
    assert queue.epochs == (1, 2, 3, 4)
    check(
        player,
        """
        > offered 2
          run take state 2
          progressed
        > offered 2
        > done taken 2
          credit on 0 for 5
          progressed
        > offered 2
        > stands active-standby
          run accumulate 3 from 0, close 3
        """,
    )
    assert queue.epochs == (4,)
    assert player.machine.processed_epoch == 3


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("> 8 credit 2", "a receiver may still lack epoch 2"),
        ("> 8 credit 3\n> 8 goes to 1 2\n> 8@2 subscribe 2", "a new one may"),
        ("> 8 credit 3\n> 8 goes to 1 2", "nothing is known of one that has no link yet"),
        ("> 8 credit 3\n> stands active-standby\n> stands passive-standby-hot", "it is at work"),
    ],
)
def test_it_does_not_take_the_state_of_what_may_still_be_asked_for(before: str, why: str) -> None:
    player = standing("passive-standby-hot")
    for sequence in range(4):
        player(f"0.{sequence} data {sequence + 1}, the last")
    played(before, player)
    assert player("offered 2") == [], why


def test_it_does_not_take_state_ahead_of_what_it_has_received() -> None:
    player = queued()
    player("8 credit 9")
    assert player("offered 5") == []
    assert player("offered 4") == ["run take state 4", "progressed"]


def test_from_the_moment_that_it_takes_state_it_says_that_it_keeps_nothing_older() -> None:
    # else a new manager, which knows of no offer, could promote it for a receiver that lacks epoch 2
    player = queued()
    assert player.machine.retained_after == BEGINNING
    player("offered 2")
    assert player.machine.retained_after == 2
    player("done taken 2")
    assert player.machine.retained_after == 2


def test_one_that_is_promoted_while_it_takes_state_speaks_once_it_holds_it() -> None:
    player = queued()
    check(
        player,
        """
        > offered 2
          run take state 2
          progressed
        > stands active-replication
        > 0.4 data 5, the last
          credit on 0 for 6
        > done taken 2
          credit on 0 for 3
          progressed
          run accumulate 3 from 0, close 3
        > done out 8:3 closed 3
          credit on 0 for 4
          send 8.0 data 3, the last
          run accumulate 4 from 0, close 4
        """,
    )


def test_of_two_rungs_that_come_while_it_takes_state_the_last_counts() -> None:
    player = queued()
    check(
        player,
        """
        > offered 2
          run take state 2
          progressed
        > stands active-standby
        > stands passive-standby-hot
        > done taken 2
          credit on 0 for 5
          progressed
        """,
    )
    assert player.machine.rung is player.machine.wanted_rung is Scheme.PASSIVE_STANDBY_HOT


def test_an_active_standby_that_steps_down_forgets_what_it_made_up_to_the_state() -> None:
    check(
        standing("active-standby"),
        """
        > 0.0 data 1, the last
          credit on 0 for 1
          run accumulate 1 from 0, close 1
        > done out 8:1 closed 1
          credit on 0 for 2
        > stands passive-standby-hot
        > 0.1 data 2, the last
          credit on 0 for 3
        > 0.2 data 3, the last
          credit on 0 for 4
        > 8 credit 3
        > offered 2
          run take state 2
          progressed
        > done taken 2
          credit on 0 for 4
          progressed
        > stands active-replication
          run accumulate 3 from 0, close 3
        > done out 8:3 closed 3
          credit on 0 for 4
          send 8.0 data 3, the last
        """,
    )


def test_barriers_up_to_the_state_are_over() -> None:
    player = standing("passive-standby-hot")
    check(
        player,
        """
        > 0.0 data 1, the last
          credit on 0 for 2
        > 0.1 data 2, the last, flagged
          credit on 0 for 3
        > 0.2 data 3, the last, flagged
          credit on 0 for 4
        > 8 credit 3
        > offered 2
          run take state 2
          progressed
        > done taken 2
          credit on 0 for 4
          progressed
        """,
    )
    assert player.machine.barriers == [3]


def test_the_input_is_over_and_it_is_promoted() -> None:
    player = queued()
    check(
        player,
        """
        > 0.4 end inf after 4
          credit on 0 for inf
        > offered 2
          run take state 2
          progressed
        > done taken 2
          credit on 0 for inf
          progressed
        > stands active-replication
          run accumulate 3 from 0, close 3
        > done out 8:3 closed 3
          credit on 0 for 4
          send 8.0 data 3, the last
          run accumulate 4 from 0, close 4
        > done closed 4
          credit on 0 for inf
          send 8.1 end 4
          run finish in 5
        > done finished
          finished
          send 8.2 end inf
        """,
    )


def test_an_active_standby_that_has_finished_says_so_once_it_is_promoted() -> None:
    check(
        standing("active-standby"),
        """
        > 0.0 data 1, the last
          credit on 0 for 1
          run accumulate 1 from 0, close 1
        > done out 8:1 closed 1
          credit on 0 for 2
        > 0.1 end inf after 1
          credit on 0 for inf
          run finish in 2
        > done finished
          finished
        > stands active-replication
          send 8.0 end 0
          send 8.1 data 1, the last
          send 8.2 end inf
        """,
    )


# --- what is forgotten leaves the disk ------------------------------------------------------------


def spilled(spill: MemorySpill) -> Kept:
    body = Kept(pa.record_batch({"a": [1]}), 10)
    body.to_disk(spill)
    return body


def test_queued_batches_that_are_forgotten_are_gone_from_disk() -> None:
    spill, waiting = MemorySpill(), WaitingWork()
    for epoch in (1, 2, 3):
        waiting.add(Accumulate(0, 0, epoch, 0, spilled(spill)), 10)
    waiting.forget(2)
    assert (len(spill.batches), waiting.nbytes, waiting.epochs) == (1, 10, (3,))


def test_bytes_that_are_discarded_do_not_count_wherever_they_are() -> None:
    waiting = WaitingWork()
    for channel in (0, 1, 0):
        waiting.add(Accumulate(channel, 0, 5, 0, None), 10)
    waiting.take(None, most=1)
    waiting.discard(0, 5)
    assert (waiting.added_bytes, waiting.nbytes) == (10, 10)
    waiting.discard(0, 5)
    waiting.add(Accumulate(0, 0, 5, 0, None), 25)
    assert waiting.added_bytes == 35
    # all channels have ended epoch 5
    waiting.take(5)
    waiting.discard(0, 5)
    assert (waiting.added_bytes, waiting.nbytes) == (35, 0)


def test_bytes_that_are_forgotten_have_come_in_all_the_same() -> None:
    waiting = WaitingWork()
    for epoch in (5, 6):
        waiting.add(Accumulate(0, 0, epoch, 0, None), 10)
    waiting.forget(5)
    waiting.discard(0, 5)
    assert waiting.added_bytes == 20
    waiting.discard(0, 6)
    assert (waiting.added_bytes, waiting.nbytes) == (10, 0)


def test_what_a_silent_channel_kept_below_the_state_is_gone_from_disk() -> None:
    spill = MemorySpill()
    channel = OutputChannel(1, 8, 1, 1000, (1,), checkpointed=True)
    channel.hush()
    for epoch in (1, 2):
        channel.data(epoch, 1, pa.record_batch({"a": [epoch]}), 10)
        channel.close(epoch, 0)
    for kept in channel.to_spill(0):
        kept.to_disk(spill)
    del kept
    assert len(spill.batches) == 2
    channel.credit(1, 3)
    channel.restart(2)
    assert (spill.batches, channel.entries, channel.memory_bytes) == ({}, [], 0)
    assert channel.retained_after == 2
