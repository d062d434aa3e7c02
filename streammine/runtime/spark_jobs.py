"""Spark jobs in a process of their own: only `pipeline` may load PySpark.

The job is a module of `streammine.pipeline` that is given a file with its request and writes JSON
lines: progress, then one report or failure.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
from pydantic import BaseModel, ValidationError

from streammine.model.errors import ClusterError, InputError, OutputError, StreammineError
from streammine.model.spark_job import SparkFailure, SparkProgress
from streammine.runtime import scratch
from streammine.runtime.java import find_java
from streammine.runtime.processes import ChildProcess

ProgressListener = Callable[[SparkProgress], None]
Report = TypeVar("Report", bound=BaseModel)

_STOP_SECONDS = 5.0
_LAST_LINES = 5


def run_spark_job(
    job: str, request: BaseModel, report: type[Report], listener: ProgressListener | None = None
) -> Report:
    """Run `streammine.pipeline.JOB` with a request and wait for its report.

    When this call is interrupted, or the listener raises, all processes of the job are ended first. Raises
    InputError, OutputError and ClusterError as the job does, and ClusterError where Java is missing.
    """
    java = find_java()
    with scratch.ScratchFolder(f"streammine-{job}-") as place:
        request_file = place.path / "request.json"
        request_file.write_text(request.model_dump_json())
        process = ChildProcess(
            job,
            [sys.executable, "-m", f"streammine.pipeline.{job}", str(request_file)],
            "pipe",
            environment=_environment(str(place.path), java),
        )
        try:
            outcome, last_words = _outcome(process, report, listener)
        finally:
            _end(process)
        if outcome is None:
            raise ClusterError(f"{process.ending()}: {' | '.join(last_words)}")
    if isinstance(outcome, SparkFailure):
        raise _error_of(outcome)
    return outcome


def _environment(scratch: str, java: Path) -> dict[str, str]:
    """This process's, with this package and Java found and temporary files where they will go."""
    package = str(Path(__file__).parents[2])
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "JAVA_HOME": str(java.resolve().parents[1]),
        "TMPDIR": scratch,
    }


def _outcome(
    process: ChildProcess, report: type[Report], listener: ProgressListener | None
) -> tuple[Report | SparkFailure | None, list[str]]:
    """Follow the job's output to its end: what came of it, None when it ended without a word, and
    the last lines of other output."""
    outcome: Report | SparkFailure | None = None
    last_words: deque[str] = deque(maxlen=_LAST_LINES)
    for line in process.pipe:
        message = _message(line, (report, SparkFailure, SparkProgress))
        if message is None:
            # Java and libraries print, too.
            last_words.append(line.decode(errors="replace").strip())
        elif isinstance(message, report | SparkFailure):
            outcome = message
        elif listener is not None:
            assert isinstance(message, SparkProgress)
            listener(message)
    process.wait()
    return outcome, list(last_words)


def _message(line: bytes, kinds: tuple[type[BaseModel], ...]) -> BaseModel | None:
    for kind in kinds:
        try:
            return kind.model_validate_json(line)
        except ValidationError:
            continue
    return None


def _end(process: ChildProcess) -> None:
    """End the job with all that it started: Spark's Python workers leave the process group."""
    family: list[psutil.Process] = []
    if process.exit_code is None:
        with _gone_is_fine():
            family = psutil.Process(process.pid).children(recursive=True)
        process.interrupt_group()
        process.wait(_STOP_SECONDS)
    process.close(grace_seconds=0)
    _, alive = psutil.wait_procs(family, _STOP_SECONDS)
    for each in alive:
        with _gone_is_fine():
            each.kill()


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        return


def _error_of(failure: SparkFailure) -> StreammineError:
    kinds: dict[str, type[StreammineError]] = {
        "input": InputError,
        "output": OutputError,
        "cluster": ClusterError,
    }
    return kinds[failure.kind](failure.error)
