"""What a node makes of a job's store that fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from replication.collection import Collected
from streammine.engine import node_stimuli as machine
from streammine.model.errors import OutputError, StateVersionError, StreammineError
from streammine.model.snapshots import RecoverySettings
from streammine.runtime import recovery
from streammine.runtime.hosting import HostedJob
from streammine.runtime.recovery import SnapshotKeeper


@dataclass
class Failing:
    """A job whose store can't be listed."""

    error: StreammineError
    recovery: RecoverySettings = field(default_factory=RecoverySettings)
    verified: set[str] = field(default_factory=set)
    collects_from: float = 0.0

    @property
    def spec(self) -> Failing:
        return self

    @property
    def snapshot_store(self) -> Failing:
        return self

    def list(self, prefix: str) -> list[str]:
        raise self.error


def look(error: StreammineError) -> machine.NodeStimulus:
    keeper = SnapshotKeeper("node-1")
    return keeper.find(cast(HostedJob, Failing(error)), machine.FindCheckpoints(7, 3))


def test_a_store_that_can_not_be_listed_does_not_end_the_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert look(OutputError("can't list: no route")) == machine.CheckpointsFound(7, None)
    assert "no route" in caplog.text


def test_old_snapshots_are_removed_in_a_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    begun: list[float] = []

    def slow(store: object, keep: object, verified: object, decisions: object) -> Collected:
        nonlocal now
        begun.append(now)
        now += 0.1
        return Collected()

    monkeypatch.setattr(recovery.time, "monotonic", lambda: now)
    monkeypatch.setattr(recovery, "collect", slow)
    keeper, job = SnapshotKeeper("node-1"), cast(HostedJob, Failing(OutputError("")))
    for _ in range(12):
        keeper.collect(job, machine.CollectSnapshots(7, (), True))
        now += 1.0
    # a fiftieth of the time: 5 s of rest
    assert begun == pytest.approx([100.0, 105.1, 110.2])


def test_a_checkpoint_of_another_version_ends_the_job() -> None:
    found = look(StateVersionError("of format 9"))
    assert found == machine.JobBroken(7, "of format 9")
