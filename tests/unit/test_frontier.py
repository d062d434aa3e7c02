"""Which epoch is closed next, and up to where everything is processed."""

from __future__ import annotations

from random import Random

import pytest

from streammine.engine.frontier import Frontier
from streammine.model.epochs import BEGINNING, INFINITY


def test_an_epoch_is_complete_when_the_slowest_channel_has_ended_it() -> None:
    #   channel 0: ... 3 4 |          open: 5
    #   channel 1: ... 3 |            open: 4      -> complete below 4
    frontier = Frontier()
    frontier.touch(4)
    frontier.touch(3)
    frontier.advance([5, BEGINNING])
    assert frontier.next_to_close() is None
    frontier.advance([5, 4])
    assert frontier.next_to_close() == 3
    frontier.closed(3, due=None)
    assert frontier.next_to_close() is None
    assert frontier.processed_below() == 4


def test_gaps_cost_nothing_and_are_processed_as_soon_as_they_are_complete() -> None:
    frontier = Frontier()
    frontier.touch(10)
    frontier.advance([1_000_000])
    assert frontier.processed_below() == 10
    assert frontier.next_to_close() == 10
    frontier.closed(10, due=None)
    assert frontier.next_to_close() is None
    assert frontier.processed_below() == 1_000_000


def test_the_backlog_is_what_is_complete_and_still_to_be_closed() -> None:
    frontier = Frontier()
    for epoch in (3, 4, 5):
        frontier.touch(epoch)
    frontier.advance([5, 7])
    assert frontier.backlog == 2
    frontier.closed(3, due=None)
    assert frontier.backlog == 1


def test_it_is_late_while_several_epochs_are_complete_and_still_to_be_closed() -> None:
    frontier = Frontier()
    assert not frontier.late
    for epoch in (7, 3, 9, 5):
        frontier.touch(epoch)
    assert not frontier.late
    for complete_below, late in ((4, False), (5, False), (6, True)):
        frontier.advance([complete_below])
        assert frontier.late is late
    frontier.closed(3, due=None)
    assert not frontier.late
    frontier.advance([INFINITY])
    frontier.closed(5, due=None)
    assert frontier.late
    frontier.closed(7, due=None)
    assert not frontier.late


def test_a_due_epoch_is_closed_without_data_and_before_later_data() -> None:
    frontier = Frontier()
    frontier.touch(1)
    frontier.touch(9)
    frontier.advance([INFINITY])
    frontier.closed(1, due=4)
    assert frontier.next_to_close() == 4
    frontier.closed(4, due=None)
    assert frontier.next_to_close() == 9
    assert not frontier.finished
    frontier.closed(9, due=None)
    assert frontier.finished


def test_a_due_epoch_may_hold_data_too() -> None:
    frontier = Frontier()
    frontier.touch(1)
    frontier.touch(4)
    frontier.advance([10])
    frontier.closed(1, due=4)
    frontier.closed(4, due=None)
    assert frontier.next_to_close() is None
    assert frontier.processed_below() == 10


def test_an_input_without_channels_never_completes_anything() -> None:
    frontier = Frontier()
    frontier.advance([])
    assert frontier.complete_below == BEGINNING
    assert not frontier.finished


def test_what_is_closed_takes_no_more_data() -> None:
    frontier = Frontier()
    frontier.touch(2)
    frontier.advance([3])
    frontier.closed(2, due=None)
    with pytest.raises(AssertionError, match="data of epoch 2, which is closed"):
        frontier.touch(2)
    frontier.touch(3)
    frontier.advance([4])
    with pytest.raises(AssertionError, match="epoch 3 is due at the close of epoch 3"):
        frontier.closed(3, due=3)


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_of_arrival_epochs_are_closed_once_and_ascending(seed: int) -> None:
    random = Random(seed)
    frontier = Frontier()
    open_epochs = [0, 0, 0]
    touched: set[int] = set()
    closed: list[int] = []
    while min(open_epochs) < 30:
        channel = random.randrange(3)
        for _ in range(random.randint(0, 3)):
            epoch = open_epochs[channel] + random.randint(0, 4)
            touched.add(epoch)
            frontier.touch(epoch)
        open_epochs[channel] += random.randint(0, 3)
        frontier.advance(open_epochs)
        while (epoch := frontier.next_to_close()) is not None:
            assert epoch < min(open_epochs)
            assert frontier.processed_below() <= epoch
            closed.append(epoch)
            frontier.closed(epoch, due=None)
    assert closed == sorted(epoch for epoch in touched if epoch < min(open_epochs))


def test_state_that_is_taken_in_puts_epochs_behind_and_says_what_is_due() -> None:
    frontier = Frontier()
    for epoch in (2, 4, 7):
        frontier.touch(epoch)
    frontier.advance([6])
    frontier.skip(4, 5)
    assert (frontier.complete_below, frontier.waiting(), frontier.backlog) == (6, 5, 0)
    frontier.closed(5, None)
    assert frontier.waiting() == 7
    frontier.skip(9, None)
    assert (frontier.complete_below, frontier.waiting()) == (10, None)
