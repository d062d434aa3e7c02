"""Folders that go with the process that made them, and the folders of clusters that are up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from streammine.model.errors import ClusterError
from streammine.runtime.scratch import ScratchFolder
from streammine.runtime.standing import claim_folder, cluster_folder, held, is_up, read_state

MAKER = """
import sys, os, signal
from streammine.runtime.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "file").write_text("content")
print(folder.path, flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("ending", ["kill", "return"])
def test_a_scratch_folder_is_gone_when_its_process_is(ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAKER, ending], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == (-signal.SIGKILL if ending == "kill" else 0)
    folder = Path(done.stdout.strip())
    deadline = time.monotonic() + 10
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_closed_scratch_folder_leaves_no_folder_and_no_process() -> None:
    before = set(psutil.Process().children())
    with ScratchFolder() as folder:
        assert folder.path.stat().st_mode & 0o777 == 0o700
        with ScratchFolder() as other:
            assert len(set(psutil.Process().children()) - before) == 1
    assert not folder.path.exists()
    assert not other.path.exists()
    assert set(psutil.Process().children()) == before


def test_a_cluster_has_its_folder_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = cluster_folder("mine", None)
    assert folder == tmp_path / "streammine" / "mine"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cluster_folder(None, None) == tmp_path / ".streammine" / "clusters" / "default"
    assert cluster_folder("mine", tmp_path / "own") == tmp_path / "own"
    with pytest.raises(ClusterError, match="letters, digits"):
        cluster_folder("../mine", None)

    assert not is_up(folder)
    with pytest.raises(ClusterError, match=r"no cluster is up in .*; start one with"):
        read_state(folder)
    claim_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    with held(folder):
        assert is_up(folder)
        with pytest.raises(ClusterError, match="still starting, or ending"):
            read_state(folder)
        with pytest.raises(ClusterError, match="a cluster is up already"):
            claim_folder(folder)
    (folder / "left.log").write_text("by one that was killed")
    claim_folder(folder)
    assert os.listdir(folder) == []
