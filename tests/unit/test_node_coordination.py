"""What a node does about calls that the coordination service doesn't hear."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streammine.engine import node_stimuli as machine
from streammine.model.errors import ClusterError, UnknownJobError
from streammine.model.job import JobOutcome
from streammine.model.job_codec import decode_outcome
from streammine.runtime import node as shell
from streammine.runtime.node import COORDINATION_ATTEMPTS, Node, NodeSettings

PATIENCE_SECONDS = 60.0


class Service:
    """Fails with `error` at the first `failures` calls."""

    def __init__(self, failures: int, error: type[ClusterError] = ClusterError) -> None:
        self.calls = 0
        self.failures = failures
        self.error = error
        self.ended: list[tuple[int, bytes]] = []
        self.heard = threading.Event()

    def end_job(self, job: int, outcome: bytes) -> bool:
        self._reach()
        self.ended.append((job, outcome))
        self.heard.set()
        return True

    def _reach(self) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error("it can't be reached")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(shell, "COORDINATION_PAUSE_SECONDS", 0.0)
    transport: Any = SimpleNamespace(wake=lambda: None)
    made = Node(NodeSettings("node-0", tmp_path), transport)
    yield made
    made.stop()
    for each in (made.workers, made.callers, made.deployers, made.writers):
        each.close()
    made.decider.close()


def test_an_outcome_is_declared_however_long_the_service_was_away(node: Node) -> None:
    service: Any = Service(3 * COORDINATION_ATTEMPTS)
    node.service = service
    node._declare_end(machine.DeclareEnd(7, JobOutcome("finished")))
    assert service.heard.wait(PATIENCE_SECONDS)
    ((job, outcome),) = service.ended
    assert (job, decode_outcome(outcome)) == (7, JobOutcome("finished"))


def test_the_end_of_a_job_that_is_gone_is_not_tried_for_ever(node: Node) -> None:
    service: Any = Service(10**9, UnknownJobError)
    node.service = service
    node._declare_end(machine.DeclareEnd(7, JobOutcome("finished")))
    other: Any = Service(0)
    node.service = other
    node._declare_end(machine.DeclareEnd(8, JobOutcome("finished")))
    assert other.heard.wait(PATIENCE_SECONDS), "it has its turn after the other"
    assert service.calls == 1


def test_of_a_plan_that_could_not_be_published_the_machine_hears(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    service: Any = Service(10**9)
    node.service = service
    heard: list[object] = []
    told = threading.Event()

    def handle(stimulus: object) -> None:
        heard.append(stimulus)
        told.set()

    monkeypatch.setattr(node, "_handle", handle)
    refused = machine.PlanRefused(7, 3, 1)
    node._coordinate(lambda reached: reached.end_job(7, b""), refused)
    assert told.wait(PATIENCE_SECONDS)
    assert heard == [refused]
    assert service.calls == COORDINATION_ATTEMPTS
