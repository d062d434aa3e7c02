"""Whatever happens to the cluster, bags merged in the order of their channels give the same bytes.

Every bag that a replica makes or takes is compared as a sequence, see simulation.contents.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pytest

from streammine.engine import processor
from streammine.operators.join import EquiJoin
from streammine.simulation.run import run_workload
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.seeds import PORTION, Seeds

SEEDS = range(100)
EPOCHS = 24
EPOCH_ROWS = 8
MOST_SEEDS = 8
INPUTS = {
    "left": workloads.keyed_values(EPOCHS * EPOCH_ROWS, seed=1),
    "right": workloads.keyed_values(EPOCHS * EPOCH_ROWS, seed=2),
}
WORKLOAD = Workload(workloads.braid(EPOCH_ROWS), INPUTS)
BRAID = Seeds(WORKLOAD)
REPLICATED = Seeds(Workload(workloads.braid(EPOCH_ROWS, replicas=2), INPUTS))


@pytest.mark.parametrize("first", range(0, len(SEEDS), PORTION))
def test_all_faults(first: int) -> None:
    BRAID.run("all", SEEDS[first : first + PORTION])


def test_replicas_take_bags_of_different_replicas_and_give_the_same_bytes() -> None:
    REPLICATED.run("all", range(2 * PORTION))
    assert REPLICATED.trials("all").digest == BRAID.trials("all").digest


def test_runs_are_long_and_faults_take_effect() -> None:
    BRAID.check_variety(SEEDS[:40])


# --- broken on purpose ------------------------------------------------------------------------


def problem(trials: Trials) -> str | None:
    """What the first failing seed fails with."""
    found = (trials.run(seed).problem for seed in range(MOST_SEEDS))
    return next((each for each in found if each is not None), None)


@pytest.mark.parametrize(
    ("order", "what"),
    [
        (lambda held: 0, "arrival instead of channels"),
        (itemgetter(0), "the channels of a port as they arrive"),
        (lambda held: (-held[0], held[1]), "the last port first"),
    ],
)
def test_bags_in_another_order_are_noticed(
    order: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = Trials(WORKLOAD, BRAID.trials("all").kinds)
    monkeypatch.setattr(processor, "_CHANNEL", order)
    assert problem(trials), what


def digests_behind_a_join() -> set[str]:
    """A key's rows come out of one slice of the join, in an order of their own."""
    inputs = workloads.orders_and_payments(200)
    return {
        run_workload(Workload(workloads.braided_pairs(slices), inputs), seed=slices).digest
        for slices in (1, 2, 3, 4)
    }


def test_a_join_whose_rows_leave_in_any_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(digests_behind_a_join()) == 1
    monkeypatch.setattr(EquiJoin, "_joined", EquiJoin._pairs)
    assert len(digests_behind_a_join()) > 1
