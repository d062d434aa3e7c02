"""The harness of the standard operators finds what is wrong with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.windows import TumblingWindow
from tests.property.operator_trials import assert_as_reference, events_of, minutes

SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.int64())])
ROWS = {0: [[(1, 5), (2, 7), (1, 1)]], 3: [[(2, 2)]]}
SUMS = {1: [(1, 1, 6), (1, 2, 7)], 3: [(3, 2, 2)]}


def sums(combined: bool) -> KeyedAggregate:
    calls = {"sum": AggregateCall.parse("sum(value)")}
    return KeyedAggregate(
        "sums", SCHEMA, ["key"], calls, window=TumblingWindow(2), combined=combined
    )


def test_an_operator_that_gives_what_the_reference_gives_passes() -> None:
    events = events_of(minutes(), [SCHEMA], ROWS)
    for seed in range(20):
        assert_as_reference(sums, events, SUMS, np.random.default_rng(seed))


@pytest.mark.parametrize(
    "other",
    [
        {1: [(1, 1, 6), (1, 2, 7)]},
        {**SUMS, 3: [(3, 2, 3)]},
        {**SUMS, 3: [(3, 2, 2), (3, 2, 2)]},
    ],
)
def test_a_row_that_is_missing_or_another_is_found(other: Any) -> None:
    events = events_of(minutes(), [SCHEMA], ROWS)
    with pytest.raises(AssertionError, match=r"epoch"):
        assert_as_reference(sums, events, other, np.random.default_rng(0))


def test_an_operator_that_forgets_its_window_when_it_is_restored_is_found() -> None:
    class Forgetful(KeyedAggregate):
        def restore(self, version: int, full: bool, pieces: Any) -> None:
            del version, full
            list(pieces)

    def make(combined: bool) -> KeyedAggregate:
        calls = {"sum": AggregateCall.parse("sum(value)")}
        return Forgetful(
            "sums", SCHEMA, ["key"], calls, window=TumblingWindow(2), combined=combined
        )

    rows = {epoch: [[(1, epoch)]] for epoch in range(0, 40)}
    expected = {epoch: [(epoch, 1, 2 * epoch - 1)] for epoch in range(1, 40, 2)}
    events = events_of(minutes(), [SCHEMA], rows)
    with pytest.raises(AssertionError, match="lost and restored"):
        assert_as_reference(make, events, expected, np.random.default_rng(1), trials=20)
