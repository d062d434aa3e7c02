"""What is meant for another generation of a slice has no effect on this one."""

from __future__ import annotations

import pytest

from streammine.engine.stimuli import (
    Announced,
    AskResend,
    Beat,
    CreditArrived,
    ResendAsked,
    SendFrame,
    Start,
    Stimulus,
    Subscribed,
)
from streammine.model.epochs import BEGINNING
from tests.unit.small_slices import operator, source
from tests.unit.transcripts import played

OTHER = 7


@pytest.mark.parametrize(
    "stimulus",
    [
        Subscribed(8, OTHER, 2, BEGINNING, BEGINNING),
        ResendAsked(8, OTHER, 1, 0),
        CreditArrived(8, OTHER, 1, 3),
    ],
)
def test_what_is_asked_of_another_generation_is_not_answered(stimulus: Stimulus) -> None:
    player = source()
    played("> start\n> done out 8:1 out 8:2 open 3\n", player)
    machine = player.machine
    link = machine.outputs[8].links[1]
    before = (link.frontier, link.cursor)
    assert machine.handle(stimulus) == []
    assert set(machine.outputs[8].links) == {1}
    assert (link.frontier, link.cursor) == before


def test_the_same_of_this_generation_is() -> None:
    player = source()
    played("> start\n> done out 8:1 out 8:2 open 3\n", player)
    asked = player.machine.handle(ResendAsked(8, 1, 1, 1))
    assert [each.frame.header.sequence for each in asked if isinstance(each, SendFrame)] == [1, 2]


def test_an_announcement_for_another_generation_asks_for_nothing() -> None:
    machine = operator().machine
    machine.handle(Start())
    for _ in range(3):
        assert machine.handle(Announced(0, 1, OTHER, 3)) == []
        machine.handle(Beat())
    assert machine.handle(Announced(0, 1, 1, 3)) == []
    for _ in range(2):
        machine.handle(Beat())
    assert machine.handle(Announced(0, 1, 1, 3)) == [AskResend(0, 1, 1, 0)]
