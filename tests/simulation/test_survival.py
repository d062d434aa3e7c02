"""Nodes die, stand still and lose each other; disks fail; the output stays, byte for byte."""

from __future__ import annotations

import functools

import pyarrow as pa
import pytest

from streammine.engine import output_channel
from streammine.simulation.faults import Fault, FaultKind, FaultPlan, parse_kinds
from streammine.simulation.run import run_workload
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from tests.simulation import workloads
from tests.simulation.other_processes import printed_by_others

SEEDS = range(6)

PROGRAM = """
from tests.simulation.test_survival import traces
print(*traces())
"""


@functools.cache
def workload(name: str) -> Workload:
    if name == "word count":
        lines = pa.table({"line": workloads.text(160)})
        return Workload(workloads.word_count(3), {"lines": lines})
    return Workload(workloads.equi_join(2), workloads.orders_and_payments(80))


@functools.cache
def trials(name: str, kinds: str) -> Trials:
    return Trials(workload(name), parse_kinds(kinds))


def traces() -> list[str]:
    return [trials("word count", "all").run(seed, traced=True).trace for seed in (2, 3)]


def test_a_seed_gives_the_same_faults_and_the_same_trace_in_every_process() -> None:
    found = printed_by_others(PROGRAM)
    assert found[0] == found[1] == traces() == traces()
    assert len(set(found[0])) == 2


def test_a_whole_cluster_that_dies_goes_on_from_its_checkpoint() -> None:
    faults = tuple(Fault(FaultKind.CRASH, 0.9 + number / 1000, 0.1, 0) for number in range(2))
    settings = SimulationSettings(
        heartbeat_seconds=0.02, work_delay_seconds=0.06, read_rows=2, checkpoint_epochs=2
    )
    undisturbed = run_workload(workload("word count"), nodes=2, settings=settings)
    run = run_workload(workload("word count"), nodes=2, settings=settings, faults=FaultPlan(faults))
    assert run.faults[FaultKind.CRASH] == 2
    assert run.rows["recovery", "replica restored from a full snapshot"] > 0
    assert run.digest == undisturbed.digest


def test_an_outage_that_is_longer_than_a_call_is_repeated_for_is_survived() -> None:
    faults = (Fault(FaultKind.JOIN, 0.9), Fault(FaultKind.COORDINATOR, 0.906, 4.0))
    settings = SimulationSettings(join_delay_seconds=0.005, work_delay_seconds=0.06, read_rows=2)
    undisturbed = run_workload(workload("word count"), nodes=2, settings=settings)
    told: list[str] = []
    run = run_workload(
        workload("word count"),
        nodes=2,
        settings=settings,
        faults=FaultPlan(faults),
        transcript=told.append,
    )
    assert run.faults[FaultKind.COORDINATOR] == 1
    assert run.digest == undisturbed.digest
    joining = [line.split("!")[1].strip(" '") for line in told if "node-2   !" in line]
    assert joining[:4] == ["starts", "connection suspended", "is gone", "starts"]


def test_retention_that_is_pruned_too_early_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    prune = output_channel.OutputChannel.prune

    def eager(self: output_channel.OutputChannel, retain_after: int) -> None:
        prune(self, self.ended - 1)

    monkeypatch.setattr(output_channel.OutputChannel, "prune", eager)
    failed = [trials("word count", "none").run(seed).problem for seed in SEEDS]
    assert any("complete checkpoints cover them up to" in (problem or "") for problem in failed)


def test_a_failing_seed_is_cut_down_to_the_faults_that_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # whoever subscribes gets nothing: so a job survives everything but the loss of a replica
    monkeypatch.setattr(
        output_channel.OutputChannel, "subscribe", lambda self, receiver, from_epoch, frontier: None
    )
    all_kinds = trials("word count", "crash,join,disk-slow,duplicates")
    failed = next(
        trial
        for seed in range(40)
        if (trial := all_kinds.run(seed)).problem is not None and len(trial.plan.faults) > 2
    )
    failure = all_kinds.shrunk(failed)
    needed = {failed.plan.faults[number].kind for number in failure.needed}
    assert needed == {FaultKind.CRASH}
    assert len(failure.needed) <= 2
