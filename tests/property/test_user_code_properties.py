"""A user's Mapper and Reducer, event by event and batch by batch, and the Operators that take whole batches,
against references that look at plain tuples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators.api import Mapper, Operator, Reducer, UserCode
from streammine.operators.state import Map, Value
from streammine.operators.user.adapting import adapted
from tests.property.operator_trials import assert_as_reference, events_of, minutes
from tests.property.stateless_trials import assert_shapes, row_text

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("key", pa.string()),
        ("id", pa.int64()),
        ("do", pa.string()),
        ("x", pa.int64()),
    ]
)
FAILS = "fail"


class Event(NamedTuple):
    ts: int
    key: str | None
    id: int
    do: str
    x: int


Rows = list[tuple[Any, ...]]
ByEpoch = dict[int, list[Event]]

ACTS = ("none", "row", "dict", "two", "yield", FAILS, "wrong", "too few")
KEYS = (None, "", "a", "é", "longer than eight")


@st.composite
def events_by_epoch(draw: st.DrawFn) -> ByEpoch:
    wish = st.tuples(st.sampled_from(KEYS), st.sampled_from(ACTS), st.integers(-3, 5))
    epochs = draw(
        st.dictionaries(
            st.integers(-4, 6), st.lists(wish, min_size=1, max_size=9), min_size=1, max_size=5
        )
    )
    events: ByEpoch = {}
    number = 0
    for epoch, wishes in sorted(epochs.items()):
        events[epoch] = []
        for key, do, x in wishes:
            events[epoch].append(Event(60 * epoch, key, number, do, x))
            number += 1
    return events


EPOCHS = events_by_epoch()
RANDOM = st.integers(0, 2**32).map(np.random.default_rng)


class ByRow(Mapper):
    """Returns rows in each of the ways in which it may."""

    output: ClassVar[Any] = {"id": "int64", "what": "string"}

    def map(self, event: Any) -> Any:
        match event.do:
            case "none":
                return None
            case "row":
                return event.id, event.key
            case "dict":
                return {"what": str(event.x), "id": event.id}
            case "two":
                return [(event.id, "first"), {"id": event.x, "what": None}]
            case "yield":
                return ((event.id, f"{number} of {event.x}") for number in range(event.x))
            case "wrong":
                return [(event.id, "right"), (event.id, event.x)]
            case "too few":
                return [(event.id, "right"), (event.id,)]
        raise ValueError("it is to fail")


class Generating(Mapper):
    """A generator: what it gave before it failed must not leave."""

    output: ClassVar[Any] = ByRow.output

    def map(self, event: Any) -> Iterator[Any]:
        found = ByRow.map(self, event) if event.do != FAILS else None
        if event.do == FAILS:
            yield event.id, "too early"
            raise ValueError("it is to fail")
        if isinstance(found, tuple | dict):
            yield found
        elif found is not None:
            yield from found


class OneColumn(Mapper):
    """An output of one column takes bare values; and reads no more than it says."""

    output: ClassVar[Any] = {"id": "int64"}
    needs: ClassVar[Any] = ("do", "id", "x")

    def map(self, event: Any) -> Any:
        assert event._fields == ("id", "do", "x"), event
        if event.do in (FAILS, "wrong", "too few"):
            raise KeyError(event.id)
        return {"none": None, "row": event.id, "dict": (event.id,)}.get(
            event.do, [event.id] * event.x
        )


class ByBatch(Mapper):
    """Its rows are all there or, for some, doubled and told by their parents."""

    output: ClassVar[Any] = ByRow.output

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        acts = batch.column("do").to_pylist()
        if FAILS in acts:
            raise ValueError("a row is to fail")
        what = pc.cast(batch.column("x"), pa.string())
        made = pa.record_batch([batch.column("id"), what], names=["id", "what"])
        if set(acts) <= {"row", "dict"}:
            return made
        times = [{"none": 0, "two": 2}.get(act, 1) for act in acts]
        parents = np.repeat(np.arange(len(times)), times)
        return made.take(pa.array(parents)), parents


def shape_by_row(event: Any) -> Rows:
    event = Event(*event)
    if event.do == "row":
        return [(event.id, event.key)]
    if event.do == "dict":
        return [(event.id, str(event.x))]
    if event.do == "two":
        return [(event.id, "first"), (event.x, None)]
    if event.do == "yield":
        return [(event.id, f"{number} of {event.x}") for number in range(event.x)]
    return []


def shape_one_column(event: Any) -> Rows:
    event = Event(*event)
    times = {"none": 0, "row": 1, "dict": 1, "two": event.x, "yield": event.x}.get(event.do, 0)
    return [(event.id,)] * times


def shape_by_batch(event: Any) -> Rows:
    event = Event(*event)
    return [(event.id, str(event.x))] * {"none": 0, "two": 2, FAILS: 0}.get(event.do, 1)


@pytest.mark.parametrize(
    ("kind", "shape", "wrong"),
    [
        (ByRow, shape_by_row, (FAILS, "wrong", "too few")),
        (Generating, shape_by_row, (FAILS, "wrong", "too few")),
        (ByBatch, shape_by_batch, (FAILS,)),
    ],
)
@settings(max_examples=200, deadline=None)
@given(epochs=EPOCHS, random=RANDOM)
def test_a_mapper_makes_of_each_event_what_it_says(
    kind: type[Mapper],
    shape: Callable[[Any], Rows],
    wrong: Sequence[str],
    epochs: ByEpoch,
    random: np.random.Generator,
) -> None:
    assert_shapes(
        lambda: adapted("o", kind(), [SCHEMA], dead_letter=True),
        SCHEMA,
        epochs,
        shape,
        random,
        dead=lambda row: row[3] in wrong,
    )


@settings(max_examples=200, deadline=None)
@given(EPOCHS, RANDOM)
def test_a_mapper_of_one_column_gives_bare_values(
    epochs: ByEpoch, random: np.random.Generator
) -> None:
    right = {
        epoch: [event for event in events if event.do not in (FAILS, "wrong", "too few")]
        for epoch, events in epochs.items()
    }
    assert_shapes(
        lambda: adapted("o", OneColumn(), [SCHEMA]),
        SCHEMA,
        right,
        shape_one_column,
        random,
    )


class Merging(Reducer):
    """Plain accumulators of every kind, changed in place."""

    output: ClassVar[Any] = {"what": "string"}

    def create(self) -> Any:
        return {"count": 0, "values": set(), "last": (None, -1)}

    def add(self, accumulator: Any, event: Any) -> Any:
        if event.do == FAILS:
            raise ValueError("it is to fail")
        accumulator["count"] += 1
        accumulator["values"].add(event.x)
        accumulator["last"] = max(
            accumulator["last"], (event.do, event.id), key=lambda pair: pair[1]
        )
        return accumulator

    def merge(self, left: Any, right: Any) -> Any:
        left["count"] += right["count"]
        left["values"] |= right["values"]
        left["last"] = max(left["last"], right["last"], key=lambda pair: pair[1])
        return left

    def finish(self, key: Any, accumulator: Any) -> Any:
        if accumulator["count"] == 3:
            return None
        text = f"{key} {accumulator['count']} {accumulator['last']}"
        return [(text,), (str(sorted(accumulator["values"])),)]


class Serializing(Reducer):
    """An accumulator that isn't plain data, and one that has no row in some windows."""

    output: ClassVar[Any] = {"what": "string"}

    def create(self) -> Fraction:
        return Fraction(0)

    def add(self, accumulator: Fraction, event: Any) -> Fraction:
        if event.do == FAILS:
            raise ValueError("it is to fail")
        return accumulator + Fraction(event.x, event.id + 1)

    def merge(self, left: Fraction, right: Fraction) -> Fraction:
        return left + right

    def finish(self, key: Any, accumulator: Fraction) -> str | None:
        return None if accumulator == 0 else f"{key} {accumulator}"

    def serialize(self, accumulator: Fraction) -> bytes:
        return str(accumulator).encode()

    def deserialize(self, data: bytes) -> Fraction:
        return Fraction(data.decode())


class MergingBatches(Serializing):
    """The same from the rows that a key has in a batch, however that is cut."""

    add = Reducer.add

    def add_batch(self, accumulator: Fraction, batch: pa.RecordBatch) -> Fraction:
        for row in batch.to_pylist():
            accumulator += Fraction(row["x"], row["id"] + 1)
        return accumulator


class Sequential(Reducer):
    """Sees the events in their order."""

    output: ClassVar[Any] = {"what": "string"}
    commutative: ClassVar[bool] = False

    def create(self) -> list[int]:
        return []

    def add(self, accumulator: list[int], event: Any) -> list[int]:
        if event.do == FAILS:
            raise ValueError("it is to fail")
        return [*accumulator, event.id]

    def finish(self, key: Any, accumulator: list[int]) -> str:
        return f"{key} {accumulator}"


class SequentialBatches(Sequential):
    """Gets all rows that a key has in an epoch at once."""

    add = Reducer.add

    def add_batch(self, accumulator: list[Any], batch: pa.RecordBatch) -> list[Any]:
        return [*accumulator, batch.column("id").to_pylist()]


def merged(key: Any, epochs: list[list[Event]]) -> list[str]:
    events = [event for epoch in epochs for event in epoch]
    if len(events) == 3:
        return []
    last = max(events, key=lambda event: event.id)
    values = sorted({event.x for event in events})
    return [f"{key} {len(events)} {(last.do, last.id)}", str(values)]


def summed(key: Any, epochs: list[list[Event]]) -> list[str]:
    total = sum(
        (Fraction(event.x, event.id + 1) for epoch in epochs for event in epoch), Fraction(0)
    )
    return [f"{key} {total}"] if total else []


def in_sequence(key: Any, epochs: list[list[Event]]) -> list[str]:
    return [f"{key} {[event.id for epoch in epochs for event in epoch]}"]


def in_batches(key: Any, epochs: list[list[Event]]) -> list[str]:
    return [f"{key} {[[event.id for event in epoch] for epoch in epochs]}"]


Finished = Callable[[Any, list[list[Event]]], list[str]]


def reduced(epochs: Mapping[int, list[Event]], window: int, finished: Finished) -> dict[int, Rows]:
    """By the last epoch of each window, the rows of its keys in their order."""
    windows: dict[int, dict[Any, dict[int, list[Event]]]] = defaultdict(lambda: defaultdict(dict))
    for epoch, events in sorted(epochs.items()):
        last = epoch - epoch % window + window - 1
        for event in events:
            windows[last][event.key].setdefault(epoch, []).append(event)
    return {
        last: [
            (last, key, text)
            for key in sorted(keys, key=lambda key: (key is None, (key or "").encode()))
            for text in finished(key, list(keys[key].values()))
        ]
        for last, keys in windows.items()
    }


def made(code: type[UserCode], **options: Any) -> Callable[[bool], Any]:
    def make(combined: bool) -> Any:
        del combined
        return adapted("o", code(), [SCHEMA], [["key"]], **options)

    return make


def sent(epochs: ByEpoch) -> Any:
    return events_of(minutes(), [SCHEMA], {epoch: [events] for epoch, events in epochs.items()})


def without_failing(epochs: ByEpoch) -> ByEpoch:
    return {
        epoch: [event for event in events if event.do != FAILS] for epoch, events in epochs.items()
    }


@pytest.mark.parametrize(
    ("kind", "finished"),
    [
        (Merging, merged),
        (Serializing, summed),
        (MergingBatches, summed),
        (Sequential, in_sequence),
        (SequentialBatches, in_batches),
    ],
)
@settings(max_examples=200, deadline=None)
@given(epochs=EPOCHS, window=st.integers(1, 4), random=RANDOM)
def test_a_reducer_folds_the_events_of_each_window_by_key(
    kind: type[Reducer],
    finished: Finished,
    epochs: ByEpoch,
    window: int,
    random: np.random.Generator,
) -> None:
    right = without_failing(epochs)
    assert_as_reference(
        made(kind, window_epochs=window),
        sent(right),
        reduced(right, window, finished),
        random,
        in_sequence=True,
        trials=2,
    )


@pytest.mark.parametrize(
    ("kind", "finished"), [(Merging, merged), (Serializing, summed), (Sequential, in_sequence)]
)
@settings(max_examples=200, deadline=None)
@given(epochs=EPOCHS, window=st.integers(1, 4), random=RANDOM)
def test_an_event_that_a_reducer_fails_at_is_as_one_that_never_came(
    kind: type[Reducer],
    finished: Finished,
    epochs: ByEpoch,
    window: int,
    random: np.random.Generator,
) -> None:
    assert_as_reference(
        made(kind, dead_letter=True, window_epochs=window),
        sent(epochs),
        reduced(without_failing(epochs), window, finished),
        random,
        in_sequence=True,
        trials=2,
        dead={
            epoch: [row_text(SCHEMA, event) for event in events if event.do == FAILS]
            for epoch, events in epochs.items()
        },
    )


class BatchPerKey(Operator):
    """What a key's rows are in an epoch, beside what came before them."""

    output: ClassVar[Any] = {"id": "int64", "place": "int64", "total": "int64"}
    state: ClassVar[Any] = {"total": Value(0)}

    def process_batch(self, key: Any, batch: pa.RecordBatch, state: Any) -> Any:
        if batch.num_rows == 4:
            return None
        totals = np.cumsum(batch.column("x").to_numpy()) + state.total
        state.total = int(totals[-1])
        places = pa.array(np.arange(batch.num_rows))
        rows = pa.record_batch([batch.column("id"), places, pa.array(totals)], list(self.output))
        if batch.num_rows % 2:
            return rows
        parents = np.flatnonzero(batch.column("x").to_numpy() > 0)
        return rows.take(pa.array(parents)), parents


class WholeSlice(Operator):
    """How often each value of a key came, from a map over all keys of the slice."""

    output: ClassVar[Any] = {"key": "string", "x": "int64", "count": "int64"}
    commutative: ClassVar[bool] = True
    needs: ClassVar[Any] = ("key", "x")
    state: ClassVar[Any] = {"counts": Map()}

    def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
        assert batch.schema.names == ["key", "x"], batch.schema
        pairs = [(row["key"], row["x"]) for row in batch.to_pylist()]
        for pair in pairs:
            state.counts[pair] = state.counts.get(pair, 0) + 1
        rows = [(*pair, state.counts[pair]) for pair in set(pairs) if pair[1] >= 0]
        if not rows:
            return None
        types = [pa.string(), pa.int64(), pa.int64()]
        columns = zip(*rows, strict=True)
        return pa.record_batch(
            [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)],
            list(self.output),
        )


@settings(max_examples=200, deadline=None)
@given(EPOCHS, RANDOM)
def test_an_operator_gets_all_rows_of_a_key_in_an_epoch_as_one_batch(
    epochs: ByEpoch, random: np.random.Generator
) -> None:
    totals: dict[Any, int] = defaultdict(int)
    expected: dict[int, Rows] = {}
    for epoch, events in epochs.items():
        groups: dict[Any, list[Event]] = defaultdict(list)
        for event in events:
            groups[event.key].append(event)
        rows: Rows = []
        for key, group in groups.items():
            if len(group) == 4:
                continue
            for place, event in enumerate(group):
                totals[key] += event.x
                if len(group) % 2 or event.x > 0:
                    rows.append((event.id, place, totals[key]))
        expected[epoch] = sorted(rows)
    assert_as_reference(
        made(BatchPerKey), sent(epochs), expected, random, ordered=False, in_sequence=True, trials=2
    )


@settings(max_examples=200, deadline=None)
@given(EPOCHS, RANDOM)
def test_an_operator_gets_all_rows_of_a_slice_as_one_batch(
    epochs: ByEpoch, random: np.random.Generator
) -> None:
    counts: dict[tuple[Any, int], int] = defaultdict(int)
    expected: dict[int, Rows] = {}
    for epoch, events in epochs.items():
        for event in events:
            counts[event.key, event.x] += 1
        seen = {(event.key, event.x) for event in events if event.x >= 0}
        expected[epoch] = [(*pair, counts[pair]) for pair in seen]
    assert_as_reference(made(WholeSlice), sent(epochs), expected, random, trials=2)
