"""The quantile: what its windows hold, what leaves and when, and what is refused."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine import Topology
from streammine.model.contracts import (
    EpochClose,
    HoldsWindows,
    KeepsState,
    SetsAside,
    StatefulOperator,
    TellsTogether,
)
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import StateVersionError, TopologyError
from streammine.operators.aggregates.keys import KeyTable
from streammine.operators.kernels.order_layout import FREE, UNUSED
from streammine.operators.quantiles.sliding_order import Slide, SlidingOrder
from streammine.operators.sliding_quantile import Slides, SlidingQuantile
from streammine.testing import assert_deterministic, simulate

SECOND = EpochDefinition("time", 1_000_000, "ts")
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.float64())])
NAN, INFINITY = math.nan, math.inf


def operator_of(lengths: Sequence[int], slide: int = 1, **settings: Any) -> SlidingQuantile:
    slides = Slides(tuple(lengths), slide, SECOND.length)
    operator = SlidingQuantile("medians", SCHEMA, ["key"], "value", slides, **settings)
    operator.prepare()
    return operator


def closed(operator: SlidingQuantile, epoch: int, **rows: Sequence[float | None]) -> list[Any]:
    """(key, start of the window, quantile) of what leaves when the epoch ends; `rows` by key."""
    collected = operator.accumulator(0)
    keys = [key for key, values in rows.items() for _ in values]
    values = [value for each in rows.values() for value in each]
    collected.add(pa.record_batch([pa.array(keys, pa.string()), pa.array(values)], schema=SCHEMA))
    close = EpochClose(epoch, SECOND.watermark(epoch), SECOND)
    found = []
    for batch in operator.close(close, [collected]):
        assert batch.schema == operator.output
        for number, start, end, key, value in zip(*batch.to_pydict().values(), strict=True):
            assert number == epoch
            assert _second(end) == epoch + 1
            found.append((key, _second(start), value))
    return found


def _second(time: Any) -> int:
    return int(np.datetime64(time, "s").astype(np.int64))


def test_a_window_slides_over_its_values() -> None:
    operator = operator_of([2])
    assert isinstance(operator, StatefulOperator)
    assert isinstance(operator, HoldsWindows)
    assert isinstance(operator, KeepsState)
    assert isinstance(operator, SetsAside)
    assert operator.due_epoch is None
    #   epoch      0     1        2      3
    #   a          1   5  3       -      -
    #   [start..)  1   1 3 5     3 5   empty
    assert closed(operator, 0, a=[1.0]) == [("a", -1, 1.0)]
    assert operator.due_epoch == 2
    assert closed(operator, 1, a=[5.0, 3.0]) == [("a", 0, 3.0)]
    assert operator.due_epoch == 2
    assert closed(operator, 2) == [("a", 1, 4.0)]
    assert operator.due_epoch == 3
    assert closed(operator, 3) == [("a", 2, None)]
    assert operator.due_epoch is None


def test_several_windows_share_the_rows() -> None:
    operator = operator_of([1, 3])
    assert closed(operator, 0, b=[1.0], a=[7.0]) == [
        ("a", -2, 7.0),
        ("a", 0, 7.0),
        ("b", -2, 1.0),
        ("b", 0, 1.0),
    ]
    assert closed(operator, 1, b=[2.0]) == [("a", 1, None), ("b", -1, 1.5), ("b", 1, 2.0)]
    assert operator.due_epoch == 2


def test_only_changes_leave_unless_every_slide_is_wanted() -> None:
    changes, all_slides = operator_of([3]), operator_of([3], every_slide=True)
    first = [("a", -2, 2.0)]
    assert closed(changes, 0, a=[2.0]) == closed(all_slides, 0, a=[2.0]) == first
    assert closed(changes, 1, a=[2.0]) == []
    assert closed(all_slides, 1, a=[2.0]) == [("a", -1, 2.0)]
    assert (changes.due_epoch, all_slides.due_epoch) == (3, 2)
    assert closed(all_slides, 2) == [("a", 0, 2.0)]
    for epoch in (3, 4):
        closed(changes, epoch)
        assert closed(all_slides, epoch) == ([("a", 1, 2.0)] if epoch == 3 else [])
    assert changes.due_epoch is all_slides.due_epoch is None


def test_a_slide_of_several_epochs_waits_for_its_last_one() -> None:
    operator = operator_of([4], slide=2)
    assert closed(operator, 0, a=[1.0]) == []
    assert operator.due_epoch == 1
    assert closed(operator, 1, a=[2.0]) == [("a", -2, 1.5)]
    # the value of epoch 0 is in the windows that end with 1 and 3
    assert operator.due_epoch == 5
    assert closed(operator, 5) == [("a", 2, None)]


@pytest.mark.parametrize(
    ("values", "at", "expected"),
    [
        ([3.0, 1.0, 2.0, 10.0], "1/2", 2.5),
        ([3.0, 1.0, 2.0, 10.0], "0", 1.0),
        ([3.0, 1.0, 2.0, 10.0], "1", 10.0),
        ([0.1, 0.2], "1/10", 0.11),
        ([-0.0, -0.0], "1/2", 0.0),
        ([1e308, 1.5e308], "1/2", 1.25e308),
        ([5e-324, 0.0], "1/2", 0.0),
        ([1.0, NAN, 2.0], "1/2", 2.0),
        ([1.0, NAN], "1/2", NAN),
        ([-INFINITY, 1.0], "1/10", -INFINITY),
        ([1.0, INFINITY], "1/2", INFINITY),
        ([-INFINITY, INFINITY], "1/2", NAN),
    ],
)
def test_quantiles_of_few_values(values: list[float], at: str, expected: float) -> None:
    operator = operator_of([1], at=Fraction(at))
    ((_, _, found),) = closed(operator, 0, a=values)
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.int64(), [2**63 - 1, -(2**63)], -0.5),
        (pa.int64(), [2**62 + 1, 2**62 + 3], float(2**62 + 2)),
        (pa.uint32(), [2**32 - 1, 1, 5], 5.0),
        (pa.int8(), [-128, 127], -0.5),
        (pa.uint16(), [65_535, 65_535], 65_535.0),
        (pa.float32(), [0.5, -1.5, NAN], 0.5),
    ],
)
def test_numbers_of_every_width(kind: pa.DataType, values: list[Any], expected: float) -> None:
    schema = pa.schema([("value", kind)])
    operator = SlidingQuantile("q", schema, [], "value", Slides((1,), 1, SECOND.length))
    operator.prepare()
    collected = operator.accumulator(0)
    collected.add(pa.record_batch([pa.array(values, kind)], schema=schema))
    (batch,) = operator.close(EpochClose(0, SECOND.watermark(0), SECOND), [collected])
    assert batch.column("quantile").to_pylist() == [expected]


def test_rows_without_a_value_are_set_aside() -> None:
    operator = operator_of([1])
    assert closed(operator, 0, a=[None, 2.0], b=[None]) == [("a", 0, 2.0)]
    dead = operator.take_dead()
    assert dead is not None
    assert dead.rows == ("key='a', value=None", "key='b', value=None")
    assert set(dead.reasons) == {"value is null, and a quantile is of values"}
    assert operator.take_dead() is None


def test_windows_without_values_read_no_memory_that_was_never_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = SlidingOrder(1, True, 1, 2)
    order.grow(2)
    order.take_in(np.array([0]), np.array([5]))
    with monkeypatch.context() as patched:
        patched.setattr(np, "empty", lambda shape, kind: np.full(shape, 0x7FF0000000000001, kind))
        of_slide, *found = order.slide(
            [Slide([(np.array([1]), np.array([6]))], [(0, np.array([0]))])]
        )
    assert of_slide.tolist() == [0, 0]
    assert by_window(*found) == {0: [0, 0, -1], 1: [6, 6, 0]}


def test_all_windows_with_values_are_settled_again_where_that_is_asked_for() -> None:
    order = SlidingOrder(2, False, 1, 2)
    order.grow(3)
    first = Slide([(np.array([0, 2, 2]), np.array([5, 6, 8]))], [(0, np.array([2]))])
    expected = {0: [5, 5, 0], 1: [5, 5, 0], 4: [8, 8, 0], 5: [6, 8, 1]}
    assert by_window(*order.slide([first])[1:]) == expected
    assert order.slide([Slide([], [])])[1].size == 0
    for _ in range(2):
        assert by_window(*order.settle_all()) == expected


def test_arrays_that_are_replaced_and_orders_that_are_dropped_are_given_back() -> None:
    random = np.random.default_rng(1)
    order = SlidingOrder(2, False, 1, 2)
    order.grow(2)
    keys = np.repeat(np.arange(2), 500)
    gone = []
    for number in range(4):
        gone += [weakref.ref(order._queues.narrow), weakref.ref(order._brackets.heads)]
        values = random.integers(0, 10**6, keys.size) * (-1) ** number
        # brackets are located and extended both ways
        order.slide([Slide([(keys, values)], [])])
        order.take_in(np.repeat(keys, 20 << number), np.zeros(keys.size * (20 << number), np.int64))
        order.settle_all()
        order.grow(4 * order.keys)
        assert order._queues.narrow is not gone[-2]()
        assert order._brackets.heads is not gone[-1]()
    gone += [weakref.ref(order._queues.narrow), weakref.ref(order._brackets.heads)]
    del order
    assert all(each() is None for each in gone)


def test_what_was_not_settled_yet_is_when_all_is() -> None:
    order = SlidingOrder(2, False, 1, 2)
    order.grow(3)
    order.take_in(np.array([2, 0, 2]), np.array([6, 5, 8]))
    order.let_go(0, np.array([2]))
    order.let_go(0, np.array([0]))
    assert by_window(*order.settle_all()) == {1: [5, 5, 0], 4: [8, 8, 0], 5: [6, 8, 1]}


@pytest.mark.parametrize("keys", [3, 2_000, 70_000], ids=["few keys", "many keys", "very many"])
@pytest.mark.parametrize("at", [(1, 2), (9, 10)], ids=["median", "nine tenths"])
def test_slides_at_once_find_what_each_finds_for_itself(keys: int, at: tuple[int, int]) -> None:
    random = np.random.default_rng(keys)
    lengths = (2, 9)
    orders = SlidingOrder(2, False, *at), SlidingOrder(2, False, *at)
    for order in orders:
        order.grow(keys)
    entered: list[Any] = []
    slides: list[Slide] = []
    found = []
    told = 0
    for number in range(60):
        rows = int(random.choice([0, 1, 40, 400]))
        chosen, values = random.integers(0, keys, rows), random.integers(-30, 30, rows) ** 3
        entered.append(chosen)
        leaving = [
            (window, entered[number - length])
            for window, length in enumerate(lengths)
            if number >= length
        ]
        slides.append(Slide([(chosen[:5], values[:5]), (chosen[5:], values[5:])], leaving))
        assert slides[-1].rows == rows + sum(len(each) for _, each in leaving)
        alone, *of_slide = orders[0].slide(slides[-1:])
        assert not alone.any()
        found.append(by_window(*of_slide))
        if random.random() < 0.2:
            places, numbers, of_each = orders[1].slide(slides)
            for place in range(len(slides)):
                rows_of = places == place
                assert by_window(numbers[rows_of], of_each[rows_of]) == found[place]
                told += len(found[place])
            slides, found = [], []
    assert told > 200
    assert orders[1].nbytes < 1.5 * orders[0].nbytes


def by_window(numbers: Any, found: Any) -> dict[int, list[int]]:
    """What was found, by the number of a window, each of which is told of once."""
    assert len(set(numbers.tolist())) == len(numbers)
    return dict(zip(numbers.tolist(), found.tolist(), strict=True))


def test_rows_leave_in_the_order_of_keys_that_were_numbered_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KeyTable, "outgrown", lambda self, used: used < self.size)
    operator = operator_of([1])
    closed(operator, 0, a=[1.0], b=[1.0], c=[1.0])
    closed(operator, 1, z=[2.0], y=[2.0], x=[2.0])
    # as many keys as when rows were last put in order
    assert closed(operator, 2, c=[3.0], b=[3.0], a=[3.0]) == [
        *(("a", 2, 3.0), ("b", 2, 3.0), ("c", 2, 3.0)),
        *(("x", 2, None), ("y", 2, None), ("z", 2, None)),
    ]


@pytest.mark.parametrize("saved", [True, False], ids=["saved", "given up"])
def test_what_left_while_a_snapshot_was_made_is_used_again(saved: bool) -> None:
    operator = operator_of([2])
    used = []
    for epoch in range(40):
        closed(operator, epoch, a=[float(epoch)] * 300)
        frozen = operator.freeze(True)
        if saved:
            list(frozen.pieces())
        used.append(int(operator._order._queues.pool[UNUSED]))
    for epoch in range(40, 60) if saved else ():
        closed(operator, epoch, a=[float(epoch)] * 300)
        used.append(int(operator._order._queues.pool[UNUSED]))
    # five chunks come and go with each epoch
    assert used[-1] <= used[10] + 5


def test_brackets_that_grow_and_shrink_use_the_same_places_again() -> None:
    random = np.random.default_rng(5)
    order = SlidingOrder(1, False, 1, 2)
    order.grow(1)
    used = []
    for _ in range(30):
        for count in (20, 600, 6_000):
            keys = np.zeros(count, np.int64)
            order.slide([Slide([(keys, random.integers(0, 10**6, count))], [])])
        order.slide([Slide([], [(0, np.zeros(6_600, np.int64))])])
        order.slide([Slide([], [(0, np.zeros(20, np.int64))])])
        used.append(int(order._brackets.arena[0]))
    assert used[-1] == used[3]


def test_keys_that_are_over_when_a_chain_is_restored_are_forgotten() -> None:
    operator, restored = operator_of([2]), operator_of([2])
    layers = [(True, list(operator.freeze(True).pieces()))]
    for epoch in range(6):
        closed(operator, epoch, **{f"{epoch}-{number}": [1.0] for number in range(100)})
        layers.append((False, list(operator.freeze(False).pieces())))
    for full, pieces in layers:
        restored.restore(1, full, iter(pieces))
    while restored.due_epoch is not None:
        closed(restored, restored.due_epoch)
    queues = restored._order._queues
    free, chunk = 0, int(queues.pool[FREE])
    while chunk >= 0:
        free, chunk = free + 1, int(queues.links[chunk])
    assert free == queues.pool[UNUSED] >= 100


def test_keys_that_are_over_are_forgotten() -> None:
    operator = operator_of([1, 2])
    sizes = []
    for epoch in range(40):
        rows = {f"{epoch}-{number}": [float(number)] for number in range(2_000)}
        assert len(closed(operator, epoch, **rows)) >= 4_000
        sizes.append(operator.state_nbytes)
    assert max(sizes[20:]) < 3 * sizes[3]
    # the table of keys has been made anew, and the windows are still known
    assert len(closed(operator, 40)) == 4_000
    assert len(closed(operator, 41)) == 2_000
    assert operator.due_epoch is None


@pytest.mark.parametrize(("slide", "epochs_of_run"), [(1, 8), (1, 3), (2, 3), (4, 5)], ids=str)
def test_keys_are_numbered_anew_though_slides_and_rows_wait(slide: int, epochs_of_run: int) -> None:
    lengths = [slide, 2 * slide]
    apart, together = operator_of(lengths, slide), operator_of(lengths, slide)
    assert isinstance(together, TellsTogether)
    batches: list[pa.RecordBatch] = []
    told: list[tuple[pa.RecordBatch, Any]] = []
    sizes = []
    for epoch in range(40):
        # each key comes in two epochs that follow each other
        names = [f"{epoch // 2 * 2}-{number}" for number in range(4_000)]
        values = np.arange(4_000) * 7.0 % 1_000
        rows = pa.record_batch([pa.array(names), pa.array(values)], schema=SCHEMA)
        collected = [operator.accumulator(0) for operator in (apart, together)]
        for each in collected:
            each.add(rows)
        close = EpochClose(epoch, SECOND.watermark(epoch), SECOND)
        batches += apart.close(close, collected[:1])
        together.close_untold(close, collected[1:])
        if epoch % epochs_of_run == epochs_of_run - 1:
            told += together.tell()
            sizes.append(together.state_nbytes)
    told += together.tell()
    assert together.tell() == []
    tables = [pa.Table.from_batches(each) for each in (batches, [batch for batch, _ in told])]
    assert tables[0].num_rows > 100_000
    assert tables[0].equals(tables[1])
    assert tables[0].column("epoch").to_pylist() == [n for _, of in told for n in of.tolist()]
    # keys that are over are forgotten, whatever waits
    assert max(sizes, default=0) < 3 * apart.state_nbytes


def test_long_keys_make_results_that_are_not_told_larger() -> None:
    sizes = []
    for length in (1, 1_000):
        operator = operator_of([1])
        collected = operator.accumulator(0)
        names = [str(number).zfill(4) * length for number in range(100)]
        collected.add(pa.record_batch([pa.array(names), pa.array([1.0] * 100)], schema=SCHEMA))
        operator.close_untold(EpochClose(0, SECOND.watermark(0), SECOND), [collected])
        sizes.append(operator.untold_nbytes)
        told = sum(batch.nbytes for batch, _ in operator.tell())
        assert told <= sizes[-1]
    assert sizes[1] > sizes[0] + 100 * 4 * 999


@pytest.mark.parametrize(("slide", "keeps_for_snapshots"), [(1, True), (64, False)])
def test_rows_that_wait_for_a_slide_or_a_snapshot_count_as_held(
    slide: int, keeps_for_snapshots: bool
) -> None:
    operator = operator_of([64], slide)
    if keeps_for_snapshots:
        list(operator.freeze(full=True).pieces())
    rows = [float(number) for number in range(500)]
    sizes = []
    for epoch in range(63):
        closed(operator, epoch, a=rows)
        sizes.append(operator.state_nbytes)
    assert sizes[-1] - sizes[0] >= 62 * 8 * len(rows) * (1 + keeps_for_snapshots)
    if keeps_for_snapshots:
        list(operator.freeze(full=False).pieces())
        closed(operator, 63)
        assert operator.state_nbytes < sizes[-1] - 62 * 8 * len(rows)


def test_a_snapshot_after_keys_were_renumbered_is_a_full_one() -> None:
    operator = operator_of([1])
    first = operator.freeze(full=False)
    assert first.full
    layers = [(True, list(first.pieces()))]
    kinds = set()
    for epoch in range(20):
        closed(operator, epoch, **{f"{epoch}-{number}": [1.0] for number in range(2_000)})
        frozen = operator.freeze(full=False)
        kinds.add(frozen.full)
        if frozen.full:
            layers = []
        layers.append((frozen.full, list(frozen.pieces())))
    assert kinds == {False, True}
    restored = operator_of([1])
    for full, pieces in layers:
        restored.restore(1, full, iter(pieces))
    assert sorted(closed(restored, 20)) == sorted(closed(operator, 20))
    with pytest.raises(StateVersionError):
        restored.restore(2, True, iter(layers[0][1]))


@pytest.mark.parametrize("full", [True, False])
def test_a_snapshot_between_two_slides_has_what_waits(full: bool) -> None:
    operator, restored = operator_of([4], slide=2), operator_of([4], slide=2)
    layers = [(True, list(operator.freeze(full=True).pieces()))]
    assert closed(operator, 0, a=[1.0]) == []
    layers.append((full, list(operator.freeze(full).pieces())))
    for each, pieces in layers:
        restored.restore(1, each, iter(pieces))
    assert restored.due_epoch == 1
    assert closed(restored, 1, a=[2.0]) == [("a", -2, 1.5)]


def test_a_full_snapshot_is_of_its_moment_though_its_pieces_are_made_later() -> None:
    def run(operator: SlidingQuantile, epochs: range) -> list[Any]:
        rows = {epoch: [float(epoch * 7 % 11)] * 200 for epoch in epochs}
        return [closed(operator, epoch, a=values, b=values[:3]) for epoch, values in rows.items()]

    operator = operator_of([2, 5])
    run(operator, range(12))
    frozen = operator.freeze(full=True)
    after = run(operator, range(12, 40))
    pieces = list(frozen.pieces())
    restored = operator_of([2, 5])
    restored.restore(1, True, iter(pieces))
    assert run(restored, range(12, 40)) == after


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"of": "valeu"}, "unknown column 'valeu'; did you mean 'value'"),
        ({"of": "key"}, "has type string; quantiles are of integers"),
        ({"windows": "1500ms"}, "is no whole multiple of the epoch, 1s; write 1s or 2s"),
        ({"windows": ["3s"], "slide": "2s"}, "window 3s is no whole multiple of the slide, 2s"),
        ({"slide": "1500ms"}, "slide 1500ms is no whole multiple of the epoch"),
        ({"windows": ["2s", "2s"]}, "windows has a length twice"),
        ({"windows": []}, "must not be empty"),
        ({"at": 1.5}, "must be at most 1"),
        ({"at": 0.12345678901}, "at has more than 9 digits behind the point"),
        ({"into": "key"}, "'key' is a key column, too"),
        ({"into": "epoch"}, "the output has a column 'epoch' already"),
        ({"emit": "change"}, "did you mean 'changes'"),
        ({"window": "1s"}, "write windows: [LENGTH, ...]"),
    ],
)
def test_mistakes_are_told_with_what_would_be_right(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError) as raised:
        simulate(topology_of(**changed), {"readings": table()})
    assert message in str(raised.value)


@pytest.mark.parametrize("windows", ["3 epochs", ["3 epochs"]])
def test_a_wrong_length_is_one_mistake(windows: Any) -> None:
    with pytest.raises(TopologyError, match="'epochs' is no unit of time") as raised:
        topology_of(windows=windows)
    assert "must not be empty" not in str(raised.value)


def topology_of(**changed: Any) -> Topology:
    wanted = {"of": "value", "windows": ["2s", "4s"], "slide": "2s", "into": "median", **changed}
    return (
        Topology(name="medians", epoch={"time": "1s", "column": "ts"})
        .source("readings", files="readings.parquet", prepare="none")
        .operator("medians", input="readings", key="key", quantile=wanted, slices=3)
        .sink("result", input="medians", format="console")
    )


def table() -> pa.Table:
    random = np.random.default_rng(3)
    seconds = np.sort(random.choice(np.array([0, 1, 2, 3, 7, 8, 20, 21]), 90))
    keys = random.choice(np.array(["a", "b", "c", "d"]), 90)
    values = pa.array(random.integers(0, 50, 90) / 10, mask=random.random(90) < 0.1)
    return pa.table({"ts": seconds, "key": keys, "value": values})


def test_a_topology_gives_the_same_bytes_however_it_runs() -> None:
    result = assert_deterministic(topology_of(), {"readings": table()}, seeds=range(4))
    rows = result.table("result").to_pylist()
    last = {(row["key"], row["window_end"] - row["window_start"]): row["median"] for row in rows}
    assert set(last.values()) == {None}
    assert len(last) == 8
    assert max(row["epoch"] for row in rows) == 25
