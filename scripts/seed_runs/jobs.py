"""Which jobs the seeds are run on: every scheme, replicas, receivers that differ, controllers, losses."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pyarrow as pa

from streammine import Topology
from streammine.model.schemes import Scheme
from streammine.simulation.faults import FaultKind
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from tests.simulation import (
    loops,
    test_seeds_controller,
    test_seeds_either,
    test_seeds_gap,
    test_seeds_replicas,
    test_seeds_schemes,
    workloads,
)

Make = Callable[[], Workload]


def _of_schemes() -> dict[str, Make]:
    """Users and controllers change all of them while they run."""
    found: dict[str, Make] = {}
    lines = {"lines": pa.table({"line": workloads.text(160)})}
    orders = workloads.orders_and_payments(100)
    numbers = {"numbers": loops.numbers()}
    rows = {"rows": workloads.keyed_values(160)}
    for scheme in Scheme:
        for name, topology, inputs, replicas in (
            ("words", workloads.word_count, lines, 2),
            ("words of three", workloads.word_count, lines, 3),
            ("join", workloads.equi_join, orders, 2),
            ("loop", loops.halving, numbers, 2),
            ("order", test_seeds_schemes.ordered, rows, 2),
        ):
            if replicas > 2 and not scheme.deploys:
                continue
            found[f"{name}, {scheme.value}"] = functools.partial(
                lambda topology, inputs, standing: Workload(standing(topology()), inputs),
                topology,
                inputs,
                functools.partial(_standing, scheme, replicas),
            )
    return found


def _standing(scheme: Scheme, replicas: int, topology: Topology) -> Topology:
    return topology.model_copy(
        update={"replicas": replicas if scheme.deploys else 1, "scheme": scheme}
    )


def _of_receivers() -> dict[str, Make]:
    """Two receivers of one feed that got different rows; the replicas of who reads them agree."""
    counted = test_seeds_either.counted
    topologies = {
        "one replica": functools.partial(counted, 1, slices=1),
        "two replicas": functools.partial(counted, 2),
        "three replicas": functools.partial(counted, 3, slices=1),
        "windows": functools.partial(counted, 2, slices=1, window="20s"),
    }
    for scheme in Scheme:
        topologies[scheme.value] = functools.partial(counted, 2, slices=1, scheme=scheme.value)
    return {
        f"receivers, {name}": functools.partial(
            lambda topology: Workload(topology(), test_seeds_either.INPUTS), topology
        )
        for name, topology in topologies.items()
    }


JOBS: dict[str, Make] = {
    **_of_schemes(),
    **_of_receivers(),
    "words, three replicas": lambda: test_seeds_replicas.workload("word count", 3),
    "join, three replicas": lambda: test_seeds_replicas.workload("join", 3),
    "controller, for time": lambda: test_seeds_controller.CHANGING.workload,
    "controller, for cost": lambda: test_seeds_controller.SAVING.workload,
    "gap, words": lambda: test_seeds_gap.WORD_COUNT.workload,
    "gap, windows": lambda: test_seeds_gap.WINDOWED.workload,
}


@functools.cache
def trials(job: str) -> Trials:
    """All faults; the undisturbed run is made once in each process."""
    return Trials(JOBS[job](), tuple(FaultKind))
