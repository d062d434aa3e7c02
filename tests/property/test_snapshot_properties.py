"""An operator that is lost and restored from snapshots emits what the undisturbed one does.

Hypothesis chooses after which epochs there is a freeze, whether of everything, when its pieces are made
(at once, or while later epochs change the state), and when the operator is lost.

::

    epochs    0     1     2     3     4
    freezes     full    incr.   incr.
    pieces      |__________|
    lost                        x restored from full + incr. + incr., takes epoch 3 again
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.contracts import EpochClose, FrozenState, KeepsState
from streammine.model.epochs import INFINITY, EpochDefinition
from streammine.model.manifest import SinkDescription
from streammine.model.topology.join_kinds import JoinKind
from streammine.operators import frozen, keyed_table, state_store
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.aggregates import window_state
from streammine.operators.api import Operator, Reducer
from streammine.operators.committer import CommitOperator
from streammine.operators.event_time import EventTime
from streammine.operators.interval_join import IntervalJoin
from streammine.operators.join import EquiJoin
from streammine.operators.plain_data import decode, encode
from streammine.operators.sinks import SinkOperator, SinkSettings
from streammine.operators.state import List, Map, Queue, Value, Window
from streammine.operators.table_join import TableJoin, TableTimes
from streammine.operators.user import windows as user_windows
from streammine.operators.user.adapting import adapted
from streammine.operators.windows import AlignedWindows, TumblingWindow
from streammine.runtime.output import read_output
from tests.property.test_aggregate_properties import CALLS, KEYS, ROW_LISTS, SCHEMA, Row, batch_of
from tests.property.window_reference import WINDOWS
from tests.unit.memory_store import MemoryStore

TIME = EpochDefinition("time", 10, "t")
PAIRS = pa.schema([("key", pa.int64()), ("value", pa.int64())])


class Turn(NamedTuple):
    """What happens before an epoch: a freeze, of all, whose pieces are made late, then the crash."""

    freezes: bool
    full: bool
    late: str
    lost: bool


TURNS = st.builds(
    Turn,
    st.sampled_from([True, True, False]),
    st.sampled_from([False, False, True]),
    st.sampled_from(["before", "after the first", "after"]),
    st.booleans(),
)
PAIR_LISTS = st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), max_size=6)


def runs(rows: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, Turn]]]:
    return st.lists(st.tuples(rows, TURNS), min_size=4, max_size=9)


@pytest.fixture(autouse=True, scope="module")
def tiny_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (frozen, window_state, user_windows, state_store):
            patch.setattr(module, "PIECE_BYTES", 64)
        yield


def pairs(rows: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    keys, values = zip(*rows, strict=True) if rows else ((), ())
    return pa.record_batch([pa.array(keys, pa.int64()), pa.array(values, pa.int64())], schema=PAIRS)


def encoded(batches: Sequence[pa.RecordBatch]) -> list[list[Any]]:
    return [
        [
            struct.pack("<d", value) if isinstance(value, float) else repr(value)
            for value in row.values()
        ]
        for batch in batches
        for row in batch.to_pylist()
    ]


def closing(epoch: int) -> EpochClose:
    return EpochClose(epoch, TIME.watermark(epoch), TIME)


def run_epoch(operator: Any, epoch: int, ports: Sequence[Sequence[pa.RecordBatch]]) -> list[Any]:
    if hasattr(operator, "run"):
        bag = ((port, batch) for port, batches in enumerate(ports) for batch in batches)
        made = operator.run(closing(epoch), bag)
    else:
        accumulators = [operator.accumulator(port) for port in range(len(operator.keys))]
        for accumulator, batches in zip(accumulators, ports, strict=False):
            for batch in batches:
                accumulator.add(batch)
        made = operator.close(closing(epoch), accumulators)
    dead = operator.take_dead() if hasattr(operator, "take_dead") else None
    return [*encoded(list(made)), dead]


def finish(operator: Any, epochs: int) -> list[Any]:
    left: list[Any] = []
    while (due := getattr(operator, "due_epoch", None)) is not None:
        left.append((due, run_epoch(operator, due, ())))
    if hasattr(operator, "flush"):
        left.append(encoded(operator.flush(EpochClose(epochs, INFINITY, TIME))))
    return left


def taken(state: FrozenState, late: str, between: Callable[[], Any]) -> tuple[Any, list[pa.Buffer]]:
    pieces = state.pieces()
    if late == "before":
        found = list(pieces)
        return between(), found
    found = (
        [] if late == "after" else [piece for piece in [next(pieces, None)] if piece is not None]
    )
    made = between()
    return made, [*found, *pieces]


def outputs(
    make: Callable[[], Any], epochs: Sequence[Sequence[Sequence[pa.RecordBatch]]],
    turns: Sequence[Turn],
) -> list[Any]:  # fmt: skip
    operator = make()
    assert isinstance(operator, KeepsState)
    chain: list[tuple[bool, list[pa.Buffer]]] = []
    out: list[Any] = []
    for epoch, (ports, turn) in enumerate(zip(epochs, turns, strict=True)):
        if not turn.freezes:
            out.append(run_epoch(operator, epoch, ports))
            continue
        due = getattr(operator, "due_epoch", None)
        state = operator.freeze(turn.full)
        made, pieces = taken(
            state, turn.late, lambda: run_epoch(operator, epoch, ports)  # noqa: B023
        )  # fmt: skip
        chain = [(True, pieces)] if state.full else [*chain, (False, pieces)]
        if turn.lost:
            operator = make()
            for full, buffers in chain:
                operator.restore(operator.state_version, full, iter(buffers))
            assert getattr(operator, "due_epoch", None) == due
            made = run_epoch(operator, epoch, ports)
        out.append(made)
    return [*out, finish(operator, len(epochs))]


def assert_undisturbed(
    make: Callable[[], Any], epochs: Sequence[Sequence[Sequence[pa.RecordBatch]]],
    turns: Sequence[Turn],
) -> None:  # fmt: skip
    quiet = [Turn(False, False, "before", False)] * len(epochs)
    assert outputs(make, epochs, turns) == outputs(make, epochs, quiet)


@settings(max_examples=80, deadline=None)
@given(runs(ROW_LISTS), KEYS, st.integers(1, 6))
def test_aggregate(
    epochs: list[tuple[list[Row], Turn]], keys: tuple[str, ...], window: int
) -> None:
    def make() -> KeyedAggregate:
        return KeyedAggregate("a", SCHEMA, keys, CALLS, window=TumblingWindow(window))

    assert_undisturbed(
        make, [[[batch_of(rows)]] for rows, _ in epochs], [turn for _, turn in epochs]
    )


@settings(max_examples=60, deadline=None)
@given(runs(ROW_LISTS), st.integers(2, 6))
def test_aggregate_whose_table_of_keys_is_replaced(
    epochs: list[tuple[list[Row], Turn]], window: int
) -> None:
    class Renewing(KeyedAggregate):
        def close(self, epoch: Any, accumulators: Any) -> Any:
            made = super().close(epoch, accumulators)
            self._table = type(self._table)(self._layout.key_fields)
            return made

    assert_undisturbed(
        lambda: Renewing("a", SCHEMA, ("word",), CALLS, window=TumblingWindow(window)),
        [[[batch_of(rows)]] for rows, _ in epochs],
        [turn for _, turn in epochs],
    )


@settings(max_examples=80, deadline=None)
@given(runs(st.tuples(PAIR_LISTS, PAIR_LISTS)), WINDOWS, st.booleans())
def test_join(epochs: list[tuple[Any, Turn]], window: AlignedWindows, ordered: bool) -> None:
    assert_undisturbed(
        lambda: EquiJoin(
            "j",
            PAIRS,
            PAIRS,
            (["key"], ["key"]),
            window=window,
            ordered=ordered,
        ),
        [
            [[pairs([row]) for row in left], [pairs(right)] if right else []]
            for (left, right), _ in epochs
        ],
        [turn for _, turn in epochs],
    )


TIMED = pa.schema([("key", pa.int64()), ("t", pa.timestamp("us")), ("gone", pa.bool_())])


def timed(epoch: int, rows: Sequence[tuple[int, int]]) -> list[pa.RecordBatch]:
    """A batch of each row, some of them late or early."""
    return [
        pa.record_batch(
            [
                pa.array([key]),
                pa.array([10 * epoch + value], pa.timestamp("us")),
                pa.array([value % 5 == 0]),
            ],
            schema=TIMED,
        )
        for key, value in rows
    ]


@settings(max_examples=80, deadline=None)
@given(
    runs(st.tuples(PAIR_LISTS, PAIR_LISTS)),
    st.sampled_from(list(JoinKind)),
    st.tuples(st.integers(-30, 0), st.integers(0, 30)),
)
def test_join_in_an_interval(
    epochs: list[tuple[Any, Turn]], kind: JoinKind, bounds: tuple[int, int]
) -> None:
    times = (EventTime("j", TIMED, TIME), EventTime("j", TIMED, TIME))
    keys = (("key",), ("key",))
    assert_undisturbed(
        lambda: IntervalJoin(
            "j", (TIMED, TIMED), keys, times, bounds, TIME, kind=kind, ordered=True
        ),
        [[timed(epoch, side) for side in sides] for epoch, (sides, _) in enumerate(epochs)],
        [turn for _, turn in epochs],
    )


@settings(max_examples=80, deadline=None)
@given(runs(st.tuples(PAIR_LISTS, PAIR_LISTS)), st.booleans(), st.booleans())
def test_join_with_a_table(epochs: list[tuple[Any, Turn]], as_of: bool, clears: bool) -> None:
    clock = EventTime("j", TIMED, TIME)
    times = TableTimes(clock, clock if as_of else None)
    keys = (("key",), ("key",))
    with pytest.MonkeyPatch.context() as patch:
        if clears:
            patch.setattr(keyed_table, "_FEW_ROWS", 2)
        assert_undisturbed(
            lambda: TableJoin(
                "j",
                (TIMED, TIMED),
                keys,
                times,
                kind=JoinKind.LEFT,
                delete="gone",
                ordered=True,
            ),
            [[timed(epoch, side) for side in sides] for epoch, (sides, _) in enumerate(epochs)],
            [turn for _, turn in epochs],
        )


class Folded(Reducer):
    """Changes its accumulators in place; 9 is a value that it fails on."""

    output: ClassVar[Any] = {"values": "string"}

    def create(self) -> Any:
        return {}

    def add(self, accumulator: Any, event: Any) -> Any:
        if event.value == 9:
            raise ValueError("nine")
        accumulator[event.value] = accumulator.get(event.value, 0) + 1
        return accumulator

    def finish(self, key: Any, accumulator: Any) -> Any:
        text = repr(self.shown(accumulator))
        accumulator.clear()
        return text

    def shown(self, accumulator: Any) -> Any:
        return sorted(accumulator.items())


class Merged(Folded):
    def merge(self, left: Any, right: Any) -> Any:
        for value, count in right.items():
            left[value] = left.get(value, 0) + count
        return left


class InOrder(Folded):
    commutative: ClassVar[bool] = False

    def shown(self, accumulator: Any) -> Any:
        return list(accumulator.items())


class Packed(Merged):
    def serialize(self, accumulator: Any) -> bytes:
        return encode(accumulator)

    def deserialize(self, data: bytes) -> Any:
        return decode(data)


@pytest.mark.parametrize("kind", [Folded, Merged, InOrder, Packed])
@settings(max_examples=50, deadline=None)
@given(epochs=runs(PAIR_LISTS), window=st.integers(1, 6), keyed=st.booleans())
def test_reducer(
    kind: type[Reducer], epochs: list[tuple[Any, Turn]], window: int, keyed: bool
) -> None:
    assert_undisturbed(
        lambda: adapted(
            "r", kind(), [PAIRS], [["key"] if keyed else []], dead_letter=True, window_epochs=window
        ),
        [[[pairs(rows)]] for rows, _ in epochs],
        [turn for _, turn in epochs],
    )


class Everything(Operator):
    """All kinds of cells; says all that it knows of a key."""

    output: ClassVar[Any] = {"what": "string"}
    state: ClassVar[Any] = {
        "count": Value(0),
        "all": List(),
        "last": Queue(2),
        "seen": Map(),
        "late": Window(microseconds=25),
        "epochs": Window(epochs=2),
    }

    def process(self, key: Any, event: Any, state: Any) -> Any:
        if event.value < -6:
            state.clear()
            return None
        if event.value == 0:
            # only the windows keep the key
            state.late.append(self.context.window[0], event.value)
            return None
        state.count += event.value
        state.all.append(event.value)
        state.last.append(event.value)
        state.seen[event.value] = self.context.epoch
        state.late.append(self.context.window[0] + event.value, event.value)
        state.epochs.append(self.context.epoch, event.value)
        return self.text("event", key, state)

    def end_epoch(self, key: Any, state: Any) -> Any:
        return self.text("epoch", key, state)

    def end_input(self, key: Any, state: Any) -> Any:
        return self.text("input", key, state)

    def text(self, what: str, key: Any, state: Any) -> str:
        cells = (state.count, state.all, state.last, state.seen, state.late, state.epochs)
        return f"{what} {key} {cells!r}"


class Own(Everything):
    """Keeps a structure of its own, too."""

    def __init__(self) -> None:
        self.totals: dict[int, int] = {}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        self.totals[key] = self.totals.get(key, 0) + event.value
        return [super().process(key, event, state) or "nothing", repr(self.totals)]

    def serialize(self) -> bytes:
        return encode(self.totals)

    def deserialize(self, data: bytes, version: int) -> None:
        assert version == 1
        self.totals = decode(data)


@pytest.mark.parametrize(
    "kind", [Everything, type("Every", (Everything,), {"every_key": True}), Own]
)
@settings(max_examples=60, deadline=None)
@given(epochs=runs(PAIR_LISTS))
def test_operator(kind: type[Operator], epochs: list[tuple[Any, Turn]]) -> None:
    assert_undisturbed(
        lambda: adapted("o", kind(), [PAIRS], [["key"]]),
        [[[pairs(rows)]] for rows, _ in epochs],
        [turn for _, turn in epochs],
    )


@settings(max_examples=100, deadline=None)
@given(
    runs(st.tuples(PAIR_LISTS, st.integers(1, 6), st.booleans())),
    st.integers(1, 6),
    st.integers(1, 200),
)
def test_sink_and_committer(epochs: list[tuple[Any, Turn]], every: int, file_bytes: int) -> None:
    """Both are lost together; the committer then gets each epoch's records from either replica."""
    store = MemoryStore()
    settings_ = SinkSettings("s", "arrow", PAIRS, 1, every, file_bytes)
    description = SinkDescription("job", "s", "arrow", PAIRS)
    generation = 0

    def make() -> tuple[SinkOperator, CommitOperator]:
        return (
            SinkOperator(settings_, store, 0, generation),
            CommitOperator(description, store, 1, generation, every),
        )

    def close(operator: Any, epoch: int, batches: Sequence[pa.RecordBatch]) -> list[Any]:
        accumulator = operator.accumulator(0)
        for batch in batches:
            accumulator.add(batch)
        return list(operator.close(closing(epoch), [accumulator]))

    def cut(rows: Sequence[Any], step: int) -> list[pa.RecordBatch]:
        whole = pairs(rows)
        return [whole.slice(start, step) for start in range(0, len(rows), step)]

    sink, committer = make()
    chain: list[tuple[bool, list[pa.Buffer]]] = []
    for epoch, ((rows, step, from_old), turn) in enumerate(epochs):
        if turn.freezes:
            states = sink.freeze(turn.full), committer.freeze(turn.full)
            batches = cut(rows, 6)
            records, pieces = taken(
                states[0], turn.late, lambda: close(sink, epoch, batches)  # noqa: B023
            )  # fmt: skip
            _, records_held = taken(
                states[1], turn.late, lambda: close(committer, epoch, records)  # noqa: B023
            )  # fmt: skip
            chain = [(True, pieces)] if states[0].full else [*chain, (False, pieces)]
            if turn.lost:
                generation += 1
                sink, committer = make()
                for full, buffers in chain:
                    sink.restore(1, full, iter(buffers))
                committer.restore(1, True, iter(records_held))
                # the batches are cut otherwise; the epoch may be committed already
                again = close(sink, epoch, cut(rows, step))
                close(committer, epoch, records if from_old else again)
            continue
        close(committer, epoch, close(sink, epoch, cut(rows, step)))
    for operator in (sink, committer):
        assert operator.due_epoch is None or operator.due_epoch >= len(epochs)
    while (due := min((d for d in (sink.due_epoch, committer.due_epoch) if d is not None), default=None)) is not None:  # noqa: E501  # fmt: skip
        close(committer, due, close(sink, due, []))
    committer.flush(closing(10**6))
    expected = {epoch: sorted(rows) for epoch, ((rows, _, _), _) in enumerate(epochs) if rows}
    found = {
        epoch: sorted(zip(*table.to_pydict().values(), strict=True))
        for epoch, table in read_output(store)
    }
    assert found == expected
