"""Folders that are gone when the process that made them is, however it ended.

A process that is killed can't tidy up. So a small process in a session of its own holds the other end
of a pipe: when that closes, it removes the folders that it was told of and ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from streammine.model.errors import ClusterError

# Processes of the dead one are killed at about the same time and may still write: a folder must be
# seen to stay away before it counts as gone.
_JANITOR = """
import os, shutil, sys, time
folders = set()
for line in sys.stdin:
    folder = os.fsdecode(bytes.fromhex(line[1:]))
    (folders.add if line[0] == "+" else folders.discard)(folder)
for _ in range(100 if folders else 0):
    found = [folder for folder in folders if os.path.lexists(folder)]
    for folder in found:
        shutil.rmtree(folder, ignore_errors=True)
    time.sleep(0.1)
    if not any(map(os.path.lexists, folders)):
        break
"""

_END_SECONDS = 5.0


class _Janitor:
    """Removes what this process guards. It runs only while something is guarded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0
        self._guarded: set[Path] = set()

    def guard(self, folder: Path) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._start()
            self._guarded.add(folder)
            self._tell("+", folder)

    def release(self, folder: Path) -> None:
        with self._lock:
            if folder not in self._guarded or self._owner != os.getpid():
                return
            self._guarded.remove(folder)
            self._tell("-", folder)
            if not self._guarded:
                self._end()

    def close(self) -> None:
        """Leave what is still guarded to the process, and wait until it has done its work."""
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                self._end()

    def _tell(self, sign: str, folder: Path) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # Where someone killed it, what we remove ourselves has to do.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{sign}{os.fsencode(folder).hex()}\n")
            self._process.stdin.flush()

    def _start(self) -> None:
        self._owner = os.getpid()
        self._guarded = set()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _JANITOR],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise ClusterError(f"cannot start a process: {error.strerror}") from None

    def _end(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)


_janitor = _Janitor()
atexit.register(_janitor.close)


def guard(folder: Path) -> None:
    """Have `folder` removed when this process ends without having released it."""
    _janitor.guard(folder.absolute())


def release(folder: Path) -> None:
    """The folder is removed already, or is to stay."""
    _janitor.release(folder.absolute())


def remove(folder: Path) -> None:
    """Remove a guarded folder now, and release it."""
    shutil.rmtree(folder, ignore_errors=True)
    release(folder)


class ScratchFolder:
    """A new private folder (mode 0700) among the temporary files, removed by `close` at the latest.

    Raises ClusterError when none can be made.
    """

    def __init__(self, prefix: str = "streammine-") -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
        except OSError as error:
            raise ClusterError(
                f"there is no place for temporary files: {error.strerror} "
                f"({tempfile.gettempdir()}); free some space, or set TMPDIR to another folder"
            ) from None
        guard(self.path)

    def close(self) -> None:
        """Remove it with all that is in it. May be called more than once."""
        remove(self.path)

    def __enter__(self) -> ScratchFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
