"""The connected components on virtual clusters: any slices, rounds that are not enough, and faults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from apps.components import check
from streammine import Topology, read_topology
from streammine.simulation.faults import parse_kinds
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from streammine.testing import assert_deterministic, simulate

FOLDER = Path(__file__).resolve().parents[2] / "apps" / "components"
EPOCH_EDGES = 6


def components(
    messages: int = 2, labels: int = 2, max_rounds: int = 1000, replicas: int = 1
) -> Topology:
    """The application's topology with other slices, rounds and replicas."""
    settings = {
        "replicas": replicas,
        "epoch.count": EPOCH_EDGES,
        "operators.messages.slices": messages,
        "operators.messages.max_rounds": max_rounds,
        "operators.labels.slices": labels,
        "sinks.result": "{input: components, format: console}",
    }
    texts = {name: str(value) for name, value in settings.items()}
    return read_topology(FOLDER / "topology.yaml", texts)


def edges(rows: int = 36, nodes: int = 30, seed: int = 11) -> list[check.Edge]:
    """Random ones, and a chain of as many nodes as an epoch has edges."""
    random = Random(seed)
    found = [(random.randrange(nodes), random.randrange(nodes)) for _ in range(rows)]
    chain = [(100 + step, 101 + step) for step in range(EPOCH_EDGES)]
    return [*found[: 2 * EPOCH_EDGES], *chain, (100, 1), *found[2 * EPOCH_EDGES :]]


def table(rows: Sequence[check.Edge]) -> dict[str, pa.Table]:
    columns = {"u": [u for u, _ in rows], "v": [v for _, v in rows]}
    return {"edges": pa.table(columns, pa.schema([("u", pa.int64()), ("v", pa.int64())]))}


def changes(outputs: dict[int, Any]) -> check.Changes:
    found = {}
    for epoch, each in outputs.items():
        rows = each.to_pylist()
        found[epoch] = {row["node"]: row["component"] for row in rows}
        assert len(found[epoch]) == len(rows)
    return found


EXPECTED = check.changes_by_epoch(edges(), EPOCH_EDGES)


@pytest.mark.parametrize("slices", [(1, 1), (2, 3), (5, 8)])
def test_any_number_of_slices_gives_what_union_find_gives(slices: tuple[int, int]) -> None:
    topology = components(*slices)
    result = assert_deterministic(topology, table(edges()), seeds=range(2), base=str(FOLDER))
    assert changes(result.outputs["result"]) == EXPECTED


@pytest.mark.parametrize("max_rounds", [1, 3])
def test_what_max_rounds_leaves_over_is_done_in_later_epochs(max_rounds: int) -> None:
    topology = components(max_rounds=max_rounds)
    result = assert_deterministic(topology, table(edges()), seeds=range(2), base=str(FOLDER))
    found = changes(result.outputs["result"])
    assert found != EXPECTED
    assert max(found) >= max(EXPECTED)
    assert check.final(found) == check.final(EXPECTED)


def test_a_chain_longer_than_the_input_goes_round_when_the_input_is_over() -> None:
    # 1 - 2 - 3 - … - 9, all in the first and only epoch, and one round in each
    chain = [(node, node + 1) for node in range(1, EPOCH_EDGES + 1)]
    result = simulate(components(max_rounds=1), table(chain), base=str(FOLDER))
    found = changes(result.outputs["result"])
    assert len(found) == EPOCH_EDGES
    assert check.final(found) == dict.fromkeys(range(1, EPOCH_EDGES + 2), 1)


@pytest.mark.parametrize("max_rounds", [2, 1000])
def test_faults_change_nothing(max_rounds: int) -> None:
    topology = components(labels=3, max_rounds=max_rounds)
    trials = Trials(Workload(topology, table(edges()), str(FOLDER)), parse_kinds("all"))
    done = [trials.run(seed) for seed in range(4)]
    assert [trial.problem for trial in done] == [None] * len(done)
    assert sum(sum(trial.faults.values()) for trial in done) > 0
