"""A disk that is full ends the job with an error that names it, and the run goes on when there is space."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.disturbed import figures
from tests.integration.workplace import Workplace

pytestmark = pytest.mark.slow

SMALL_BYTES = 40 << 10
"""Some epochs find place in it, not all."""


def mount(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk needs root and mount(8)")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = mount(folder, f"size={SMALL_BYTES}")
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_space(
    tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "work").mkdir()
    with Workplace(tmp_path / "work") as place:
        known = place.result("run", place.topology(file="known"), "--nodes", "1")
        paced = {"sources.lines.rate": "2500/s", "snapshot": {"every": "2 epochs"}}
        topology = place.topology(file="filling", **paced)
        on_disk = ("--nodes", "1", "--set", f"sinks.result.path={small_disk / 'result'}")
        stopped = place.run("run", topology, *on_disk)
        assert stopped.returncode == 1
        assert f"in {small_disk / 'result'}: No space left on device" in stopped.stderr
        assert "the disk is full: free some space" in stopped.stderr
        assert "Traceback" not in stopped.stderr
        (run,) = (place.folder / ".streammine" / "runs").iterdir()
        assert f"--resume {run.name}" in stopped.stderr
        place.require_nothing_left()

        assert mount(small_disk, "remount,size=64m").returncode == 0
        done = place.run("run", topology, *on_disk, "--resume", run.name, "--json")
        assert done.returncode == 0, done.stderr
        assert figures(json.loads(done.stdout)) == figures(known)
        assert not run.exists()
        assert not place.left_over()
