"""Under gap recovery output lacks nothing but what it says it lacks, and that was left out by a plan."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.model.topology import Recovery
from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.seeds import Seeds

EPOCHS = 40

ANYTHING_FITS = {"max_time": "10m", "cool_down": "1s"}
"""Slices soon have one replica alone, and whoever loses it is built anew."""


def seeds(topology: Topology, inputs: dict[str, pa.Table], semantics: str = "gap") -> Seeds:
    recovery = Recovery.model_validate({**ANYTHING_FITS, "semantics": semantics})
    return Seeds(Workload(topology.model_copy(update={"recovery": recovery}), inputs))


def clicks(epochs: int) -> pa.Table:
    """A few clicks in most epochs of ten seconds."""
    random = Random(3)
    times = sorted(random.randrange(epochs * 10) for _ in range(epochs * 5))
    users = [random.randrange(6) for _ in times]
    return pa.table({"ts": times, "user": users}, pa.schema([("ts", "int64"), ("user", "int64")]))


def windowed() -> Topology:
    """clicks -> busy (30 s) -> minutes -> result, two epochs committed together

    A window of three epochs feeds one of six::

        |  0  1  2 |  3  4  5 |  6  7  8 |  9 10 11 |
        |  0  1  2    3  4  5 |  6  7  8    9 10 11 |
        |  0  1 |  2  3 |  4  5 |  6  7 |  8  9 | 10 11 |
    """
    return (
        Topology(name="windowed", epoch={"time": "10s", "column": "ts"})
        .source("clicks", files="clicks.parquet", prepare="none", slices=2)
        .operator(
            "busy", input="clicks", key="user", window="30s", aggregate={"n": "count()"}, slices=2
        )
        .operator(
            "minutes", input="busy", key="user", window="60s", aggregate={"n": "sum(n)"}, slices=2
        )
        .sink("result", input="minutes", format="console", commit={"every": 2})
    )


LINES = {"lines": pa.table({"line": workloads.text(EPOCHS * workloads.EPOCH_LINES)})}
WORD_COUNT = seeds(workloads.word_count(2), LINES)
WINDOWED = seeds(windowed(), {"clicks": clicks(EPOCHS)})
JOIN = seeds(workloads.equi_join(2), workloads.orders_and_payments(240))


@pytest.mark.parametrize("workload", [WORD_COUNT, WINDOWED, JOIN], ids=["words", "windows", "join"])
@pytest.mark.parametrize("kinds", ["crash,manager", "crash,pause,split"])
def test_only_what_is_named_is_lost(workload: Seeds, kinds: str) -> None:
    workload.run(kinds, range(4))


def test_some_is_lost_and_some_of_that_is_missing() -> None:
    done = WORD_COUNT.run("crash,manager", range(8))
    assert any(trial.lost for trial in done)
    trials = WORD_COUNT.trials("crash,manager")
    (first, *_) = [trial.seed for trial in done if trial.lost]
    result = trials.result(first)
    assert result.lost["result"]
    assert result.digest != trials.digest, "what is called lost is not there"


def test_nothing_is_lost_where_nothing_crashes() -> None:
    for workload in (WORD_COUNT, WINDOWED):
        for trial in workload.run("move", range(3)):
            assert trial.lost == 0


def test_nothing_is_lost_under_precise_semantics() -> None:
    precise = seeds(workloads.word_count(2), LINES, "precise")
    done = precise.run("crash,manager", range(4))
    assert sum(trial.rebuilt for trial in done) > 0
    assert not any(trial.lost for trial in done)


def test_the_same_seed_loses_the_same() -> None:
    trials = WORD_COUNT.trials("crash,manager")
    first, second = (trials.run(3, traced=True) for _ in range(2))
    assert first == second
