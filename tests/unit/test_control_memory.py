"""What a controller leaves to that of the next manager, and how it lies in the job's store."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import cast

import pytest

from replication import Controller, Term, begin_term, find_memory, keep_memory
from replication.controller import DECISIONS_REMEMBERED
from replication.documents import seal
from replication.naming import memory_name
from replication.recovery_history import WINDOW
from streammine.engine import node_stimuli as machine
from streammine.model.documents import open_document, seal_document
from streammine.model.recovery_assessment import ControlMemory
from streammine.model.recovery_policy import Measurement, RecoveryGoal, Step
from streammine.model.snapshots import RecoverySettings
from streammine.runtime.hosting import HostedJob
from streammine.runtime.recovery import SnapshotKeeper
from tests.unit.memory_store import MemoryStore
from tests.unit.recovery_cases import CLOCK, MEASURED, SLICE, seen, settled

FIRST, SECOND = Term(manager=3), Term(manager=5)


def busy() -> Controller:
    """It has decided once, with estimates of which some are infinite."""
    return settled(RecoveryGoal(2.0), seen(100, 70))


@dataclass
class Job:
    store: MemoryStore = field(default_factory=MemoryStore)
    recovery: RecoverySettings = field(default_factory=RecoverySettings)

    @property
    def spec(self) -> Job:
        return self

    @property
    def snapshot_store(self) -> MemoryStore:
        return self.store


def found_by(store: MemoryStore, manager: int) -> machine.NodeStimulus:
    job = cast(HostedJob, Job(store))
    return SnapshotKeeper("node-1").find(job, machine.FindCheckpoints(7, manager, memory=True))


def test_the_next_controller_shows_and_estimates_what_the_first_one_did() -> None:
    store, before = MemoryStore(), busy()
    keep_memory(store, before.memory, FIRST)
    found = find_memory(store)
    assert found is not None
    assert found == before.memory
    assert [each.at_seconds for each in found.decisions] == [CLOCK]
    after = Controller(RecoveryGoal(2.0), detection_seconds=30.0)
    after.recall(found)
    assert after.decisions == before.decisions
    for each in MEASURED[1:]:
        after.measured(each)
    (measured,) = [each.seconds for each in MEASURED if each.step is Step.DETECT]
    for turn in range(3):
        after.observe(turn / 10, {SLICE: seen(100, 70, age_seconds=1.0 - turn / 4)}, CLOCK)
    estimates = after.stances[SLICE].assessment.estimates
    assert {each.detect_seconds for each in estimates.values()} == {0.0, measured}
    assert len(after.decisions) == 2


def test_what_came_after_is_newer_than_what_is_recalled() -> None:
    made = busy()
    made.measured(Measurement(Step.DETECT, 0.75))
    newest = made.memory
    made.recall(ControlMemory(tuple(map(float, range(1, WINDOW))), newest.decisions))
    # the eldest gives way
    assert made.memory.detection_seconds == (*map(float, range(2, WINDOW)), 0.5, 0.75)
    assert made.memory.decisions == (*newest.decisions, *newest.decisions)


def test_of_the_decisions_the_newest_are_left() -> None:
    made = busy()
    (decision,) = made.decisions
    made.recall(ControlMemory((), (decision,) * DECISIONS_REMEMBERED))
    assert len(made.decisions) == DECISIONS_REMEMBERED + 1
    assert len(made.memory.decisions) == DECISIONS_REMEMBERED


def test_the_highest_term_counts_and_removes_what_is_lower() -> None:
    store = MemoryStore()
    keep_memory(store, ControlMemory((0.25,)), FIRST)
    keep_memory(store, ControlMemory((0.5,)), SECOND)
    assert store.list("controller/") == [memory_name(SECOND)]
    # one that was replaced and does not know it
    keep_memory(store, ControlMemory((0.75,)), FIRST)
    assert find_memory(store) == ControlMemory((0.5,))
    assert find_memory(MemoryStore()) is None


@pytest.mark.parametrize("damage", ["cut", "other version", "other content", "bad sector"])
def test_what_can_not_be_read_is_said_once_and_stops_nobody(
    caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    store, name = MemoryStore(), memory_name(FIRST)
    keep_memory(store, busy().memory, FIRST)
    begin_term(store, FIRST)
    if damage == "cut":
        store.blobs[name] = store.blobs[name][:-20]
    elif damage == "other version":
        document = open_document(store.blobs[name])
        store.blobs[name] = seal_document(document | {"format": 99})
    elif damage == "other content":
        store.blobs[name] = seal("controller's memory", {"decisions": [{"at": 1.0}]})
    else:
        store.unreadable.add(name)
    with caplog.at_level(logging.WARNING):
        found = found_by(store, manager=5)
    assert found == machine.CheckpointsFound(7, (), memory=None)
    (record,) = caplog.records
    assert name in record.getMessage()
    assert "measured anew" in record.getMessage()


def test_a_manager_finds_what_the_one_before_has_left() -> None:
    store, memory = MemoryStore(), busy().memory
    job = cast(HostedJob, Job(store))
    kept = SnapshotKeeper("node-1").remember(job, machine.KeepMemory(7, memory, manager=3))
    assert kept == machine.MemoryKept(7, memory)
    assert found_by(store, manager=5) == machine.CheckpointsFound(7, (), memory=memory)
