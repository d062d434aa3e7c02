"""Child processes that never outlive their parent.

A child runs in a process group of its own, so that Ctrl-C in a terminal reaches the parent alone,
which then ends its children in order. Should the parent be killed, the kernel kills the child
(Linux: PR_SET_PDEATHSIG), and at a normal exit the ones that are left are ended.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Literal, TypeVar

from streammine.model.errors import ClusterError
from streammine.runtime.fork_server import (
    ForkedProcess,
    ForkServer,
    ForkServerError,
    Program,
    server_for,
)

# Runs in the child before it becomes the wanted program: fork hooks in a threaded parent are
# unsafe. A parent that died before the request was made shows by the child's having another one.
_BEFORE_PROGRAM = """
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)
    if os.getppid() != int(sys.argv[1]):
        os._exit(1)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"cannot start {sys.argv[2]}: {error.strerror}")
"""

Started = TypeVar("Started")

_living: weakref.WeakSet[ChildProcess] = weakref.WeakSet()
_spawner: ThreadPoolExecutor | None = None


class ChildProcess:
    """A running child. `name` is for messages.

    `output` takes standard output and error: a file (appended to) or "pipe", which the caller reads
    from `pipe` to its end. It has no standard input. `loaded`: the command is that of a Python program
    which is forked from this process's fork server, where there is one, instead of loading everything
    itself. Raises ClusterError when the program can't be started at all.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        output: Path | Literal["pipe"],
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        loaded: Program | None = None,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.output = output
        variables = dict(os.environ if environment is None else environment)
        shim = [sys.executable, "-I", "-S", "-c", _BEFORE_PROGRAM, str(os.getpid()), *command]

        def spawn(stdout: int | IO[bytes]) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                shim,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=variables,
                process_group=0,
            )

        def fork(stdout: int) -> ForkedProcess | None:
            if loaded is None:
                return None
            where = str(folder or Path.cwd())
            try:
                server = preload(loaded.modules, variables)
                return server.start(loaded, variables, where, stdout)
            except ForkServerError:
                return None

        self._process: subprocess.Popen[bytes] | ForkedProcess
        forked: ForkedProcess | None = None
        try:
            if output == "pipe":
                self._process = _in_lasting_thread(lambda: spawn(subprocess.PIPE))
            else:
                with open(output, "ab") as file:
                    forked = fork(file.fileno())
                    self._process = forked or _in_lasting_thread(lambda: spawn(file))
        except OSError as error:
            raise ClusterError(f"cannot start {name}: {error}") from None
        # Ready to read as soon as the process has ended.
        self._descriptor = forked.descriptor if forked else os.pidfd_open(self._process.pid)
        self._closed = False
        _living.add(self)

    @property
    def pid(self) -> int:
        """The process's id, which is its group's as well."""
        return self._process.pid

    @property
    def pipe(self) -> IO[bytes]:
        """What the child writes; only where `output` is "pipe"."""
        assert self._process.stdout is not None
        return self._process.stdout

    def fileno(self) -> int:
        """A descriptor that is ready to read once the process has ended; for `select`."""
        return self._descriptor

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self.wait(0)

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Wait for its end. Gives the exit code, or None when it still runs after the time."""
        if self._process.returncode is None:
            ready, _, _ = select.select([self._descriptor], [], [], timeout_seconds)
            if not ready:
                return None
            # As long as it is not reaped, no one else can have its number, nor its group's. One that
            # went with its fork server may be reaped: its number is free when nothing is left of its
            # group, and another's only after all other numbers have been given.
            self._kill_group()
            self._process.wait()
        return self._process.returncode

    def interrupt(self) -> None:
        """Ask it to end (SIGTERM), without waiting. Nothing happens when it has ended."""
        if self._process.returncode is None:
            # by its descriptor: one that went with its fork server may be reaped already
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGTERM)

    def interrupt_group(self) -> None:
        """Ask it and all of its group to end (SIGTERM), without waiting."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and all of its group, and wait for its end."""
        if self._process.returncode is None:
            self._kill_group()
            self.wait()

    def close(self, grace_seconds: float = 5.0) -> None:
        """End it: politely, then, after the grace, by force. What it left in its group dies."""
        if self._closed:
            return
        try:
            self.interrupt()
            self.wait(grace_seconds)
        finally:  # A second Ctrl-C while we wait must not leave it running.
            self.kill()
            os.close(self._descriptor)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._closed = True
            _living.discard(self)

    def ending(self) -> str:
        """How it ended, in words for a person; only after its end."""
        code = self.exit_code
        assert code is not None, f"{self.name} still runs"
        if code >= 0:
            return f"{self.name} ended with exit code {code}"
        try:
            signal_name = signal.Signals(-code).name
        except ValueError:
            signal_name = f"signal {-code}"
        hint = " (by someone, or because memory ran out)" if -code == signal.SIGKILL else ""
        return f"{self.name} was ended by {signal_name}{hint}"

    def output_tail(self, lines: int = 20) -> str:
        """The last lines of its output file, for messages."""
        assert isinstance(self.output, Path)
        try:
            with self.output.open("rb") as file:
                file.seek(max(0, self.output.stat().st_size - 200 * lines))
                text = file.read().decode(errors="replace")
        except OSError as error:
            return f"(no output: {error.strerror})"
        return "\n".join(text.splitlines()[-lines:])

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def preload(modules: tuple[str, ...], environment: Mapping[str, str]) -> ForkServer:
    """The fork server of programs that need `modules`. It loads them while this process goes on."""
    return _in_lasting_thread(lambda: server_for(modules, environment))


@contextmanager
def signals_deferred() -> Iterator[None]:
    """SIGINT and SIGTERM raise what they raise only afterwards: a process that is started meanwhile is known
    to whoever will end it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    deferring = True
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        if deferring:
            came.append(number)
            return
        # the other signal raised before this one's handler was put back
        signal.signal(number, handlers[signal.Signals(number)])
        signal.raise_signal(number)

    try:
        for number in handlers:
            signal.signal(number, note)
        yield
    finally:
        deferring = False
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for one in came:
            signal.raise_signal(one)


def close_all(children: Sequence[ChildProcess], grace_seconds: float = 5.0) -> None:
    """End several children at once: all are asked first, so that they share one grace."""
    for child in children:
        child.interrupt()
    for child in children:
        child.close(grace_seconds)


def _in_lasting_thread(spawn: Callable[[], Started]) -> Started:
    """Start a process from a thread that lives as long as this process does.

    The kernel's "parent" in PR_SET_PDEATHSIG is the thread that started the child: one started from
    a passing worker thread would be killed when that thread ends.
    """
    if threading.current_thread() is threading.main_thread():
        return spawn()
    global _spawner
    if _spawner is None:
        _spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-starter")
    return _spawner.submit(spawn).result()


@atexit.register
def _close_living() -> None:
    close_all(list(_living), grace_seconds=2.0)
