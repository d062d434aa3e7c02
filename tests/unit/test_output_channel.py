"""The sending end of a channel: one log, a link for each receiver, credit, retention."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.engine.output_channel import (
    FREED_AT_A_BEAT,
    FREED_AT_ONCE,
    FREED_LATER_BYTES,
    REPLAYED_FRAMES,
    Outgoing,
    OutputChannel,
)
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.frames import CHECKPOINT, RESUMES, FrameKind
from tests.unit.memory_spill import MemorySpill
from tests.unit.transcripts import frame_text


def sender(
    budget: int = 25,
    receivers: tuple[int, ...] = (1,),
    checkpointed: bool = False,
    restored_after: int = BEGINNING,
) -> OutputChannel:
    return OutputChannel(1, 3, 1, budget, receivers, restored_after, checkpointed)


def data(channel: OutputChannel, epoch: int, nbytes: int = 10) -> None:
    channel.data(epoch, 1, f"rows of {epoch}", nbytes)


def end(channel: OutputChannel, epoch: int) -> None:
    channel.close(epoch, BEGINNING)


def texts(frames: list[Outgoing], receiver: int | None = None) -> list[str]:
    return [frame_text(each.header) for each in frames if receiver in (None, each.header.receiver)]


def kept(channel: OutputChannel) -> list[int]:
    """The epochs of the log's frames."""
    return [entry.epoch for entry in channel.entries]


# --- frames ------------------------------------------------------------------------------------


def test_frames_leave_in_the_order_in_which_they_were_made_numbered_from_nought() -> None:
    channel = sender()
    data(channel, 0)
    end(channel, 0)
    data(channel, 1)
    frames = channel.sendable()
    assert texts(frames) == ["data 0, the last", "data 1"]
    assert [frame.header.sequence for frame in frames] == [0, 1]
    assert [(frame.header.sender, frame.header.receiver) for frame in frames] == [(1, 1)] * 2
    assert channel.announced(channel.links[1]) == 2


def test_an_end_rides_on_the_data_right_before_it_that_has_not_left() -> None:
    channel = sender(budget=1000)
    data(channel, 0)
    data(channel, 0)
    channel.close(0, watermark=10)
    data(channel, 2)
    channel.close(3, watermark=40)
    data(channel, 6)
    data(channel, 5)
    channel.close(5, watermark=60)
    channel.close(6, watermark=70)
    frames = channel.sendable()
    assert texts(frames) == [
        "data 0", "data 0, the last", "data 2", "end 3", "data 6", "data 5, the last", "end 6",
    ]  # fmt: skip
    ends = [frame for frame in frames if frame.header.ends]
    assert [frame.header.watermark for frame in ends] == [10, 40, 60, 70]
    assert [frame.body is None for frame in ends] == [False, True, False, True]
    assert [frame.nbytes for frame in ends] == [10, 0, 10, 0]


def test_data_that_has_left_is_not_flagged_afterwards_and_an_end_of_its_own_follows() -> None:
    channel = sender()
    data(channel, 4)
    (sent,) = channel.sendable()
    channel.close(4, watermark=50)
    (last,) = channel.sendable()
    assert (last.header.kind, last.header.sequence, last.header.watermark) == (
        FrameKind.EPOCH_END, 1, 50,
    )  # fmt: skip
    assert not sent.header.ends
    assert texts(channel.resend(1, 0)) == ["data 4", "end 4"], "what comes again is what was sent"


def test_what_has_left_on_any_link_is_the_same_on_all_links() -> None:
    # generation 2 has no credit; what generation 1 got must not be flagged for 2 afterwards
    channel = sender(budget=5, receivers=(1, 2))
    end(channel, 0)
    for receiver in (1, 2):
        channel.credit(receiver, 1)
    data(channel, 2)
    data(channel, 2)
    assert texts(channel.sendable(), 2) == ["end 0", "data 2"]
    channel.credit(1, 2)
    assert texts(channel.sendable(), 1) == ["data 2"]
    end(channel, 2)
    channel.credit(2, 2)
    assert texts(channel.sendable(), 2) == ["data 2", "end 2"]


def test_a_checkpoint_is_flagged_on_the_end_wherever_it_rides() -> None:
    channel = sender()
    data(channel, 4)
    channel.close(4, BEGINNING, checkpoint=True)
    channel.close(6, BEGINNING, checkpoint=True)
    channel.close(6, BEGINNING, checkpoint=True)
    frames = channel.sendable()
    assert texts(frames) == ["data 4, the last, flagged", "end 6, flagged"]
    assert all(frame.header.flags & CHECKPOINT for frame in frames)


def test_an_epoch_is_ended_once_and_takes_no_data_afterwards() -> None:
    channel = sender()
    for epoch in (3, 3, 2):
        end(channel, epoch)
    assert texts(channel.sendable()) == ["end 3"]
    with pytest.raises(AssertionError, match="data of epoch 3 after its end"):
        data(channel, 3)


# --- credit ------------------------------------------------------------------------------------


def test_of_later_epochs_no_more_than_the_budget_is_under_way() -> None:
    #   frontier 0 | 0 0 0 | 1 1  1 ...     a frame has 10 bytes, the budget is 25
    #               free     10 20 30 > 25: held
    channel = sender()
    link = channel.links[1]
    end(channel, -1)
    channel.credit(1, 0)
    for _ in range(3):
        data(channel, 0)
    end(channel, 0)
    for _ in range(3):
        data(channel, 1)
    end(channel, 1)
    assert texts(channel.sendable())[1:] == [
        "data 0", "data 0", "data 0, the last", "data 1", "data 1",
    ]  # fmt: skip
    assert (channel.held(link), link.later_bytes) == (1, 20)
    assert channel.blocked
    channel.credit(1, 1)
    assert link.later_bytes == 0
    assert texts(channel.sendable()) == ["data 1, the last"]
    assert not channel.blocked


def test_a_frame_above_the_budget_leaves_alone() -> None:
    channel = sender(budget=5)
    end(channel, -1)
    channel.credit(1, 0)
    end(channel, 0)
    data(channel, 1)
    data(channel, 1)
    assert texts(channel.sendable()) == ["end -1", "end 0", "data 1"]
    assert channel.held(channel.links[1]) == 1


def test_what_the_receiver_waits_for_takes_along_what_stands_before_it() -> None:
    # epochs out of order: the end of 5 stands behind frames of 8 and 9
    channel = sender(budget=5)
    end(channel, 4)
    for epoch in (8, 9, 9):
        data(channel, epoch)
    assert texts(channel.sendable()) == ["end 4", "data 8"]
    channel.credit(1, 5)
    assert channel.links[1].awaited
    assert channel.sendable() == []
    assert not channel.blocked, "only this slice can end what is awaited"
    end(channel, 5)
    data(channel, 9)
    assert texts(channel.sendable()) == ["data 9", "data 9", "end 5"]
    assert not channel.links[1].awaited
    assert channel.held(channel.links[1]) == 1


def test_each_link_has_its_own_credit() -> None:
    channel = sender(budget=10, receivers=(1, 2))
    end(channel, 0)
    for receiver in (1, 2):
        channel.credit(receiver, 1)
    for epoch in (1, 2, 3, 4):
        data(channel, epoch)
        end(channel, epoch)
    assert texts(channel.sendable(), 1) == ["end 0", "data 1, the last", "data 2, the last"]
    channel.credit(1, 3)
    assert texts(channel.sendable()) == ["data 3, the last", "data 4, the last"]
    assert not channel.blocked, "the fastest link sets the pace"
    assert channel.held(channel.links[2]) == 2
    channel.credit(2, 2)
    assert texts(channel.sendable(), 2) == ["data 3, the last"]
    channel.credit(2, 1)
    assert channel.links[2].frontier == 2, "credit never shrinks"
    channel.credit(9, 5)
    assert set(channel.links) == {1, 2}, "credit of an unknown link is nobody's"


def test_without_any_link_a_budgets_worth_is_made_ahead() -> None:
    channel = sender(budget=15, receivers=())
    data(channel, 0)
    assert not channel.blocked
    data(channel, 0)
    assert channel.blocked
    channel.subscribe(1, 0, 0)
    assert texts(channel.sendable()) == ["data 0", "data 0"]
    assert not channel.blocked


def test_what_was_sent_is_not_ahead_any_more_when_the_last_link_goes() -> None:
    channel = sender(budget=15, checkpointed=True)
    for epoch in (0, 1):
        data(channel, epoch)
        end(channel, epoch)
        channel.sendable()
        channel.credit(1, epoch + 1)
    channel.keep_links(())
    assert not channel.blocked
    data(channel, 2)
    assert not channel.blocked
    data(channel, 2)
    assert channel.blocked


def test_what_a_checkpoint_prunes_unsent_is_not_ahead_any_more() -> None:
    # a second replica makes what the first one has sent and has been checkpointed meanwhile
    channel = sender(budget=15, receivers=(), checkpointed=True)
    for epoch in (0, 1, 2):
        data(channel, epoch)
        end(channel, epoch)
    assert channel.blocked
    channel.prune(1)
    assert kept(channel) == [2]
    assert not channel.blocked


# --- links -------------------------------------------------------------------------------------


def filled(checkpointed: bool = True) -> OutputChannel:
    """Epochs 0 to 5, two frames each, all sent to generation 1."""
    channel = sender(budget=1000, checkpointed=checkpointed)
    for epoch in range(6):
        data(channel, epoch)
        data(channel, epoch)
        end(channel, epoch)
    channel.sendable()
    return channel


def test_a_link_begins_with_the_epoch_that_was_asked_for_numbered_from_nought() -> None:
    channel = filled()
    channel.subscribe(2, 4, 4)
    frames = channel.sendable()
    assert texts(frames) == ["data 4", "data 4, the last", "data 5", "data 5, the last"]
    assert [frame.header.sequence for frame in frames] == [0, 1, 2, 3]
    assert {frame.header.receiver for frame in frames} == {2}


def test_a_subscription_that_comes_again_changes_nothing() -> None:
    channel = filled()
    channel.subscribe(2, 4, 4)
    channel.sendable()
    channel.subscribe(2, 0, 0)
    assert channel.sendable() == []
    assert channel.announced(channel.links[2]) == 4


def test_in_a_log_out_of_order_a_link_begins_with_the_first_frame_that_is_wanted() -> None:
    #   8  9  5|  9  8|  9|        ("|" ends the epoch)       wanted: from 9 on
    channel = sender(budget=1000)
    for epoch in (8, 9, 5):
        data(channel, epoch)
    end(channel, 5)
    for epoch in (9, 8):
        data(channel, epoch)
    end(channel, 8)
    data(channel, 9)
    end(channel, 9)
    channel.subscribe(2, 9, 9)
    wanted = ["data 9", "data 5, the last", "data 9", "data 8, the last", "data 9, the last"]
    assert texts(channel.sendable(), 2) == wanted
    assert texts(channel.resend(2, 3)) == wanted[3:]


def test_what_another_receiver_has_got_goes_to_a_new_one_in_portions() -> None:
    #   to 1: everything at once     to 2: 64 frames of later epochs, and more as it gets on
    channel = sender(budget=1 << 20)
    epochs = 3 * REPLAYED_FRAMES
    for epoch in range(epochs):
        data(channel, epoch)
        end(channel, epoch)
    assert len(channel.sendable()) == epochs
    channel.subscribe(2, 0, 0)
    assert len(channel.sendable()) == REPLAYED_FRAMES + 1, "what it waits for, and later epochs"
    assert not channel.blocked, "the other one goes on"
    channel.credit(2, 10)
    assert texts(channel.sendable())[-1] == f"data {REPLAYED_FRAMES + 10}, the last"
    channel.credit(2, epochs - 1)
    assert texts(channel.sendable())[-1] == f"data {epochs - 1}, the last"
    data(channel, epochs)
    assert len(channel.sendable()) == 2, "it has caught up"


def test_a_long_epoch_that_the_receiver_waits_for_is_replayed_whole() -> None:
    channel = sender(budget=1 << 20)
    for _ in range(2 * REPLAYED_FRAMES):
        data(channel, 0)
    end(channel, 0)
    channel.sendable()
    channel.subscribe(2, 0, 0)
    assert len(channel.sendable()) == 2 * REPLAYED_FRAMES


def test_a_link_may_ask_for_what_is_not_made_yet() -> None:
    channel = filled()
    channel.subscribe(2, 7, 3)
    assert channel.sendable() == []
    assert channel.announced(channel.links[2]) == 0
    for epoch in (6, 7):
        data(channel, epoch)
        end(channel, epoch)
    (frame,) = [each for each in channel.sendable() if each.header.receiver == 2]
    assert (frame.header.epoch, frame.header.sequence) == (7, 0)


def test_frames_are_sent_again_link_by_link() -> None:
    channel = filled()
    channel.subscribe(2, 4, 4)
    channel.sendable()
    assert texts(channel.resend(1, 10)) == ["data 5", "data 5, the last"]
    assert texts(channel.resend(2, 3)) == ["data 5, the last"]
    assert channel.resend(2, 4) == []
    assert channel.resend(7, 0) == [], "no such link"


def test_nothing_is_sent_again_on_a_link_before_it_was_sent() -> None:
    channel = sender(budget=5)
    end(channel, 0)
    channel.credit(1, 1)
    data(channel, 2)
    data(channel, 3)
    assert texts(channel.sendable()) == ["end 0", "data 2"]
    assert texts(channel.resend(1, 0)) == ["end 0", "data 2"]


def test_a_link_is_confirmed_when_all_that_was_sent_is_processed() -> None:
    channel = sender(checkpointed=True)
    link = channel.links[1]
    assert not link.unconfirmed
    data(channel, 0)
    end(channel, 0)
    channel.sendable()
    assert link.unconfirmed
    channel.credit(1, 0)
    assert link.unconfirmed
    channel.credit(1, 1)
    assert not link.unconfirmed


# --- retention ---------------------------------------------------------------------------------


def test_without_checkpoints_frames_are_kept_until_every_link_has_processed_them() -> None:
    channel = filled(checkpointed=False)
    channel.subscribe(2, 0, 0)
    channel.sendable()
    channel.credit(1, 4)
    assert len(kept(channel)) == 12
    channel.credit(2, 1)
    assert (min(kept(channel)), channel.retained_after) == (1, 0)
    sequences = [frame.header.sequence for frame in channel.resend(1, 1)]
    assert sequences[0] == 2, "an old wish: what is gone was processed"
    channel.keep_links((1,))
    assert min(kept(channel)) == 4, "nobody else needs the rest"
    channel.prune(5)
    assert min(kept(channel)) == 4, "there are no checkpoints"
    channel.credit(1, INFINITY)
    assert kept(channel) == []
    assert channel.memory_bytes == 0


def test_with_checkpoints_frames_are_kept_until_one_covers_them() -> None:
    channel = filled()
    channel.credit(1, 6)
    assert len(kept(channel)) == 12
    channel.prune(2)
    assert (min(kept(channel)), channel.retained_after) == (3, 2)
    channel.prune(1)
    assert channel.retained_after == 2
    assert channel.subscribe(2, 3, 3)
    assert len(channel.sendable()) == 6


def test_what_is_kept_no_more_is_not_linked_until_a_later_epoch_is_asked_for() -> None:
    channel = filled()
    channel.prune(2)
    assert not channel.subscribe(3, BEGINNING, BEGINNING)
    assert not channel.subscribe(3, 2, 2)
    assert (list(channel.links), channel.unconfirmed) == ([1], [1])
    assert channel.subscribe(3, 3, 3)
    assert channel.subscribe(3, 2, 2)
    assert {each.header.epoch for each in channel.sendable()} == {3, 4, 5}


def test_pruning_stops_at_the_first_frame_that_is_still_wanted() -> None:
    channel = sender(budget=1000, checkpointed=True)
    for epoch in (1, 3, 2):
        data(channel, epoch)
    end(channel, 2)
    channel.sendable()
    channel.prune(2)
    assert kept(channel) == [3, 2]


def test_what_is_sent_again_behind_pruned_frames_says_so() -> None:
    channel = filled()
    channel.prune(2)
    again = channel.resend(1, 2)
    assert [(each.header.sequence, each.header.epoch) for each in again][:2] == [(6, 3), (7, 3)]
    assert [bool(each.header.flags & RESUMES) for each in again] == [True] + [False] * 5
    assert not any(each.header.flags & RESUMES for each in channel.resend(1, 6))
    assert not any(entry.flags & RESUMES for entry in channel.entries)


def test_a_slow_link_is_never_pruned_away_from() -> None:
    channel = sender(budget=10, receivers=(1, 2), checkpointed=True)
    for epoch in range(4):
        data(channel, epoch)
        end(channel, epoch)
        channel.sendable()
        channel.credit(1, epoch + 1)
    sent = channel.links[2].cursor
    channel.prune(3)
    assert kept(channel) == list(range(sent, 4))
    channel.credit(2, 4)
    assert [each.header.epoch for each in channel.sendable()] == list(range(sent, 4))


def test_a_restored_sender_has_what_comes_after_its_snapshot() -> None:
    channel = sender(receivers=(), checkpointed=True, restored_after=7)
    assert (channel.ended, channel.retained_after) == (7, 7)
    assert not channel.subscribe(2, 7, 7)
    channel.subscribe(2, 8, 8)
    data(channel, 8)
    assert texts(channel.sendable()) == ["data 8"]
    with pytest.raises(AssertionError, match="data of epoch 7"):
        data(channel, 7)


# --- disk --------------------------------------------------------------------------------------


def test_the_oldest_bodies_go_to_disk_once_and_stay_in_the_log() -> None:
    spill = MemorySpill()
    channel = sender(budget=1000, checkpointed=True)
    batches = [pa.record_batch({"n": [epoch]}) for epoch in range(4)]
    for epoch, batch in enumerate(batches):
        channel.data(epoch, 1, batch, 10)
        end(channel, epoch)
    channel.sendable()
    assert channel.memory_bytes == 40
    chosen = channel.to_spill(limit=15)
    assert [each.nbytes for each in chosen] == [10, 10, 10]
    assert channel.memory_bytes == 10
    assert channel.to_spill(limit=15) == []
    while chosen:
        chosen.pop().to_disk(spill)
    assert len(spill.batches) == 3
    channel.prune(1)
    channel.free(FREED_AT_A_BEAT)
    assert (len(spill.batches), channel.memory_bytes) == (1, 10)
    channel.prune(3)
    channel.free(FREED_AT_A_BEAT)
    assert (len(spill.batches), channel.memory_bytes) == (0, 0)


def all_to_disk(channel: OutputChannel, spill: MemorySpill) -> None:
    """Nobody else refers to the bodies afterwards."""
    chosen = channel.to_spill(limit=0)
    while chosen:
        chosen.pop().to_disk(spill)


def test_what_was_dropped_is_freed_little_by_little() -> None:
    spill = MemorySpill()
    channel = sender(budget=1000, checkpointed=True)
    for epoch in range(9):
        channel.data(epoch, 1, pa.record_batch({"n": [epoch]}), 10)
        end(channel, epoch)
    channel.sendable()
    all_to_disk(channel, spill)
    channel.prune(8)
    held = []
    for epoch in range(9, 12):
        held.append(len(spill.batches))
        channel.data(epoch, 1, None, 0)
    assert held == [9, 9 - FREED_AT_ONCE, 9 - 2 * FREED_AT_ONCE]
    assert not spill.batches


def test_large_bodies_that_were_dropped_are_freed_at_once() -> None:
    spill = MemorySpill()
    channel = sender(budget=1 << 30, checkpointed=True)
    for epoch, nbytes in enumerate([FREED_LATER_BYTES, FREED_LATER_BYTES + 1]):
        channel.data(epoch, 1, pa.record_batch({"n": [epoch]}), nbytes)
        end(channel, epoch)
    channel.sendable()
    all_to_disk(channel, spill)
    channel.prune(1)
    assert [batch.column(0).to_pylist() for batch in spill.batches.values()] == [[0]]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["data", "end", "send", "prune", "spill", "credit"]), max_size=60),
    st.booleans(),
)
def test_the_bytes_in_memory_are_those_of_the_log_that_did_not_go_to_disk(
    steps: list[str], checkpointed: bool
) -> None:
    channel = sender(budget=40, checkpointed=checkpointed)
    spilled: list[object] = []
    epoch = 0
    for step in steps:
        match step:
            case "data":
                data(channel, epoch)
            case "end":
                end(channel, epoch)
                epoch += 1
            case "send":
                channel.sendable()
            case "prune":
                channel.prune(epoch - 2)
            case "credit":
                channel.credit(1, epoch - 1)
            case "spill":
                spilled += channel.to_spill(20)
        away = set(map(id, spilled))
        in_memory = sum(each.nbytes for each in channel.entries if id(each) not in away)
        assert channel.memory_bytes == in_memory
        link = channel.links[1]
        assert channel.end - len(channel.entries) <= link.cursor <= channel.end
    assert len(set(map(id, spilled))) == len(spilled)
