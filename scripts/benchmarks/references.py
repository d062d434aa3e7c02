"""The reference programs as processes that stay up, like the engine's nodes, and are asked for runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

PACKAGE_FOLDER = Path(__file__).resolve().parent.parent


class Reference:
    """One reference program on one workload, with `threads` threads. A context manager."""

    def __init__(self, name: str, workload: str, threads: int) -> None:
        self.name = name
        environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.programs", name, workload, str(threads)],
            cwd=PACKAGE_FOLDER,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, files: dict[str, Path], output: Path) -> float:
        """Do the work once; gives its seconds. Raises RuntimeError when the program has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "files": {name: str(path) for name, path in files.items()},
            "output": str(output),
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the reference {self.name} ended with {self._process.wait()}")
        return float(json.loads(answer)["seconds"])

    def close(self) -> None:
        """End the process; its input ends, so it does."""
        self._process.communicate()

    def __enter__(self) -> Reference:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
