"""Windows that overlap, sessions and the whole input, in a job: under any seed, with crashes, one output."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.engine.losses import Losses
from streammine.model.topology import Recovery
from streammine.simulation.workload import Workload
from streammine.testing import SimulationSettings, assert_deterministic, assert_rows, simulate
from tests.simulation.seeds import Seeds

SECONDS = 400
GAP = 25


def clicks() -> pa.Table:
    """A few clicks in most epochs of ten seconds, with quiet times; a click was seen up to 40 s before."""
    random = Random(3)
    times = sorted(random.choice([0, 1, 2, 5]) * 80 + random.randrange(60) for _ in range(150))
    return pa.table(
        {
            "ts": times,
            "user": [random.randrange(5) for _ in times],
            "seen": [time - random.choice([0, 0, 3, 40]) for time in times],
        },
        pa.schema([("ts", "int64"), ("user", "int64"), ("seen", "int64")]),
    )


def topology(window: Any, slices: int = 2, **settings: Any) -> Topology:
    calls = {"n": "count()", "last": "max(ts)"}
    return (
        Topology(name="windows", epoch={"time": "10s", "column": "ts"})
        .source("clicks", files="clicks.parquet", prepare="none", slices=2)
        .operator(
            "busy",
            input="clicks",
            key="user",
            window=window,
            aggregate=calls,
            slices=slices,
            **settings,
        )
        .sink("result", input="busy", format="json", path="out")
    )


def moment(seconds: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=seconds)


def sliding_by_hand(length: int, slide: int) -> list[tuple[Any, ...]]:
    rows = clicks().to_pylist()
    found = []
    for start in range(-10 * slide, 600, slide):
        inside = [row for row in rows if start <= row["ts"] < start + length]
        counts = Counter(row["user"] for row in inside)
        for user, count in counts.items():
            last = max(row["ts"] for row in inside if row["user"] == user)
            epoch = (start + length) // 10 - 1
            found.append((epoch, moment(start), moment(start + length), user, count, last))
    return found


@pytest.mark.parametrize(("length", "slide"), [(60, 10), (60, 30), (50, 20)])
def test_sliding_windows_go_on_where_there_is_no_data(length: int, slide: int) -> None:
    for seed in range(3):
        found = simulate(
            topology({"length": f"{length}s", "slide": f"{slide}s"}, slices=1 + seed),
            {"clicks": clicks()},
            seed=seed,
            nodes=1 + seed,
        )
        assert_rows(found.table("result"), sliding_by_hand(length, slide))


@pytest.mark.parametrize(
    "window",
    [
        {"length": "60s", "slide": "10s"},
        {"length": "7 epochs", "slide": "2 epochs"},
        {"session": "25s"},
        "3 epochs",
        "global",
    ],
)
def test_all_seeds_have_one_output(window: Any) -> None:
    for slices in (1, 3):
        assert_deterministic(topology(window, slices), {"clicks": clicks()}, seeds=range(4))
    digests = {
        simulate(topology(window, slices), {"clicks": clicks()}, seed=slices).digest
        for slices in (1, 2, 4)
    }
    assert len(digests) == 1


def test_late_clicks_are_set_aside_and_all_are_counted() -> None:
    wanted = None
    for seed in range(4):
        run = simulate(
            topology({"session": f"{GAP}s"}, slices=1 + seed, time="seen"),
            {"clicks": clicks()},
            seed=seed,
            nodes=1 + seed % 3,
            settings=SimulationSettings(read_rows=(3, 64)[seed % 2]),
        )
        used = sum(run.table("result").column("n").to_pylist())
        assert run.dead_letters is not None
        dead = sorted(run.dead_letters.column("text").to_pylist())
        assert set(run.dead_letters.column("origin").to_pylist()) == {"busy"}
        assert used + len(dead) == clicks().num_rows
        assert sum(each["rows_dead"] for each in run.counters.values()) == len(dead) > 0
        wanted = wanted or dead
        assert dead == wanted


def test_the_whole_input_leaves_in_an_epoch_behind_it() -> None:
    run = simulate(topology("global"), {"clicks": clicks()}, seed=1)
    last = max(clicks().column("ts").to_pylist()) // 10
    assert list(run.outputs["result"]) == [last + 1]
    assert sum(run.table("result").column("n").to_pylist()) == clicks().num_rows


def windows_behind_windows() -> Topology:
    """Windows that overlap feed others: what is lost reaches through both."""
    return (
        Topology(name="windowed", epoch={"time": "10s", "column": "ts"})
        .source("clicks", files="clicks.parquet", prepare="none", slices=2)
        .operator(
            "busy",
            input="clicks",
            key="user",
            window={"length": "40s", "slide": "20s"},
            aggregate={"n": "count()"},
        )
        .operator(
            "most",
            input="busy",
            key="user",
            window={"length": "30s", "slide": "10s"},
            aggregate={"n": "max(n)"},
        )
        .sink("result", input="most", format="console", commit={"every": 2})
    )


def gap_seeds() -> Seeds:
    recovery = Recovery.model_validate({"max_time": "10m", "cool_down": "1s", "semantics": "gap"})
    job = windows_behind_windows().model_copy(update={"recovery": recovery})
    random = Random(3)
    times = sorted(random.randrange(400) for _ in range(200))
    table = pa.table({"ts": times, "user": [random.randrange(6) for _ in times]})
    return Seeds(Workload(job, {"clicks": table}))


GAPS = gap_seeds()


def test_gap_recovery_loses_the_windows_that_hold_a_lost_epoch_and_no_others() -> None:
    # not each crash comes while there is something to lose
    done = GAPS.run("crash,manager", range(7, 9))
    assert any(trial.lost for trial in done)


def test_a_window_that_goes_on_behind_a_lost_epoch_unnamed_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials = GAPS.trials("crash,manager")
    monkeypatch.setattr(Losses, "missed", lambda self, first, last: self.lost(first, last))
    problems = [trials.run(seed).problem or "" for seed in range(8, 9)]
    assert any("which is not lost" in problem for problem in problems)
