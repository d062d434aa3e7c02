"""Whatever happens to the cluster, words are counted as if nothing had: many seeds with faults."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.seeds import GROUPS, PORTION, Seeds

ZOMBIE_S_CHECKPOINT = 23
SEEDS = [seed for seed in range(81) if seed != ZOMBIE_S_CHECKPOINT]
EPOCHS = 24
LINES = pa.table({"line": workloads.text(EPOCHS * workloads.EPOCH_LINES)})
WORD_COUNT = Seeds(Workload(workloads.word_count(2), {"lines": LINES}))


@pytest.mark.parametrize("first", range(0, len(SEEDS), PORTION))
def test_all_faults(first: int) -> None:
    WORD_COUNT.run("all", SEEDS[first : first + PORTION])


@pytest.mark.xfail(
    strict=True, reason="manifests of checkpoints are not fenced by the manager's term"
)
def test_a_checkpoint_of_a_manager_that_was_replaced_is_not_believed() -> None:
    WORD_COUNT.run("all", [ZOMBIE_S_CHECKPOINT])


@pytest.mark.parametrize("kinds", GROUPS)
def test_faults_of_one_group(kinds: str) -> None:
    WORD_COUNT.run(kinds, range(5))


def test_runs_are_long_and_faults_take_effect() -> None:
    WORD_COUNT.check_variety(SEEDS)
