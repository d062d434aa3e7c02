"""What the benchmark of the controller makes of rhythms, moments, and commits around kills."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.controller import _print_ratios, _summary
from benchmarks.controller_runs import (
    Kill,
    Look,
    Played,
    kills_among,
    look_at,
    random_moments,
)
from benchmarks.edits import (
    START_MILLISECONDS,
    Rhythm,
    edit_times,
    real_rhythm,
    rhythm_of,
    write_edits,
)
from benchmarks.gaps import recovered_after
from benchmarks.state_operators import KeptTexts

from streammine import Topology
from streammine.testing import simulate

WIKITICKER = (
    Path(__file__).resolve().parents[3]
    / "shared"
    / "data"
    / "wikiticker"
    / "wikiticker-2015-09-12.json.gz"
)


def test_a_rhythm_counts_the_edits_of_each_minute_quiet_ones_too(tmp_path: Path) -> None:
    path = tmp_path / "edits.jsonl"
    times = ["2015-01-01T23:58:59.900Z", "2015-01-02T00:00:00.000Z", "2015-01-02T00:00:59.999Z"]
    path.write_text("".join(json.dumps({"time": time}) + "\n" for time in times))
    assert rhythm_of(path) == Rhythm("edits.jsonl", [1, 0, 2])
    path.write_text(json.dumps({"time": times[0]}) + "\n")
    with pytest.raises(ValueError, match="no rhythm"):
        rhythm_of(path)


def test_the_rhythm_of_a_real_day_is_at_hand() -> None:
    minutes = real_rhythm().minutes
    assert len(minutes) == 23 * 60 + 14, "from 0:46 to midnight"
    assert sum(minutes) == 39_244
    assert max(minutes) == 49


@pytest.mark.skipif(
    not WIKITICKER.is_file(), reason=f"the edits of a real day are not in {WIKITICKER}"
)
def test_the_rhythm_at_hand_is_that_of_the_edits() -> None:
    assert rhythm_of(WIKITICKER).minutes == real_rhythm().minutes


def test_edits_rise_and_fall_with_the_rhythm_within_the_time_they_are_played_in() -> None:
    #  10 s of 60-fold event time for three parts, the middle one with eight times as much
    times = edit_times([1, 8, 1], 10, 60, 1000)
    passed = times - START_MILLISECONDS
    assert np.all(np.diff(passed) >= 0)
    assert passed[-1] < 600_000
    counts = np.histogram(passed, [0, 200_000, 400_000, 600_000])[0]
    assert counts == pytest.approx([100, 800, 100], abs=2)


def test_files_share_the_edits_and_are_made_once(tmp_path: Path) -> None:
    pattern = write_edits(tmp_path, real_rhythm().minutes, 4, 60, 50, 3)
    paths = sorted(tmp_path.glob(Path(pattern).name))
    edits = [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]
    assert [len(each) for each in edits] == [67, 67, 66]
    assert all(each.keys() == {"time", "channel", "user", "added"} for each in edits[0])
    times = [each["time"] for each in edits[1]]
    assert times == sorted(times)
    assert len({each["channel"] for part in edits for each in part}) > 20
    before = [path.stat().st_mtime_ns for path in paths]
    assert write_edits(tmp_path, real_rhythm().minutes, 4, 60, 50, 3) == pattern
    assert [path.stat().st_mtime_ns for path in paths] == before
    assert write_edits(tmp_path, [1, 2], 4, 60, 50, 3) != pattern


def test_moments_are_random_apart_and_within() -> None:
    moments = random_moments(20, 25.0, 410.0, 12.0, seed=1)
    assert len(moments) == 20
    assert moments[0] >= 25
    assert moments[-1] <= 410 - 12
    assert min(np.diff(moments)) >= 12
    assert moments == random_moments(20, 25.0, 410.0, 12.0, seed=1)
    assert moments != random_moments(20, 25.0, 410.0, 12.0, seed=2)
    assert random_moments(0, 25.0, 20.0, 12.0, seed=1) == []
    with pytest.raises(ValueError, match="need 48 s, and there are 40 s"):
        random_moments(4, 0.0, 40.0, 12.0, seed=1)


def test_a_recovery_lasts_until_commits_are_no_later_than_usual() -> None:
    #   killed at 10      late          as before
    delays = [(9.0, 0.1), (10.5, 0.1), (12.0, 1.6), (12.5, 0.8), (13.0, 0.2), (14.0, 0.3)]
    assert recovered_after(10.0, delays, 0.3) == 3.0
    assert recovered_after(10.0, delays, 2.0) == 0.0
    assert recovered_after(10.0, delays[:4], 0.3) == math.inf


def test_each_kill_is_judged_by_the_commits_up_to_the_next_or_by_when_it_is_over() -> None:
    usual = [(100.0 + tick / 2, 0.1) for tick in range(20)]
    #   killed at 110: no output until 113, which is as before at 114
    #   late at 125, which has another reason
    first = [(113.0, 2.9), (113.5, 1.1), (114.0, 0.2), (121.0, 0.1), (125.0, 3.0), (129.5, 0.1)]
    #   at 130: late, and late still when the next one is killed at 140
    second = [(131.0, 1.5), (139.0, 9.0), (139.8, 9.8), (147.0, 2.0), (148.0, 0.1), (150.0, 0.1)]
    kills = list(
        kills_among([(110.0, "a"), (130.0, "b"), (140.0, "c")], usual + first + second, 100.0)
    )
    assert [(each.at, each.victim) for each in kills] == [(10.0, "a"), (30.0, "b"), (40.0, "c")]
    assert [each.recovered for each in kills] == [4.0, 18.0, 0.0]
    assert [each.gap for each in kills] == pytest.approx([7.0, 8.0, 7.2])


def look(
    at: float, cpu_seconds: dict[str, float], held_bytes: float = 0.0, memory_bytes: float = 0.0
) -> Look:
    return Look(at, {}, 0.0, held_bytes, 0.0, cpu_seconds, memory_bytes)


def test_cores_count_nodes_that_come_and_go_from_when_costs_count() -> None:
    looks = [
        look(0.0, {"a": 0.0}, 9e9),
        look(10.0, {"a": 9.0, "b": 5.0}, 1e9),
        look(12.0, {"a": 10.0, "b": 6.0}, 1e9),
        # `a` is gone, `c` has come
        look(14.0, {"b": 7.0, "c": 2.0}, 3e9),
        look(20.0, {"b": 8.0, "c": 5.0}, 3e9),
    ]
    played = Played("", looks, [], [], costs_from=10.0)
    assert played.cores == pytest.approx((1 + 1 + 1 + 1 + 3) / 10)
    assert played.held_bytes == 2e9
    assert played.cost == pytest.approx(0.7 + 2.0)


def test_a_run_with_kills_is_set_beside_active_replication_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def played(cores: float, held: float, memory: float, kills: list[Kill]) -> Played:
        looks = [look(at, {"a": at * cores}, held, memory) for at in (0.0, 10.0)]
        return Played("", looks, [], [], kills)

    runs = {
        "controller": played(0.5, 1e9, 3e9, []),
        "active replication": played(1.0, 2e9, 4e9, []),
        "killed": played(0.75, 1.5e9, 6e9, [Kill(1.0, "a", 1.0, 2.0), Kill(5.0, "b", 1.0, 9.0)]),
    }
    found = _summary(runs, 5.5)
    assert (found["cost_ratio"], found["process_cost_ratio"]) == (0.5, 0.7)
    assert (found["killed_cost_ratio"], found["killed_process_cost_ratio"]) == (0.75, 1.35)
    assert (found["recovered_in_time"], found["kills"]) == (1, 2)
    _print_ratios({**found, "bar_cost_ratio": 0.6})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["controller", "0.50", "0.70", "0.50", "0.50", "0.75"] in rows
    assert ["killed", "0.75", "1.35", "0.75", "0.75", "1.50"] in rows
    undisturbed = _summary({name: run for name, run in runs.items() if name != "killed"}, 5.5)
    _print_ratios({**undisturbed, "bar_cost_ratio": 0.6})
    assert "killed" not in capsys.readouterr().out


def test_a_look_sums_what_all_replicas_hold_and_what_leads_the_window() -> None:
    def replica(state: float, waiting: float) -> dict[str, object]:
        return {"counters": {"state_bytes": state, "bytes_waiting": waiting}}

    window = {
        "scheme": "active-standby",
        "counters": {"state_bytes": 40.0},
        "replicas": [replica(40.0, 1.0), replica(30.0, 2.0)],
    }
    source = {"scheme": "deployed", "counters": {"rows_in": 7.0}, "replicas": [{"counters": {}}]}
    load = {"cpu_seconds": 3.0, "memory_bytes": 100.0}
    status = {
        "jobs": {"4": {"slices": {"trends/0": window, "edits/0": source}}},
        "nodes": {"n": {"load": load}, "new": {"load": {}}},
    }
    assert look_at(status, 5, 1.0) is None
    found = look_at(status, 4, 1.0)
    assert found is not None
    assert (found.rows, found.window_bytes, found.held_bytes) == (7.0, 40.0, 73.0)
    assert found.schemes == {"trends/0": "active-standby", "edits/0": "deployed"}
    assert (found.cpu_seconds, found.memory_bytes) == ({"n": 3.0}, 100.0)


def test_what_the_window_keeps_is_large_and_its_rows_those_of_the_application() -> None:
    times = list(range(0, 3_000_000_000, 10_007_000))
    edits = pa.table(
        {
            "time": pa.array(times, pa.timestamp("us")),
            "channel": [f"#{time % 7}" for time in times],
            "user": [f"user-{time % 11}" for time in times],
            "added": [time % 13 for time in times],
        }
    )

    def rows(operator: str, **more: Any) -> list[pa.Table]:
        topology = (
            Topology(name="edits", epoch={"time": "5m", "column": "time"})
            .source("edits", files="edits.parquet", prepare="none")
            .operator("trends", input="edits", operator=operator, key="channel", slices=2, **more)
            .sink("result", input="trends", format="console")
        )
        run = simulate(topology, {"edits": edits})
        return [run.outputs["result"][epoch] for epoch in sorted(run.outputs["result"])]

    kept = rows("benchmarks.state_operators:KeptTexts", with_={"text_bytes": 100})
    assert kept == rows("apps.trends.operators:Trends")
    texts = set(map(KeptTexts(100)._text, times))
    assert {len(text) for text in texts} == {100}
    assert len(texts) > 0.9 * len(times)
