"""Commands as a user gives them, in surroundings that show whatever they leave behind."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psutil
import yaml

from scripts.chaos_run.marked import marked_processes

ROOT = Path(__file__).resolve().parents[2]
MARK = "STREAMMINE_TEST"
PATIENCE_SECONDS = 60.0

WORDCOUNT: dict[str, Any] = {
    "name": "words",
    "epoch": {"count": 500},
    "nodes": 2,
    "sources": {"lines": {"generator": "words", "rows": 5000, "seed": 7}},
    "operators": {
        "words": {"input": "lines", "flat_map": {"split": "line", "into": "word"}},
        "counts": {"input": "words", "key": "word", "aggregate": {"count": "count()"}},
    },
    "sinks": {"result": {"input": "counts", "format": "parquet", "path": "out"}},
}
"""Ends by itself after a moment."""

SLOW = {"sources.lines.rows": 10_000_000, "sources.lines.rate": "5000/s"}
"""With these it does not."""


class Workplace:
    """A folder to work in, a folder for temporary files, a home, and a mark on every process.

    The folder for temporary files has a short path, so that sockets find place in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(8)
        self.temporary = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
        self.home = self.temporary / "home"
        self.home.mkdir()
        package = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        kept = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
        self.environment = {
            **kept,
            "PYTHONPATH": os.pathsep.join(package),
            "TMPDIR": str(self.temporary),
            "HOME": str(self.home),
            MARK: self.mark,
        }

    def topology(
        self, content: dict[str, Any] | str = WORDCOUNT, file: str = "topology", **changes: Any
    ) -> Path:
        """Write a topology file; `changes` are dotted paths with __ for the dots."""
        path = self.folder / f"{file}.yaml"
        if isinstance(content, dict):
            content = json.loads(json.dumps(content))
            for key, value in changes.items():
                *parents, last = key.replace("__", ".").split(".")
                place: Any = content
                for parent in parents:
                    place = place[parent]
                place[last] = value
            content = yaml.safe_dump(content, sort_keys=False)
        path.write_text(content)
        return path

    def start(self, *arguments: object, **changes: str) -> subprocess.Popen[str]:
        """A command in a session of its own, as a terminal gives it one."""
        return subprocess.Popen(
            [sys.executable, "-m", "streammine.cli.main", *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment, **changes},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
        """A command to its end."""
        with self.start(*arguments, **changes) as process:
            output, errors = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def result(self, *arguments: object) -> dict[str, Any]:
        """The JSON line at the end of a command that must do well."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def processes(self, *words: str) -> list[psutil.Process]:
        """Living processes that were started from here and have these words in their command."""
        return marked_processes(MARK, self.mark, *words)

    def left_over(self) -> list[str]:
        """Processes and temporary files that are there now."""
        found = [f"{process.pid}: {process.name()}" for process in self.processes()]
        found += [str(path) for path in self.temporary.iterdir() if path != self.home]
        # os.walk, unlike rglob, does not mind what goes away meanwhile
        return found + [f"{top}/{name}" for top, _, names in os.walk(self.home) for name in names]

    def require_nothing_left(self) -> None:
        eventually(lambda: not self.left_over(), lambda: f"left: {self.left_over()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        for process in self.processes():
            process.kill()
        shutil.rmtree(self.temporary, ignore_errors=True)


@contextmanager
def standing(folder: Path, *options: object, at_once: bool = True) -> Iterator[Workplace]:
    """A workplace where a cluster is up, with one thread on each node; nothing is left of it in the end.

    `at_once`: when `down` returns. Where nodes were frozen, or not all processes are the cluster's own, it
    may take a while.
    """
    with Workplace(folder) as place:
        done = place.run("up", "--threads", 1, *options)
        assert done.returncode == 0, done.stderr
        yield place
        down = place.run("down")
        assert down.returncode == 0, down.stderr
        if at_once:
            assert not place.left_over()
        else:
            place.require_nothing_left()


def eventually(
    condition: Callable[[], bool], otherwise: Callable[[], str], seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait until something is so, which other processes bring about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.02)


def wait_for_output(folder: Path) -> None:
    """Until a job has committed something there."""
    eventually(
        lambda: any((folder / "manifests").glob("*.json")), lambda: f"nothing comes in {folder}"
    )
