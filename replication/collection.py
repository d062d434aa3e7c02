"""Removing snapshots, checkpoints and decisions that nobody needs any more.

What must stay:

* the checkpoints that are kept, and the chains of their snapshots;
* whatever is of the newest kept checkpoint's epoch or later, published or in the making, and the chains
  that it builds on;
* of each slice, what replicas make that are younger (of a higher generation) than the one whose snapshot
  the newest kept checkpoint holds: a copy of the slice that is being brought up builds its increments on
  its own newest snapshot, whatever that one's epoch is. Its newest chain stays, and unpublished parts
  of later epochs.

A replica of a lower generation, which may not know yet that it was replaced, can go on building on what was
removed. That one counts for nothing, and whoever leads again begins with all of its state.

Everything else is of an earlier epoch and of a replica that has gone past it: superseded snapshots,
checkpoints that were given up, parts whose header never came.

Before a manifest, a published snapshot or a decision goes, the oldest kept checkpoint is read back whole.
So there is always one checkpoint whose every byte has been seen in the store, and nothing that older work
could be done again from is removed on trust. Each snapshot is read once, when the first checkpoint that
needs it becomes the oldest kept one. Where anything that must stay is damaged, nothing is removed at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replication.checkpoints import read_checkpoint
from replication.decisions import forget_decisions, superseded_decisions
from replication.naming import CHECKPOINTS, SNAPSHOTS, SnapshotName, checkpoint_of, snapshot_of
from replication.snapshots import follow_chain, read_chain, read_header, verify_snapshot
from streammine.model.contracts import Store
from streammine.model.errors import SnapshotDamagedError, StateVersionError
from streammine.model.ids import SliceId
from streammine.model.recovery import Checkpoint


@dataclass(frozen=True)
class Collected:
    """What `collect` did: the names it `removed`, or what is damaged, so that it removed nothing."""

    removed: tuple[str, ...] = ()
    damaged: str | None = None


def collect(
    store: Store, keep: Sequence[Checkpoint], verified: set[str], decisions: bool
) -> Collected:
    """Remove what only checkpoints before those in `keep` (oldest first) need, and `decisions` that the first
    of them covers: not while a replica is behind it, which needs them.

    `verified`: the headers of snapshots that were read back before, brought up to date here. Raises
    OutputError when the store can't be listed or written.
    """
    if not keep:
        return Collected()
    snapshots = [
        (name, found) for name in store.list(SNAPSHOTS) if (found := snapshot_of(name)) is not None
    ]
    try:
        needed = _needed(store, keep, snapshots)
        doomed = [name for name, snapshot in snapshots if snapshot not in needed]
        decided = superseded_decisions(store, keep[0].epoch) if decisions else []
        manifests = _superseded(store, keep)
        headers = {snapshot.header for _, snapshot in snapshots if snapshot not in needed}
        if manifests or decided or not headers.isdisjoint(doomed):
            _verify(store, keep[0], verified)
    except (SnapshotDamagedError, StateVersionError) as error:
        return Collected(damaged=str(error))
    # A manifest goes before the headers that it names, a header before its parts.
    removed = manifests + sorted(doomed, key=lambda name: not name.endswith(".json"))
    removed += [*decided, *forget_decisions(store, keep[0].epoch, decided)]
    for name in removed:
        store.delete(name)
    return Collected(tuple(removed))


def _needed(
    store: Store, keep: Sequence[Checkpoint], snapshots: Iterable[tuple[str, SnapshotName]]
) -> set[SnapshotName]:
    """Every snapshot of which nothing may be removed."""
    needed: set[SnapshotName] = set()
    for checkpoint in keep:
        for restore in checkpoint.slices.values():
            if restore.record is not None:
                needed |= {header.name for header in read_chain(store, restore.record)}
    published = {found for name, found in snapshots if name == found.header}
    everything = {found for _, found in snapshots}
    newest = keep[-1]
    younger = _younger(newest, everything)
    last_published: dict[tuple[SliceId, int], int] = {}
    for one in sorted(younger & published, key=lambda one: one.epoch):
        last_published[one.slice_id, one.generation] = one.epoch
    for one in everything - needed:
        last = last_published.get((one.slice_id, one.generation))
        if one.epoch >= newest.epoch or (one in younger and (last is None or one.epoch >= last)):
            needed.add(one)
            if one in published:
                needed |= _base(store, one, newest)
    return needed


def _base(store: Store, one: SnapshotName, newest: Checkpoint) -> set[SnapshotName]:
    """What a snapshot outside of the kept checkpoints builds on."""
    try:
        return {each.name for each in follow_chain(store, read_header(store, one.header, None))}
    except SnapshotDamagedError:
        kept = _kept_generation(newest, one)
        if kept is None or one.generation >= kept:
            raise
        return set()


def _younger(newest: Checkpoint, snapshots: Iterable[SnapshotName]) -> set[SnapshotName]:
    """Those of higher generations than the newest checkpoint's; a finished slice has none."""
    return {
        one
        for one in snapshots
        if (kept := _kept_generation(newest, one)) is not None and one.generation > kept
    }


def _kept_generation(newest: Checkpoint, one: SnapshotName) -> int | None:
    """Of the replica whose snapshot of that slice the newest checkpoint holds."""
    restore = newest.slices.get(str(one.slice_id))
    return None if restore is None or restore.record is None else restore.record.generation


def _verify(store: Store, checkpoint: Checkpoint, verified: set[str]) -> None:
    needed: set[str] = set()
    for restore in checkpoint.slices.values():
        if restore.record is not None:
            chain = verify_snapshot(store, restore.record, verified)
            needed.update(chain)
            verified.update(chain)
    verified.intersection_update(needed)


def _superseded(store: Store, keep: Sequence[Checkpoint]) -> list[str]:
    """Manifests up to the newest kept one's epoch that are not those of `keep`.

    Raises SnapshotDamagedError when the oldest kept one's is not there.
    """
    kept = {checkpoint.epoch: checkpoint for checkpoint in keep}
    superseded = []
    sound = set()
    for name in store.list(CHECKPOINTS):
        named = checkpoint_of(name)
        if named is None or named[0] > keep[-1].epoch:
            continue
        same_epoch = kept.get(named[0])
        if same_epoch is None:
            superseded.append(name)
        elif read_checkpoint(store, name) == same_epoch:
            sound.add(named[0])
        else:
            superseded.append(name)
    if keep[0].epoch not in sound:
        raise SnapshotDamagedError(f"the checkpoint of epoch {keep[0].epoch} has no manifest")
    return superseded
