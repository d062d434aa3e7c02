"""Whatever happens to the cluster, two streams are joined as if nothing had: many seeds with faults."""

from __future__ import annotations

import pytest

from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.seeds import GROUPS, PORTION, Seeds

SEEDS = 70
ROWS = 100
JOIN = Seeds(Workload(workloads.equi_join(2), workloads.orders_and_payments(ROWS)))


@pytest.mark.parametrize("first", range(0, SEEDS, PORTION))
def test_all_faults(first: int) -> None:
    JOIN.run("all", range(first, first + PORTION))


@pytest.mark.parametrize("kinds", GROUPS)
def test_faults_of_one_group(kinds: str) -> None:
    JOIN.run(kinds, range(100, 105))


def test_runs_are_long_and_faults_take_effect() -> None:
    JOIN.check_variety(range(SEEDS))
