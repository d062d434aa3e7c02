"""An operator that depends on order, under discipline merge: one output however the job is run.

Simulated, as only there arrival, pace, reads, credit, places and spilling are all chance.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine import Topology
from streammine.simulation.run import run_workload
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.workload import Workload
from tests.simulation import workloads

INPUTS = {"left": workloads.keyed_values(90, seed=1), "right": workloads.keyed_values(70, seed=2)}
FEW = settings(max_examples=12, deadline=None)
RUNS = st.builds(
    SimulationSettings,
    read_rows=st.sampled_from((1, 7, 40, 1000)),
    random_read_sizes=st.booleans(),
    channel_budget_bytes=st.sampled_from((None, 1, 200)),
    bag_memory_bytes=st.sampled_from((1, 300, 1 << 20)),
    source_seconds=st.sampled_from((None, 0.5)),
    checkpoint_epochs=st.sampled_from((None, 2)),
)


@FEW
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 999), RUNS, RUNS)
def test_arrival_batches_pace_and_places_change_nothing(
    slices: int,
    source_slices: int,
    seed: int,
    one: SimulationSettings,
    other: SimulationSettings,
) -> None:
    workload = Workload(workloads.braid(15, slices, source_slices), INPUTS)
    digests = {
        run_workload(workload, seed=seed + nodes, nodes=nodes, settings=chosen).digest
        for nodes in (1, 2, 3, 4)
        for chosen in (one, other)
    }
    assert len(digests) == 1


def test_the_promise_is_for_fixed_numbers_of_slices() -> None:
    merged, strict = (
        {
            run_workload(Workload(workloads.braid(15, 2, sources, discipline), INPUTS)).digest
            for sources in (1, 2, 3)
        }
        for discipline in ("merge", "strict")
    )
    assert len(merged) > 1
    assert len(strict) == 1


def _after(upstream: str) -> Topology:
    """left --> … --> again --> result, where `…` is of another discipline, with rows in an order."""
    topology = (
        Topology(name="again", epoch={"count": 15})
        .source("left", files="left.parquet", prepare="none", slices=2)
        .source("right", files="right.parquet", prepare="none", slices=2)
    )
    if upstream == "epoch":
        topology = topology.operator(
            "first",
            input="left",
            key="key",
            aggregate={"mixed": "sum(value)", "n": "count()"},
            slices=3,
        )
    else:
        topology = topology.operator(
            "first",
            inputs=["left", "right"],
            key="key",
            operator=workloads.Braid,
            slices=3,
            discipline=upstream,
        )
    return (
        topology.operator("named", input="first", map={"key": "key % 2", "value": "mixed"})
        .operator(
            "again",
            input="named",
            key="key",
            operator=workloads.Chain,
            slices=2,
            discipline="merge",
        )
        .sink("result", input="again", format="console")
    )


@pytest.mark.parametrize("upstream", ["epoch", "strict", "merge"])
@FEW
@given(st.integers(0, 999), RUNS, RUNS)
def test_what_leads_to_a_merge_gives_its_rows_in_one_sequence(
    upstream: str, seed: int, one: SimulationSettings, other: SimulationSettings
) -> None:
    inputs: dict[str, pa.Table] = dict(INPUTS)
    if upstream == "epoch":
        del inputs["right"]
    workload = Workload(_after(upstream), inputs)
    digests = {
        run_workload(workload, seed=seed + nodes, nodes=nodes, settings=chosen).digest
        for nodes, chosen in ((1, one), (2, other), (4, one))
    }
    assert len(digests) == 1
