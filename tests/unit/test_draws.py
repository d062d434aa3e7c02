"""Random numbers of user code: the same in every run, version and slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import streammine
from streammine.operators.draws import Draws
from streammine.testing import assert_deterministic, simulate

GOLDEN = [11162309643340277610, 813475385457762131, 2416612321526976852]


def test_the_numbers_are_those_of_every_release() -> None:
    draws = Draws("job", "operator", 7, "key")
    assert [draws.bits64() for _ in range(3)] == GOLDEN
    assert Draws("job", "operator", 7, "key").uniform() == (GOLDEN[0] >> 11) / 2**53


def test_other_seeds_give_other_numbers() -> None:
    seeds = [("a", 1), ("a", 2), ("b", 1), (1, "a"), ("a1",), (b"a", 1), (("a", 1),)]
    assert len({Draws(*seed).bits64() for seed in seeds}) == len(seeds)


def test_numbers_lie_in_their_range_and_all_come() -> None:
    draws = Draws(0)
    assert Counter(draws.integer(-1, 1) for _ in range(3000)).keys() == {-1, 0, 1}
    assert all(0.0 <= draws.uniform() < 1.0 for _ in range(1000))
    assert all(0 <= draws.integer(0, 2**64 - 1) < 2**64 for _ in range(100))
    assert draws.integer(5, 5) == 5


def test_each_result_is_as_likely_as_the_others() -> None:
    draws = Draws(1)
    counts = Counter(draws.integer(0, 9) for _ in range(20_000))
    # some five standard deviations
    assert all(abs(count - 2000) < 220 for count in counts.values())
    orders = Counter(tuple(draws.shuffled("abc")) for _ in range(6000))
    assert len(orders) == 6
    assert all(abs(count - 1000) < 160 for count in orders.values())


def test_ranges_that_hold_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="0 numbers from 2 to 1"):
        Draws(0).integer(2, 1)
    with pytest.raises(ValueError, match="numbers from 0 to"):
        Draws(0).integer(0, 2**64)
    with pytest.raises(ValueError, match="no value to choose from"):
        Draws(0).choice([])
    with pytest.raises(TypeError, match="a bound is an integer, not float"):
        Draws(0).integer(1, 6.5)  # type: ignore[arg-type]


class Sample(streammine.Operator):
    """Some events of each key, by chance."""

    output: ClassVar[Mapping[str, str]] = {"key": "string", "ts": "int64", "draw": "float64"}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        draw = self.context.random(key).uniform()
        return (key, event.ts, draw) if draw < 0.5 else None


def test_an_operators_draws_do_not_depend_on_where_it_runs() -> None:
    table = pa.table({"ts": list(range(60)), "key": ["a", "b", "c", "d"] * 15})
    results = []
    for slices in (1, 3):
        topology = (
            streammine.Topology(name="sample", epoch={"time": "10s", "column": "ts"})  # type: ignore[arg-type]
            .source("events", files="events.csv", schema={"ts": "int64", "key": "string"})
            .operator("sample", input="events", key="key", operator=Sample, slices=slices)
            .sink("result", input="sample", format="console")
        )
        result = assert_deterministic(topology, {"events": table}, seeds=range(3))
        results.append(
            sorted(map(tuple, (row.values() for row in result.table("result").to_pylist())))
        )
    assert results[0] == results[1]
    draws = [draw for _, _, draw in results[0]]
    assert 10 < len(draws) < 50
    assert len(set(draws)) == len(draws)


def test_names_that_are_equal_in_python_and_other_seeds_have_sequences_of_their_own() -> None:
    context = streammine.Context("sample", epoch=3, window=(0, 10))
    assert len({context.random(name).bits64() for name in (1, True, 1.0, [1], (1,))}) == 5
    again = streammine.Context("sample", epoch=3, window=(0, 10))
    assert again.random(True).bits64() == Draws("", "sample", 3, True).bits64()
    assert again.random(True) is again.random(True)


def test_where_no_epoch_is_known_there_are_no_random_numbers() -> None:
    with pytest.raises(RuntimeError, match="random numbers belong to an epoch"):
        streammine.Context("map").random()


class Marked(streammine.Mapper):
    output: ClassVar[Mapping[str, str]] = {"draw": "float64"}

    def map(self, event: Any) -> Any:
        return (self.context.random().uniform(),)


def test_rows_that_are_looked_at_as_they_come_draw_nothing() -> None:
    topology = (
        streammine.Topology(name="marks", epoch={"time": "10s", "column": "ts"})  # type: ignore[arg-type]
        .source("events", files="events.csv", schema={"ts": "int64"})
        .operator("marked", input="events", operator=Marked)
        .sink("result", input="marked", format="console")
    )
    with pytest.raises(streammine.StreammineError, match="belong to an epoch that is being closed"):
        simulate(topology, {"events": pa.table({"ts": [1, 2, 3]})})
