"""The taxi rides on real processes: the shipped trips, and the first ones of the challenge."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import streammine
from apps.taxi import check

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT.parent / "shared" / "data" / "taxi" / "sorted_data_10004.csv.gz"

needs_trips = pytest.mark.skipif(not REAL.is_file(), reason=f"the real trips are not in {REAL}")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A copy of the application, so that nothing is written beside the original."""
    ignored = shutil.ignore_patterns("out", ".streammine", "__pycache__")
    return Path(shutil.copytree(ROOT / "apps" / "taxi", tmp_path / "app", ignore=ignored))


def run(app: Path, *arguments: object) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "streammine.cli.main", "run", str(app / "topology.yaml")),
            *("--json", *map(str, arguments)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def require_right(app: Path, trips: Path) -> dict[str, int]:
    """Both queries give the rows of plain Python, in their order; how many."""
    rows = {}
    for name, query in check.QUERIES.items():
        found = check.committed(str(app / "out" / name))
        assert found == list(query(check.trips_of(trips))), name
        rows[name] = len(found)
    return rows


def test_the_shipped_trips_give_the_rows_of_plain_python_and_one_digest(app: Path) -> None:
    trips = app / "data" / "trips.csv"
    digests = set()
    for nodes in (1, 2, 3):
        summary = run(app, "--nodes", nodes)
        digests.add(summary["output_digest"])
        assert all(require_right(app, trips).values())
        assert summary["events_in"] == 2_000
        assert summary["events_dead"] == 0
    assert len(digests) == 1
    for name in check.QUERIES:
        delays = [
            delay
            for _, table in streammine.read_output(app / "out" / name)
            for delay in table.column("delay").to_pylist()
        ]
        assert min(delays) > 0


def test_late_quoted_and_malformed_lines_are_judged_as_the_application_says(app: Path) -> None:
    lines = (app / "data" / "trips.csv").read_text().splitlines()
    hostile = []
    for number, line in enumerate(lines):
        values = line.split(",")
        if number % 50 == 10 and number > 500:
            hostile.append(lines[number - 300])  # late
        if number % 50 == 20:
            values[0] = f'"{values[0]}, ""the"" taxi"'
        odd = {
            31: (0, '""'),  # a name without letters
            32: (0, ""),
            33: (2, ""),
            34: (3, "2013-01-01"),  # late
            35: (3, "soon"),
            36: (11, "nan"),
            37: (6, "-74.0000005"),
            38: (14, "1/2"),
            39: (11, "3.505"),
            40: (3, values[3].replace(" ", "T") + "Z"),
            42: (6, "1e999"),
            43: (6, "1e"),
            44: (16, "1,2"),
        }
        if number in (941, 1991):
            values[1] = '"closed by the next mark, or never'
        if number % 50 in odd:
            place, value = odd[number % 50]
            values[place] = value
        hostile.append(",".join(values) + "\r" * (number % 3 == 0))
    half = len(hostile) // 2
    (app / "a.csv.gz").write_bytes(gzip.compress("\n".join(hostile[:half]).encode()))
    (app / "b.csv").write_text("\n".join(hostile[half:]), newline="\n")
    summary = run(app, "--set", f"input={app}/[ab].csv*")
    assert summary["events_dead"] > 200
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "apps.taxi.check", "--trips", f"{app}/[ab].csv*"),
            *("--output", str(app / "out")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("equal yes") == 2


@needs_trips
def test_the_first_trips_of_the_challenge_give_the_rows_of_plain_python(app: Path) -> None:
    summary = run(app, "--set", f"input={REAL}")
    assert summary["events_in"] == 10_004
    assert require_right(app, REAL) == {"routes": 589, "areas": 266}
    outliers: dict[str, int] = {}
    for _, table in streammine.read_output(app / "out" / "outliers"):
        for row in table.to_pylist():
            outliers[row["reason"]] = outliers.get(row["reason"], 0) + row["trips"]
    # 9,826 trips lie inside of the grid of 500 m, and none is only outside of that of 250 m
    assert outliers == {"outside of the grid of 500 m": 10_004 - 9_826}
