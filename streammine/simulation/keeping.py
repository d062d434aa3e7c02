"""What a virtual node's manager does to the store of checkpoints."""

from __future__ import annotations

from contextlib import suppress

from streammine.assembly import (
    Term,
    begin_term,
    collect,
    find_memory,
    forgotten_until,
    keep_memory,
    newest_checkpoints,
    publish_checkpoint,
    settled,
)
from streammine.engine import node_stimuli as machine
from streammine.model.contracts import Store
from streammine.model.errors import OutputError
from streammine.simulation.disk import NodeStore
from streammine.simulation.monitor import Monitor


def publish(
    store: Store, monitor: Monitor, effect: machine.PublishCheckpoint
) -> machine.CheckpointPublished:
    """Publish in the manager's term, and tell the monitor of what counts."""
    epoch = effect.checkpoint.epoch
    try:
        publish_checkpoint(store, effect.checkpoint, Term(manager=effect.manager))
    except OutputError as error:
        return machine.CheckpointPublished(effect.job, epoch, str(error))
    monitor.checkpoint_written(epoch)
    return machine.CheckpointPublished(effect.job, epoch)


def make_sure(store: Store, effect: machine.MakeSure) -> machine.MadeSure:
    """Put a decision, or the seal of those who decide now, into the store."""
    try:
        return settled(store, effect)
    except OutputError:
        return machine.MadeSure(effect, None)


def tidy(store: NodeStore, effect: machine.CollectSnapshots, verified: set[str]) -> None:
    """Remove what nobody needs; where the disk fails it is left until the next time. What must stay is whole,
    but for what the disk itself has damaged, or another manager has removed since, with its checkpoint."""
    with suppress(OutputError):
        found = collect(store, effect.keep, verified, effect.decisions)
        if found.damaged is not None and not store.has_damaged:
            there = {each.epoch for each in newest_checkpoints(store, None)}
            assert not there.issuperset(each.epoch for each in effect.keep), found.damaged


def find(store: Store, effect: machine.FindCheckpoints) -> machine.CheckpointsFound:
    """Begin the manager's term; what counts, or None where the disk fails: then it looks again."""
    try:
        begin_term(store, Term(manager=effect.manager))
        found = newest_checkpoints(store, None)
        memory = find_memory(store) if effect.memory else None
        forgotten = forgotten_until(store)
        return machine.CheckpointsFound(effect.job, tuple(found), forgotten, memory)
    except OutputError:
        return machine.CheckpointsFound(effect.job, None)


def remember(store: Store, effect: machine.KeepMemory) -> machine.MemoryKept:
    """Keep what the controller knows, in the manager's term."""
    try:
        keep_memory(store, effect.memory, Term(manager=effect.manager))
    except OutputError as error:
        return machine.MemoryKept(effect.job, effect.memory, str(error))
    return machine.MemoryKept(effect.job, effect.memory)
