"""The receiving end of a channel: sequence, feeds, who leads, and what is thrown away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammine.engine.input_channel import InputChannel, Verdict, after
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import ProtocolError
from streammine.model.frames import RESUMES
from tests.unit.transcripts import frame_arrived


def receiver(senders: tuple[int, ...] = (1,), restored_after: int = BEGINNING) -> InputChannel:
    return InputChannel(3, 0, 1, senders, restored_after)


def verdicts(channel: InputChannel, *lines: str) -> list[str]:
    """What becomes of frames, written like ``0 data 5`` or ``0 data 5 @2``."""
    found = []
    for line in lines:
        text, _, sender = line.partition(" @")
        found.append(channel.receive(frame_arrived(f"3@{sender or 1}.{text}")).value)
    return found


def test_frames_are_taken_in_sequence_only() -> None:
    channel = receiver()
    lines = ["0 data 0", "1 data 0, the last", "2 data 1", "3 data 1, the last", "4 end 3"]
    order = [1, 0, 0, 2, 1, 4, 3, 4, 4]
    assert verdicts(channel, *[lines[place] for place in order]) == [
        "early", "take", "dropped", "early", "take", "early", "early", "early", "early",
    ]  # fmt: skip
    assert channel.open_epoch == 1


def test_a_frame_that_resumes_stands_for_those_that_are_kept_no_more() -> None:
    channel = receiver()
    assert verdicts(channel, "0 data 0, the last") == ["take"]
    arrived = frame_arrived("3@1.5 data 4")
    resumed = replace(arrived, header=replace(arrived.header, flags=RESUMES))
    assert channel.receive(arrived) is Verdict.EARLY
    assert channel.receive(resumed) is Verdict.TAKE
    assert channel.receive(resumed) is Verdict.DROPPED
    assert verdicts(channel, "6 data 4, the last") == ["take"]


def test_a_tail_is_missing_when_nothing_comes_for_two_beats() -> None:
    channel = receiver()
    assert channel.missing(1, 3, beat=1) is None
    verdicts(channel, "0 data 0")
    assert [channel.missing(1, 3, beat) for beat in (2, 3, 4)] == [None, None, 1]
    verdicts(channel, "1 data 0")
    assert [channel.missing(1, 3, beat) for beat in (5, 6, 7)] == [None, None, 2]
    verdicts(channel, "2 end 0")
    assert [channel.missing(1, 3, beat) for beat in (8, 9, 10)] == [None] * 3


def test_announcements_that_came_in_a_heap_bring_no_wish() -> None:
    # a node that was busy hears three of them before it sees the frames that came with them
    channel = receiver()
    assert [channel.missing(1, each, beat=4) for each in (1, 2, 3)] == [None] * 3
    assert verdicts(channel, "0 data 0", "1 data 0", "2 end 0") == ["take"] * 3


def test_a_wish_is_repeated_more_seldom_until_something_comes() -> None:
    channel = receiver()
    asked = [beat for beat in range(80) if channel.missing(1, 3, beat) is not None]
    assert asked == [2, *range(6, 80, 4)]
    verdicts(channel, "0 data 0")
    asked = [beat for beat in range(80, 90) if channel.missing(1, 3, beat) is not None]
    assert asked == [82, 86]


def test_a_frame_for_or_of_an_unknown_generation_is_not_looked_at() -> None:
    channel = receiver()
    assert verdicts(channel, "0 data 0 @2") == ["dropped"]
    assert channel.receive(frame_arrived("3.0 data 0", receiver=2)) is Verdict.DROPPED
    assert channel.feeds[1].expected == 0
    assert channel.missing(2, 5, beat=1) is None


def test_the_end_of_the_input_tells_the_last_epoch_that_held_data_once() -> None:
    channel = receiver()
    channel.keep_feeds((1, 2))
    assert verdicts(channel, "0 end inf after 7") == ["take"]
    assert (channel.open_epoch, channel.last_epoch) == (INFINITY, 7)
    assert verdicts(channel, "0 end inf after 7 @2", "0 end inf after 7") == ["dropped"] * 2


def test_data_of_an_epoch_that_its_feed_has_ended_breaks_the_protocol() -> None:
    channel = receiver()
    verdicts(channel, "0 end 0")
    with pytest.raises(ProtocolError, match="frame of epoch 0 after the end of epoch 0"):
        verdicts(channel, "1 data 0")
    assert channel.feeds[1].expected == 1, "what breaks the protocol is not taken"


def test_a_restored_receiver_drops_what_lies_in_its_snapshot() -> None:
    channel = receiver(restored_after=5)
    assert verdicts(channel, "0 data 5", "1 data 6", "2 end 5", "3 end 6") == [
        "dropped", "take", "dropped", "take",
    ]  # fmt: skip
    assert channel.open_epoch == 7


def test_a_finished_receiver_drops_everything() -> None:
    channel = receiver(restored_after=INFINITY)
    assert verdicts(channel, "0 data 5", "1 end inf after 5") == ["dropped", "dropped"]


def test_a_new_feed_must_be_asked_for_until_it_is_heard_of() -> None:
    channel = receiver(senders=())
    assert channel.leader is None
    assert channel.keep_feeds((4, 2)) == []
    assert channel.elect() is None, "nothing to ask for again"
    assert channel.leader == 2
    assert [channel.feeds[each].confirmed for each in (2, 4)] == [False, False]
    assert channel.missing(2, 0, beat=1) is None
    verdicts(channel, "3 data 0 @4")
    assert [channel.feeds[each].confirmed for each in (2, 4)] == [True, True]


def test_others_wait_and_what_the_leader_completes_is_thrown_away_there() -> None:
    channel = receiver()
    channel.keep_feeds((1, 2))
    lines = ["0 data 5 @2", "0 data 5", "1 data 5 @2", "1 data 5, the last", "2 data 6 @2"]
    assert verdicts(channel, *lines) == ["wait", "take", "wait", "take", "wait"]
    assert [each.header.epoch for each in channel.feeds[2].waiting] == [6]


def test_who_completes_an_epoch_first_takes_over_and_gives_all_of_it() -> None:
    #   1 (leads): 5a 6a            open accumulators of 5 and 6 go
    #   2:                5a 5b|    comes whole, and goes on with 6
    channel = receiver()
    channel.keep_feeds((1, 2))
    lines = ["0 data 5", "1 data 6", "0 data 5 @2", "1 data 6 @2", "2 data 5, the last @2"]
    assert verdicts(channel, *lines) == ["take", "take", "wait", "wait", "take over"]
    discarded, frames = channel.take_over(2)
    assert discarded == [5, 6]
    assert [each.header.epoch for each in frames] == [5, 6, 5]
    for each in frames:
        channel.take(each.header)
    assert (channel.leader, channel.open_epoch) == (2, 6)
    # 1 has lost part of its 6, so it may complete 6 without leading; with 7 it may
    assert verdicts(channel, "2 data 5, the last", "3 data 6, the last") == ["dropped", "wait"]
    assert verdicts(channel, "4 data 7, the last") == ["wait"]
    assert verdicts(channel, "3 end 6 @2") == ["take"]
    assert [each.header.epoch for each in channel.feeds[1].waiting] == [7]


def test_a_former_leader_takes_over_with_an_epoch_that_is_whole_there() -> None:
    channel = receiver()
    channel.keep_feeds((1, 2))
    verdicts(channel, "0 data 5", "0 data 5, the last @2")
    channel.take_over(2)
    channel.take(frame_arrived("3@2.0 data 5, the last").header)
    assert verdicts(channel, "1 end 5", "2 data 6") == ["dropped", "wait"]
    assert verdicts(channel, "1 data 6 @2", "3 end 6") == ["take", "take over"]
    assert channel.take_over(1)[0] == [6]


def test_a_lost_leaders_open_epochs_are_discarded_and_the_oldest_left_leads() -> None:
    channel = receiver()
    channel.keep_feeds((1, 2, 3))
    verdicts(channel, "0 data 5", "1 data 7", "2 end 4", "0 data 5 @2", "1 data 6 @2")
    assert channel.keep_feeds((2, 3)) == [5, 7]
    assert verdicts(channel, "3 data 5") == ["dropped"], "it is fenced off"
    feed = channel.elect()
    assert feed is channel.feeds[2]
    assert (channel.leader, feed.expected, feed.waiting) == (2, 0, [])
    assert verdicts(channel, "1 data 6 @2", "0 data 5 @2", "1 data 6 @2") == [
        "early", "take", "take",
    ]  # fmt: skip


def test_nothing_is_discarded_and_nobody_elected_while_the_leader_lives() -> None:
    channel = receiver()
    channel.keep_feeds((1, 2))
    verdicts(channel, "0 data 5")
    assert channel.keep_feeds((1,)) == []
    assert channel.elect() is None
    assert channel.leader == 1


def test_a_former_leader_rewinds_to_the_first_frame_of_an_open_epoch() -> None:
    channel = receiver()
    channel.keep_feeds((1, 2))
    verdicts(channel, "0 data 5", "1 data 6", "0 data 5, the last @2")
    channel.take_over(2)
    channel.take(frame_arrived("3@2.0 data 5, the last").header)
    verdicts(channel, "2 data 5, the last", "3 data 6")
    channel.keep_feeds((1,))
    feed = channel.elect()
    assert feed is not None
    assert feed.expected == 1
    assert verdicts(channel, "4 data 6", "1 data 6", "2 data 5, the last", "3 data 6") == [
        "early", "take", "dropped", "take",
    ]  # fmt: skip
    assert verdicts(channel, "4 end 6") == ["take"]
    assert channel.open_epoch == 7


def test_the_last_epoch_has_none_after_it() -> None:
    assert (after(4), after(INFINITY)) == (5, INFINITY)


def test_a_frame_is_judged_by_its_own_feed_alone() -> None:
    # both generations end 5 each in its own numbering
    channel = receiver()
    channel.keep_feeds((1, 2))
    first = frame_arrived("3.0 end 5")
    assert channel.receive(first) is Verdict.TAKE
    other = replace(first, header=replace(first.header, sender=2))
    assert channel.receive(other) is Verdict.DROPPED
    assert (channel.feeds[1].open_epoch, channel.feeds[2].open_epoch) == (6, 6)
