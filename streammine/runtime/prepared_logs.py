"""Epoch logs for raw sources: reused while nothing changed, else prepared in a process of its own.

Logs lie in `.streammine/logs/<source>-<fingerprint>` beside the topology, or in the user's cache
folder where that can't be written. The fingerprint covers names, sizes and times of the raw files
and all settings that shape the log, so another topology or another input never meets the wrong log.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streammine.model.epoch_log import DEAD_LETTERS_NAME, EPOCHS_NAME, MANIFEST_NAME, Manifest
from streammine.model.errors import InputError, OutputError
from streammine.model.preparation import PrepareReport, PrepareRequest
from streammine.runtime import scratch
from streammine.runtime.places import kept_folder
from streammine.runtime.spark_jobs import ProgressListener, run_spark_job

_FINGERPRINT_DIGITS = 16


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
    return run_spark_job("prepare", request, PrepareReport, listener)


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
