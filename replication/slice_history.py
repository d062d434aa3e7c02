"""What was seen of a slice lately, and what a crash would find therefore.

A single look says too little: right after a checkpoint there is hardly anything to replay, just before the
next there is most, and choosing by the moment would follow every tooth of that saw. So the outlook is that of
the worst moment: the newest checkpoint is as old as checkpoints got lately, and all the while the input came
as fast as at its fastest in that time. What a checkpoint adds is the mean of the newest ones, for every now
and then one is full. How fast the slice processes, and the shares of work that it and those beside it need,
are the medians of what was seen lately; where no input has come, there is nothing to catch up with, and the
rate need not be known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from statistics import mean, median

from streammine.model.recovery_assessment import SliceOutlook
from streammine.model.recovery_policy import CheckpointObservation, SliceObservation

AGES = 4
"""Checkpoints whose age counts, the newest that were replaced."""

INCREMENTS = 16
"""Checkpoints whose increment counts, the newest: as many as there are at most from one full snapshot to the
next."""

MEDIAN_LOOKS = 16
"""Looks whose rate of processing and whose shares of work count, the newest."""

ENOUGH_RATES = 3

INPUT_RATES = 256
"""Looks whose input counts at most, the newest."""

SHORTEST_SECONDS = 1e-3
"""From one checkpoint to the next: they may be complete at the same moment of the manager's clock."""


class SliceHistory:
    """Of one slice. Bounded."""

    def __init__(self) -> None:
        self._newest: SliceObservation | None = None
        self._ages_seconds: deque[float] = deque(maxlen=AGES)
        self._increments_bytes: deque[float] = deque(maxlen=INCREMENTS)
        self._processing: deque[float] = deque(maxlen=MEDIAN_LOOKS)
        self._replay_shares: deque[float] = deque(maxlen=MEDIAN_LOOKS)
        self._node_shares: deque[float] = deque(maxlen=MEDIAN_LOOKS)
        self._input: deque[tuple[float, float]] = deque(maxlen=INPUT_RATES)

    def observe(self, now_seconds: float, observation: SliceObservation) -> None:
        self._note_newer_checkpoint(observation)
        self._newest = observation
        rate = observation.processing_bytes_per_second
        if rate is not None and rate > 0:
            self._processing.append(rate)
        self._replay_shares.append(observation.replay_share)
        self._node_shares.append(observation.shared.replay_share)
        self._input.append((now_seconds, observation.input_bytes_per_second))
        oldest_seconds = now_seconds - self._checkpoint_seconds
        while self._input[0][0] < oldest_seconds:
            self._input.popleft()

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not known yet, in words."""
        assert self._newest is not None
        missing = []
        if self._newest.checkpoint is None:
            missing.append("a complete checkpoint")
        elif not self._ages_seconds:
            missing.append("how old checkpoints get")
        if self._has_input and len(self._processing) < ENOUGH_RATES:
            missing.append("how fast it processes")
        return tuple(missing)

    @property
    def outlook(self) -> SliceOutlook:
        """Where nothing is missing."""
        seen = self._newest
        assert seen is not None
        assert seen.checkpoint is not None
        return SliceOutlook(
            further_replicas=max(0, min(seen.replicas, seen.nodes) - 1),
            state_bytes=seen.state_bytes,
            load_bytes=max(seen.checkpoint.snapshot_bytes, seen.state_bytes),
            increment_bytes=mean(self._increments_bytes),
            checkpoint_seconds=max(SHORTEST_SECONDS, self._checkpoint_seconds),
            input_bytes_per_second=max(rate for _, rate in self._input),
            output_bytes_per_second=seen.output_bytes_per_second,
            processing_bytes_per_second=median(self._processing or [0.0]),
            busy_share=seen.busy_share,
            queued_bytes=seen.queued_bytes,
            standby_queued_bytes=seen.standby_queued_bytes,
            replay_share=median(self._replay_shares),
            input_waits=seen.input_waits,
            shared=replace(seen.shared, replay_share=median(self._node_shares)),
        )

    @property
    def _has_input(self) -> bool:
        assert self._newest is not None
        return self._newest.queued_bytes > 0 or any(rate > 0 for _, rate in self._input)

    @property
    def _checkpoint_seconds(self) -> float:
        checkpoint = None if self._newest is None else self._newest.checkpoint
        return max([0.0 if checkpoint is None else checkpoint.age_seconds, *self._ages_seconds])

    def _note_newer_checkpoint(self, observation: SliceObservation) -> None:
        before = None if self._newest is None else self._newest.checkpoint
        now = observation.checkpoint
        if now is None or (before is not None and not _is_newer(now, before)):
            return
        self._increments_bytes.append(now.increment_bytes)
        if now.replaced_seconds is not None:
            self._ages_seconds.append(now.replaced_seconds)
        elif before is not None:
            self._ages_seconds.append(before.age_seconds)


def _is_newer(now: CheckpointObservation, before: CheckpointObservation) -> bool:
    return now.name != before.name or now.age_seconds < before.age_seconds
