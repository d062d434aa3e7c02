"""What a node makes of a job's store that fails while decisions are put there."""

from __future__ import annotations

from dataclasses import dataclass
from queue import SimpleQueue
from typing import cast

import pyarrow as pa
import pytest

from streammine.engine import node_stimuli as machine
from streammine.model.agreement import SealStore, StoreRead
from streammine.model.epochs import BEGINNING
from streammine.model.errors import OutputError, StateVersionError
from streammine.model.ids import SliceId
from streammine.runtime.deciding import Decider
from streammine.runtime.hosting import HostedJob
from tests.unit.memory_store import MemoryStore

WISH = machine.MakeSure(7, SliceId("counts", 0), 3, SealStore(2, BEGINNING))


class Failing(MemoryStore):
    """Nothing can be written there."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        raise self.error


@dataclass
class Job:
    snapshot_store: MemoryStore
    number: int = 7


def made_sure(store: MemoryStore) -> machine.NodeStimulus:
    done: SimpleQueue[machine.NodeStimulus] = SimpleQueue()
    decider = Decider("node-1", done.put, lambda ask, otherwise: None)
    decider.make_sure(cast(HostedJob, Job(store)), WISH)
    try:
        return done.get(timeout=20)
    finally:
        decider.close()


def test_what_is_stored_is_answered() -> None:
    assert made_sure(MemoryStore()) == machine.MadeSure(WISH, StoreRead(2, ()))


def test_a_store_that_can_not_be_written_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    done = made_sure(Failing(OutputError("the disk is full")))
    assert done == machine.MadeSure(WISH, None)
    assert "the disk is full" in caplog.text


def test_a_store_of_another_version_ends_the_job() -> None:
    done = made_sure(Failing(StateVersionError("of format 9")))
    assert done == machine.JobBroken(7, "of format 9")


def test_a_bug_ends_the_job_and_names_the_node() -> None:
    done = made_sure(Failing(ZeroDivisionError("by zero")))
    assert isinstance(done, machine.JobBroken)
    assert "internal error on node node-1: ZeroDivisionError('by zero')" in done.failure


def test_a_store_that_goes_on_failing_is_told_seldom_and_that_it_works_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: SimpleQueue[machine.NodeStimulus] = SimpleQueue()
    clock = {"now": 0.0}
    decider = Decider("node-1", done.put, lambda ask, otherwise: None, lambda: clock["now"])
    full = cast(HostedJob, Job(Failing(OutputError("can't write x in /data: the disk is full"))))
    told: list[int] = []
    for clock["now"] in (5.0, 5.3, 64.0, 66.0, 67.0):
        decider.make_sure(full, WISH)
        done.get(timeout=20)
        told.append(len(caplog.messages))
    assert told == [1, 1, 1, 2, 2]
    first, later = caplog.messages
    assert "slice counts/0 can't store or read" in first
    assert "in /data: the disk is full" in first
    assert "for 61 s now" in later
    for _ in range(2):
        decider.make_sure(cast(HostedJob, Job(MemoryStore())), WISH)
        done.get(timeout=20)
    decider.close()
    assert len(caplog.messages) == 3
    assert "slice counts/0 can store and read again" in caplog.messages[-1]
