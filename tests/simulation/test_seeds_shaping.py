"""Whatever happens to the cluster, streams are put together, taken apart and cut down as if nothing had."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.simulation.workload import Workload
from tests.simulation.seeds import PORTION, Seeds

SEEDS = range(420_000, 420_040)
ROWS = 90


def rows(seed: int) -> pa.Table:
    source = Random(seed)
    time, found = 1000, []
    for number in range(ROWS):
        time += source.choice((0, 0, 1, 1, 2, 7))
        found.append((time, source.choice("abcde"), number))
    columns = zip(*found, strict=True)
    return pa.table(dict(zip(("ts", "key", "number"), map(list, columns), strict=True)))


def shaped(**fields: Any) -> Topology:
    """cars, trucks -> all -> route -> even, odd; the even ones' best, changes and first ones"""
    return (
        Topology(name="shaped", epoch={"time": "5s", "column": "ts"}, **fields)
        .source("cars", files="cars.parquet", prepare="none", slices=2)
        .source("trucks", files="trucks.parquet", prepare="none", slices=1)
        .operator("all", union=["cars", "trucks"])
        .operator("route", input="all", split={"even": "number % 2 = 0", "some": "number % 3 = 0"})
        .operator("joined", union=["route.some", "counted"])
        .operator("counts", input="route.even", key="key", aggregate={"number": "count()"})
        .operator("counted", input="counts", map={"ts": "epoch", "key": "key", "number": "number"})
        .operator("best", input="counts", top={"count": 2, "by": "number desc"}, window="15s")
        .operator("news", input="counts", key="key", changes={"gone": "gone"})
        .operator("once", input="all", key="key", deduplicate={"keep": "last", "within": "12s"})
        .sink("joined_rows", input="joined", format="console", ordered=True)
        .sink("best_rows", input="best", format="console")
        .sink("new_rows", input="news", format="console")
        .sink("single_rows", input="once", format="console")
    )


INPUTS = {"cars": rows(1), "trucks": rows(2)}
ALONE = Seeds(Workload(shaped(), INPUTS))
TWICE = Seeds(Workload(shaped(replicas=2), INPUTS))


@pytest.mark.parametrize("first", range(0, 20, PORTION))
def test_all_faults(first: int) -> None:
    ALONE.run("all", SEEDS[first : first + PORTION])


@pytest.mark.parametrize("first", range(20, 40, PORTION))
def test_two_replicas(first: int) -> None:
    TWICE.run("all", SEEDS[first : first + PORTION])


def test_runs_are_hit_often() -> None:
    done = ALONE.run("all", SEEDS[:PORTION])
    assert sum(sum(trial.faults.values()) for trial in done) >= 2 * PORTION


def test_replicas_agree_on_each_feed_of_a_union_by_itself() -> None:
    """Two feeds with two receivers each, put together with a source that has no choice."""
    received = {name: rows(seed) for seed, name in enumerate(("east", "west", "north", "south"))}
    chosen = Topology(name="chosen", epoch={"time": "5s", "column": "ts"}, replicas=2)
    for name in (*received, "plain"):
        chosen = chosen.source(name, files=f"{name}.parquet", prepare="none", slices=1, replicas=1)
    chosen = (
        chosen.operator("across", either=["east", "west"])
        .operator("along", either=["north", "south"])
        .operator("all", union=["across", "along", "plain"])
        .operator("counts", input="all", key="key", aggregate={"count": "count()"}, slices=1)
        .sink("result", input="counts", format="console")
    )
    Seeds(Workload(chosen, {**received, "plain": rows(9)})).run("all", SEEDS[:4])
