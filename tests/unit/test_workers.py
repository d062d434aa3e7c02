"""Worker threads: what goes first, who lets others pass, and what closing leaves undone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streammine.runtime.workers import Workers

PATIENCE_SECONDS = 30.0


class Bench:
    """One worker that waits until `go`, so that what is submitted before waits together."""

    def __init__(self) -> None:
        self.workers = Workers(1, "bench")
        self.done: list[str] = []
        self._gate = threading.Event()
        began = threading.Event()
        self.workers.submit(0, lambda: (began.set(), self._gate.wait(PATIENCE_SECONDS)))
        assert began.wait(PATIENCE_SECONDS)

    def put(self, name: str, rank: int = 0, *, patient: bool = False) -> None:
        self.workers.submit(rank, lambda: self.done.append(name), patient=patient)

    def go(self) -> list[str]:
        over = threading.Event()
        self.workers.submit(1000, over.set)
        self._gate.set()
        assert over.wait(PATIENCE_SECONDS)
        return self.done


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.go()
    made.workers.close()


def test_what_is_nearer_to_the_sinks_goes_first_and_equals_in_their_order(bench: Bench) -> None:
    for name, rank in [("source", 0), ("sink", -3), ("reducer", -1), ("source too", 0)]:
        bench.put(name, rank)
    assert len(bench.workers) == 4
    assert bench.go() == ["sink", "reducer", "source", "source too"]


def test_patient_work_lets_other_work_pass_but_never_twice_in_a_row(bench: Bench) -> None:
    for number in range(4):
        bench.put(f"other {number}")
        bench.put(f"patient {number}", -9, patient=True)
    order = [f"{kind} {number}" for number in range(4) for kind in ("other", "patient")]
    assert bench.go() == order


def test_patient_work_goes_on_where_there_is_no_other(bench: Bench) -> None:
    bench.put("late", patient=True)
    bench.put("early", -1, patient=True)
    bench.put("other", 5)
    assert bench.go() == ["other", "early", "late"]


def test_who_has_waited_behind_one_task_is_not_passed_by_one_that_comes_later(bench: Bench) -> None:
    bench.put("patient", patient=True)
    bench.workers.submit(0, lambda: bench.put("later", -9))
    assert bench.go() == ["patient", "later"]


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
