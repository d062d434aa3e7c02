"""Timers of an Operator: when they fire, in which order, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import streammine
from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators.timers import TimerIndex, Timers, TimerSet
from streammine.operators.user import timers as user_timers
from streammine.operators.user.operator import UserOperator
from streammine.testing import assert_deterministic, assert_rows

SECOND = 1_000_000
TEN_SECONDS = EpochDefinition("time", 10 * SECOND, "ts")
EVENTS = pa.schema([("ts", pa.int64()), ("key", pa.string())])


class Silence(streammine.Operator):
    """Says of each key when it has been silent for `seconds`."""

    output: ClassVar[Mapping[str, str]] = {"key": "string", "since": "int64"}
    state: ClassVar[Mapping[str, Any]] = {"timers": Timers(), "last": streammine.Value(None)}
    commutative = True

    def __init__(self, seconds: int = 5) -> None:
        self.seconds = seconds

    def process(self, key: Any, event: Any, state: Any) -> None:
        if state.last is None or event.ts > state.last:
            state.last = event.ts
            state.timers.clear()
            state.timers.set((event.ts + self.seconds) * SECOND)

    def on_timer(self, key: Any, time: int, state: Any) -> Any:
        since = state.last
        state.clear()
        return key, since


def operator_of(code: streammine.Operator) -> UserOperator:
    return UserOperator("silence", code, [EVENTS], [["key"]])


def ran(operator: UserOperator, epoch: int, *events: tuple[int, str]) -> list[tuple[Any, ...]]:
    batch = pa.record_batch([list(column) for column in zip(*events, strict=True)], schema=EVENTS)
    return closed(operator, epoch, iter([(0, batch)]))


def closed(
    operator: UserOperator, epoch: int, bag: Iterator[tuple[int, pa.RecordBatch]]
) -> list[tuple[Any, ...]]:
    close = EpochClose(epoch, TEN_SECONDS.watermark(epoch), TEN_SECONDS)
    return [tuple(row.values()) for batch in operator.run(close, bag) for row in batch.to_pylist()]


def test_a_timer_fires_when_the_watermark_has_reached_it() -> None:
    #  epoch 0: [0, 10)        epoch 1: [10, 20)
    #  a at 3 -> 8   b at 5 -> 10   c at 6 -> 11
    operator = operator_of(Silence())
    assert operator.due_epoch is None
    assert ran(operator, 0, (3, "a"), (5, "b"), (6, "c")) == [("a", 3), ("b", 5)]
    assert operator.due_epoch == 1
    assert closed(operator, 1, iter(())) == [("c", 6)]
    assert operator.due_epoch is None
    assert operator.state_nbytes == 0


def test_events_of_the_epoch_come_before_its_timers() -> None:
    operator = operator_of(Silence())
    # a is silent from 1 to 9, and yet not at the end of the epoch
    assert ran(operator, 0, (1, "a"), (9, "a")) == []
    assert operator.due_epoch == 1
    assert closed(operator, 1, iter(())) == [("a", 9)]


def test_a_timer_that_is_put_off_does_not_fire() -> None:
    operator = operator_of(Silence(seconds=15))
    assert ran(operator, 0, (1, "a"), (2, "b")) == []
    assert operator.due_epoch == 1
    assert ran(operator, 1, (12, "a")) == [("b", 2)]
    assert operator.due_epoch == 2
    assert closed(operator, 2, iter(())) == [("a", 12)]


class Ticks(streammine.Operator):
    """Calls each key every four seconds, `times` times."""

    output: ClassVar[Mapping[str, str]] = {"key": "string", "at": "int64"}
    state: ClassVar[Mapping[str, Any]] = {"timers": Timers(), "left": streammine.Value(0)}

    def __init__(self, times: int = 4) -> None:
        self.times = times

    def process(self, key: Any, event: Any, state: Any) -> None:
        state.left = self.times
        state.timers.set(event.ts * SECOND)

    def on_timer(self, key: Any, time: int, state: Any) -> Any:
        state.left -= 1
        if state.left:
            state.timers.set(time + 4 * SECOND)
        return key, time // SECOND


def test_timers_set_by_timers_fire_in_their_order_key_by_key() -> None:
    operator = operator_of(Ticks())
    assert ran(operator, 0, (1, "b"), (3, "a")) == [
        ("a", 3),
        ("a", 7),
        ("b", 1),
        ("b", 5),
        ("b", 9),
    ]
    assert operator.due_epoch == 1
    assert closed(operator, 1, iter(())) == [("a", 11), ("a", 15), ("b", 13)]
    assert operator.due_epoch is None


def test_a_restored_operator_knows_when_its_timers_are_due() -> None:
    operator = operator_of(Silence(seconds=25))
    ran(operator, 0, (1, "a"), (2, "b"))
    pieces = list(operator.freeze(True).pieces())
    restored = operator_of(Silence(seconds=25))
    restored.restore(1, True, iter(pieces))
    assert ran(restored, 1, (19, "b")) == []
    assert restored.due_epoch == 2
    assert closed(restored, 2, iter(())) == [("a", 1)]
    assert restored.due_epoch == 4


class Backwards(Ticks):
    def on_timer(self, key: Any, time: int, state: Any) -> Any:
        state.timers.set(time)


def test_a_timer_cannot_set_one_that_is_not_later() -> None:
    with pytest.raises(UserCodeError, match=r"on_timer.*must be later"):
        ran(operator_of(Backwards()), 0, (1, "a"))


def test_timers_that_go_on_for_ever_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_timers, "MOST_IDLE_EPOCHS", 20)
    operator = operator_of(Ticks(times=10**9))
    ran(operator, 0, (1, "a"))
    for epoch in range(1, 21):
        assert operator.due_epoch == epoch
        closed(operator, epoch, iter(()))
    with pytest.raises(UserCodeError, match=r"through 20 epochs without any event"):
        closed(operator, 21, iter(()))


class NoMethod(streammine.Operator):
    output: ClassVar[Mapping[str, str]] = {"key": "string"}
    state: ClassVar[Mapping[str, Any]] = {"timers": Timers()}

    def process(self, key: Any, event: Any, state: Any) -> None:
        state.timers.set("soon")


class NoTimers(Ticks):
    state: ClassVar[Mapping[str, Any]] = {"left": streammine.Value(0)}


class Two(Ticks):
    state: ClassVar[Mapping[str, Any]] = {"one": Timers(), "two": Timers()}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (NoMethod, "on_timer and a cell of timers belong together"),
        (NoTimers, "on_timer and a cell of timers belong together"),
        (Two, "one is enough"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_refused(
    code: type[streammine.Operator], text: str
) -> None:
    with pytest.raises(TopologyError, match=text):
        operator_of(code())


def test_epochs_of_rows_have_no_timers() -> None:
    operator = operator_of(Ticks())
    rows = EpochDefinition("count", 10)
    with pytest.raises(TopologyError, match="timers need event time"):
        operator.run(EpochClose(0, rows.watermark(0), rows), iter(()))


def test_times_are_whole_numbers() -> None:
    with pytest.raises(TypeError, match="whole microseconds"):
        TimerSet().set(1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("time", [-(2**56) - 1, 2**56 + 1, 2**63, 2**70])
def test_times_that_no_epoch_holds_are_refused(time: int) -> None:
    with pytest.raises(ValueError, match=rf"set for {time}; times are .* 2\^56"):
        TimerSet().set(time)


def test_the_index_passes_over_what_was_cancelled_or_replaced() -> None:
    sets = {"a": TimerSet([5, 9]), "b": TimerSet([7])}
    index = TimerIndex(sets.get)
    index.note(sets.items())
    sets["a"].cancel(5)
    assert index.first == 7
    sets["b"] = TimerSet()
    assert index.first == 9
    sets["a"].set(2)
    index.note(sets.items())
    assert index.take(8) == ["a"]
    assert index.first is None  # until the key is noted again
    index.note(sets.items())
    assert index.take(2) == ["a"]


@pytest.mark.parametrize("slices", [1, 3])
def test_the_output_is_the_same_on_any_cluster(slices: int) -> None:
    table = pa.table(
        {
            "ts": [1, 2, 3, 14, 15, 31, 47, 48],
            "key": ["a", "b", "c", "b", "a", "a", "c", "b"],
        }
    )
    topology = (
        streammine.Topology(name="silence", epoch={"time": "10s", "column": "ts"})  # type: ignore[arg-type]
        .source("events", files="events.csv", schema={"ts": "int64", "key": "string"})
        .operator(
            "silence",
            input="events",
            key="key",
            operator=Silence,
            slices=slices,
            with_={"seconds": 12},
        )
        .sink("result", input="silence", format="console")
    )
    result = assert_deterministic(topology, {"events": table}, seeds=range(4))
    assert_rows(
        result.table("result"),
        [("c", 3), ("b", 14), ("a", 15), ("a", 31), ("c", 47), ("b", 48)],
    )
