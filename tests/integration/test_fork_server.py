"""Programs forked from a server that has loaded their modules are like programs of their own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from streammine.runtime import fork_server
from streammine.runtime.fork_server import ForkServerError, Program, server_for, server_kept
from streammine.runtime.processes import ChildProcess

PROGRAM = """\
import atexit, os, sys, threading, time
import numpy.random

def main():
    print("arguments", sys.argv[1:], "in", os.getcwd(), "loaded by", LOADED_BY == os.getppid())
    print("word", os.environ.get("WORD"), "home" in str(os.environ).lower(), file=sys.stderr)
    what = sys.argv[1]
    if what == "listen":
        print("heard", repr(sys.stdin.read()))
    elif what == "sleep":
        print("sleeping", flush=True)
        time.sleep(600)
    elif what == "tidy":
        atexit.register(print, "tidied up")
        go_on = threading.Event()
        threading.Thread(target=lambda: go_on.wait() and print("a thread ended")).start()
        go_on.set()
    elif what == "draw":
        print("drew", numpy.random.random())
    elif what == "raise":
        raise ValueError("that was wrong")
    elif what == "say":
        sys.exit("something else")
    elif what == "exit":
        sys.exit(7)

LOADED_BY = os.getpid()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "small_program.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    others = dict(fork_server._servers)
    fork_server._servers.clear()
    yield tmp_path
    fork_server.close_servers()
    fork_server._servers.update(others)


Start = Callable[..., ChildProcess]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    children: list[ChildProcess] = []

    def begin(*arguments: str, modules: Sequence[str] = ("small_program",)) -> ChildProcess:
        loaded = Program("small one", "small_program", "main", arguments, tuple(modules))
        command = [sys.executable, "-c", "import small_program as p; p.main()", *arguments]
        environment = {"WORD": "hello", "PYTHONPATH": os.environ["PYTHONPATH"]}
        output = folder / f"output-{len(children)}"
        child = ChildProcess("p", command, output, folder, environment, loaded)
        children.append(child)
        return child

    yield begin
    for child in children:
        child.close()


def text(child: ChildProcess, wanted: str = "") -> str:
    """What it wrote, as soon as `wanted` is in it."""
    assert isinstance(child.output, Path)
    while wanted not in (found := child.output.read_text()) and child.exit_code is None:
        child.wait(0.01)
    return found


def wait_until_gone(pid: int) -> None:
    """The kernel kills it as soon as its parent is gone; then whoever adopted it reaps it, or not."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 20)[0], f"{pid} lives on"
    finally:
        os.close(descriptor)


def server_of(child: ChildProcess) -> psutil.Process:
    parent = psutil.Process(child.pid).parent()
    assert parent is not None
    return parent


def test_it_finds_what_a_program_of_its_own_would(start: Start, folder: Path) -> None:
    child = start("listen", "two words")
    assert child.wait(20) == 0
    assert sorted(text(child).splitlines()) == [
        f"arguments ['listen', 'two words'] in {folder} loaded by True",
        "heard ''",
        "word hello False",
    ]


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("raise", 1, "ValueError: that was wrong"),
        ("say", 1, "something else"),
        ("exit", 7, ""),
        ("nothing", 0, ""),
    ],
)
def test_its_end_is_that_of_a_program(start: Start, what: str, code: int, said: str) -> None:
    child = start(what)
    assert child.wait(20) == code
    assert said in text(child)


def test_it_can_be_interrupted_and_killed_alone(start: Start) -> None:
    children = [start("sleep") for _ in range(3)]
    for child in children:
        text(child, "sleeping")
        assert os.getpgid(child.pid) == child.pid
        assert " ".join(psutil.Process(child.pid).cmdline()).strip() == "small one"
        assert psutil.Process(child.pid).environ()["PYTHONPATH"] == os.environ["PYTHONPATH"]
    children[0].interrupt()
    assert children[0].wait(20) == -signal.SIGTERM
    children[1].kill()
    assert children[1].exit_code == -signal.SIGKILL
    assert children[2].exit_code is None
    assert len({server_of(children[2]).pid, server_of(start("sleep")).pid}) == 1


def test_all_go_with_the_server_and_later_ones_have_another(start: Start) -> None:
    first = start("sleep")
    server = server_of(first)
    server.kill()
    assert first.wait(20) == -signal.SIGKILL
    second = start("sleep")
    assert "loaded by True" in text(second, "sleeping")
    assert server_of(second).pid != server.pid


def test_whoever_finds_the_server_gone_starts_without_it(start: Start) -> None:
    server = server_of(start("sleep"))
    server.kill()
    server.wait(20)
    assert "loaded by False" in text(start("exit"), "loaded")
    assert "loaded by True" in text(start("exit"), "loaded")


def test_where_modules_can_not_be_loaded_the_program_starts_by_itself(start: Start) -> None:
    child = start("exit", modules=("no_such_module",))
    assert child.wait(20) == 7
    assert "loaded by False" in text(child)


def test_an_interrupted_start_leaves_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    child = start("sleep")
    before = server_of(child)

    def interrupted(channel: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fork_server, "_received_message", interrupted)
        with pytest.raises(KeyboardInterrupt):
            start("sleep")
    assert child.wait(20) == -signal.SIGKILL
    child.interrupt()
    assert not before.is_running() or before.status() == psutil.STATUS_ZOMBIE
    assert "loaded by True" in text(start("exit"), "loaded")


def test_threads_end_and_what_is_registered_for_the_end_is_called(start: Start) -> None:
    child = start("tidy")
    assert child.wait(20) == 0
    assert text(child).splitlines()[-2:] == ["a thread ended", "tidied up"]


def test_two_draw_different_random_numbers(start: Start) -> None:
    children = [start("draw"), start("draw")]
    drawn = {text(child, "drew").split("drew")[1].split()[0] for child in children}
    assert len(drawn) == 2


def test_a_client_that_ignores_the_ends_of_its_children_learns_of_them(start: Start) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        asleep = start("sleep")
        text(asleep, "sleeping")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert start("exit").wait(20) == 7
    assert asleep.exit_code is None


def test_a_server_that_can_not_do_something_goes_on(folder: Path) -> None:
    server = server_for(("small_program",), os.environ)
    with pytest.raises(ForkServerError, match="can't do it: No child processes"):
        server.ask({"reap": os.getpid()})
    assert server.usable
    server.wait_until_loaded()
    assert server.usable


def test_a_server_that_hangs_is_given_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    child = start("sleep")
    text(child, "sleeping")
    server_of(child).suspend()
    monkeypatch.setattr(fork_server, "_ANSWER_SECONDS", 0.1)
    assert "loaded by False" in text(start("exit"), "loaded")
    assert child.wait(20) == -signal.SIGKILL


def test_a_server_that_still_loads_is_ended_at_once(folder: Path) -> None:
    (folder / "slow_module.py").write_text("import time\n\ntime.sleep(600)\n")
    server = server_for(("slow_module",), os.environ)
    begin = time.monotonic()
    server.close()
    assert time.monotonic() - begin < 1.5
    assert not psutil.pid_exists(server._pid)


def test_the_last_user_ends_the_server(folder: Path) -> None:
    modules = ("small_program",)
    with server_kept(modules, os.environ):
        server = server_for(modules, os.environ)
        with server_kept(modules, os.environ):
            assert server_for(modules, os.environ) is server
        assert server_for(modules, os.environ) is server
        assert server.usable
    assert not psutil.pid_exists(server._pid)
    assert server_for(modules, os.environ) is not server


def test_pools_of_another_size_want_another_server(folder: Path) -> None:
    modules = ("small_program",)
    one, two = ({**os.environ, **fork_server.pool_sizes(threads)} for threads in (1, 2))
    assert server_for(modules, one) is not server_for(modules, two)
    assert server_for(modules, one) is server_for(modules, one)


POOLS = """\
import os
from pathlib import Path
from streammine.runtime.fork_server import Program, fork_server_here, pool_sizes, pools_sized
from streammine.runtime.processes import ChildProcess

threads = os.cpu_count() + 1
with pools_sized(threads):
    import pool_program
    fork_server_here(("pool_program",))
assert "POLARS_MAX_THREADS" not in os.environ
loaded = Program("pools", "pool_program", "main", (str(threads), str(os.getpid())), ("pool_program",))
environment = {**os.environ, **pool_sizes(threads)}
with ChildProcess("p", ["false"], Path("output"), environment=environment, loaded=loaded) as child:
    child.wait(60)
"""
POOL_PROGRAM = """\
import os, sys
import numba, polars

def main():
    wanted, client = map(int, sys.argv[1:])
    assert os.getppid() != client
    assert polars.thread_pool_size() == numba.config.NUMBA_NUM_THREADS == wanted
    assert polars.DataFrame({"x": [2, 1]}).sort("x")["x"].to_list() == [1, 2]
    print("as wanted")
"""


def test_what_is_forked_from_the_client_has_pools_of_its_own_size(folder: Path) -> None:
    (folder / "pool_program.py").write_text(POOL_PROGRAM)
    environment = {
        name: value for name, value in os.environ.items() if name not in fork_server.pool_sizes(1)
    }
    subprocess.run([sys.executable, "-c", POOLS], cwd=folder, env=environment, check=True)
    assert (folder / "output").read_text() == "as wanted\n"


def test_a_closed_server_takes_all_with_it(folder: Path) -> None:
    server = server_for(("small_program",), os.environ)
    program = Program("small one", "small_program", "main", ("sleep",), ("small_program",))
    with open(folder / "output", "wb") as output:
        process = server.start(program, os.environ, str(folder), output.fileno())
    server.close()
    assert process.wait() == -signal.SIGKILL
    wait_until_gone(process.pid)
    with pytest.raises(ForkServerError, match="the server is gone"):
        server.ask({"reap": process.pid})


CLIENT = """\
import os, sys, time
from pathlib import Path
from streammine.runtime.fork_server import Program, fork_server_here
from streammine.runtime.processes import ChildProcess

if sys.argv[1] == "here":
    # as with ">&-": the streams are for the client, and nothing may be missing in the program
    sys.stdin = sys.stderr = None
    fork_server_here(("small_program",))
loaded = Program("small one", "small_program", "main", ("sleep",), ("small_program",))
child = ChildProcess("p", ["false"], Path("output"), loaded=loaded)
print(child.pid, os.getpid(), flush=True)
if sys.argv[2] == "sleep":
    time.sleep(600)
"""


@pytest.mark.parametrize("birth", ["here", "there"])
@pytest.mark.parametrize("end", ["sleep", "return"])
def test_nothing_outlives_the_client_nor_holds_its_pipes(
    folder: Path, birth: str, end: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, birth, end], stdout=subprocess.PIPE, cwd=folder
    ) as client:
        assert client.stdout is not None
        pid = int(client.stdout.readline().split()[0])
        if end == "sleep":
            server = psutil.Process(pid).parent()
            assert server is not None
            assert server.ppid() == client.pid
            client.kill()
        # the end of the pipe comes when nobody else holds it
        assert client.stdout.read() == b""
    wait_until_gone(pid)


def test_a_fork_of_the_client_has_a_server_of_its_own(folder: Path) -> None:
    server = server_for(("small_program",), os.environ)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, b"1" if server.usable else b"0")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read_end, 1) == b"0"
    os.close(read_end)
    os.close(write_end)
    assert server.usable
