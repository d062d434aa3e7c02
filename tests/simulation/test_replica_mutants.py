"""Active replication that is broken on purpose: the simulation notices each mistake within a few seeds.

What only costs time here, like a barrier that is not passed on, the tests of the machines notice.
"""

from __future__ import annotations

import functools

import pyarrow as pa
import pytest

from streammine.engine import plans
from streammine.engine.hosted_job import HostedJob
from streammine.engine.input_channel import InputChannel, Verdict
from streammine.engine.placement import Node, place
from streammine.engine.stimuli import FrameArrived
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph
from streammine.simulation.faults import parse_kinds
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from tests.simulation import workloads

MOST_SEEDS = 12
FIRST_SEED = 210_000


@functools.cache
def trials() -> Trials:
    lines = pa.table({"line": workloads.text(160)})
    return Trials(
        Workload(workloads.word_count(2, replicas=2), {"lines": lines}), parse_kinds("all")
    )


@pytest.fixture(autouse=True, scope="module")
def _right_answers() -> None:
    """They are found while nothing is broken."""
    trials()


def problem() -> str:
    """What the first failing seed fails with."""
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS):
        found = trials().run(seed).problem
        if found is not None:
            return found
    pytest.fail(f"{MOST_SEEDS} seeds have not noticed it")


def test_nothing_is_noticed_where_nothing_is_broken() -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + 4)
    assert [trials().run(seed).problem for seed in seeds] == [None] * 4


def test_two_replicas_of_a_slice_on_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def together(graph: JobGraph, nodes: list[Node]) -> dict[SliceId, tuple[Node, ...]]:
        return {each: (group[0],) * len(group) for each, group in place(graph, nodes).items()}

    monkeypatch.setattr(plans, "place", together)
    assert "twice on a node" in problem()


def test_two_replicas_that_both_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostedJob, "led_by", lambda self, machine: True)
    assert "in no plan it leads" in problem()


def test_what_two_senders_give_taken_both(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = InputChannel.receive

    def everything(self: InputChannel, frame: FrameArrived) -> Verdict:
        verdict = receive(self, frame)
        return Verdict.TAKE if verdict is Verdict.WAIT else verdict

    monkeypatch.setattr(InputChannel, "receive", everything)
    assert problem()
