"""Epoch logs for raw sources: reused while nothing changed, else prepared in a process of its own.

Logs lie in `.streammine/logs/<source>-<fingerprint>` beside the topology, or in the user's cache
folder where that can't be written. The fingerprint covers names, sizes and times of the raw files
and all settings that shape the log, so another topology or another input never meets the wrong log.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import TypeAdapter, ValidationError

from streammine.model.epoch_log import DEAD_LETTERS_NAME, EPOCHS_NAME, MANIFEST_NAME, Manifest
from streammine.model.errors import ClusterError, InputError, OutputError, StreammineError
from streammine.model.preparation import (
    PrepareFailure,
    PrepareProgress,
    PrepareReport,
    PrepareRequest,
)
from streammine.runtime import scratch
from streammine.runtime.java import find_java
from streammine.runtime.places import kept_folder
from streammine.runtime.processes import ChildProcess

ProgressListener = Callable[[PrepareProgress], None]

_STOP_SECONDS = 5.0
_LAST_LINES = 5
_FINGERPRINT_DIGITS = 16
_Message = PrepareReport | PrepareFailure | PrepareProgress
_MESSAGES: TypeAdapter[_Message] = TypeAdapter(_Message)


def ensure_log(
    name: str, request: PrepareRequest, folder: Path, listener: ProgressListener | None = None
) -> Path:
    """The folder of the epoch log that `request` describes, made now unless it is there already.

    `name` is the source's, `folder` the topology's. Raises InputError (a raw file can't be read),
    OutputError (no room or no permission for the log) and ClusterError (Java or Spark fail).
    """
    logs = kept_folder(folder, "logs", "epoch logs")
    stem = re.sub(r"[^\w.-]", "_", name)
    log = logs / f"{stem}-{request.fingerprint[:_FINGERPRINT_DIGITS]}"
    with _locked(logs / f"{log.name}.lock"):
        if not is_current(log, request):
            _prepare_at(log, request, listener)
    return log


def is_current(log: Path, request: PrepareRequest) -> bool:
    """Whether `log` is whole and holds what `request` asks for."""
    try:
        manifest = Manifest.decode((log / MANIFEST_NAME).read_bytes(), str(log))
        sizes = {
            segment.name: segment.bytes
            for partition in manifest.partitions
            for segment in partition.segments
        }
        whole = all((log / each).stat().st_size == size for each, size in sizes.items())
    except (OSError, InputError):
        return False
    beside = all((log / each).is_file() for each in (DEAD_LETTERS_NAME, EPOCHS_NAME))
    return whole and beside and manifest.fingerprint == request.fingerprint


def run_prepare(request: PrepareRequest, listener: ProgressListener | None = None) -> PrepareReport:
    """Run the Spark job for `request` (its `output` says where to) and wait for it.

    When this call is interrupted, all processes of the job are ended first. Raises as `ensure_log`.
    """
    java = find_java()
    with scratch.ScratchFolder("streammine-prepare-") as place:
        request_file = place.path / "request.json"
        request_file.write_text(request.model_dump_json())
        process = ChildProcess(
            "prepare",
            [sys.executable, "-m", "streammine.pipeline.prepare", str(request_file)],
            "pipe",
            environment=_environment(str(place.path), java),
        )
        try:
            outcome, last_words = _outcome(process, listener)
        finally:
            _end(process)
        if outcome is None:
            raise ClusterError(f"{process.ending()}: {' | '.join(last_words)}")
    if isinstance(outcome, PrepareFailure):
        raise _error_of(outcome)
    return outcome


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Only one process at a time makes a log; the next one finds it ready."""
    try:
        file = path.open("a")
    except OSError as error:
        raise OutputError(f"{path} can't be written: {error.strerror}") from None
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _prepare_at(log: Path, request: PrepareRequest, listener: ProgressListener | None) -> None:
    scratch.guard(log)
    done = False
    try:
        run_prepare(request.model_copy(update={"output": str(log)}), listener)
        done = True
    finally:
        if done:
            scratch.release(log)
        else:
            scratch.remove(log)


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
    process: ChildProcess, listener: ProgressListener | None
) -> tuple[PrepareReport | PrepareFailure | None, list[str]]:
    """Follow the job's output to its end: what came of it, None when it ended without a word, and
    the last lines of other output."""
    outcome: PrepareReport | PrepareFailure | None = None
    last_words: deque[str] = deque(maxlen=_LAST_LINES)
    for line in process.pipe:
        try:
            message = _MESSAGES.validate_json(line)
        except ValidationError:
            # Java and libraries print, too.
            last_words.append(line.decode(errors="replace").strip())
            continue
        if not isinstance(message, PrepareProgress):
            outcome = message
        elif listener is not None:
            listener(message)
    process.wait()
    return outcome, list(last_words)


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


def _error_of(failure: PrepareFailure) -> StreammineError:
    kinds: dict[str, type[StreammineError]] = {
        "input": InputError,
        "output": OutputError,
        "cluster": ClusterError,
    }
    return kinds[failure.kind](failure.error)
