"""A run's processes and files as someone sees them who wants to harm them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from chaos_run.marked import marked_processes
from streammine.model.errors import StreammineError
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.processes import ChildProcess

ROOT = Path(__file__).resolve().parents[2]
MARK = "STREAMMINE_CHAOS"
REACH_SECONDS = 2.0


class Surroundings:
    """Folders for one round, and a mark on every process that is started in it.

    `folder` holds output, runs and logs. Temporary files lie apart, where paths are short enough for
    sockets.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.runs = folder / "runs"
        self.output = folder / "output"
        self.output.mkdir()
        self._mark = secrets.token_hex(8)
        self.temporary = Path(tempfile.mkdtemp(prefix="c-"))
        self._tmpfs = False
        self._starts = 0

    def start(self, *arguments: str) -> ChildProcess:
        """A `streammine` command. Its output goes to a log of its own, which `ended_with` reads."""
        self._starts += 1
        return ChildProcess(
            "streammine",
            [sys.executable, "-m", "streammine.cli.main", *arguments],
            self.folder / f"command-{self._starts}.log",
            folder=self.folder,
            environment=self.environment,
        )

    @property
    def environment(self) -> dict[str, str]:
        """What every process of the round runs with."""
        package = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(package),
            "TMPDIR": str(self.temporary),
            MARK: self._mark,
        }

    def processes(self, *words: str) -> list[psutil.Process]:
        """Living processes of this round that have these words in their command, oldest first."""
        return marked_processes(MARK, self._mark, *words)

    def nodes(self) -> list[psutil.Process]:
        return self.processes("streammine", "node run --name")

    def zookeeper(self) -> list[psutil.Process]:
        return self.processes("ZooKeeperServerMain")

    def manager(self) -> list[psutil.Process]:
        """The node that manages now; empty where nobody can say."""
        for state in self.temporary.glob("*/cluster/state.json"):
            try:
                told = json.loads(state.read_text(encoding="utf-8"))
                secret = ClusterKeys.load(state.parent / "cluster.key").zookeeper_secret
                with Coordinator(
                    told["zookeeper"],
                    told["cluster"],
                    secret,
                    lambda event: None,
                    operation_timeout_seconds=REACH_SECONDS,
                ) as service:
                    service.start(REACH_SECONDS, watch=False)
                    pids = [member.pid for member in service.members()[:1]]
            except (StreammineError, OSError):
                continue
            return [process for process in self.nodes() if process.pid in pids]
        return []

    def newest_snapshots(self) -> list[Path]:
        """Files of the newest snapshot of every slice that has one."""
        found: list[Path] = []
        for folder in self.runs.glob("*/snapshots/*/*"):
            files = sorted(path for path in folder.iterdir() if path.suffix in (".bin", ".json"))
            if files:
                newest = files[-1].name.partition("-")[0]
                found += [path for path in files if path.name.startswith(newest)]
        return found

    def committed(self) -> bool:
        """Whether any output is there."""
        return any(self.folder.glob("**/manifests/*.json"))

    def left_over(self) -> list[str]:
        """Processes, temporary files and runs that are there now."""
        names = [f"process {each.pid}: {' '.join(each.cmdline()[:8])}" for each in self.processes()]
        names += [str(path) for path in self.temporary.iterdir()]
        return names + ([str(path) for path in self.runs.iterdir()] if self.runs.is_dir() else [])

    def logs(self) -> list[Path]:
        """The logs of nodes and ZooKeeper."""
        return list(self.temporary.glob("**/*.log"))

    def limit_disk(self, size_bytes: int) -> None:
        """Let the output lie on a disk of that size. Needs root."""
        size = f"size={size_bytes}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", self.output], check=True)
        self._tmpfs = True

    def enlarge_disk(self, size_bytes: int) -> None:
        size = f"remount,size={size_bytes}"
        subprocess.run(["mount", "-o", size, self.output], check=True)

    def close(self, keep: bool) -> None:
        """End what is left; the folder goes too, unless it is to be looked at."""
        for process in self.processes():
            process.kill()
        shutil.rmtree(self.temporary, ignore_errors=True)
        if self._tmpfs:
            if keep:
                shutil.copytree(self.output, self.folder / "output-kept", dirs_exist_ok=True)
            subprocess.run(["umount", "--lazy", self.output], check=False)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def ended_with(command: ChildProcess) -> dict[str, object] | None:
    """The JSON line that a command ended with, None where there is none."""
    for line in reversed(command.output_tail().splitlines()):
        if line.startswith("{"):
            found: dict[str, object] = json.loads(line)
            return found
    return None
