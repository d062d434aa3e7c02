"""Under gap recovery output lacks nothing but what it says it lacks, and that was left out by a plan."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.engine import output_channel
from streammine.engine.losses import Losses
from streammine.model.topology import Recovery
from streammine.simulation.losses import LossBook
from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.seeds import Seeds

EPOCHS = 40

ANYTHING_FITS = {"max_time": "10m", "cool_down": "1s"}
"""Slices soon have one replica alone, and whoever loses it is built anew."""


def seeds(topology: Topology, inputs: dict[str, pa.Table], semantics: str = "gap") -> Seeds:
    recovery = Recovery.model_validate({**ANYTHING_FITS, "semantics": semantics})
    return Seeds(Workload(topology.model_copy(update={"recovery": recovery}), inputs))


def clicks(epochs: int) -> pa.Table:
    """A few clicks in most epochs of ten seconds."""
    random = Random(3)
    times = sorted(random.randrange(epochs * 10) for _ in range(epochs * 5))
    users = [random.randrange(6) for _ in times]
    return pa.table({"ts": times, "user": users}, pa.schema([("ts", "int64"), ("user", "int64")]))


def windowed() -> Topology:
    """clicks -> busy (30 s) -> minutes -> result, two epochs committed together

    A window of three epochs feeds one of six::

        |  0  1  2 |  3  4  5 |  6  7  8 |  9 10 11 |
        |  0  1  2    3  4  5 |  6  7  8    9 10 11 |
        |  0  1 |  2  3 |  4  5 |  6  7 |  8  9 | 10 11 |
    """
    return (
        Topology(name="windowed", epoch={"time": "10s", "column": "ts"})
        .source("clicks", files="clicks.parquet", prepare="none", slices=2)
        .operator(
            "busy", input="clicks", key="user", window="30s", aggregate={"n": "count()"}, slices=2
        )
        .operator(
            "minutes", input="busy", key="user", window="60s", aggregate={"n": "sum(n)"}, slices=2
        )
        .sink("result", input="minutes", format="console", commit={"every": 2})
    )


LINES = {"lines": pa.table({"line": workloads.text(EPOCHS * workloads.EPOCH_LINES)})}
WORD_COUNT = seeds(workloads.word_count(2), LINES)
WINDOWED = seeds(windowed(), {"clicks": clicks(EPOCHS)})
JOIN = seeds(workloads.equi_join(2), workloads.orders_and_payments(160))

CRASHES = "crash,manager"
WORDS_SEEDS = range(4, 8)
WINDOWS_SEEDS = range(4)


def test_only_what_is_named_is_lost() -> None:
    done = WORD_COUNT.run(CRASHES, WORDS_SEEDS)
    assert any(trial.lost for trial in done)
    done = JOIN.run(CRASHES, range(8, 10))
    assert any(trial.lost for trial in done)


def test_windows_are_lost_as_a_whole() -> None:
    done = WINDOWED.run(CRASHES, WINDOWS_SEEDS)
    assert any(trial.lost for trial in done)


@pytest.mark.parametrize(
    ("kinds", "numbers"), [("crash,pause,split", (8, 9)), ("crash,disk,loss", (11, 14))]
)
def test_whatever_else_happens(kinds: str, numbers: tuple[int, ...]) -> None:
    done = WORD_COUNT.run(kinds, numbers)
    assert any(trial.lost for trial in done)


def test_of_what_is_lost_some_is_missing_and_the_same_whenever_it_is_run() -> None:
    trials = WORD_COUNT.trials(CRASHES)
    losing = next(each.seed for each in WORD_COUNT.run(CRASHES, WORDS_SEEDS) if each.lost)
    first, second = trials.result(losing), trials.result(losing)
    assert first.digest != trials.digest, "what is called lost is there after all"
    assert (first.digest, first.lost, first.trace) == (second.digest, second.lost, second.trace)


def test_nothing_is_lost_where_nothing_crashes() -> None:
    for workload in (WORD_COUNT, WINDOWED):
        done = workload.run("move", range(2))
        assert any(trial.faults for trial in done)
        assert not any(trial.lost for trial in done)


def test_nothing_is_lost_under_precise_semantics() -> None:
    precise = seeds(workloads.word_count(2), LINES, "precise")
    done = precise.run(CRASHES, range(5, 7))
    assert sum(trial.rebuilt for trial in done) > 0
    assert not any(trial.lost for trial in done)


# --- broken on purpose --------------------------------------------------------------------------


def problems(workload: Seeds, numbers: range) -> str:
    """What the seeds fail with that lose something."""
    trials = workload.trials(CRASHES)
    return "\n".join(trials.run(seed).problem or "" for seed in numbers)


def test_a_lost_end_that_does_not_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    WORD_COUNT.trials(CRASHES)
    monkeypatch.setattr(output_channel, "LOST", 0)
    assert "with no rows of channel" in problems(WORD_COUNT, WORDS_SEEDS)


def test_a_window_of_which_only_the_lost_epochs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    WINDOWED.trials(CRASHES)
    monkeypatch.setattr(Losses, "missed", lambda self, first, last: self.lost(first, last))
    assert "which is not lost" in problems(WINDOWED, range(8, 9))


def test_epochs_that_are_named_though_nobody_has_left_them_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    WORD_COUNT.trials(CRASHES)
    monkeypatch.setattr(LossBook, "planned", lambda self, plan: None)
    assert "are lost; left out were" in problems(WORD_COUNT, WORDS_SEEDS)
