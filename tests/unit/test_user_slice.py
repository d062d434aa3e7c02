"""Operators that take all keys of a slice together: what they get, what leaves, and what is refused."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from streammine import (
    History,
    Operator,
    Timers,
    Topology,
    TopologyError,
    UserCodeError,
    Value,
    Window,
)
from streammine.model.modules import load_object
from streammine.operators.user.slice import UserSliceOperator
from streammine.testing import assert_deterministic, check_operator
from tests.unit.user_code_samples import READINGS, closing, readings

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = pa.schema([("plug", pa.int64()), ("total", pa.float64())])


class Totals(Operator):
    """Per plug the sum of all values so far (whole numbers, which floats add up in any order)."""

    output: ClassVar[Any] = OUTPUT
    commutative: ClassVar[bool] = True
    state: ClassVar[Any] = {"totals": Value(()), "epochs": History()}

    def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
        totals = dict(state.totals)
        plugs = batch.column("plug").to_pylist()
        for plug, value in zip(plugs, batch.column("value").to_pylist(), strict=True):
            totals[plug] = totals.get(plug, 0.0) + value
        state.totals = tuple(sorted(totals.items()))
        state.epochs.append(self.context.epoch)
        touched = [*set(plugs)]
        return pa.record_batch([touched, [totals[plug] for plug in touched]], schema=OUTPUT)


def operator(code: Operator, **more: Any) -> UserSliceOperator:
    return UserSliceOperator("totals", code, [READINGS], [["plug"]], **more)


def ran(made: UserSliceOperator, epoch: int, *batches: pa.RecordBatch) -> list[tuple[Any, ...]]:
    rows = made.run(closing(epoch), ((0, batch) for batch in batches))
    return [tuple(row.values()) for batch in rows for row in batch.to_pylist()]


def test_an_epochs_rows_of_all_keys_come_at_once_and_leave_sorted() -> None:
    made = operator(Totals())
    #  epoch 0: (2, 5) | (1, 1) (2, 1)     epoch 1: (1, 3)
    assert ran(made, 0, readings((2, 5.0)), readings((1, 1.0), (2, 1.0))) == [(1, 1.0), (2, 6.0)]
    assert ran(made, 1, readings((1, 3.0))) == [(1, 4.0)]


def test_it_is_not_called_for_an_epoch_without_rows() -> None:
    class Odd(Totals):
        def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
            raise AssertionError("called")

    assert ran(operator(Odd()), 0) == []
    assert ran(operator(Odd()), 1, readings((1, 1.0)).slice(0, 0)) == []


def test_any_number_of_rows_may_leave() -> None:
    class Nothing(Totals):
        def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
            return None

    class Twice(Totals):
        def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
            rows = super().process_slice(batch, state)
            return rows.take(pa.array(np.repeat(np.arange(rows.num_rows), 2)))

    assert ran(operator(Nothing()), 0, readings((1, 1.0))) == []
    assert ran(operator(Twice()), 0, readings((1, 1.0))) == [(1, 1.0), (1, 1.0)]


def test_it_gets_the_columns_that_it_needs_and_keys_are_sent_all_the_same() -> None:
    class Values(Operator):
        output: ClassVar[Any] = {"sum": "float64"}
        needs: ClassVar[Any] = ("value",)
        commutative: ClassVar[bool] = True

        def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
            assert batch.schema.names == ["value"]
            return pa.record_batch([[sum(batch.column(0).to_pylist())]], names=["sum"])

    made = operator(Values())
    assert made.needs == (frozenset({"value", "plug"}),)
    assert ran(made, 0, readings((1, 1.0), (2, 2.0))) == [(3.0,)]


def test_windows_are_kept_once_for_the_slice() -> None:
    class Lately(Operator):
        output: ClassVar[Any] = {"count": "int64"}
        commutative: ClassVar[bool] = True
        state: ClassVar[Any] = {"lately": Window(epochs=2)}

        def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
            for _ in range(batch.num_rows):
                state.lately.append(self.context.epoch, 1)
            return pa.record_batch([[len(state.lately)]], names=["count"])

    made = operator(Lately())
    # of this epoch and of the two before, which ends leave the last two of
    counts = [ran(made, epoch, readings((epoch, 1.0))) for epoch in (0, 1, 2, 3, 9)]
    assert counts == [[(1,)], [(2,)], [(3,)], [(3,)], [(1,)]]


def some_batches(seed: int) -> list[pa.RecordBatch]:
    chance = random.Random(seed)
    return [
        readings(*[(chance.randrange(9), float(chance.randrange(100))) for _ in range(30)])
        for _ in range(8)
    ]


def test_it_keeps_what_it_claims_in_any_order_and_restored_midway() -> None:
    for seed in range(3):
        check_operator(Totals, some_batches(seed), key="plug")


def test_the_documented_operator_works_as_it_stands_there(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "operators" / "process-slice.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(# levels\.py\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "levels.py").write_text(code, encoding="utf-8")
    levels: Any = load_object("levels:Levels", str(tmp_path))
    loads = [{3: 1.0, 1: 2.0, 2: 3.0}, {2: 5.0, 4: 2.0}, {1: 5.0, 3: 0.0}]
    batches = [pa.record_batch({"plug": [*each], "load": [*each.values()]}) for each in loads]
    check_operator(levels, batches, key="plug")
    made = UserSliceOperator("levels", levels(), [batches[0].schema], [["plug"]])
    assert [row[2] for row in ran(made, 0, batches[0])] != [0.0] * 3
    assert ran(made, 1, batches[2]) == [(1, 5.0, 3.0), (3, 0.0, -1.0)]


def test_neither_nodes_nor_slices_can_be_seen() -> None:
    chance = random.Random(3)
    rows = [(1 + 60 * number // 10, chance.randrange(9), 1.0) for number in range(200)]
    table = pa.table(dict(zip(("ts", "plug", "value"), zip(*rows, strict=True), strict=True)))
    digests = set()
    for slices in (1, 2, 3, 5):
        topology = (
            Topology(name="totals", epoch={"time": "60s", "column": "ts"})
            .source("readings", files="readings.parquet", prepare="none")
            .operator("totals", input="readings", operator=Totals, key="plug", slices=slices)
            .sink("result", input="totals", format="console")
        )
        digests.add(assert_deterministic(topology, {"readings": table}, seeds=range(3)).digest)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"process": lambda *_: None},
            "process_slice, which takes all keys together, and process,",
        ),
        ({"end_epoch": lambda *_: None}, "and end_epoch, which is for single keys; keep one"),
        ({"end_input": lambda *_: None}, "and end_input, which is for single keys; keep one"),
        ({"state": {"timers": Timers()}}, "and timers, which is for single keys; keep one"),
        ({"commutative": False}, "gets its rows in any order; write commutative = True where"),
        ({"ports": ("one", "two")}, "an Operator with process_slice has one input"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    odd = type("Odd", (Totals,), changes)
    with pytest.raises(TopologyError, match=message):
        operator(odd())


def test_dead_letters_are_refused() -> None:
    with pytest.raises(TopologyError, match="can't tell which row of process_slice failed"):
        operator(Totals(), dead_letter=True)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (7, "returned 7 .int.; right is a pyarrow.RecordBatch"),
        (
            pa.record_batch([[1]], names=["plug"]),
            "returned the columns plug; declared are plug, total",
        ),
        (pa.record_batch([["a"], [1.0]], names=["plug", "total"]), "don't fit the declared types"),
    ],
)
def test_what_can_not_leave_is_told(result: Any, message: str) -> None:
    class Wrong(Totals):
        def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
            return result

    with pytest.raises(UserCodeError, match=message):
        ran(operator(Wrong()), 3, readings((1, 1.0)))


def test_an_exception_says_where_it_was_raised() -> None:
    class Failing(Totals):
        def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
            raise KeyError("no such plug")

    made = operator(Failing())
    made.locate(2, 7)
    with pytest.raises(
        UserCodeError, match=r"'totals', slice 2, epoch 7: Failing.process_slice raised"
    ):
        ran(made, 7, readings((1, 1.0)))
