"""Whatever happens to the cluster, user code with state and in order gives what it would have given."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.seeds import PORTION, Seeds

SEEDS = 50
EPOCHS = 24
EPOCH_ROWS = 10


def chains(snapshot: dict[str, str] | None = None) -> Workload:
    """A state per key that every event is mixed into, in strict order."""
    rows = EPOCHS * EPOCH_ROWS
    table = pa.table({"key": [each * 7 % 5 for each in range(rows)], "value": list(range(rows))})
    topology = (
        Topology(name="chains", epoch={"count": EPOCH_ROWS}, snapshot=snapshot or {})
        .source("rows", files="rows.parquet", prepare="none", slices=2)
        .operator("chain", input="rows", key="key", operator=workloads.Chain, slices=2)
        .sink("result", input="chain", format="console")
    )
    return Workload(topology, {"rows": table})


def letters() -> Workload:
    """A mapper that refuses some words, and a reducer that runs on the sending side, too."""
    words = [word for line in workloads.text(EPOCHS * EPOCH_ROWS) for word in line.split()]
    table = pa.table({"word": [*words[:100], "queue", *words[100:]]})
    topology = (
        Topology(name="letters", epoch={"count": len(table) // EPOCHS})
        .source("words", files="words.parquet", prepare="none", slices=2)
        .operator("letters", input="words", operator=workloads.Letters, on_error="dead_letter")
        .operator("longest", input="letters", key="letter", operator=workloads.Longest, slices=2)
        .sink("result", input="longest", format="console")
    )
    return Workload(topology, {"words": table})


CHAINS = Seeds(chains())
SYNCHRONOUS_CHAINS = Seeds(chains({"mode": "synchronous"}))
LETTERS = Seeds(letters())


@pytest.mark.parametrize("first", range(0, SEEDS, PORTION))
def test_a_state_that_every_event_is_mixed_into(first: int) -> None:
    CHAINS.run("all", range(first, first + PORTION))


@pytest.mark.parametrize("first", range(0, SEEDS, PORTION))
def test_a_mapper_with_dead_letters_and_a_reducer(first: int) -> None:
    LETTERS.run("all", range(first, first + PORTION))


def test_snapshots_that_stop_the_world() -> None:
    trials = SYNCHRONOUS_CHAINS.run("all", range(PORTION))
    assert any(trial.checkpoints for trial in trials)
    asynchronous = CHAINS.run("all", range(PORTION))
    assert [trial.steps for trial in trials] != [trial.steps for trial in asynchronous]
