"""The sliding window of the trends, in every way its edits may arrive, against plain Python."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from click.testing import CliRunner

from apps.trends import check, draw, make_edits
from apps.trends.operators import WINDOW_SECONDS, Trends
from streammine import Topology, Window, read_topology
from streammine.cli.main import streammine
from streammine.testing import simulate

TOPOLOGY = Path(check.FOLDER) / "topology.yaml"
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us")),
        ("channel", pa.string()),
        ("user", pa.string()),
        ("added", pa.int64()),
    ]
)


def shipped() -> list[check.Edit]:
    return list(check.edits_of(make_edits.FOLDER / "edits.jsonl"))


def table(edits: list[check.Edit]) -> pa.Table:
    columns = [
        [edit.microseconds for edit in edits],
        [edit.channel for edit in edits],
        [edit.user for edit in edits],
        [edit.added for edit in edits],
    ]
    return pa.table(columns, schema=SCHEMA)


def topology(seconds: int, slices: int = 2) -> Topology:
    class Lately(Trends):
        state: ClassVar = {"edits": Window(microseconds=seconds * 1_000_000)}

    return (
        Topology(name="trends", epoch={"time": "10m", "column": "time"})
        .source("edits", files="edits.parquet", prepare="none")
        .operator(
            "trends",
            input="edits",
            operator=Lately,
            key="channel",
            slices=slices,
        )
        .sink("result", input="trends", format="console")
    )


def found(edits: list[check.Edit], seconds: int, **more: int) -> check.Trends:
    slices = more.pop("slices", 2)
    run = simulate(topology(seconds, slices), {"edits": table(edits)}, **more)
    trends: check.Trends = {}
    for epoch, result in run.outputs["result"].items():
        rows = {tuple(row.values()) for row in result.to_pylist()}
        if rows:
            trends[epoch] = rows  # type: ignore[assignment]
    return trends


# shorter than an epoch, one, several, and longer than the day
@pytest.mark.parametrize("seconds", [90, 600, 4000, 200_000])
def test_windows_of_any_length_hold_what_plain_python_finds(seconds: int) -> None:
    edits = shipped()[200:300]
    expected = check.trends_by_epoch(edits, 600, seconds)
    for seed in range(2):
        assert found(edits, seconds, seed=seed, nodes=1 + seed, slices=1 + seed) == expected


def test_an_edit_is_in_the_window_up_to_the_end_of_which_it_lies_that_long_back() -> None:
    #  0 s        600 s       1200 s
    #  |x---------|----------y|
    edits = [check.Edit(at, "#a", "b", 1) for at in (1_000_000, 1_199_000_000)]
    assert found(edits, 1199)[1] == {("#a", 2, 1, 2)}
    assert found(edits, 1198)[1] == {("#a", 1, 1, 1)}


def test_the_operator_keeps_what_it_claims() -> None:
    done = CliRunner().invoke(streammine, ["check", str(TOPOLOGY), "--rows", "60"])
    assert done.exit_code == 0, done.output


def test_the_days_edits_rise_and_fall() -> None:
    assert len(make_edits.rhythm()) == make_edits.DAY_MINUTES
    assert max(make_edits.rhythm()) > 4 * min(make_edits.rhythm())
    edits = shipped()
    times = [edit.microseconds for edit in edits]
    assert times == sorted(times)
    assert len(edits) == make_edits.EDITS
    hours = [time // 3_600_000_000 % 24 for time in times]
    assert hours.count(18) > 2 * hours.count(3)


def test_the_topology_says_what_the_check_takes_for_granted() -> None:
    trends = read_topology(TOPOLOGY)
    assert trends.epoch_definition().length == check.EPOCH_SECONDS * 1_000_000
    assert check.WINDOW_SECONDS == WINDOW_SECONDS


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no json",
        "[1]",
        '"text"',
        "{}",
        '{"time": "2015-06-01T00:00:00Z", "channel": "#a", "user": "b"}',
        '{"time": "2015-06-01T00:00:00Z", "channel": "#a", "user": "b", "added": "1"}',
        '{"time": "soon", "channel": "#a", "user": "b", "added": 1}',
        '{"time": null, "channel": "#a", "user": "b", "added": 1}',
        '{"time": 5, "channel": "#a", "user": "b", "added": 1}',
    ],
)
def test_plain_python_knows_what_is_no_edit(line: str, tmp_path: Path) -> None:
    edit = '{"time": "2015-06-01T00:01:00.5", "channel": "#a", "user": "b", "added": -1}'
    late = edit.replace("00:01:00.5", "00:00:59")
    (tmp_path / "edits.jsonl").write_text("\n".join([line, edit, late, edit]))
    (first, second) = check.edits_of(tmp_path / "edits.jsonl")
    assert first == second == check.Edit(1_433_116_860_500_000, "#a", "b", -1)


def test_the_picture_holds_what_a_channel_had_until_its_window_is_over() -> None:
    trends: check.Trends = {7: {("#a", 5, 1, 1), ("#b", 1, 1, 1), ("#c", 2, 1, 1)}}
    trends[27] = {("#c", 1, 1, 1)}
    found = draw.layers(trends, 1)
    assert found == {"#a": [5] * 20 + [0], "others": [3] * 20 + [1]}
