"""A process that has loaded what another program needs, and forks itself into it when asked.

A node takes seconds to load its libraries, most of the time that a small job takes. Here they are loaded
once; every node after that is there in milliseconds, and shares the memory of what was loaded. The server
runs nothing of what it has loaded, so a fork of it is like a program that has just loaded its modules,
except that all forks of a server hash strings alike.

It serves the process that made it alone, over a socket that nobody else has. When that process ends or is
killed, so does the server, and with it what it has forked (Linux: PR_SET_PDEATHSIG). A forked process is
reaped only when that is asked for: until then, as long as the server lives, nobody else can have its number.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, NoReturn

import setproctitle

from streammine.runtime.hash_seed import HASH_SEED

_LENGTH = struct.Struct("!I")
_LOAD_SECONDS = 120.0
_ANSWER_SECONDS = 30.0
"""A server that takes longer hangs; it is ended, and its client starts processes without it."""

_PR_SET_PDEATHSIG = 1

_POOL_SIZES = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


def pool_sizes(threads: int) -> dict[str, str]:
    """The variables by which libraries size their thread pools; they read them when they are loaded."""
    return dict.fromkeys(_POOL_SIZES, str(threads))


class ForkServerError(Exception):
    """The server is gone, or can't fork."""


@dataclass(frozen=True)
class Program:
    """A Python program as `module`'s `function`, called with `arguments` behind its name in sys.argv.

    The server loads `modules` for it, which are `module` and what it would load later. `title` is what lists
    of processes show.
    """

    title: str
    module: str
    function: str
    arguments: tuple[str, ...]
    modules: tuple[str, ...]


class ForkedProcess:
    """A process that a server has forked; used like a `subprocess.Popen`.

    `descriptor` is ready to read once it has ended, which is to be awaited before `wait` is called; whoever
    started it closes it.
    """

    stdout: IO[bytes] | None = None

    def __init__(self, server: ForkServer, pid: int, descriptor: int) -> None:
        self.pid = pid
        self.descriptor = descriptor
        self.returncode: int | None = None
        self._server = server

    def wait(self) -> int:
        """Reap it; gives the exit code, negative for the signal that ended it."""
        if self.returncode is None:
            try:
                self.returncode = int(self._server.ask({"reap": self.pid})[0]["code"])
            except ForkServerError:
                # it went with the server
                self.returncode = -signal.SIGKILL
        return self.returncode


class ForkServer:
    """The client's side; `pid` is the server's, a child of this process. Safe from any thread."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self.owner = os.getpid()
        self._channel = channel
        self._pid = pid
        self._descriptor = os.pidfd_open(pid)
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._lost = False
        self._closed = False

    @property
    def usable(self) -> bool:
        """Whether it is there, as far as is known, and ours: a fork of its owner shares its socket."""
        return not self._lost and self.owner == os.getpid()

    def start(
        self, program: Program, environment: Mapping[str, str], folder: str, output: int
    ) -> ForkedProcess:
        """Fork; `environment` replaces the server's, `folder` is where the program begins, and `output` the
        descriptor of its standard output and error. Raises ForkServerError."""
        request = {"start": asdict(program), "environment": dict(environment), "folder": folder}
        answer, descriptors = self.ask(request, (output,))
        return ForkedProcess(self, int(answer["pid"]), *descriptors)

    def wait_until_loaded(self) -> None:
        """Return when it can fork at once, or can't at all."""
        with contextlib.suppress(ForkServerError):
            self.ask({"loaded": True}, patience_seconds=_LOAD_SECONDS)

    def ask(
        self,
        request: Mapping[str, Any],
        descriptors: Sequence[int] = (),
        patience_seconds: float | None = None,
    ) -> tuple[dict[str, Any], list[int]]:
        """The server's answer, and the descriptors that came with it. Raises ForkServerError."""
        body = json.dumps(request).encode()
        with self._lock:
            if not self.usable:
                raise ForkServerError("the server is gone")
            self._channel.settimeout(patience_seconds or _ANSWER_SECONDS)
            try:
                _send_message(self._channel, body, descriptors)
                message, received = _received_message(self._channel)
                answer: dict[str, Any] = json.loads(message)
            except BaseException as error:
                # it may hang, or, after a Ctrl-C, have forked what nobody would know of
                self._lost = True
                self._kill()
                if isinstance(error, OSError | ValueError):
                    raise ForkServerError(f"the server is gone: {error}") from error
                raise
        if "error" in answer:
            raise ForkServerError(answer["error"])
        return answer, received

    def close(self) -> None:
        """End the server, and all that it has forked, at once: it has nothing to tidy up."""
        if self.owner != os.getpid():
            return
        with self._ending:
            if self._closed:
                return
            self._lost = True
            # another thread that waits for an answer finds it gone, and lets go of the lock
            self._kill()
            with self._lock:
                self._channel.close()
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(self._pid, 0)
                self._closed = True
                os.close(self._descriptor)

    def _kill(self) -> None:
        """Kill it; when this returns, the kernel has killed what it has forked."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
        select.select([self._descriptor], [], [])


Kind = tuple[tuple[str, ...], tuple[str | None, ...]]
"""What servers differ in: their modules, and what can't be changed once these are loaded."""

_servers: dict[Kind, ForkServer] = {}
_users: Counter[Kind] = Counter()
_guard = threading.Lock()


def _kind(modules: tuple[str, ...], environment: Mapping[str, str]) -> Kind:
    return modules, tuple(environment.get(name) for name in (*_POOL_SIZES, *HASH_SEED))


def server_for(modules: tuple[str, ...], environment: Mapping[str, str]) -> ForkServer:
    """This process's server that loads `modules` in `environment`; started now unless there is one.

    Returns at once: the server loads while this process goes on. To be called from a thread that lives as
    long as the process.
    """
    return _serving(
        _kind(modules, environment), lambda own, theirs: _execute(theirs, modules, environment)
    )


@contextlib.contextmanager
def server_kept(modules: tuple[str, ...], environment: Mapping[str, str]) -> Iterator[None]:
    """Meanwhile this process uses such servers. When the last use is over, the server is ended."""
    kind = _kind(modules, environment)
    with _guard:
        _users[kind] += 1
    try:
        yield
    finally:
        with _guard:
            _users[kind] -= 1
            server = None if _users[kind] else _servers.pop(kind, None)
        if server is not None:
            server.close()


@contextlib.contextmanager
def pools_sized(threads: int) -> Iterator[None]:
    """What is loaded meanwhile sizes its thread pools by `threads`, as a program of that size would."""
    sizes = pool_sizes(threads)
    before = {name: os.environ[name] for name in sizes if name in os.environ}
    os.environ.update(sizes)
    try:
        yield
    finally:
        for name in sizes:
            del os.environ[name]
        os.environ.update(before)


def fork_server_here(modules: tuple[str, ...]) -> None:
    """Make a server of this process, which has loaded most of `modules` already.

    To be called early, from the main thread and with the pools sized as those of the programs. Only the
    calling thread goes on in a fork: where other Python threads run already, nothing happens, and the
    server is started when it is needed. The pools of libraries must not have been used yet.
    """
    if threading.active_count() == 1:
        _serving(_kind(modules, os.environ), lambda own, theirs: _fork(own, theirs, modules))


def _serving(kind: Kind, start: Callable[[socket.socket, socket.socket], int]) -> ForkServer:
    """The server that is there, or one that `start` makes of two sockets; it gives its pid."""
    with _guard:
        server = _servers.get(kind)
        if server is not None and not server.usable:
            server.close()
            server = None
        if server is None:
            own, theirs = socket.socketpair()
            with theirs:
                server = _servers[kind] = ForkServer(own, start(own, theirs))
        return server


@atexit.register
def close_servers() -> None:
    """End the servers of this process, with what they have forked."""
    while _servers:
        _, server = _servers.popitem()
        server.close()


def _fork(own: socket.socket, theirs: socket.socket, modules: Sequence[str]) -> int:
    global _guard
    _flush_output()
    client = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            # it is held at this moment, and nobody there would let it go
            _guard = threading.Lock()
            own.close()
            _leave_all_but(theirs.fileno())
            _open_missing_streams()
            _serve(theirs, client, modules)
        except BaseException:
            # a client that finds it gone starts its processes itself
            os._exit(1)
    return pid


def _execute(channel: socket.socket, modules: Sequence[str], environment: Mapping[str, str]) -> int:
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(channel.fileno()), str(os.getpid()), *modules],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[channel.fileno()],
        env=environment,
    )
    # `ForkServer` reaps it
    process.returncode = 0
    return process.pid


def _leave_all_but(descriptor: int) -> None:
    """Let go of what a fork of the client still holds: files, pipes, and the terminal."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, descriptor):
            with contextlib.suppress(OSError):
                os.close(int(name))


def _flush_output() -> None:
    # a process that was started with one closed has None in its place
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()


def _open_missing_streams() -> None:
    """Have the streams that Python leaves out when a process starts with a standard descriptor closed."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


# --- the server --------------------------------------------------------------------------------------


def _serve(channel: socket.socket, client: int, modules: Sequence[str]) -> NoReturn:
    """Load, then fork as asked until the client is gone."""
    _begin_group(client)
    # a client that ignores the ends of its children hands that on, and nothing could be reaped
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _call_oneself("streammine fork server")
    for module in modules:
        importlib.import_module(module)
    # pages that no collection touches stay shared with the forks
    gc.collect()
    gc.freeze()
    server = os.getpid()
    while True:
        try:
            body, descriptors = _received_message(channel)
        except OSError:
            os._exit(0)
        request = json.loads(body)
        answer: dict[str, Any] = {}
        try:
            if "reap" in request:
                _, status = os.waitpid(request["reap"], 0)
                answer = {"code": os.waitstatus_to_exitcode(status)}
            elif "start" in request:
                pid = os.fork()
                if pid == 0:
                    channel.close()
                    _become(request, server, *descriptors)
                # whichever of the two is first: its group is there when the client hears of it
                with contextlib.suppress(OSError):
                    os.setpgid(pid, pid)
                answer = {"pid": pid}
        except OSError as error:
            answer = {"error": f"the server can't do it: {error.strerror}"}
        # made here, where nobody else can have its number
        ends = [os.pidfd_open(answer["pid"])] if "pid" in answer else []
        _send_message(channel, json.dumps(answer).encode(), ends)
        for descriptor in descriptors + ends:
            os.close(descriptor)


def _send_message(channel: socket.socket, body: bytes, descriptors: Sequence[int]) -> None:
    socket.send_fds(channel, [_LENGTH.pack(len(body))], descriptors)
    channel.sendall(body)


def _received_message(channel: socket.socket) -> tuple[bytes, list[int]]:
    """A message and the descriptors that came with it. Raises OSError when the other side is gone."""
    head, descriptors, _, _ = socket.recv_fds(channel, _LENGTH.size, 1, socket.MSG_CMSG_CLOEXEC)
    while 0 < len(head) < _LENGTH.size:
        more = channel.recv(_LENGTH.size - len(head))
        head = head + more if more else b""
    if not head:
        raise ConnectionResetError("the other side is gone")
    (length,) = _LENGTH.unpack(head)
    body = bytearray()
    while len(body) < length:
        part = channel.recv(length - len(body))
        if not part:
            raise ConnectionResetError("the other side is gone")
        body += part
    return bytes(body), descriptors


def _begin_group(parent: int) -> None:
    """Lead a process group of one's own, and die with the parent."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _call_oneself(title: str) -> None:
    # a long title would be written over the environment that lists of processes show, too
    os.environ["SPT_NOENV"] = "1"
    setproctitle.setproctitle(title)


def _become(request: Mapping[str, Any], server: int, output: int) -> NoReturn:
    """Run the program that is asked for in this process, and end it."""
    code: Any = 1
    try:
        _begin_group(server)
        program = Program(**request["start"])
        for standard in (1, 2):
            os.dup2(output, standard)
        os.close(output)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _call_oneself(program.title)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        sys.path[:] = _search_path(request["folder"])
        sys.argv = [program.module, *program.arguments]
        _differ_from_others()
        getattr(importlib.import_module(program.module), program.function)()
        code = 0
    except SystemExit as exit_:
        code = exit_.code
    except BaseException:
        traceback.print_exc()
    finally:
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
        _end_as_a_program_does()
        os._exit(code or 0)


def _differ_from_others() -> None:
    """Random numbers that nobody seeds differ in each program; Python sees to its own."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _end_as_a_program_does() -> None:
    """Wait for threads, call what is to be called at the end, and write what is not written yet."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _flush_output()
    except BaseException:
        traceback.print_exc()


def _search_path(folder: str) -> list[str]:
    """The server's, with the folders first that a program started in `folder` would find first."""
    wanted = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return list(dict.fromkeys([folder, *filter(None, wanted), *sys.path]))


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])
