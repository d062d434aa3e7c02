"""Graphs of other shapes: diamonds, chains of windows, several sinks, generators, paced sources."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.engine import slice as slices
from streammine.engine.output_channel import OutputChannel
from streammine.engine.stimuli import Run
from streammine.testing import (
    SimulationError,
    SimulationSettings,
    assert_deterministic,
    assert_rows,
    simulate,
)
from tests.simulation import loops, workloads


def diamond() -> Topology:
    """One source, two aggregates of it, joined again::

              +--> counts --+
    readings -|             +--> both --> result
              +--> sums ----+
    """
    return (
        Topology(name="diamond", epoch={"count": 20})
        .source("readings", files="r.parquet", prepare="none", slices=2)
        .operator("counts", input="readings", key="plug", aggregate={"count": "count()"}, slices=3)
        .operator(
            "sums",
            input="readings",
            key="plug",
            aggregate={"total": "sum(watts)"},
            slices=2,
            combine=False,
        )
        .operator("left", input="counts", map={"plug": "plug", "count": "count"})
        .operator("right", input="sums", map={"plug": "plug", "total": "total"})
        .operator("both", join={"left": "left", "right": "right", "on": ["plug"]}, slices=2)
        .sink("result", input="both", format="console")
    )


def readings(rows: int = 200) -> pa.Table:
    random = Random(11)
    plugs = [random.randrange(6) for _ in range(rows)]
    return pa.table({"plug": plugs, "watts": [random.randrange(1000) for _ in range(rows)]})


@pytest.mark.parametrize("budget_bytes", [1, 100, 1000])
def test_a_diamond_with_hardly_any_credit_gets_to_its_end(budget_bytes: int) -> None:
    table = readings()
    counts: Counter[tuple[int, int]] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    for number, row in enumerate(table.to_pylist()):
        counts[number // 20, row["plug"]] += 1
        sums[number // 20, row["plug"]] += row["watts"]
    expected = [(*key, count, sums[key]) for key, count in counts.items()]
    for seed in range(8):
        settings = SimulationSettings(channel_budget_bytes=budget_bytes, read_rows=50)
        run = simulate(
            diamond(), {"readings": table}, seed=seed, nodes=1 + seed % 4, settings=settings
        )
        assert_rows(run.table("result"), expected)


def moment(seconds: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=seconds)


@pytest.mark.parametrize("seed", range(6))
def test_windows_over_epochs_into_another_window_and_two_sinks(seed: int) -> None:
    tables = {"orders": workloads.orders_and_payments()["orders"]}
    topology = (
        Topology(name="windows", epoch={"time": "10s", "column": "ts"})
        .source("orders", files="o.parquet", prepare="none")
        .operator("counts", input="orders", key="id", aggregate={"count": "count()"}, window="30s")
        .operator("most", input="counts", aggregate={"most": "max(count)"}, window="120s", slices=1)
        .sink("fine", input="counts", format="console", commit={"every": 4})
        .sink("coarse", input="most", format="parquet", path="out")
    )
    counts: Counter[tuple[int, Any]] = Counter()
    for row in tables["orders"].to_pylist():
        counts[row["ts"] // 10 // 3 * 3 + 2, row["id"]] += 1
    most: dict[int, int] = {}
    for (epoch, _), count in counts.items():
        window = epoch // 12 * 12 + 11
        most[window] = max(most.get(window, 0), count)
    settings = SimulationSettings(read_rows=11, frame_loss=0.05)
    run = simulate(topology, tables, seed=seed, nodes=1 + seed % 3, settings=settings)
    fine, coarse = run.table("fine"), run.table("coarse").select(["epoch", "most"])
    ends = [(epoch, (epoch + 1) * 10, key, count) for (epoch, key), count in counts.items()]
    spans = [(epoch, moment(end - 30), moment(end), *rest) for epoch, end, *rest in ends]
    assert_rows(fine, spans)
    assert_rows(coarse, list(most.items()))


def test_generators_need_no_input_and_floats_sum_up_to_the_same_bits() -> None:
    topology = (
        Topology(name="readings", epoch={"time": "1s", "column": "ts"})
        .source("plugs", generator="readings", rows=600, seed=3, with_={"per_second": 60})
        .operator("loads", input="plugs", filter="property = 1")
        .operator(
            "stats",
            input="loads",
            key=["house_id", "plug_id"],
            aggregate={"mean": "mean(value)", "spread": "variance(value)"},
            slices=3,
        )
        .sink("result", input="stats", format="console")
    )
    run = assert_deterministic(topology, seeds=range(8))
    assert len(run.outputs["result"]) == 10


def test_a_paced_source_gives_the_same_output_later() -> None:
    lines = workloads.text()
    fast = workloads.word_count()
    sources = {"lines": {**fast.model_dump(mode="json")["sources"]["lines"], "rate": "20/s"}}
    slow = Topology.model_validate({**fast.model_dump(mode="json"), "sources": sources})
    inputs = {"lines": pa.table({"line": lines})}
    first, second = simulate(fast, inputs), simulate(slow, inputs)
    assert first.digest == second.digest
    assert second.virtual_seconds > len(lines) / 20 > first.virtual_seconds


def test_a_full_memory_sends_bags_to_the_disk_and_back() -> None:
    lines = workloads.text()
    topology = workloads.word_count(discipline="strict")
    settings = SimulationSettings(bag_memory_bytes=64, read_rows=9)
    run = simulate(topology, {"lines": pa.table({"line": lines})}, settings=settings)
    assert sum(each["spilled_bytes"] for each in run.counters.values()) > 0
    assert_rows(run.table("result"), workloads.counted_words(lines))


def test_a_job_that_gets_stuck_fails_with_the_story_of_every_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # credit never arrives: what is held is held for ever
    monkeypatch.setattr(OutputChannel, "credit", lambda self, receiver, frontier: None)
    settings = SimulationSettings(channel_budget_bytes=1, read_rows=9)
    inputs = {"lines": pa.table({"line": workloads.text()})}
    with pytest.raises(
        SimulationError, match=r"(?s)stuck.*seed 7.*counts/0 generation 1 on .* running.*held"
    ):
        simulate(workloads.word_count(), inputs, seed=7, settings=settings)


def test_a_broken_rule_fails_at_the_step_that_broke_it(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = slices.SliceMachine._schedule

    def twice(self: slices.SliceMachine, effects: list[Any]) -> None:
        schedule(self, effects)
        effects += [each for each in effects if isinstance(each, Run)]

    monkeypatch.setattr(slices.SliceMachine, "_schedule", twice)
    inputs = {"lines": pa.table({"line": workloads.text()})}
    with pytest.raises(SimulationError, match="two runs of work at a time"):
        simulate(workloads.word_count(), inputs, seed=1)


@pytest.mark.parametrize("fields", [{}, {"combine": False}, {"discipline": "strict"}])
def test_rows_can_be_counted_without_any_of_their_columns(fields: dict[str, Any]) -> None:
    topology = (
        Topology(name="rows", epoch={"count": 20})
        .source("readings", files="r.parquet", prepare="none")
        .operator("rows", input="readings", aggregate={"rows": "count()"}, **fields)
        .sink("result", input="rows", format="console")
    )
    for seed in range(4):
        run = simulate(topology, {"readings": readings()}, seed=seed, nodes=2)
        assert_rows(run.table("result"), [(epoch, 20) for epoch in range(10)])


def test_without_a_discipline_a_sound_network_loses_nothing() -> None:
    lines = workloads.text()
    plain = workloads.word_count().model_dump(mode="json", by_alias=True)
    plain["operators"]["counts"]["discipline"] = "none"
    plain["sinks"]["result"]["exactly_once"] = False
    for seed in range(4):
        settings = SimulationSettings(read_rows=9)
        run = simulate(
            Topology.model_validate(plain),
            {"lines": pa.table({"line": lines})},
            seed=seed,
            nodes=3,
            settings=settings,
        )
        assert_rows(run.table("result"), workloads.counted_words(lines))


def flushed(slices: int) -> Topology:
    """numbers -> windows -> large -> totals, which speaks at the end of the input only -> result"""
    return (
        Topology(name="flushed", epoch={"time": "10s", "column": "ts"})
        .source("numbers", files="numbers.parquet", prepare="none", slices=1)
        .operator(
            "windows",
            input="numbers",
            key="id",
            window="70s",
            aggregate={"number": "sum(number)"},
            slices=slices,
        )
        .operator("large", input="windows", filter="number > 300")
        .operator("totals", input="large", operator=loops.Totals(), key="id", slices=slices)
        .sink("result", input="totals", format="console")
    )


@pytest.mark.parametrize("rows", range(1, 30, 4))
def test_windows_of_which_nothing_is_left_are_in_nobodys_way(rows: int) -> None:
    table = loops.numbers(rows)
    windows: Counter[tuple[int, int]] = Counter()
    for epoch, key, number in loops.events_of(table):
        windows[epoch // 7, key] += number
    expected: Counter[int] = Counter()
    for (_, key), total in windows.items():
        if total > 300:
            expected[key] += total
    digests = set()
    for slices_of_each in (1, 2, 3):
        result = simulate(flushed(slices_of_each), {"numbers": table}, seed=rows)
        tables = result.outputs["result"].values()
        assert {row["id"]: row["number"] for each in tables for row in each.to_pylist()} == expected
        digests.add(result.digest)
    assert len(digests) == 1
