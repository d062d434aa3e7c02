"""The wheel: what it installs, and that a topology runs on it from an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"streammine", "partitioners", "replication"}

TOPOLOGY = """
epoch: {count: 1000}
sources:
  lines: {generator: words, rows: 5000}
operators:
  words: {input: lines, operator: "own:Words"}
  counts: {input: words, key: word, aggregate: {count: count()}}
sinks:
  result: {input: counts, format: parquet, path: out}
"""

OWN_MODULE = """
import streammine


class Words(streammine.Mapper):
    output = {"word": "string"}

    def map(self, event):
        return event.line.split()
"""

READER = """
import partitioners, replication, streammine
print(streammine.__file__)
tables = [table for _, table in streammine.read_output("out")]
print(sum(sum(table["count"].to_pylist()) for table in tables))
"""


def checked(*command: object, **options: object) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, **options
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what is in the repository, without the network."""
    source = tmp_path_factory.mktemp("source")
    for name in (*PACKAGES, "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        os.symlink(ROOT / name, source / name)
    folder = tmp_path_factory.mktemp("wheel")
    checked(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
        *("--outdir", folder, source),
    )
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content alone; its dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("site")
    checked(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
        *("--disable-pip-version-check", "--target", folder, wheel),
    )
    return folder


def test_the_wheel_holds_the_three_packages_typed_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    modules = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert modules == {name for name in names if name.endswith(".py")}
    assert any(name.endswith("LICENSE") for name in names)
    (points,) = [name for name in names if name.endswith("entry_points.txt")]
    assert "streammine = streammine.cli.main:main" in zipfile.ZipFile(wheel).read(points).decode()


def test_a_topology_with_own_code_runs_on_the_installed_wheel_from_an_empty_folder(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    (tmp_path / "own.py").write_text(OWN_MODULE)
    # An editable install of the checkout stands behind the wheel's content on the path.
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    script = installed / "bin" / "streammine"
    printed = checked(
        *(sys.executable, script, "run", "topology.yaml", "--json"), cwd=tmp_path, env=environment
    )
    summary = json.loads(printed.splitlines()[-1])
    assert (summary["events_in"], summary["epochs"]) == (5_000, 5)
    origin, total = checked(
        sys.executable, "-c", READER, cwd=tmp_path, env=environment
    ).splitlines()
    assert Path(origin).is_relative_to(installed)
    assert int(total) == 50_000
