"""What waits to leave a node keeps its order; of credits the furthest counts."""

from __future__ import annotations

from streammine.engine.node_stimuli import TransmitControl
from streammine.model import control
from streammine.model.agreement import Pulse, Report
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.vocabulary import MOST_ROWS
from streammine.runtime.outbox import Outbox


def credits(node: str, *links: tuple[int, int, int, int], job: int = 1) -> TransmitControl:
    return TransmitControl(node, control.Credits(job, links))


def wish(node: str, channel: int) -> TransmitControl:
    return TransmitControl(node, control.ResendRequest(1, channel, 1, 1, 0))


def test_what_is_taken_is_gone() -> None:
    outbox = Outbox()
    assert not outbox
    assert outbox.take() == []
    outbox.put(wish("a", 1))
    outbox.put(credits("a", (1, 1, 1, 5)))
    assert outbox
    assert outbox.take() == [wish("a", 1), credits("a", (1, 1, 1, 5))]
    assert not outbox
    assert outbox.take() == []


def test_credits_come_last_in_one_message_to_a_node_of_a_job() -> None:
    outbox = Outbox()
    outbox.put(credits("a", (1, 1, 1, 5), (2, 1, 1, 5)))
    outbox.put(wish("a", 3))
    outbox.put(credits("b", (4, 1, 1, 7)))
    outbox.put(credits("a", (1, 1, 1, 5), job=2))
    outbox.put(wish("b", 4))
    outbox.put(credits("a", (2, 1, 1, 6), (2, 1, 3, 4), (2, 2, 1, 3)))
    outbox.put(credits("a", (2, 1, 1, 5)))
    assert outbox.take() == [
        wish("a", 3),
        wish("b", 4),
        credits("a", (1, 1, 1, 5), (2, 1, 1, 6), (2, 1, 3, 4), (2, 2, 1, 3)),
        credits("b", (4, 1, 1, 7)),
        credits("a", (1, 1, 1, 5), job=2),
    ]


def test_more_credits_than_a_message_holds_take_several() -> None:
    links = [(channel, 1, 1, 5) for channel in range(MOST_ROWS + 1)]
    outbox = Outbox()
    outbox.put(credits("a", *links))
    assert outbox.take() == [credits("a", *links[:-1]), credits("a", links[-1])]


def test_credit_alone_is_not_urgent() -> None:
    outbox = Outbox()
    outbox.put(credits("a", (1, 1, 1, 5)))
    assert not outbox.urgent
    outbox.put(wish("a", 3))
    assert outbox.urgent
    outbox.take()
    assert not outbox.urgent


def told(
    node: str, receiver: int, sequence: int, index: int = 0, asks: bool = False
) -> TransmitControl:
    report = Report(1, sequence, 1, 1, BEGINNING, asks=asks)
    return TransmitControl(
        node, control.StandingTold(1, SliceId("counts", index), receiver, report)
    )


def test_of_what_a_replica_tells_of_its_standing_the_newest_leaves() -> None:
    outbox = Outbox()
    outbox.put(told("a", 2, 1))
    assert outbox.urgent
    outbox.put(credits("a", (1, 1, 1, 5)))
    outbox.put(told("b", 3, 1))
    outbox.put(wish("a", 1))
    outbox.put(told("a", 2, 2))
    outbox.put(told("a", 2, 1, index=1))
    assert outbox.take() == [
        wish("a", 1),
        told("a", 2, 2),
        told("b", 3, 1),
        told("a", 2, 1, index=1),
        credits("a", (1, 1, 1, 5)),
    ]
    assert not outbox


def pulse(node: str, receiver: int, sequence: int) -> TransmitControl:
    message = Pulse(1, sequence, 1, BEGINNING)
    return TransmitControl(node, control.PulseTold(1, SliceId("counts", 0), receiver, message))


def test_a_pulse_takes_the_place_of_another_one_but_not_of_a_report() -> None:
    outbox = Outbox()
    outbox.put(pulse("a", 2, 1))
    assert outbox.urgent
    outbox.put(pulse("a", 2, 2))
    outbox.put(told("a", 3, 3))
    outbox.put(pulse("a", 3, 4))
    assert outbox.take() == [pulse("a", 2, 2), told("a", 3, 3)]
    outbox.put(pulse("a", 2, 5))
    outbox.put(told("a", 2, 6))
    assert outbox.take() == [told("a", 2, 6)]


def test_a_report_that_asks_is_not_replaced_by_one_that_does_not() -> None:
    outbox = Outbox()
    outbox.put(told("a", 2, 1, asks=True))
    outbox.put(told("a", 2, 2))
    outbox.put(told("a", 3, 1))
    outbox.put(told("a", 3, 2, asks=True))
    assert outbox.take() == [told("a", 2, 2, asks=True), told("a", 3, 2, asks=True)]
    outbox.put(told("a", 2, 3))
    assert outbox.take() == [told("a", 2, 3)], "it has left"
