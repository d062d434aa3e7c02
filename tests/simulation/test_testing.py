"""What users get from streammine.testing, its documented example among it."""

from __future__ import annotations

import doctest
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streammine.testing
from streammine import InputError, Operator, Topology, TopologyError, Value
from streammine.testing import assert_deterministic, assert_rows, check_operator, simulate
from tests.simulation import workloads


def test_the_documented_example_is_right() -> None:
    found = doctest.testmod(streammine.testing)
    assert found.attempted > 5
    assert found.failed == 0


def test_rows_are_compared_as_often_as_they_come() -> None:
    table = pa.table({"a": [1, 1, 2], "b": ["x", "x", None]})
    assert_rows(table, [(2, None), (1, "x"), (1, "x")])
    with pytest.raises(AssertionError, match=r"missing rows: \[\]; rows too many: \[\"\(1, 'x'\)"):
        assert_rows(table, [(2, None), (1, "x")])
    with pytest.raises(AssertionError, match="row 0 is"):
        assert_rows(table, [(2, None), (1, "x"), (1, "x")], ordered=True)


class Last(Operator):
    """Claims to be commutative, but keeps whatever came last."""

    output: ClassVar = {"last": "int64"}
    state: ClassVar = {"last": Value(0)}
    commutative: ClassVar[bool] = True

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.last = event.value

    def end_epoch(self, key: Any, state: Any) -> Any:
        return state.last


def test_an_operator_that_only_claims_to_be_commutative_is_found_out() -> None:
    table = pa.table({"key": [1] * 50, "value": list(range(50))})
    with pytest.raises(AssertionError, match="shuffled"):
        check_operator(Last, table.to_batches(), key="key")
    topology = (
        Topology(name="last", epoch={"count": 10})
        .source("rows", files="rows.parquet", prepare="none", slices=3)
        .operator("last", input="rows", key="key", operator=Last)
        .sink("result", input="last", format="console")
    )
    with pytest.raises(AssertionError, match="another output than seed 0: sink 'result', epoch"):
        assert_deterministic(topology, {"rows": table})


class Share(Operator):
    """What each row is of all that its slice has got in the epoch, which is no business of its key."""

    output: ClassVar = {"value": "int64", "all": "int64"}
    commutative: ClassVar[bool] = True

    def process_slice(self, batch: pa.RecordBatch, state: Any) -> pa.RecordBatch:
        everything = pa.array([pc.sum(batch["value"]).as_py()] * batch.num_rows, pa.int64())
        return pa.record_batch([batch["value"], everything], names=["value", "all"])


class Drawn(Operator):
    """Draws numbers without saying for which key."""

    output: ClassVar = {"drawn": "float64"}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        return self.context.random().uniform()


@pytest.mark.parametrize("operator", [Share, Drawn])
def test_an_operator_to_which_slices_make_a_difference_is_found_out(
    operator: type[Operator],
) -> None:
    table = pa.table({"key": [place % 7 for place in range(40)], "value": list(range(40))})
    topology = (
        Topology(name="shares", epoch={"count": 10})
        .source("rows", files="rows.parquet", prepare="none")
        .operator("shares", input="rows", key="key", operator=operator, slices=2)
        .sink("result", input="shares", format="console")
    )
    with pytest.raises(AssertionError, match="another output than seed 0: sink 'result', epoch"):
        assert_deterministic(topology, {"rows": table}, seeds=range(3), nodes=(2,))
    assert_deterministic(topology, {"rows": table}, seeds=range(3), nodes=(2,), slices=(None,))


def test_slices_stay_where_the_output_goes_by_channels() -> None:
    table = pa.table({"key": [place % 7 for place in range(40)], "value": list(range(40))})
    topology = (
        Topology(name="shares", epoch={"count": 10})
        .source("rows", files="rows.parquet", prepare="none")
        .operator("shares", input="rows", key="key", operator=Share, slices=2, discipline="merge")
        .sink("result", input="shares", format="console")
    )
    assert_deterministic(topology, {"rows": table}, seeds=range(3))


def test_what_can_not_run_is_refused_by_name() -> None:
    topology = workloads.word_count()
    with pytest.raises(InputError, match="'lines' is not a generator; give its rows in `inputs`"):
        simulate(topology)
    with pytest.raises(InputError, match="'lines': its tables don't fit its schema"):
        simulate(topology, {"lines": pa.table({"text": ["a"]})})
    with pytest.raises(TopologyError):
        simulate(Topology(name="empty", epoch={"count": 1}))
