"""The clock of work: the wall clock's time without what a thread waited for a processor."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from streammine.runtime.work_clock import SCHEDSTAT, WorkClock


@pytest.fixture(name="passed")
def fixture_passed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the wall clock says, in its last element."""
    seconds = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[-1])
    return seconds


def test_what_a_thread_waited_for_a_processor_is_no_work(
    tmp_path: Path, passed: list[float]
) -> None:
    told = tmp_path / "schedstat"
    told.write_text("5000000000 1000000000 3\n")
    clock = WorkClock(told)
    begun = clock()
    passed.append(107.0)
    told.write_text("5500000000 3500000000 40\n")
    assert clock.since(begun) == pytest.approx(7.0 - 2.5)


def test_work_never_takes_less_than_no_time(tmp_path: Path, passed: list[float]) -> None:
    told = tmp_path / "schedstat"
    told.write_text("0 0 0\n")
    clock = WorkClock(told)
    begun = clock()
    passed.append(100.001)
    told.write_text("0 2000000 1\n")
    assert clock.since(begun) == 0.0


@pytest.mark.parametrize("name", ["nothing", "."])
def test_where_the_kernel_does_not_tell_all_time_counts(
    tmp_path: Path, passed: list[float], name: str
) -> None:
    clock = WorkClock(tmp_path / name)
    begun = clock()
    passed.append(103.0)
    assert clock.since(begun) == 3.0


@pytest.mark.parametrize("content", ["", "7\n", "many few none\n"])
def test_what_can_not_be_read_any_more_is_as_it_was(
    tmp_path: Path, passed: list[float], content: str
) -> None:
    told = tmp_path / "schedstat"
    told.write_text("0 1000000000 3\n")
    clock = WorkClock(told)
    begun = clock()
    passed.append(102.0)
    told.write_text(content)
    assert clock.since(begun) == pytest.approx(2.0)


@pytest.mark.skipif(not SCHEDSTAT.exists(), reason="the kernel does not tell how long threads wait")
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
