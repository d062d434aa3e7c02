"""What the schemes cost, in numbers that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replication.costs import resource_use, weighted_cost
from streammine.model.recovery_assessment import ResourceUse
from streammine.model.recovery_policy import CostWeights
from streammine.model.schemes import Scheme
from tests.unit.recovery_cases import (
    ACTIVE,
    COLD,
    DEPLOYED,
    HOT,
    MB,
    PASSIVE,
    STANDBY,
    TIMES,
    outlook,
)

# 100 MB of state; every second a checkpoint adds 10 MB, read at 100 MB/s: 0.1 s of work; 20 MB/s come in and
# 5 MB/s go out, of which the last two checkpoints' are kept; 0.2 of a core are busy.


@pytest.mark.parametrize(
    ("scheme", "cores", "memory_mb", "network_mb", "nodes"),
    [
        (PASSIVE, 0.0, 0, 0, 0),
        (DEPLOYED, 0.0, 0, 0, 1),
        (COLD, 0.1, 100, 10, 1),
        (HOT, 0.1, 100 + 20, 10 + 20, 1),
        (STANDBY, 0.2, 100 + 10, 20, 1),
        (ACTIVE, 0.2, 100 + 10, 20 + 5, 1),
    ],
)
@pytest.mark.parametrize("further", [1, 2])
def test_each_further_replica_uses_what_its_rung_needs(
    scheme: Scheme, cores: float, memory_mb: float, network_mb: float, nodes: int, further: int
) -> None:
    use = resource_use(scheme, outlook(further_replicas=further), TIMES)
    assert use.cores == pytest.approx(cores * further)
    assert use.memory_bytes == pytest.approx(memory_mb * MB * further)
    assert use.network_bytes_per_second == pytest.approx(network_mb * MB * further)
    assert use.nodes == nodes * further


def test_taking_an_increment_in_needs_its_time_however_small_it_is() -> None:
    times = replace(TIMES, loads=((0.0, 0.05), (100 * MB, 1.05)))
    assert resource_use(COLD, outlook(), times).cores == pytest.approx(0.15)
    assert resource_use(COLD, outlook(checkpoint_seconds=2.0), times).cores == pytest.approx(0.075)


def test_the_queue_of_a_hot_standby_takes_memory() -> None:
    waiting = outlook(queued_bytes=30 * MB)
    assert resource_use(HOT, waiting, TIMES).memory_bytes == pytest.approx(150 * MB)
    assert resource_use(COLD, waiting, TIMES).memory_bytes == pytest.approx(100 * MB)


@pytest.mark.parametrize(
    ("weights", "cost"),
    [
        (CostWeights(), 0.5 + 2 + 4 + 3),
        (CostWeights(cpu=2), 1.0 + 2 + 4 + 3),
        (CostWeights(memory=0), 0.5 + 4 + 3),
        (CostWeights(network=0.5), 0.5 + 2 + 2 + 3),
        (CostWeights(nodes=10), 0.5 + 2 + 4 + 30),
        (CostWeights(0, 0, 0, 0), 0),
    ],
)
def test_each_resource_counts_in_its_unit_by_its_weight(weights: CostWeights, cost: float) -> None:
    half_a_core_2_gb_4_gbit_3_nodes = ResourceUse(0.5, 2e9, 500 * MB, 3)
    assert weighted_cost(half_a_core_2_gb_4_gbit_3_nodes, weights) == pytest.approx(cost)
