"""The clock of work: the wall clock's time without what a thread waited for a processor."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from streammine.runtime.work_clock import SCHEDSTAT, WorkClock

ON_LINUX = pytest.mark.skipif(
    not SCHEDSTAT.exists(), reason="the kernel does not tell how long threads wait"
)

ENDLESS = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("at work", flush=True)
while True:
    pass
"""


@pytest.fixture(name="passed")
def fixture_passed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the wall clock says, in its last element."""
    seconds = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[-1])
    return seconds


@pytest.mark.parametrize(
    ("before", "seconds", "after", "worked"),
    [
        pytest.param("5 1000000000 3", 7.0, "9 3500000000 40", 4.5, id="waits are no work"),
        pytest.param("0 0 0", 0.001, "0 2000000 1", 0.0, id="never less than no time"),
        pytest.param("0 1000000000 3", 2.0, "", 2.0, id="nothing is told any more"),
        pytest.param("0 1000000000 3", 2.0, "7", 2.0, id="too little is told"),
        pytest.param("0 1000000000 3", 2.0, "many few none", 2.0, id="no numbers are told"),
    ],
)
def test_what_a_thread_waited_for_a_processor_is_no_work(
    tmp_path: Path, passed: list[float], before: str, seconds: float, after: str, worked: float
) -> None:
    told = tmp_path / "schedstat"
    told.write_text(before)
    clock = WorkClock(told)
    begun = clock()
    passed.append(passed[-1] + seconds)
    told.write_text(after)
    assert clock.since(begun) == pytest.approx(worked)


@pytest.mark.parametrize("name", ["nothing", "."])
def test_where_the_kernel_does_not_tell_all_time_counts(
    tmp_path: Path, passed: list[float], name: str
) -> None:
    clock = WorkClock(tmp_path / name)
    begun = clock()
    passed.append(103.0)
    assert clock.since(begun) == 3.0


@ON_LINUX
def test_work_takes_no_longer_where_another_process_has_the_processor() -> None:
    """A thread that shares one processor: its work is what it has run for, though it takes twice as long."""
    clock, cpu = WorkClock(), min(os.sched_getaffinity(0))
    found: list[tuple[float, float, float]] = []

    def work() -> None:
        os.sched_setaffinity(0, {cpu})
        begun, ran, wall = clock(), time.thread_time(), time.perf_counter()
        sum(range(20_000_000))
        found.append((clock.since(begun), time.thread_time() - ran, time.perf_counter() - wall))

    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(cpu)], stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        finally:
            other.kill()
    ((worked, ran, wall),) = found
    assert wall - ran > 0.1 * wall, "it had to share"
    assert worked - ran < (wall - ran) / 2


@ON_LINUX
def test_every_thread_has_a_time_of_its_own_and_leaves_no_file_open() -> None:
    clock, before = WorkClock(), _open_schedstats()
    found: list[tuple[float, float, set[str]]] = []

    def work() -> None:
        wall, begun = time.perf_counter(), clock()
        sum(range(3_000_000))
        worked = clock.since(begun)
        found.append((worked, time.perf_counter() - wall, _open_schedstats() - before))

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    (worked, wall, first), (_, _, second) = found
    assert 0 < worked <= wall
    assert len(first) == len(second) == 1
    assert first != second
    assert not _open_schedstats() - before


def _open_schedstats() -> set[str]:
    """Those that this process has open, by thread."""
    opened = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            opened.add(str(descriptor.readlink()))
    return {each for each in opened if each.endswith("/schedstat")}
