"""Rows of several epochs in one batch, and how they go through stages and edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammine.engine.edges import OutgoingEdges, StageNode
from streammine.engine.outgoing_edge import OutgoingEdge
from streammine.engine.run_output import RunOutput
from streammine.engine.span import SPAN_BYTES, SPAN_ROWS, Span, spans
from streammine.engine.stimuli import Output
from streammine.model.contracts import DeadRows, Derived
from streammine.model.errors import UserCodeError
from streammine.model.ids import SliceId

SLICE = SliceId("numbers", 3)


def numbers(*values: int) -> pa.RecordBatch:
    columns = {"n": pa.array(values, pa.int64()), "__row": pa.array(values, pa.int64())}
    return pa.record_batch(columns)


def parts(span: Span) -> list[tuple[int, list[int]]]:
    return [(epoch, batch.column("n").to_pylist()) for epoch, batch in span.parts()]


def test_parts_are_joined_and_found_again() -> None:
    span = Span.joined([(3, numbers(1, 2)), (5, numbers()), (9, numbers(3))])
    assert (span.epochs, span.bounds) == ((3, 5, 9), (0, 2, 2, 3))
    assert parts(span) == [(3, [1, 2]), (9, [3])]
    assert span.numbers().tolist() == [0, 0, 2]
    assert not span.is_single


@pytest.mark.parametrize("nested", [False, True])
def test_batches_that_cannot_be_one_stay_apart(nested: bool) -> None:
    """As where user code gives dictionaries, whose values together are too many for their type, or lists."""
    batches = []
    for first in (0, 100):
        texts = [str(number) for number in range(first, first + 100)]
        values = pa.array([[text] for text in texts] if nested else texts)
        column = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), values)
        batches.append(pa.record_batch({"n": column}))
    (low, high) = spans([(4, batches[0]), (5, batches[1])])
    assert (low.epochs, low.batch, high.epochs) == ((4,), batches[0], (5,))
    assert spans([]) == []


def test_rows_tell_their_epochs() -> None:
    span = Span.by_row(numbers(1, 2, 3, 4), np.array([-2, -2, 7, 8]))
    assert parts(span) == [(-2, [1, 2]), (7, [3]), (8, [4])]
    assert Span.by_row(numbers(1, 2), np.array([4, 4])).is_single


def test_a_batch_alone_is_not_copied() -> None:
    batch = numbers(1, 2)
    assert Span.joined([(4, batch)]).batch is batch
    assert parts(Span.one(4, batch)) == [(4, [1, 2])]


@dataclass
class Stage:
    """Passes rows on `copies` times, but for those whose number `dead` divides, which it can't use, and those
    that `dropped` divides; it fails on `bad`."""

    copies: int = 1
    dropped: int = 0
    dead: int = 0
    bad: int | None = None
    name: str = "stage"
    output: pa.Schema = field(default_factory=lambda: pa.schema([("n", pa.int64())]))
    needs: frozenset[str] | None = None
    deterministic: bool = True
    calls: int = 0
    located: list[tuple[int, int]] = field(default_factory=list)

    @property
    def one_to_many(self) -> bool:
        return self.copies > 1

    def prepare(self) -> None:
        pass

    def locate(self, slice_index: int, epoch: int) -> None:
        self.located.append((slice_index, epoch))

    def apply(self, batch: pa.RecordBatch) -> Derived:
        self.calls += 1
        assert batch.schema.names == ["n"]
        values = batch.column("n").to_numpy()
        if self.bad is not None and (values == self.bad).any():
            raise ValueError(f"{self.bad} is bad")
        is_dead = self._divided(values, self.dead)
        kept = np.flatnonzero(~is_dead & ~self._divided(values, self.dropped))
        parents = np.repeat(kept, self.copies)
        dead = None
        if is_dead.any():
            texts = tuple(str(value) for value in values[is_dead])
            nothing = (None,) * len(texts)
            dead = DeadRows(("dead",) * len(texts), texts, nothing, nothing)
        return Derived(batch.take(pa.array(parents)), parents, dead)

    @staticmethod
    def _divided(values: Any, number: int) -> Any:
        return values % number == 0 if number else np.zeros(values.size, np.bool_)


class ByRemainder:
    broadcast = False

    def targets(self, keys: Sequence[pa.Array], slices: int) -> Any:
        return keys[0].to_numpy() % slices


class ToAll:
    broadcast = True


@dataclass
class Adding:
    """A combining operator's sending side: sums."""

    name: str = "sums"
    partial_keys: tuple[str, ...] = ()

    def combiner(self) -> Sum:
        return Sum()


class Sum:
    nbytes = 8

    def __init__(self) -> None:
        self.total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.total += pc.sum(batch.column("n")).as_py() or 0

    def partials(self) -> pa.RecordBatch:
        return pa.record_batch({"n": [self.total]})


def edges(*stages: Stage) -> OutgoingEdges:
    """Behind all stages and each of them: rows in order to all slices of one, by key to those of another, and
    sums."""
    node = root = StageNode(edges=leading(10))
    for place, stage in enumerate(stages):
        child = StageNode(stage, edges=leading(20 + 10 * place))
        node.children.append(child)
        node = child
    return OutgoingEdges(SLICE, root, OutgoingEdge((99,), (), None, 0))


def leading(first: int) -> list[OutgoingEdge]:
    sums: Any = Adding()
    to_all: Any = ToAll()
    return [
        OutgoingEdge((first,), (), None, carries_order=True),
        OutgoingEdge((first + 1, first + 2, first + 3), ("n",), ByRemainder()),
        OutgoingEdge((first + 4, first + 5), ("n",), to_all),
        OutgoingEdge((first + 6,), (), None, combining=sums),
    ]


def told(outputs: Sequence[Output]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """All rows by channel and epoch; how they are cut into batches does not count."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for each in outputs:
        assert isinstance(each.body, pa.RecordBatch)
        assert each.rows == each.body.num_rows > 0 < each.nbytes
        found.setdefault((each.channel, each.epoch), []).extend(each.body.to_pylist())
    return found


STAGES = st.builds(
    Stage,
    copies=st.integers(1, 2),
    dropped=st.sampled_from([0, 2, 5]),
    dead=st.sampled_from([0, 0, 7, 50]),
)


@given(
    st.lists(STAGES, max_size=2),
    st.lists(st.lists(st.integers(0, 100), max_size=6), min_size=1, max_size=6),
)
def test_together_epochs_leave_what_they_leave_one_by_one(
    stages: list[Stage], rows: list[list[int]]
) -> None:
    batches = [(3 * number - 4, numbers(*values)) for number, values in enumerate(rows)]
    apart, together = edges(*stages), edges(*stages)
    outputs: list[Output] = []
    for epoch, batch in batches:
        apart.push(Span.one(epoch, batch), outputs)
    apart.end(1000, outputs)
    run = RunOutput(together)
    for epoch, batch in batches:
        run.push(epoch, batch)
    run.end(1000)
    assert told(run.outputs) == told(outputs)
    epochs = [each.epoch for each in run.outputs]
    assert epochs == sorted(epochs)
    assert together.rows_dead == apart.rows_dead
    assert together.stage_counters() == apart.stage_counters()


def test_a_stage_runs_once_for_several_epochs() -> None:
    stage = Stage()
    run = RunOutput(edges(stage))
    for epoch in (4, 5, 6):
        run.push(epoch, numbers(epoch))
    run.end(7)
    assert stage.calls == 1


def test_large_batches_go_alone() -> None:
    stage = Stage()
    run = RunOutput(edges(stage))
    for epoch, rows in enumerate([10, SPAN_ROWS, SPAN_ROWS - 1, 1, 1]):
        run.push(epoch, numbers(*range(rows)))
    run.end(5)
    # the first, the second, the next two together, and the last
    assert stage.calls == 4


def test_rows_that_a_stage_cannot_use_are_told_with_their_epoch() -> None:
    stage = Stage(dead=7)
    run = RunOutput(edges(stage))
    for epoch, number in ((4, 1), (5, 14), (6, 2)):
        run.push(epoch, numbers(number))
    run.end(7)
    dead = [each for each in run.outputs if each.channel == 99]
    assert [each.epoch for each in dead] == [5]
    assert stage.located[1:] == [(3, 4), (3, 5), (3, 6)]


def test_an_error_is_told_with_the_epoch_of_its_event() -> None:
    run = RunOutput(edges(Stage(bad=8)))
    for epoch, number in ((4, 1), (5, 8), (6, 2)):
        run.push(epoch, numbers(number))
    with pytest.raises(UserCodeError, match="slice numbers/3, epoch 5: ValueError: 8 is bad"):
        run.end(7)


def test_where_nothing_is_done_once_per_batch_rows_leave_at_once() -> None:
    plain = OutgoingEdge((1,), (), None)
    run = RunOutput(OutgoingEdges(SLICE, StageNode(edges=[plain]), None))
    run.push(4, numbers(1))
    assert [each.epoch for each in run.outputs] == [4]


def test_batches_of_large_values_go_alone() -> None:
    stage = Stage()
    run = RunOutput(edges(stage))
    text = pa.array(["x" * (SPAN_BYTES // 2)])
    for epoch in range(4):
        run.push(epoch, numbers(epoch).append_column("__text", text))
    run.end(4)
    assert stage.calls == 4


@dataclass
class Asking(Stage):
    """Asks for the epoch where it sees an odd number."""

    asked_for_epoch: bool = False

    def locate(self, slice_index: int, epoch: int) -> None:
        super().locate(slice_index, epoch)
        self.asked_for_epoch = False

    def apply(self, batch: pa.RecordBatch) -> Derived:
        self.asked_for_epoch |= any(value % 2 for value in batch.column("n").to_pylist())
        return super().apply(batch)


def pushed(run: RunOutput, first: int, *values: int) -> None:
    """One number an epoch, and all of them are over."""
    for place, value in enumerate(values):
        run.push(first + place, numbers(value))
    run.end(first + len(values))


def test_who_asks_for_the_epoch_gets_each_for_itself_from_then_on() -> None:
    stage = Asking()
    each = edges(stage)
    run = RunOutput(each)
    pushed(run, 4, 2, 4)
    assert (stage.calls, each.root.children[0].epoch_by_epoch) == (1, False)
    pushed(run, 6, 6, 7)
    assert (stage.calls, each.root.children[0].epoch_by_epoch) == (4, True)
    pushed(run, 8, 8, 10)
    assert stage.calls == 6
    rows = [(output.epoch, output.body.column("n").to_pylist()) for output in run.outputs]
    assert {epoch: found for epoch, found in rows if epoch < 8} == {
        4: [2],
        5: [4],
        6: [6],
        7: [7],
    }


def test_who_asks_for_the_epoch_of_a_single_one_is_remembered() -> None:
    stage = Asking()
    run = RunOutput(edges(stage))
    pushed(run, 4, 7)
    pushed(run, 5, 2, 4)
    assert stage.calls == 3


def test_what_may_give_something_else_runs_once_for_each_row() -> None:
    stage = Stage(deterministic=False, dead=7)
    run = RunOutput(edges(stage))
    pushed(run, 4, 2, 7, 8)
    assert stage.calls == 3


def test_where_all_goes_epoch_by_epoch_and_nothing_is_split_rows_leave_at_once() -> None:
    root = StageNode(children=[StageNode(Stage(deterministic=False))])
    each = OutgoingEdges(SLICE, root, None)
    assert not each.gain_by_spans
    root.children.append(StageNode(Stage()))
    assert each.gain_by_spans


class Failing(ByRemainder):
    """Fails on 7; gives a slice too many for 8."""

    def targets(self, keys: Sequence[pa.Array], slices: int) -> Any:
        numbers = keys[0].to_numpy()
        if (numbers == 7).any():
            raise ValueError("7")
        return np.where(numbers == 8, slices, super().targets(keys, slices))


@pytest.mark.parametrize(
    ("number", "said"), [(7, "slice numbers/3, epoch 5: ValueError: 7"), (8, "gave the slice 2")]
)
def test_a_partitioner_that_fails_is_told_with_the_epoch(number: int, said: str) -> None:
    edge = OutgoingEdge((1, 2), ("n",), Failing(), target="sums")
    run = RunOutput(OutgoingEdges(SLICE, StageNode(edges=[edge]), None))
    with pytest.raises(UserCodeError, match=said):
        pushed(run, 4, 1, number, 2)


class FailingOnce(ByRemainder):
    """Fails on the first call that is about a second epoch."""

    failed = False

    def targets(self, keys: Sequence[pa.Array], slices: int) -> Any:
        if len(keys[0]) > 1 and not self.failed:
            self.failed = True
            raise ValueError("once")
        return super().targets(keys, slices)


def test_rows_leave_once_though_they_were_tried_twice() -> None:
    partitioner = FailingOnce()
    edge = OutgoingEdge((1, 2), ("n",), partitioner)
    run = RunOutput(OutgoingEdges(SLICE, StageNode(edges=[edge]), None))
    pushed(run, 4, 1, 2)
    assert partitioner.failed
    assert told(run.outputs) == {
        (2, 4): [{"n": 1}],
        (1, 5): [{"n": 2}],
    }


def dead_rows(*texts: str) -> DeadRows:
    nothing = (None,) * len(texts)
    return DeadRows(("own",) * len(texts), texts, nothing, nothing)


@pytest.mark.parametrize("waiting", [0, 1, SPAN_ROWS - 1])
def test_dead_letters_of_an_epoch_have_one_order_whatever_goes_with_it(waiting: int) -> None:
    """Those of stages batch by batch, then the operator's own."""
    run = RunOutput(edges(Stage(dead=7), Stage(dead=5)))
    run.push(4, numbers(*[2] * waiting))
    run.push(5, numbers(7, 5))
    run.push(5, numbers(14, 10))
    run.dead(5, "numbers", dead_rows("own"))
    run.end(6)
    letters = [each.body for each in run.outputs if each.channel == 99]
    found = [text for body in letters for text in body.column("text").to_pylist()]
    assert found == ["7", "5", "14", "10", "own"]


def test_a_stage_that_cannot_use_rows_again_and_again_is_not_tried_each_time() -> None:
    stage = Stage(dead=7)
    each = edges(stage)
    run = RunOutput(each)
    calls = []
    for first in range(0, 200, 10):
        before = stage.calls
        pushed(run, first, 2, 7)
        calls.append(stage.calls - before)
    # epoch by epoch in any case, and now and then both together before
    tried = [place for place, count in enumerate(calls) if count == 3]
    assert set(calls) == {2, 3}
    assert tried == [0, 2, 5, 10, 19]
    assert each.rows_dead == len(calls)


def test_a_stage_that_could_use_all_rows_is_tried_at_once_again() -> None:
    stage = Stage(dead=7)
    run = RunOutput(edges(stage))
    pushed(run, 0, 2, 7)
    pushed(run, 10, 2, 3)
    assert stage.calls == 5
    for first in (20, 30, 40):
        before = stage.calls
        pushed(run, first, 2, 7 if first == 30 else 3)
        assert stage.calls - before == (3 if first == 30 else 2 if first == 40 else 1)
