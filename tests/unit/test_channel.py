"""Both ends of a channel: sequence, credit, retention, and what is made of gaps and repetitions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from streammine.engine.channel import InputChannel, Outgoing, OutputChannel, Verdict
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import ProtocolError
from streammine.model.frames import FrameKind
from tests.unit.transcripts import frame_text


def sender(budget: int = 25) -> OutputChannel:
    return OutputChannel(job=1, number=3, generation=1, budget=budget)


def data(channel: OutputChannel, epoch: int, nbytes: int = 10) -> None:
    channel.data(epoch, 1, f"rows of {epoch}", nbytes)


def texts(frames: list[Outgoing]) -> list[str]:
    return [frame_text(frame.header) for frame in frames]


def test_frames_leave_in_the_order_in_which_they_were_made_numbered_from_nought() -> None:
    channel = sender()
    data(channel, 0)
    channel.end(0, BEGINNING)
    data(channel, 1)
    frames = channel.sendable()
    assert texts(frames) == ["data 0, the last", "data 1"]
    assert [frame.header.sequence for frame in frames] == [0, 1]
    assert channel.announced() == 2


def test_an_end_rides_on_the_data_right_before_it_that_has_not_left() -> None:
    channel = sender(budget=1000)
    data(channel, 0)
    data(channel, 0)
    channel.end(0, watermark=10)
    data(channel, 2)
    channel.end(3, watermark=40)
    data(channel, 6)
    data(channel, 5)
    channel.end(5, watermark=60)
    channel.end(6, watermark=70)
    frames = channel.sendable()
    assert texts(frames) == [
        "data 0", "data 0, the last", "data 2", "end 3", "data 6", "data 5, the last", "end 6",
    ]  # fmt: skip
    ends = [frame for frame in frames if frame.header.ends]
    assert [frame.header.watermark for frame in ends] == [10, 40, 60, 70]
    assert [frame.body for frame in ends] == ["rows of 0", None, "rows of 5", None]
    assert [frame.nbytes for frame in ends] == [10, 0, 10, 0]


def test_data_that_has_left_is_not_flagged_afterwards_and_an_end_of_its_own_follows() -> None:
    channel = sender()
    data(channel, 4)
    (sent,) = channel.sendable()
    channel.end(4, watermark=50)
    (end,) = channel.sendable()
    assert (end.header.kind, end.header.sequence, end.header.watermark) == (
        FrameKind.EPOCH_END, 1, 50,
    )  # fmt: skip
    assert not sent.header.ends
    assert texts(channel.resend(0)) == ["data 4", "end 4"], "what comes again is what was sent"


def test_a_flagged_frame_that_is_lost_comes_again_with_its_data_and_its_end() -> None:
    out, into = sender(budget=1000), InputChannel(3, 0, generation=1)
    for epoch in (0, 1):
        data(out, epoch)
        out.end(epoch, epoch * 10)
    lost, early = out.sendable()
    assert into.receive(early.header) is Verdict.EARLY
    assert into.open_epoch == BEGINNING, "it ends nothing yet"
    missing = into.missing(out.announced())
    assert missing == 0
    again = out.resend(missing)
    assert again == [lost, early]
    assert texts(again) == ["data 0, the last", "data 1, the last"]
    assert into.receive(again[0].header) is Verdict.TAKE
    assert (again[0].body, into.open_epoch) == ("rows of 0", 1)
    assert into.receive(again[0].header) is Verdict.REPEATED
    assert into.receive(again[1].header) is Verdict.TAKE
    assert into.open_epoch == 2
    out.credit(into.open_epoch)
    assert out.retained == 0


def test_of_later_epochs_no_more_than_the_budget_is_under_way() -> None:
    #   frontier 0 | 0 0 0 | 1 1  1 ...     a frame has 10 bytes, the budget is 25
    #               free     10 20 30 > 25: held
    channel = sender()
    channel.end(-1, BEGINNING)
    channel.credit(0)
    for epoch in (0, 0, 0):
        data(channel, epoch)
    channel.end(0, BEGINNING)
    for _ in range(3):
        data(channel, 1)
    channel.end(1, BEGINNING)
    assert texts(channel.sendable())[1:] == [
        "data 0", "data 0", "data 0, the last", "data 1", "data 1",
    ]  # fmt: skip
    assert channel.held == 1
    assert channel.later_bytes == 20
    channel.credit(1)
    assert channel.later_bytes == 0
    assert texts(channel.sendable()) == ["data 1, the last"]


def test_a_frame_above_the_budget_leaves_alone() -> None:
    channel = sender(budget=5)
    channel.end(-1, BEGINNING)
    channel.credit(0)
    channel.end(0, BEGINNING)
    data(channel, 1)
    data(channel, 1)
    assert texts(channel.sendable()) == ["end -1", "end 0", "data 1"]
    assert channel.held == 1


def test_what_the_receiver_waits_for_takes_along_what_stands_before_it() -> None:
    # epochs out of order: the end of 5 stands behind frames of 8 and 9
    channel = sender(budget=5)
    channel.end(4, BEGINNING)
    for epoch in (8, 9, 9):
        data(channel, epoch)
    assert texts(channel.sendable()) == ["end 4", "data 8"]
    channel.credit(5)
    assert channel.awaited
    assert channel.sendable() == []
    channel.end(5, BEGINNING)
    data(channel, 9)
    assert texts(channel.sendable()) == ["data 9", "data 9", "end 5"]
    assert not channel.awaited
    assert channel.held == 1


def test_frames_are_kept_until_their_epoch_is_processed() -> None:
    channel = sender(budget=1000)
    for epoch in range(3):
        data(channel, epoch)
        data(channel, epoch)
        channel.end(epoch, BEGINNING)
    channel.sendable()
    kept = ["data 1", "data 1, the last", "data 2", "data 2, the last"]
    assert texts(channel.resend(2)) == kept
    channel.credit(1)
    assert channel.retained == 4
    with pytest.raises(ProtocolError, match="frames from 1 were asked for, the oldest kept is 2"):
        channel.resend(1)
    channel.credit(0)
    assert channel.frontier == 1, "credit never shrinks"


def test_an_epoch_is_ended_once_and_takes_no_data_afterwards() -> None:
    channel = sender()
    channel.end(3, BEGINNING)
    channel.end(3, BEGINNING)
    channel.end(2, BEGINNING)
    assert texts(channel.sendable()) == ["end 3"]
    with pytest.raises(AssertionError, match="data of epoch 3 after its end"):
        data(channel, 3)


def made(frames: int) -> list[Outgoing]:
    channel = sender(budget=10**9)
    for epoch in range(frames // 2):
        data(channel, epoch)
        data(channel, epoch)
        channel.end(epoch, epoch * 10)
    return channel.sendable()


def test_a_receiver_takes_frames_in_sequence_only() -> None:
    frames = made(6)
    channel = InputChannel(3, 0, generation=1)
    order = [1, 0, 0, 2, 1, 4, 3, 4, 5]
    verdicts = [channel.receive(frames[number].header).value for number in order]
    assert verdicts == [
        "early", "take", "repeated", "early", "take", "early", "early", "early", "early",
    ]  # fmt: skip
    assert channel.missing(6) == 2
    assert channel.missing(2) is None
    assert channel.open_epoch == 1


def test_a_frame_of_another_generation_is_not_looked_at() -> None:
    channel = InputChannel(3, 0, generation=2)
    assert channel.receive(made(2)[0].header) is Verdict.REPEATED
    assert channel.expected == 0


def test_the_end_of_the_input_tells_the_last_epoch_that_held_data() -> None:
    out = sender()
    out.end(INFINITY, watermark=7)
    channel = InputChannel(3, 0, generation=1)
    channel.receive(out.sendable()[0].header)
    assert (channel.open_epoch, channel.last_epoch) == (INFINITY, 7)


def test_data_of_an_ended_epoch_breaks_the_protocol() -> None:
    # a sender that numbers its frames well but sends data behind an epoch's end
    out = sender()
    out.end(0, watermark=0)
    out.end(1, watermark=10)
    end, other = (frame.header for frame in out.sendable())
    channel = InputChannel(3, 0, generation=1)
    channel.receive(end)
    with pytest.raises(ProtocolError, match="frame of epoch 0 after the end of epoch 0"):
        channel.receive(replace(other, epoch=0, kind=FrameKind.DATA))
    assert channel.expected == 1, "what breaks the protocol is not taken"


@pytest.mark.parametrize("seed", range(20))
def test_over_a_bad_network_everything_arrives_once_and_in_order(seed: int) -> None:
    """Both ends pushed at each other; frames get lost, doubled and held for lack of credit."""
    random = Random(seed)
    out, into = sender(budget=30), InputChannel(3, 0, generation=1)
    out.end(-1, BEGINNING)
    for epoch in range(10):
        for _ in range(random.randint(0, 3)):
            data(out, epoch)
        out.end(epoch, BEGINNING)
    taken: list[int] = []
    wire = out.sendable()
    for _ in range(10_000):
        if not wire:
            missing = into.missing(out.announced())
            wire = out.resend(missing) if missing is not None else out.sendable()
            if not wire:
                break
        frame = wire.pop(0)
        if random.random() < 0.3:
            continue
        if random.random() < 0.3:
            wire.append(frame)
        if into.receive(frame.header) is Verdict.TAKE:
            taken.append(frame.header.sequence)
            out.credit(into.open_epoch)
    assert taken == list(range(out.next_sequence))
    assert out.held == 0
    assert out.later_bytes == 0
