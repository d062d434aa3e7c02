"""Words of recovery that travel with a job and its plan: snapshots, and what a replica is built from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from streammine.model.epochs import BEGINNING
from streammine.model.recovery_policy import RecoveryGoal

SnapshotMode = Literal["asynchronous", "synchronous", "none"]


PART_BYTES = 8 << 20
"""About how long the parts of a snapshot are. Operators make their pieces of that length."""

ALIGNMENT_BYTES = 64
"""Pieces begin at a multiple of it, as Arrow likes it, and are made that long, so that they need no copy."""


@dataclass(frozen=True)
class SnapshotRecord:
    """A durable snapshot. `name` is its header document's in the store, `checksum` that of its bytes.

    `nbytes` counts header and parts. Where it is not `full`, `chain` snapshots are read to restore it, this
    one included.
    """

    epoch: int
    generation: int
    name: str
    checksum: str
    nbytes: int
    full: bool = True
    chain: int = 1


@dataclass(frozen=True)
class Restore:
    """What a replica is built from: the state after `epoch`.

    `record` None: `finished` with `last_epoch` as its last epoch with data, nothing more to do.
    `left_out_until`: the epochs after `epoch` up to this one are not made up for: they are lost.
    """

    epoch: int
    record: SnapshotRecord | None
    finished: bool = False
    last_epoch: int = BEGINNING
    left_out_until: int = BEGINNING


@dataclass(frozen=True)
class RecoverySettings:
    """How a job is made safe. One of `every_seconds` and `every_epochs` is set unless `mode` is "none".

    `store` is the folder or URL that snapshots and checkpoints lie in. `first_generation` is above every
    generation that an earlier attempt of the same run may have used. `resume`: what each slice starts from.
    `pace_begins`: what each paced source's pace begins with. Of one with a rate that is the number of a row,
    after a resume that of the row it had come to; of one with a speed the event time in microseconds of all
    such sources' first row, after a resume the time that they had come to. `goal`: the schemes of slices are
    chosen to reach it, None for left as they are; `paced`: the
    sources that do not wait for who takes from them.
    """

    mode: SnapshotMode = "none"
    every_seconds: float | None = None
    every_epochs: int | None = None
    store: str = ""
    first_generation: int = 1
    resume: dict[str, Restore] = field(default_factory=dict)
    pace_begins: dict[str, int] = field(default_factory=dict)
    goal: RecoveryGoal | None = None
    paced: tuple[str, ...] = ()
