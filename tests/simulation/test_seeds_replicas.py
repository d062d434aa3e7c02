"""Active replication on virtual clusters: whatever happens, the output is that of a run without replicas."""

from __future__ import annotations

import functools

import pyarrow as pa
import pytest

from streammine.simulation.faults import FaultKind, parse_kinds
from streammine.simulation.run import run_workload
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.seeds import Seeds
from tests.simulation.test_components import FOLDER, components, edges, table

FIRST_SEED = 200_000
LINES = pa.table({"line": workloads.text(20 * workloads.EPOCH_LINES)})


def workload(name: str, replicas: int) -> Workload:
    match name:
        case "word count":
            return Workload(workloads.word_count(2, replicas=replicas), {"lines": LINES})
        case "join":
            tables = workloads.orders_and_payments(80)
            return Workload(workloads.equi_join(2, replicas=replicas), tables)
    return Workload(components(replicas=replicas), table(edges()), str(FOLDER))


@functools.cache
def seeds(name: str, replicas: int) -> Seeds:
    return Seeds(workload(name, replicas))


@pytest.mark.parametrize("portion", range(4))
@pytest.mark.parametrize(
    ("name", "replicas", "count"),
    [
        ("word count", 2, 5),
        ("word count", 3, 3),
        ("join", 2, 3),
        ("join", 3, 2),
        ("components", 2, 1),
        ("components", 3, 1),
    ],
)
def test_faults_change_nothing(name: str, replicas: int, count: int, portion: int) -> None:
    first = FIRST_SEED + portion * count
    seeds(name, replicas).run("all", range(first, first + count))


@pytest.mark.parametrize("replicas", [2, 3])
def test_replicas_step_down_on_crowded_nodes_and_climb_back(replicas: int) -> None:
    first = FIRST_SEED + 100
    done = seeds("word count", replicas).run("crowded,crash", range(first, first + 6))
    assert sum(trial.faults.get(FaultKind.CROWDED, 0) for trial in done) >= len(done)


@pytest.mark.parametrize("name", ["word count", "join", "components"])
def test_the_output_is_that_of_a_run_without_replicas(name: str) -> None:
    digests = {
        run_workload(workload(name, replicas), nodes=3, settings=SimulationSettings()).digest
        for replicas in (1, 2, 3)
    }
    assert len(digests) == 1


def test_replicas_are_lost_and_made_up_for() -> None:
    trials = Trials(workload("word count", 2), parse_kinds("crash,pause,move,drain,join"))
    done = [trials.run(seed) for seed in range(FIRST_SEED, FIRST_SEED + 6)]
    assert [each.problem for each in done] == [None] * len(done)
    met = {what for each in done for machine, what in each.rows if machine == "job"}
    assert "running: one more replica is made of a slice that has too few" in met
