"""Programs forked from a server that has loaded their modules are like programs of their own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from streammine.runtime import fork_server
from streammine.runtime.fork_server import ForkServerError, Program, server_for
from streammine.runtime.processes import ChildProcess

PROGRAM = """\
import os, sys, time

def main():
    print("arguments", sys.argv[1:], "in", os.getcwd(), "loaded by", LOADED_BY == os.getppid())
    print("word", os.environ.get("WORD"), "home" in str(os.environ).lower(), file=sys.stderr)
    what = sys.argv[1]
    if what == "listen":
        print("heard", repr(sys.stdin.read()))
    elif what == "sleep":
        print("sleeping", flush=True)
        time.sleep(600)
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
