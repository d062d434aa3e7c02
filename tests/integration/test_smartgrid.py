"""The smart grid as users start it: raw files in both layouts, on any number of nodes, while nodes die."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from apps.smartgrid import make_readings
from apps.smartgrid.make_readings import START, Grid
from tests.integration.disturbed import Watched, figures, nodes_of
from tests.integration.test_apps import ROOT, command, run
from tests.integration.workplace import standing, wait_for_output
from tests.unit.test_smartgrid import hostile_lines

pytestmark = pytest.mark.slow

REAL = ROOT.parent / "shared" / "data" / "smartgrid"
WITHOUT_IDS = (
    "--set",
    "delimiter= ",
    "--set",
    "sources.readings.csv.columns=[ts, value, property, plug_id, household_id, house_id]",
)
GRID = Grid(houses=4, plugs=30, interval=10)
ROUNDS = 90

needs_real_readings = pytest.mark.skipif(
    not REAL.is_dir(), reason=f"the challenge's readings are not in {REAL}"
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A copy of the application's folder, so that no log or output of the checkout's is used."""
    ignored = shutil.ignore_patterns("out", ".streammine", "__pycache__")
    return Path(shutil.copytree(ROOT / "apps" / "smartgrid", tmp_path / "app", ignore=ignored))


def require_right(output: Path, readings: Path) -> None:
    delimiter = " " if ".txt" in readings.name else ","
    given = ("--output", output, "--input", readings, "--delimiter", delimiter)
    checked = command("apps.smartgrid.check", *given)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "equal    yes" in checked.stdout


def test_the_first_command_forecasts_raw_readings_and_the_second_proves_it_right(app: Path) -> None:
    summary = run(app / "topology.yaml")
    lines = (app / "data" / "readings.csv").read_text().splitlines()
    assert summary["events_in"] == len(lines)
    malformed = [line for line in lines if line.count(",") != 6 or ",n/a," in line or ",-," in line]
    assert summary["events_dead"] == len(malformed) > 0
    require_right(app / "out", app / "data" / "readings.csv")

    other = app / "other.csv"
    make_readings.write_readings(other, make_readings.SMALL, 10)
    wrong = command("apps.smartgrid.check", "--output", app / "out", "--input", other)
    assert wrong.returncode == 1
    assert "equal    NO: houses, 1 minutes, epoch" in wrong.stdout


def test_layouts_nodes_and_slices_can_not_be_seen_in_the_output(app: Path) -> None:
    digests = set()
    runs: tuple[tuple[int, str, tuple[str, ...]], ...] = (
        (1, "a.csv.gz", ()),
        (2, "a.txt", WITHOUT_IDS),
        (3, "a.csv.gz", ("--set", "operators.forecasts.slices=3")),
        (4, "a.csv.gz", ("--set", "sources.readings.slices=1", "--set", "operators.sums.slices=4")),
    )
    for nodes, name, more in runs:
        path = app / name
        make_readings.write_readings(path, GRID, ROUNDS)
        summary = run(app / "topology.yaml", "--nodes", str(nodes), "--set", f"input={path}", *more)
        digests.add(summary["output_digest"])
        assert summary["events_dead"] > 0
    require_right(app / "out", path)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("topology", "module", "far"),
    [("topology", "check", True), ("outliers", "outliers_check", False)],
)
def test_hostile_readings_are_judged_as_the_application_says(
    app: Path, topology: str, module: str, far: bool
) -> None:
    """Lines of all kinds, in two files, the later times first. What is far on makes no windows of seconds."""
    lines = [line for line in hostile_lines() if far or not line.startswith("22,")]
    for hours, name in ((0, "b.csv"), (30, "a.csv.gz")):
        shifted = [line.replace(str(START), str(START + 3600 * hours)) for line in lines]
        (app / name).write_bytes(
            gzip.compress("\n".join(shifted).encode())
            if name.endswith(".gz")
            else "\n".join(shifted).encode()
        )
    readings = app / "[ab].csv*"
    summary = run(app / f"{topology}.yaml", "--set", f"input={readings}")
    assert summary["events_in"] == 2 * len(lines)
    assert summary["events_dead"] > len(lines)
    checked = command(f"apps.smartgrid.{module}", "--output", app / "out", "--input", readings)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "equal    yes" in checked.stdout


@needs_real_readings
@pytest.mark.parametrize(
    ("name", "rows", "more"),
    [
        ("houses0-39-2s.csv.gz", 5_000, ()),
        ("houses0-9-84s.txt.gz", 33_628, WITHOUT_IDS),
        ("house0-minutely.csv.gz", 103_195, ()),
    ],
)
def test_forecasts_of_the_challenges_own_readings_are_right(
    app: Path, name: str, rows: int, more: tuple[str, ...]
) -> None:
    summary = run(app / "topology.yaml", "--set", f"input={REAL / name}", *more)
    assert summary["events_in"] == rows
    assert summary["events_dead"] == 0
    require_right(app / "out", REAL / name)


def test_nodes_that_are_killed_can_not_be_seen(app: Path, tmp_path: Path) -> None:
    path = app / "a.csv"
    make_readings.write_readings(path, GRID, ROUNDS)
    given = ("--set", f"input={path}", "--json")
    known = figures(run(app / "topology.yaml", *given))
    slowly = (
        "sources.readings.speed=120",
        "snapshot.every=300ms",
        "sinks.plugs_1_minutes.commit.every=1",
        f"output={tmp_path / 'killed'}",
    )
    changes = [argument for each in slowly for argument in ("--set", each)]
    with standing(tmp_path) as place:
        cluster = Watched(place)
        cluster.wait_for_members(lambda members: len(members) == 2)
        with place.start("submit", app / "topology.yaml", *given, *changes) as process:
            wait_for_output(tmp_path / "killed" / "plugs-1-minutes")
            for victim in (-1, 0):
                name = list(cluster.members())[victim]
                cluster.kill(name)
                cluster.wait_for_plan(
                    cluster.job(), lambda plan, name=name: name not in nodes_of(plan)
                )
                cluster.wait_for_members(lambda members: len(members) == 2)
            told, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        assert figures(json.loads(told)) == known
        cluster.close()
    require_right(tmp_path / "killed", path)
