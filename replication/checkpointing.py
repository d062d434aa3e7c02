"""The checkpoint coordinator: names a job's checkpoints and notices when they are complete (DESIGN §5).

House rules
-----------
* One checkpoint at a time. Nothing is named before all slices have reported and some source has opened an
  epoch, or once all sources are at their end.
* The epoch named lies `margin` beyond the highest open epoch of a source, so that the sources hear of it
  before they end it; never below the end of a slice that is finished, for that one freezes no more; and
  above all that was named, agreed to, frozen at or completed before, also by an earlier manager.
* A source of which any replica ended the epoch unheard has refused it. Then the margin doubles, and another
  epoch is named at once; with each complete checkpoint the margin shrinks by half.
* A slice that went past the epoch without freezing there, or whose live replica has skipped it, will not make
  that snapshot: the checkpoint is given up. A source that agreed will freeze, however far it has read. A
  rebuilt slice that comes by the epoch once more freezes like any other, so a crash alone gives nothing up.
* Where all have frozen and only writes are outstanding, they get `patience`; one may have failed. It
  doubles each time it was in vain, so that the slowest store gets its time, and starts anew with each
  complete checkpoint.
* A checkpoint is complete when every slice has a durable snapshot of the epoch, made by its live
  generation, or is finished with its last output at or before it.
* Retention is pruned, and older snapshots are collected, only when two complete checkpoints stand; both
  reach back to the older one.
* A manifest that can't be written is not tried again: its snapshots stay, and a later checkpoint is tried
  when it is due.

`every_seconds` counts from one naming to the next, the first time from the first look at the job.
`every_epochs` names the multiples of it.

::

    phase       what happens     next phase
    idle        name             collecting      Propose
    collecting  give up          idle
    collecting  complete         publishing      PublishCheckpoint
    publishing  published        idle            PruneTo, CollectSnapshots
    publishing  failed           idle

Carbone et al. (2015), "Lightweight asynchronous snapshots for distributed dataflows", section 4.2, with
the barrier's place agreed on ahead of the sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph
from streammine.model.recovery import (
    Checkpoint,
    CheckpointEffect,
    CollectSnapshots,
    Propose,
    PruneTo,
    PublishCheckpoint,
    SliceStanding,
)
from streammine.model.snapshots import RecoverySettings, Restore, SnapshotRecord

KEPT = 2
"""Complete checkpoints that are kept."""

LARGEST_MARGIN = 1 << 20
"""Epochs. A gap in event time looks like sources that are quick; it must not push epochs out of sight."""


PATIENCE_SECONDS = 30.0
"""How long snapshots may take to write, at first."""


class Phase(Enum):
    IDLE = "idle"
    COLLECTING = "collecting"
    PUBLISHING = "publishing"


class _Event(Enum):
    NAME = "name"
    GIVE_UP = "give up"
    COMPLETE = "complete"
    PUBLISHED = "published"
    FAILED = "failed"


_TRANSITIONS = {
    (Phase.IDLE, _Event.NAME): Phase.COLLECTING,
    (Phase.COLLECTING, _Event.GIVE_UP): Phase.IDLE,
    (Phase.COLLECTING, _Event.COMPLETE): Phase.PUBLISHING,
    (Phase.PUBLISHING, _Event.PUBLISHED): Phase.IDLE,
    (Phase.PUBLISHING, _Event.FAILED): Phase.IDLE,
}


class Coordinator:
    """Implements `CheckpointCoordinator`."""

    def __init__(self, graph: JobGraph, settings: RecoverySettings) -> None:
        periods = (settings.every_seconds, settings.every_epochs)
        if settings.mode != "none":
            assert periods.count(None) == 1, "either every_seconds or every_epochs is set"
            assert all(period is None or period > 0 for period in periods)
        self.phase = Phase.IDLE
        self.margin = 1
        self._settings = settings
        self._slices = graph.slices
        self._sources = tuple(
            SliceId(vertex.name, index)
            for vertex in graph.vertices
            if vertex.kind == "source"
            for index in range(vertex.slices)
        )
        self._proposed = BEGINNING
        self._complete: tuple[Checkpoint, ...] = ()
        self._making: Checkpoint | None = None
        self._named_at: float | None = None
        self._at_once = False
        self._patience_seconds = PATIENCE_SECONDS
        self._all_frozen_at: float | None = None

    @property
    def proposed(self) -> int:
        return self._proposed

    @property
    def making(self) -> int:
        return BEGINNING if self.phase is Phase.IDLE else self._proposed

    @property
    def complete(self) -> tuple[Checkpoint, ...]:
        return self._complete

    def adopt(self, complete: Sequence[Checkpoint]) -> None:
        assert self.phase is Phase.IDLE, "checkpoints are adopted before any is named"
        assert not self._complete
        self._complete = tuple(sorted(complete, key=lambda one: one.epoch))[-KEPT:]

    def observe(
        self, now_seconds: float, standings: Mapping[SliceId, SliceStanding]
    ) -> list[CheckpointEffect]:
        if self._named_at is None:
            self._named_at = now_seconds
        if any(slice_id not in standings for slice_id in self._slices):
            return []
        effects: list[CheckpointEffect] = []
        if self.phase is Phase.COLLECTING:
            effects += self._collect(now_seconds, standings)
        if self.phase is Phase.IDLE:
            effects += self._name(now_seconds, standings)
        return effects

    def published(self, epoch: int, error: str | None) -> list[CheckpointEffect]:
        checkpoint = self._making
        assert checkpoint is not None, "nothing is being published"
        assert checkpoint.epoch == epoch, f"{checkpoint.epoch} is being published, not {epoch}"
        self._making = None
        if error is not None:
            self._enter(_Event.FAILED)
            return []
        self._enter(_Event.PUBLISHED)
        self.margin = max(1, self.margin // 2)
        self._patience_seconds = PATIENCE_SECONDS
        self._complete = (*self._complete, checkpoint)[-KEPT:]
        if len(self._complete) < KEPT:
            return []
        return [PruneTo(self._complete[0].epoch), CollectSnapshots(self._complete)]

    def _enter(self, event: _Event) -> None:
        after = _TRANSITIONS.get((self.phase, event))
        assert after is not None, f"can't {event.value} while {self.phase.value}"
        self.phase = after

    def _collect(
        self, now_seconds: float, standings: Mapping[SliceId, SliceStanding]
    ) -> list[CheckpointEffect]:
        epoch = self._proposed
        found = {one: _restore(standings[one], epoch) for one in self._slices}
        done = {str(one): restore for one, restore in found.items() if restore is not None}
        if len(done) == len(self._slices):
            self._enter(_Event.COMPLETE)
            self._making = Checkpoint(epoch, done)
            return [PublishCheckpoint(self._making)]
        missing = [one for one in self._slices if found[one] is None]
        if any(_ended_unheard(standings[one], epoch) for one in self._sources):
            self.margin = min(2 * self.margin, LARGEST_MARGIN)
            self._give_up()
        elif any(_passed(standings[one], epoch) for one in missing):
            self._give_up()
        elif all(standings[one].frozen >= epoch for one in missing):
            self._wait_for_writes(now_seconds)
        else:
            self._all_frozen_at = None
        return []

    def _wait_for_writes(self, now_seconds: float) -> None:
        if self._all_frozen_at is None:
            self._all_frozen_at = now_seconds
        elif now_seconds - self._all_frozen_at > self._patience_seconds:
            self._patience_seconds *= 2
            self._give_up()

    def _give_up(self) -> None:
        self._enter(_Event.GIVE_UP)
        self._at_once = True

    def _name(
        self, now_seconds: float, standings: Mapping[SliceId, SliceStanding]
    ) -> list[CheckpointEffect]:
        if not self._due(now_seconds):
            return []
        epoch = self._next_epoch(standings)
        if epoch is None:
            return []
        self._enter(_Event.NAME)
        self._proposed = epoch
        self._named_at = now_seconds
        self._at_once = False
        self._all_frozen_at = None
        return [Propose(epoch)]

    def _due(self, now_seconds: float) -> bool:
        if self._settings.mode == "none":
            return False
        every_seconds = self._settings.every_seconds
        if every_seconds is None or self._at_once:
            return True
        assert self._named_at is not None
        return now_seconds - self._named_at >= every_seconds

    def _next_epoch(self, standings: Mapping[SliceId, SliceStanding]) -> int | None:
        """The epoch to name, or None where none can be named now."""
        leading = [standings[one] for one in self._sources]
        sources = [each for one in leading for each in (one, *one.others)]
        # A source that is ending stands at INFINITY: nothing is named until its last epoch is known.
        running = [standing.frontier for standing in sources if standing.final_epoch is None]
        open_epoch = max(running, default=BEGINNING)
        if open_epoch == BEGINNING:
            return None
        used = [self._proposed, *(checkpoint.epoch for checkpoint in self._complete)]
        ends = [open_epoch]
        for one in self._slices:
            standing = standings[one]
            used += [standing.accepted, standing.frozen]
            if standing.final_epoch is not None:
                ends.append(standing.final_epoch)
        epoch = max(open_epoch + self.margin, max(used) + 1, max(ends))
        every_epochs = self._settings.every_epochs
        if every_epochs is not None:
            epoch = -(-epoch // every_epochs) * every_epochs
        return epoch if epoch < INFINITY else None


def _ended_unheard(source: SliceStanding, epoch: int) -> bool:
    """Some replica of the source had ended the epoch before it heard of it: whoever takes that end from it
    freezes nothing."""
    replicas = (source, *source.others)
    return any(_restore(each, epoch) is None and _missed(each, epoch) for each in replicas)


def _ending(standing: SliceStanding) -> bool:
    """At its end, though which epoch its last was is not told yet."""
    return standing.frontier == INFINITY and standing.final_epoch is None


def _missed(standing: SliceStanding, epoch: int) -> bool:
    """Past the epoch without having frozen there, or agreed to (which is still to be kept)."""
    heeded = standing.accepted >= epoch or standing.frozen >= epoch
    return standing.frontier > epoch and not heeded and not _ending(standing)


def _passed(standing: SliceStanding, epoch: int) -> bool:
    """The live replica will never have a snapshot of the epoch, nor be finished by it."""
    return standing.skipped >= epoch or _missed(standing, epoch)


def _restore(standing: SliceStanding, epoch: int) -> Restore | None:
    """What the slice contributes to the checkpoint, if it is there already."""
    if standing.final_epoch is not None and standing.final_epoch <= epoch:
        return Restore(epoch, None, True, standing.last_epoch)
    record = _record(standing, epoch)
    return None if record is None else Restore(epoch, record)


def _record(standing: SliceStanding, epoch: int) -> SnapshotRecord | None:
    for record in reversed(standing.snapshots):
        if record.epoch == epoch and record.generation == standing.generation:
            return record
    return None
