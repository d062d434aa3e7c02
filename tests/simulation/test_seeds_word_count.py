"""Whatever happens to the cluster, words are counted as if nothing had: many seeds with faults."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.seeds import GROUPS, PORTION, Seeds

SEEDS = range(81)
EPOCHS = 24
LINES = pa.table({"line": workloads.text(EPOCHS * workloads.EPOCH_LINES)})
WORD_COUNT = Seeds(Workload(workloads.word_count(2), {"lines": LINES}))


@pytest.mark.parametrize("first", range(0, len(SEEDS), PORTION))
def test_all_faults(first: int) -> None:
    WORD_COUNT.run("all", SEEDS[first : first + PORTION])


@pytest.mark.parametrize("kinds", GROUPS)
def test_faults_of_one_group(kinds: str) -> None:
    WORD_COUNT.run(kinds, range(5))


def test_runs_are_long_and_faults_take_effect() -> None:
    WORD_COUNT.check_variety(SEEDS)
