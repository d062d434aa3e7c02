"""What the benchmark of orderings says of its runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.ordering import RECEIVED, ordering
from benchmarks.ordering_receivers import EPOCH_SECONDS, SIDES, Agreed, received, topology
from benchmarks.ordering_runs import Ordering
from benchmarks.workloads import LINES_PER_EPOCH, WORKLOADS
from click.testing import CliRunner


def found(nodes: int = 2, workload: str = "words") -> Ordering:
    return Ordering(
        workload,
        nodes,
        1_000_000,
        {"epoch": [(1.0, 2.0), (3.0, 3.0), (2.0, 2.0)], "merge": [(1.0, 1.0), (2.0, 4.0)]},
        {"consensus": [2.5], "strict": [5.0, 7.0, 6.0]},
    )


def test_a_discipline_is_compared_with_the_run_beside_it() -> None:
    assert found().ratio("epoch").median == 1.0
    assert found().ratio("merge").median == pytest.approx(0.75)
    medians = {"none": 2.0, "epoch": 2.0, "merge": 2.5, "consensus": 2.5, "strict": 6.0}
    assert found().medians == medians
    figures = found().figures()
    assert figures["strict_ratio"] == pytest.approx(0.3333)
    assert figures["consensus_ratio"] == pytest.approx(0.8)
    assert figures["merge_ratio"]["median"] == pytest.approx(0.75)
    assert figures["runs"]["none"] == [1.0, 3.0, 2.0, 1.0, 2.0]


def test_nodes_that_are_no_number_are_refused() -> None:
    done = CliRunner().invoke(ordering, ["--nodes", "some"])
    assert done.exit_code == 2
    assert "'some' is neither a number from 1 to 64 nor all" in done.output


def agreement(workload: str, nodes: int) -> Agreed:
    return Agreed(workload, nodes, 10, [dict.fromkeys(SIDES, 1.0)])


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that need no cluster and no files."""
    pytest.importorskip("matplotlib")
    for name, workload in WORKLOADS.items():
        monkeypatch.setitem(WORKLOADS, name, replace(workload, files=lambda *_: {}))
    monkeypatch.setattr(
        "benchmarks.ordering.measured",
        lambda workload, files, size, nodes, *_: found(nodes, workload.name),
    )
    monkeypatch.setattr(
        "benchmarks.ordering.agreed", lambda name, files, size, nodes, *_: agreement(name, nodes)
    )


def kept(folder: Path) -> dict[str, Any]:
    """The documents of results by name; each has a picture."""
    paths = sorted((folder / "results").glob("*.json"))
    assert all(path.with_suffix(".png").stat().st_size > 1000 for path in paths)
    return {path.stem: json.loads(path.read_text()) for path in paths}


@pytest.mark.usefixtures("unmeasured")
def test_one_to_four_nodes_are_measured_and_their_results_kept(tmp_path: Path) -> None:
    done = CliRunner().invoke(ordering, ["--folder", str(tmp_path)], catch_exceptions=False)
    assert "ordering.png" in done.output
    results = kept(tmp_path)
    assert list(results) == ["ordering"]
    rows = [(each["name"], each["nodes"]) for each in results["ordering"]["workloads"]]
    assert rows == [(name, nodes) for name in WORKLOADS for nodes in (1, 2, 3, 4)]


@pytest.mark.usefixtures("unmeasured")
def test_results_of_receivers_and_of_some_workloads_are_kept_apart(tmp_path: Path) -> None:
    def run(*arguments: str) -> None:
        given = ["--folder", str(tmp_path), "--json", *arguments]
        assert CliRunner().invoke(ordering, given, catch_exceptions=False).exit_code == 0

    run(*(word for name in RECEIVED for word in ("--receivers", name)))
    results = kept(tmp_path)
    assert list(results) == ["ordering-receivers"]
    rows = [(each["name"], each["nodes"]) for each in results["ordering-receivers"]["receivers"]]
    assert rows == [(name, nodes) for name in RECEIVED for nodes in (2, 3, 4)]
    run("--workload", "join", "--nodes", "2", "--events", "50")
    run("--receivers", "readings", "--nodes", "3")
    assert kept(tmp_path).keys() - results.keys() == {
        "ordering-join-2nodes-50events",
        "ordering-receivers-readings-3nodes",
    }


def test_receivers_on_one_node_are_refused() -> None:
    done = CliRunner().invoke(ordering, ["--receivers", "join", "--nodes", "1"])
    assert done.exit_code == 2
    assert "--receivers take 2 nodes at least" in done.output


def test_consensus_is_compared_with_merge_over_the_same_receivers(tmp_path: Path) -> None:
    feed = tmp_path / "readings.parquet"
    pq.write_table(pa.table({"ts": list(range(4000))}), feed)
    lost = [
        set(range(4000)) - set(pq.read_table(received(feed, each))["ts"].to_pylist())
        for each in (0, 1)
    ]
    assert all(10 < len(each) < 100 for each in lost)
    assert lost[0] != lost[1]
    made = {side: topology("readings", {"readings": feed}, tmp_path, 2, side) for side in SIDES}
    for side in ("none", "merge", "consensus", "strict"):
        assert list(made[side].sources) == ["readings_east", "readings_west"]
        assert made[side].operators["result_rows"].discipline == side
    assert list(made["one receiver"].sources) == ["readings"]
    assert all(each.replicas == 2 for each in made.values())
    for each in made.values():
        each.check()
    #           none, merge, consensus, strict, one receiver
    seconds = [(1.0, 1.0, 2.0, 5.0, 1.0), (6.0, 3.0, 3.0, 9.0, 1.5), (1.0, 2.0, 1.0, 2.0, 2.0)]
    rounds = [dict(zip(SIDES, each, strict=True)) for each in seconds]
    ratios = Agreed("readings", 2, 10, rounds).figures()["ratios"]
    assert {name: ratio["median"] for name, ratio in ratios.items()} == {
        "merge/none": 1.0,
        "consensus/merge": 1.0,
        "consensus/one receiver": 0.5,
        "strict/none": 0.5,
    }


def test_lines_of_receivers_have_a_time_and_epochs_as_many_lines_as_without(tmp_path: Path) -> None:
    feed = tmp_path / "lines.parquet"
    lines = 3 * LINES_PER_EPOCH
    pq.write_table(pa.table({"line": [str(number) for number in range(lines)]}), feed)
    got = pq.read_table(received(feed, 0))
    numbers = [int(line) for line in got["line"].to_pylist()]
    assert len(numbers) < lines
    epochs = [second // EPOCH_SECONDS for second in got["ts"].to_pylist()]
    assert epochs == [number // LINES_PER_EPOCH for number in numbers]
    made = topology("wordcount", {"lines": feed}, tmp_path, 2, "consensus")
    made.check()
    assert list(made.sources) == ["lines_east", "lines_west"]
