"""A process that has loaded what another program needs, and forks itself into it when asked.

A node takes seconds to load its libraries, most of the time that a small job takes. Here they are loaded
once; every node after that is there in milliseconds, and shares the memory of what was loaded. The server
runs nothing of what it has loaded, so a fork of it is like a program that has just loaded its modules.

It serves the process that made it alone, over a socket that nobody else has. When that process ends or is
killed, so does the server, and with it what it has forked (Linux: PR_SET_PDEATHSIG). A forked process is
reaped only when that is asked for: until then nobody else can have its number.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, NoReturn

import setproctitle

_LENGTH = struct.Struct("!I")
_END_SECONDS = 2.0
_PR_SET_PDEATHSIG = 1


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

    Before `wait` is called, its end is awaited otherwise (`os.pidfd_open`).
    """

    stdout: IO[bytes] | None = None

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def wait(self) -> int:
        """Reap it; gives the exit code, negative for the signal that ended it."""
        if self.returncode is None:
            try:
                self.returncode = int(self._server.ask({"reap": self.pid})["code"])
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
        return ForkedProcess(self, int(self.ask(request, (output,))["pid"]))

    def wait_until_loaded(self) -> None:
        """Return when it can fork at once, or can't at all."""
        with contextlib.suppress(ForkServerError):
            self.ask({"loaded": True})

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """The server's answer. Raises ForkServerError."""
        body = json.dumps(request).encode()
        with self._lock:
            if not self.usable:
                raise ForkServerError("the server is gone")
            try:
                socket.send_fds(self._channel, [_LENGTH.pack(len(body))], descriptors)
                self._channel.sendall(body)
                answer: dict[str, Any] = json.loads(_received_message(self._channel)[0])
            except (OSError, ValueError) as error:
                self._lost = True
                raise ForkServerError(f"the server is gone: {error}") from error
            except BaseException:
                # Ctrl-C: it may have forked what nobody would know of
                self._lost = True
                self._kill()
                raise
        if "error" in answer:
            raise ForkServerError(answer["error"])
        return answer

    def close(self) -> None:
        """End the server, and all that it has forked."""
        with self._lock:
            self._lost = True
            if self._closed or self.owner != os.getpid():
                return
            self._closed = True
            self._channel.close()
            if not select.select([self._descriptor], [], [], _END_SECONDS)[0]:
                self._kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            os.close(self._descriptor)

    def _kill(self) -> None:
        """Kill it; when this returns, the kernel has killed what it has forked."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
        select.select([self._descriptor], [], [])


_servers: dict[tuple[str, ...], ForkServer] = {}
_guard = threading.Lock()


def server_for(modules: tuple[str, ...], environment: Mapping[str, str]) -> ForkServer:
    """This process's server that loads `modules`; started now unless there is one.

    Returns at once: the server loads while this process goes on. To be called from a thread that lives as
    long as the process.
    """
    return _serving(modules, lambda own, theirs: _execute(theirs, modules, environment))


def fork_server_here(modules: tuple[str, ...]) -> None:
    """Make a server of this process, which has loaded most of `modules` already.

    To be called early, from the main thread; where others run already, whose work a fork would cut off,
    nothing happens, and the server is started when it is needed.
    """
    if threading.active_count() == 1:
        _serving(modules, lambda own, theirs: _fork(own, theirs, modules))


def _serving(
    modules: tuple[str, ...], start: Callable[[socket.socket, socket.socket], int]
) -> ForkServer:
    """The server that is there, or one that `start` makes of two sockets; it gives its pid."""
    with _guard:
        server = _servers.get(modules)
        if server is not None and not server.usable:
            server.close()
            server = None
        if server is None:
            own, theirs = socket.socketpair()
            with theirs:
                server = _servers[modules] = ForkServer(own, start(own, theirs))
        return server


@atexit.register
def close_servers() -> None:
    """End the servers of this process, with what they have forked."""
    for server in _servers.values():
        server.close()
    _servers.clear()


def _fork(own: socket.socket, theirs: socket.socket, modules: Sequence[str]) -> int:
    global _guard
    sys.stdout.flush()
    sys.stderr.flush()
    client = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            # it is held at this moment, and nobody there would let it go
            _guard = threading.Lock()
            own.close()
            _leave_all_but(theirs.fileno())
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


# --- the server --------------------------------------------------------------------------------------


def _serve(channel: socket.socket, client: int, modules: Sequence[str]) -> NoReturn:
    """Load, then fork as asked until the client is gone."""
    _begin_group(client)
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
        if "reap" in request:
            _, status = os.waitpid(request["reap"], 0)
            answer: dict[str, Any] = {"code": os.waitstatus_to_exitcode(status)}
        elif "loaded" in request:
            answer = {}
        else:
            try:
                pid = os.fork()
            except OSError as error:
                answer = {"error": f"can't fork: {error.strerror}"}
            else:
                if pid == 0:
                    channel.close()
                    _become(request, server, *descriptors)
                # whichever of the two is first: its group is there when the client hears of it
                with contextlib.suppress(OSError):
                    os.setpgid(pid, pid)
                answer = {"pid": pid}
            for descriptor in descriptors:
                os.close(descriptor)
        data = json.dumps(answer).encode()
        channel.sendall(_LENGTH.pack(len(data)) + data)


def _received_message(channel: socket.socket) -> tuple[bytes, list[int]]:
    """A message and the descriptors that came with it. Raises OSError when the other side is gone."""
    head, descriptors, _, _ = socket.recv_fds(channel, _LENGTH.size, 1)
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
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code or 0)


def _search_path(folder: str) -> list[str]:
    """The server's, with the folders first that a program started in `folder` would find first."""
    wanted = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return list(dict.fromkeys([folder, *filter(None, wanted), *sys.path]))


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])
