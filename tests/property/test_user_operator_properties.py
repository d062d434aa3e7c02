"""A user's Operator with every kind of cell, timers, random numbers and failing events, against a reference
that has none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators import state_store
from streammine.operators.api import Operator
from streammine.operators.history import History
from streammine.operators.state import List, Map, Queue, Value, Window
from streammine.operators.timers import Timers
from streammine.operators.user.adapting import adapted
from tests.property import user_operator_reference as reference
from tests.property.operator_trials import assert_as_reference, events_of, minutes
from tests.property.user_operator_reference import (
    AGAIN_MICROSECONDS,
    FAILS,
    IS_WRONG,
    JOB,
    LATE_MICROSECONDS,
    OPERATOR,
    QUEUE_LENGTH,
    RECENT_EPOCHS,
    Event,
    World,
    played,
)

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("key", pa.string()),
        ("id", pa.int64()),
        ("do", pa.string()),
        ("x", pa.int64()),
    ]
)
ACTS = (
    *("add", "append", "pop", "queue", "put", "forget", "late", "recent", "history", "set", "set"),
    *("cancel", "draw", "own draw", "clear", "nothing", FAILS, IS_WRONG),
)
WISHES = st.tuples(
    st.sampled_from([None, "", "a", "é", "longer than eight"]),
    st.sampled_from(ACTS),
    st.integers(-3, 5),
)
RANDOM = st.integers(0, 2**32).map(np.random.default_rng)


@st.composite
def wishes_by_epoch(draw: st.DrawFn) -> dict[int, list[Event]]:
    epochs = draw(
        st.dictionaries(
            st.integers(-3, 6), st.lists(WISHES, min_size=1, max_size=8), min_size=1, max_size=5
        )
    )
    events: dict[int, list[Event]] = {}
    number = 0
    for epoch, wishes in sorted(epochs.items()):
        events[epoch] = []
        for key, do, x in wishes:
            events[epoch].append(Event(60 * epoch, key, number, do, x))
            number += 1
    return events


EPOCHS = wishes_by_epoch()


def shown(state: Any) -> str:
    return (
        f"{state.value} {list(state.list)} {list(state.queue)} {dict(state.map)} {list(state.late)} "
        f"{list(state.recent)} {list(state.history)} {list(getattr(state, 'timers', ()))}"
    )


class Everything(Operator):
    """Does to its cells what its events say."""

    output: ClassVar[Any] = {"id": "int64", "what": "string"}
    state: ClassVar[Any] = {
        "value": Value(0),
        "list": List(),
        "queue": Queue(QUEUE_LENGTH),
        "map": Map(),
        "late": Window(microseconds=LATE_MICROSECONDS),
        "recent": Window(epochs=RECENT_EPOCHS),
        "history": History(),
        "timers": Timers(),
    }

    def process(self, key: Any, event: Any, state: Any) -> Any:
        return self.act(key, event, state)

    def act(self, key: Any, event: Any, state: Any) -> Any:
        assert self.context.window is not None
        do, x, start = event.do, event.x, self.context.window[0]
        match do:
            case "fail":
                state.value += 1
                raise ValueError("it is to fail")
            case "wrong":
                state.value += 1
                return "no number", 7
            case "add":
                state.value += x
            case "append":
                state.list.append(x)
            case "pop":
                state.list.pop()
            case "queue":
                state.queue.append(x)
            case "put":
                state.map[x % 3] = event.id
            case "forget":
                del state.map[x % 3]
            case "late":
                state.late.append(start + 20_000_000 * x, x)
            case "recent":
                state.recent.append(self.context.epoch, x)
            case "history":
                state.history.append(event.id)
            case "set":
                state.timers.set(start + 30_000_000 * x)
            case "cancel":
                state.timers.cancel(start + 30_000_000 * x)
            case "draw":
                return [(event.id, f"draw {self.context.random(key).integer(0, 99)}")] * 2
            case "own draw":
                return {
                    "id": event.id,
                    "what": f"own draw {self.context.random(key, event.id).uniform()!r}",
                }
            case "clear":
                state.clear()
            case "nothing":
                return None
        return event.id, f"{do} {shown(state)}"

    def on_timer(self, key: Any, time: int, state: Any) -> Any:
        state.list.append(time)
        if state.queue:
            state.queue.popleft()
            state.timers.set(time + AGAIN_MICROSECONDS)
        return None, f"timer {time} {shown(state)}"


class Yielding(Everything):
    """Its rows come out of a generator, of which those before a failure are not to be seen."""

    def process(self, key: Any, event: Any, state: Any) -> Iterator[Any]:
        if event.do == FAILS:
            yield event.id, "too early"
        found = self.act(key, event, state)
        if isinstance(found, list):
            yield from found
        elif found is not None:
            yield found


class ClosingEpochs(Everything):
    def end_epoch(self, key: Any, state: Any) -> Any:
        return None, f"epoch {key} {shown(state)}"


class ClosingEveryKey(ClosingEpochs):
    every_key: ClassVar[bool] = True


class Gathering(Everything):
    """Does what its events say when the epoch is over, in the order of their numbers."""

    commutative: ClassVar[bool] = True
    state: ClassVar[Any] = {**Everything.state, "waiting": List()}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        if event.do in (FAILS, IS_WRONG):
            return self.act(key, event, state)
        state.waiting.append((event.id, event.do, event.x))
        return event.id, f"came {self.context.random(key, event.id).uniform()!r}"

    def end_epoch(self, key: Any, state: Any) -> Iterator[Any]:
        waiting = sorted(state.waiting)
        state.waiting.clear()
        for number, do, x in waiting:
            try:
                found = self.act(key, Event(0, key, number, do, x), state)
            except LookupError:
                found = number, "could not"
            yield from found if isinstance(found, list) else [found] if found else []


class ClosingInput(Everything):
    """Without timers, which could fire behind the end of the input."""

    state: ClassVar[Any] = {
        name: cell for name, cell in Everything.state.items() if name != "timers"
    }
    on_timer = Operator.on_timer

    def end_input(self, key: Any, state: Any) -> Any:
        return None, f"input {key} {shown(state)}"


class TwoPorts(Everything):
    ports: ClassVar[Sequence[str]] = ("left", "right")

    def process_left(self, key: Any, event: Any, state: Any) -> Any:
        return self.act(key, event, state)

    process_right = process_left


@pytest.fixture(autouse=True, scope="module")
def _tiny_pieces() -> Iterator[None]:
    """Snapshots are cut into pieces of a few keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_store, "PIECE_BYTES", 64)
        yield


def maker(kind: type[Operator], ports: int = 1) -> Callable[[bool], Any]:
    def make(combined: bool) -> Any:
        del combined
        return adapted(
            OPERATOR, kind(), [SCHEMA] * ports, [["key"]] * ports, dead_letter=True, job=JOB
        )

    return make


def assert_plays(
    kind: type[Operator],
    world: World,
    epochs: dict[int, list[Event]],
    random: np.random.Generator,
    in_sequence: bool = True,
) -> None:
    """`in_sequence`: its rows leave in the order of the events; otherwise sorted by all columns."""
    played(world, epochs)
    assert_as_reference(
        maker(kind),
        events_of(minutes(), [SCHEMA], {epoch: [events] for epoch, events in epochs.items()}),
        world.rows,
        random,
        ordered=not in_sequence,
        in_sequence=in_sequence,
        trials=3,
        dead=world.dead,
    )


@pytest.mark.parametrize(
    ("kind", "world"),
    [
        (Everything, World),
        (Yielding, World),
        (ClosingEpochs, reference.ClosingEpochs),
        (ClosingEveryKey, reference.ClosingEveryKey),
    ],
)
@settings(max_examples=200, deadline=None)
@given(epochs=EPOCHS, random=RANDOM)
def test_an_operator_in_strict_order_gives_what_the_reference_gives(
    kind: type[Operator],
    world: type[World],
    epochs: dict[int, list[Event]],
    random: np.random.Generator,
) -> None:
    assert_plays(kind, world(), epochs, random)


@settings(max_examples=200, deadline=None)
@given(EPOCHS, RANDOM)
def test_every_key_tells_what_is_left_when_the_input_is_over(
    epochs: dict[int, list[Event]], random: np.random.Generator
) -> None:
    without_timers = {
        epoch: [
            event._replace(do="nothing") if event.do in ("set", "cancel") else event
            for event in events
        ]
        for epoch, events in epochs.items()
    }
    assert_plays(ClosingInput, reference.ClosingInput(), without_timers, random)


@settings(max_examples=200, deadline=None)
@given(EPOCHS, RANDOM)
def test_a_commutative_operator_gives_what_the_reference_gives_in_any_order(
    epochs: dict[int, list[Event]], random: np.random.Generator
) -> None:
    assert_plays(Gathering, reference.Gathering(), epochs, random, in_sequence=False)


@settings(max_examples=200, deadline=None)
@given(EPOCHS, RANDOM)
def test_events_of_two_ports_share_the_state_of_their_key(
    epochs: dict[int, list[Event]], random: np.random.Generator
) -> None:
    ports = {
        epoch: tuple([event for event in events if event.id % 2 == port] for port in range(2))
        for epoch, events in epochs.items()
    }
    world = played(World(), {epoch: [*left, *right] for epoch, (left, right) in ports.items()})
    assert_as_reference(
        maker(TwoPorts, 2),
        events_of(minutes(), [SCHEMA, SCHEMA], ports),
        world.rows,
        random,
        ordered=False,
        in_sequence=True,
        trials=3,
        dead=world.dead,
    )
