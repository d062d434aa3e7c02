"""What a slice's machine is told when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from streammine.model.contracts import Carried
from streammine.model.epochs import BEGINNING, EpochDefinition
from streammine.model.job import EdgeKind
from streammine.model.snapshots import SnapshotMode

WAITING_BYTES_IN_MEMORY = 64 << 20
"""What has arrived and waits for the operator; more goes to disk as it arrives."""

RETAINED_BYTES_IN_MEMORY = 128 << 20
"""What a slice keeps of its output for others; the oldest beyond goes to disk."""


READS_PER_RUN = 4
BYTES_WORTH_A_RUN = 1 << 17
"""Fewer wait until their epoch can be closed: handing them over at once would cost more than it gains."""

EPOCHS_PER_RUN = 8
INPUT_BYTES_PER_RUN = 1 << 20
OUTPUT_BYTES_PER_RUN = 4 << 20
"""Small epochs are closed several in one run of work, so many at most: a further one only while the run has
taken less, and has made less, than these."""

HISTORY_LENGTH = 32


class Phase(StrEnum):
    DEPLOYED = "deployed"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True)
class SliceSettings:
    """What the machine is told of its job: its epochs, reads, snapshots, and memory in bytes.

    `window_epochs` and `slide_epochs`: the window beyond which its operator keeps nothing, as in
    `model.job.Vertex`. `chosen_among`: of a source, the channels to slices that choose, epoch by epoch, among
    it and others; () where anybody else reads it.
    """

    epoch: EpochDefinition
    read_rows: int
    mode: SnapshotMode = "none"
    waiting_bytes: int = WAITING_BYTES_IN_MEMORY
    retained_bytes: int = RETAINED_BYTES_IN_MEMORY
    window_epochs: int = 1
    chosen_among: tuple[int, ...] = ()
    slide_epochs: int | None = None


@dataclass(frozen=True)
class RestoredTo:
    """Where a restored replica stands: everything up to `epoch` is behind it.

    `left_out_until`: so is everything up to there, though the state lacks it. `lost_until`: what is made up
    to there lacks what was lost before (see `losses`).
    """

    epoch: int
    last_epoch: int
    due: int | None = None
    finished: bool = False
    carried: Carried | None = None
    left_out_until: int = BEGINNING
    lost_until: int = BEGINNING


@dataclass(frozen=True)
class LoopPlace:
    """A slice's place in a loop. `kinds`: what each of its channels is, by number.

    `fires_once`: its operator gathers an epoch's rounds and runs in the last one. `max_rounds` matters to
    a head.
    """

    kinds: Mapping[int, EdgeKind]
    fires_once: bool
    max_rounds: int
