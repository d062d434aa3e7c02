"""What a node does to a job's store of snapshots, on a thread of its own.

The thread writes what slices have frozen while they go on, publishes checkpoints, and moves batches that
outgrow memory to disk. Everything on it may wait for a disk; nothing else waits for it.
"""

from __future__ import annotations

import logging
import time

from streammine.assembly import (
    GENERATIONS_PER_ATTEMPT,
    Term,
    begin_term,
    collect,
    find_memory,
    forgotten_until,
    keep_memory,
    newest_checkpoints,
    publish_checkpoint,
    write_snapshot,
)
from streammine.engine import node_stimuli as machine
from streammine.model.contracts import BatchSpill
from streammine.model.errors import OutputError, StreammineError
from streammine.model.recovery_policy import Step
from streammine.runtime.hosting import HostedJob

logger = logging.getLogger(__name__)

COLLECTING_SHARE = 0.02
"""Of the time, that is spent on removing old snapshots at most."""


class SnapshotKeeper:
    """Performs the effects that touch snapshots. Each method returns what came of it."""

    def __init__(self, node: str) -> None:
        self._node = node

    def write(self, job: HostedJob, effect: machine.WriteSnapshot) -> machine.SnapshotWritten:
        done = (effect.job, effect.slice, effect.generation)
        begun = job.times.clock()
        try:
            record = write_snapshot(
                job.snapshot_store, effect.slice, effect.generation, effect.frozen, effect.previous
            )
            job.times.took(Step.SAVE, effect.slice, effect.generation, begun, record.nbytes)
            return machine.SnapshotWritten(*done, record)
        except StreammineError as error:
            logger.warning("node %s: snapshot of %s: %s", self._node, effect.slice, error)
            return machine.SnapshotWritten(*done, None, str(error))

    def publish(
        self, job: HostedJob, effect: machine.PublishCheckpoint
    ) -> machine.CheckpointPublished:
        epoch = effect.checkpoint.epoch
        try:
            publish_checkpoint(job.snapshot_store, effect.checkpoint, _term(job, effect.manager))
            return machine.CheckpointPublished(effect.job, epoch)
        except StreammineError as error:
            logger.warning("node %s: checkpoint %s: %s", self._node, epoch, error)
            return machine.CheckpointPublished(effect.job, epoch, str(error))

    def collect(self, job: HostedJob, effect: machine.CollectSnapshots) -> None:
        begun = time.monotonic()
        if begun < job.collects_from:
            # what is kept longer is removed with what comes later
            return
        try:
            collected = collect(job.snapshot_store, effect.keep, job.verified, effect.decisions)
            now = time.monotonic()
            job.collects_from = now + (now - begun) / COLLECTING_SHARE
        except StreammineError as error:
            # what is left takes space until the next time, no more
            logger.warning("node %s: removing old snapshots: %s", self._node, error)
            return
        if collected.damaged is not None:
            logger.error(
                "node %s keeps old snapshots, for a newer one is damaged: %s",
                self._node,
                collected.damaged,
            )

    def find(self, job: HostedJob, effect: machine.FindCheckpoints) -> machine.NodeStimulus:
        def warn(text: str) -> None:
            logger.error("node %s passes a damaged checkpoint over: %s", self._node, text)

        def forget(text: str) -> None:
            logger.warning("node %s: job %s: %s", self._node, effect.job, text)

        try:
            begin_term(job.snapshot_store, _term(job, effect.manager), warn)
            found = newest_checkpoints(job.snapshot_store, None, warn)
            forgotten = forgotten_until(job.snapshot_store)
            memory = find_memory(job.snapshot_store, forget) if effect.memory else None
        except OutputError as error:
            logger.warning("node %s: looking for checkpoints: %s", self._node, error)
            return machine.CheckpointsFound(effect.job, None)
        except StreammineError as error:
            return machine.JobBroken(effect.job, str(error))
        return machine.CheckpointsFound(effect.job, tuple(found), forgotten, memory)

    def remember(self, job: HostedJob, effect: machine.KeepMemory) -> machine.MemoryKept:
        try:
            keep_memory(job.snapshot_store, effect.memory, _term(job, effect.manager))
            return machine.MemoryKept(effect.job, effect.memory)
        except StreammineError as error:
            logger.warning("node %s: what the controller knows: %s", self._node, error)
            return machine.MemoryKept(effect.job, effect.memory, str(error))

    def to_disk(self, spill: BatchSpill, effect: machine.MoveToDisk) -> machine.NodeStimulus | None:
        try:
            for kept in effect.bodies:
                kept.to_disk(spill)
        except StreammineError as error:
            return machine.JobBroken(effect.job, str(error))
        return None


def _term(job: HostedJob, manager: int) -> Term:
    return Term(job.spec.recovery.first_generation // GENERATIONS_PER_ATTEMPT, manager)
