"""Checkpoints' manifests, and what else a job is resumed from when nothing but its store is left.

A checkpoint is complete when its manifest is in the store. A damaged manifest costs time, not data: the
next older checkpoint is taken.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from replication.documents import fetch, seal, unseal
from replication.naming import (
    ATTEMPTS,
    CHECKPOINTS,
    RUN,
    Term,
    attempt_name,
    attempt_of,
    checkpoint_name,
    checkpoint_of,
    snapshot_of,
)
from replication.terms import counting, require_latest
from streammine.model.contracts import Store
from streammine.model.errors import SnapshotDamagedError
from streammine.model.recovery import Checkpoint
from streammine.model.snapshots import Restore, SnapshotRecord

GENERATIONS_PER_ATTEMPT = 1 << 16
"""How many generations a slice may have in one attempt to run a job."""


def first_generation(attempt: int) -> int:
    """The lowest generation that replicas of an attempt have; attempts count from 0."""
    return attempt * GENERATIONS_PER_ATTEMPT + 1


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    return seal(
        "checkpoint",
        {
            "epoch": checkpoint.epoch,
            "slices": {name: asdict(restore) for name, restore in checkpoint.slices.items()},
        },
    )


def decode_checkpoint(name: str, data: pa.Buffer | bytes) -> Checkpoint:
    """Raises SnapshotDamagedError for a damaged or renamed manifest, and StateVersionError for one that
    another version of streammine wrote in a format that this one does not know."""

    def build(document: dict[str, Any]) -> Checkpoint:
        checkpoint = Checkpoint(
            int(document["epoch"]),
            {str(slice_id): _restore(one) for slice_id, one in document["slices"].items()},
        )
        named = checkpoint_of(name)
        if named is None or named[0] != checkpoint.epoch:
            raise ValueError(f"it is of epoch {checkpoint.epoch}; somebody renamed it")
        _check(checkpoint)
        return checkpoint

    return unseal(name, data, "checkpoint", build)


def publish_checkpoint(store: Store, checkpoint: Checkpoint, term: Term) -> str:
    """Put the manifest, which makes the checkpoint complete; its name.

    Raises OutputError, also where a manager of a higher term has taken over, for which the checkpoint
    may not count.
    """
    name = checkpoint_name(checkpoint.epoch, term)
    store.put(name, encode_checkpoint(checkpoint))
    require_latest(store, term)
    return name


def newest_checkpoints(
    store: Store, count: int | None = 2, warn: Callable[[str], None] | None = None
) -> list[Checkpoint]:
    """The newest `count` (None: all) complete checkpoints of different epochs that count, oldest first.

    Damaged ones are passed over and told to `warn`. Raises StateVersionError for a checkpoint of another
    version's format, because passing over that one would silently undo work.
    """
    found: list[Checkpoint] = []
    for name in _newest_first(counting(store, warn)):
        if len(found) == count:
            break
        try:
            checkpoint = read_checkpoint(store, name)
        except SnapshotDamagedError as error:
            if warn is not None:
                warn(str(error))
            continue
        if not found or checkpoint.epoch != found[-1].epoch:
            found.append(checkpoint)
    return found[::-1]


def any_checkpoint(store: Store) -> bool:
    """Whether there is or was one, be it damaged. Raises OutputError."""
    return any(checkpoint_of(name) is not None for name in store.list(CHECKPOINTS))


def read_checkpoint(store: Store, name: str) -> Checkpoint:
    """Raises SnapshotDamagedError and StateVersionError, see `decode_checkpoint`."""
    return decode_checkpoint(name, fetch(store, name))


def save_run(store: Store, data: bytes) -> None:
    """Keep the description of a run, from which it is resumed. Raises OutputError."""
    store.put(RUN, seal("run", {"data": base64.b64encode(data).decode()}))


def load_run(store: Store) -> bytes:
    """What `save_run` was given. Raises SnapshotDamagedError where it is missing or damaged, and
    StateVersionError where another version of streammine wrote it."""

    def build(document: dict[str, Any]) -> bytes:
        return base64.b64decode(document["data"], validate=True)

    return unseal(RUN, fetch(store, RUN), "run", build)


def next_attempt(store: Store) -> int:
    """Claim the next attempt to run the job; 0 is the first. Raises OutputError.

    A store has no compare-and-set: two launchers that resume one job in the same moment may claim the
    same attempt. Who resumes makes sure that the attempt before is over.
    """
    taken = [attempt_of(name) for name in store.list(ATTEMPTS)]
    attempt = max((number for number in taken if number is not None), default=-1) + 1
    store.put(attempt_name(attempt), seal("attempt", {"attempt": attempt}))
    return attempt


def _newest_first(names: Sequence[str]) -> Iterator[str]:
    known = [(named, name) for name in names if (named := checkpoint_of(name)) is not None]
    return (name for _, name in sorted(known, reverse=True))


def _restore(document: dict[str, Any]) -> Restore:
    record = document["record"]
    finished = bool(document["finished"])
    if finished != (record is None):
        raise ValueError("a slice is either finished or has a snapshot")
    return Restore(
        int(document["epoch"]),
        None if record is None else _record(record),
        finished,
        int(document["last_epoch"]),
    )


def _record(document: dict[str, Any]) -> SnapshotRecord:
    return SnapshotRecord(
        epoch=int(document["epoch"]),
        generation=int(document["generation"]),
        name=str(document["name"]),
        checksum=str(document["checksum"]),
        nbytes=int(document["nbytes"]),
        full=bool(document["full"]),
        chain=int(document["chain"]),
    )


def _check(checkpoint: Checkpoint) -> None:
    """Every slice restores its own snapshot of the checkpoint's epoch."""
    for slice_id, restore in checkpoint.slices.items():
        if restore.epoch != checkpoint.epoch:
            raise ValueError(f"{slice_id} would be restored to epoch {restore.epoch}")
        if restore.record is not None:
            named = snapshot_of(restore.record.name)
            if (
                named is None
                or restore.record.name != named.header
                or (str(named.slice_id), named.epoch) != (slice_id, checkpoint.epoch)
            ):
                raise ValueError(f"{restore.record.name} is not {slice_id}'s snapshot")
