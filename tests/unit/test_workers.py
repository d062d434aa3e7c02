"""Worker threads: what goes first, who lets others pass, and what closing leaves undone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streammine.runtime.workers import Turn, Workers

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
