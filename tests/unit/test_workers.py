"""Worker threads: what goes first, who lets others pass, and what closing leaves undone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from streammine.runtime.cluster import shared_threads
from streammine.runtime.measured import MeasuredProcess
from streammine.runtime.workers import (
    LONG_WAIT_SECONDS,
    SHORT_SECONDS,
    Pressure,
    Turn,
    Workers,
    usable_cores,
)

PATIENCE_SECONDS = 30.0


class Bench:
    """One worker that waits until `go`, so that what is submitted before waits together. Tasks take as long
    as they say, on a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("streammine.runtime.workers.time.perf_counter", lambda: self.now)
        self.workers = Workers(1, "bench")
        self.done: list[str] = []
        self._gate = threading.Event()
        began = threading.Event()
        self.workers.submit(0, lambda: (began.set(), self._gate.wait(PATIENCE_SECONDS)))
        assert began.wait(PATIENCE_SECONDS)

    def put(
        self, name: str, rank: int = 0, *, seconds: float = 0.0, turn: Turn = Turn.SOON
    ) -> None:
        def run() -> None:
            self.now += seconds
            self.done.append(name)

        self.workers.submit(rank, run, turn)

    def go(self) -> list[str]:
        over = threading.Event()
        self.workers.submit(1000, over.set, Turn.SPARE)
        self._gate.set()
        assert over.wait(PATIENCE_SECONDS)
        return self.done


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    made = Bench(monkeypatch)
    yield made
    made.go()
    made.workers.close()


def test_what_is_nearer_to_the_sinks_goes_first_and_equals_in_their_order(bench: Bench) -> None:
    for name, rank in [("source", 0), ("sink", -3), ("reducer", -1), ("source too", 0)]:
        bench.put(name, rank)
    assert len(bench.workers) == 4
    assert bench.go() == ["sink", "reducer", "source", "source too"]


def test_patient_work_lets_other_work_pass(bench: Bench) -> None:
    bench.put("late", turn=Turn.PATIENT)
    bench.put("early", -1, turn=Turn.PATIENT)
    bench.put("other", 5)
    assert bench.go() == ["other", "early", "late"]


def test_patient_work_gets_a_third_of_the_time_of_workers_that_are_always_busy(
    bench: Bench,
) -> None:
    for number in range(8):
        bench.put(f"{number}", seconds=1.0)
    for number in range(3):
        bench.put(f"patient {number}", seconds=1.5, turn=Turn.PATIENT)
    passed = ["0", "patient 0", "1", "2", "3", "4", "patient 1", "5", "6", "7", "patient 2"]
    assert bench.go() == passed


def test_what_ran_before_patient_work_came_has_not_passed_it(bench: Bench) -> None:
    bench.put("long", seconds=100.0)
    bench.workers.submit(0, lambda: bench.put("patient", seconds=9.0, turn=Turn.PATIENT))
    bench.put("one", seconds=1.0)
    bench.put("two", seconds=1.0)
    assert bench.go() == ["long", "one", "patient", "two"]


def test_closing_forgets_what_waits_and_ends_the_threads() -> None:
    workers = Workers(2, "closing")
    begun, gate = threading.Barrier(3), threading.Event()
    done: list[str] = []

    def hold() -> None:
        begun.wait(PATIENCE_SECONDS)
        gate.wait(PATIENCE_SECONDS)
        done.append("running")

    for _ in range(2):
        workers.submit(0, hold)
    begun.wait(PATIENCE_SECONDS)
    workers.submit(0, lambda: done.append("waiting"))
    workers.close(timeout_seconds=0)
    gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("closing-"):
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
    assert done == ["running", "running"]


def test_spare_work_begins_when_nothing_else_waits(bench: Bench) -> None:
    bench.put("spare", -9, turn=Turn.SPARE)
    bench.put("patient", turn=Turn.PATIENT, seconds=1.0)
    bench.put("soon", seconds=1.0)
    assert bench.go() == ["soon", "patient", "spare"]


def test_how_long_spare_work_waits_is_known(bench: Bench) -> None:
    assert bench.workers.pressure().spare_wait_seconds == 0.0
    bench.put("spare", turn=Turn.SPARE)
    bench.now += 2.0
    bench.put("another", -1, turn=Turn.SPARE)
    bench.now += 1.5
    assert bench.workers.pressure().spare_wait_seconds == 3.5


def test_idle_time_is_that_of_threads_that_wait(bench: Bench) -> None:
    bench.now += 5.0
    assert bench.workers.pressure().idle_seconds == 0.0, "its one thread is at work"
    bench.go()
    while not bench.workers.resting:
        threading.Event().wait(0.001)
    before = bench.workers.pressure().idle_seconds
    bench.now += 2.0
    assert bench.workers.pressure().idle_seconds == before + 2.0


class Pair:
    """Two workers, and which of them has done what. One of them is `held` until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("streammine.runtime.workers.time.perf_counter", lambda: self.now)
        self.workers = Workers(2, "pair")
        self.done_by: dict[str, str] = {}
        self.held = ""
        self._gate = threading.Event()

    def put(self, name: str, cpu_seconds: float = 0.0) -> threading.Event:
        over = threading.Event()

        def run() -> None:
            begin = time.thread_time()
            while time.thread_time() - begin < cpu_seconds:
                pass
            self.done_by[name] = threading.current_thread().name
            over.set()

        self.workers.submit(0, run)
        return over

    def do(self, name: str, cpu_seconds: float = 0.0) -> None:
        """Put it, and wait until nobody is at work any more."""
        assert self.put(name, cpu_seconds).wait(PATIENCE_SECONDS)
        while not self.workers.resting:
            threading.Event().wait(0.001)

    def hold(self) -> None:
        """Keep one thread busy, with work that takes no CPU."""
        began = threading.Event()

        def run() -> None:
            self.held = threading.current_thread().name
            began.set()
            assert self._gate.wait(PATIENCE_SECONDS)

        self.workers.submit(0, run)
        assert began.wait(PATIENCE_SECONDS)

    def let_go(self) -> None:
        self._gate.set()


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    made = Pair(monkeypatch)
    yield made
    made.let_go()
    made.workers.close()


def test_threads_share_work_until_it_is_known_to_be_short(pair: Pair) -> None:
    pair.hold()
    assert pair.put("next").wait(PATIENCE_SECONDS)
    assert pair.done_by["next"] != pair.held


def test_short_work_is_left_to_the_thread_that_is_busy(pair: Pair) -> None:
    pair.do("short")
    pair.hold()
    left = [pair.put("first"), pair.put("second")]
    assert not left[0].wait(0.1), "it was taken at once"
    pair.let_go()
    assert all(each.wait(PATIENCE_SECONDS) for each in left)
    assert pair.done_by["first"] == pair.done_by["second"] == pair.held


def test_another_thread_takes_over_what_has_waited_for_long(pair: Pair) -> None:
    pair.do("short")
    pair.hold()
    left = [pair.put("first"), pair.put("second")]
    assert not left[0].wait(0.1)
    pair.now += LONG_WAIT_SECONDS
    assert all(each.wait(PATIENCE_SECONDS) for each in left)
    assert pair.held not in (pair.done_by["first"], pair.done_by["second"])


def test_threads_share_work_again_once_it_has_become_long(pair: Pair) -> None:
    pair.do("short")
    pair.do("long", cpu_seconds=2 * SHORT_SECONDS)
    pair.hold()
    assert pair.put("next").wait(PATIENCE_SECONDS)
    assert pair.done_by["next"] != pair.held


def test_a_thread_alone_never_waits(pair: Pair) -> None:
    for number in range(200):
        assert pair.put(f"{number}").wait(PATIENCE_SECONDS)


def test_threads_beyond_the_usable_processors_are_not_counted_as_work_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert usable_cores() == 2
    assert [shared_threads(nodes) for nodes in (0, 1, 2, 3)] == [2, 2, 1, 1]
    for threads, expected in ((1, 1.0), (3, 2.0)):
        workers = Workers(threads, "node-1")
        assert MeasuredProcess().load(workers)["workers"] == expected
        workers.close()


def test_who_waits_for_a_processor_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four threads are busy, where two processors can be used."""
    now, idle_seconds = [0.0], [0.0]
    monkeypatch.setattr("streammine.runtime.measured.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(Workers, "pressure", lambda _: Pressure(0.0, idle_seconds[0]))
    workers = Workers(4, "node-1")
    for cores, share in ((2, 0.0), (3, 1 / 3), (4, 0.5), (8, 0.5)):
        monkeypatch.setattr("streammine.runtime.measured.usable_cores", lambda cores=cores: cores)
        now[0] = idle_seconds[0] = 0.0
        measured = MeasuredProcess()
        now[0], idle_seconds[0] = 10.0, 20.0
        assert measured.load(workers)["idle_share"] == pytest.approx(share)
    workers.close()
