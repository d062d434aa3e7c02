"""Whatever happens while a controller changes schemes, the output is the same: many seeds with faults."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine.model.topology import Recovery
from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.seeds import Seeds

EPOCHS = 24
LINES = pa.table({"line": workloads.text(EPOCHS * workloads.EPOCH_LINES)})


def word_count(max_time: str) -> Seeds:
    """Seconds pass quickly for machines, so what a recovery may take is much."""
    recovery = Recovery.model_validate({"max_time": max_time, "cool_down": "1s"})
    topology = workloads.word_count(2).model_copy(update={"recovery": recovery})
    return Seeds(Workload(topology, {"lines": LINES}))


CHANGING = word_count("20s")
"""Between what is measured for passive and for active schemes."""

SAVING = word_count("10m")
"""Anything is fast enough."""


@pytest.mark.parametrize("first", range(0, 15, 5))
def test_all_faults_while_schemes_change_for_time(first: int) -> None:
    CHANGING.run("all", range(first, first + 5))


@pytest.mark.parametrize("kinds", ["crash,manager", "user,crash", "session,crash"])
def test_faults_of_one_group(kinds: str) -> None:
    SAVING.run(kinds, range(3))


def test_schemes_are_chosen_and_left_again() -> None:
    chosen: set[str] = set()

    def note(line: str) -> None:
        if "! 'counts/" in line and " -> " in line:
            chosen.add(line.partition(" -> ")[2].partition(":")[0])

    trials = SAVING.trials("none")
    for seed in range(4):
        assert trials.run(seed, transcript=note, traced=True).problem is None
    assert chosen == {"active-replication", "passive-replication"}
