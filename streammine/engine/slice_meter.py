"""How fast a replica takes, makes and works: rates from what its reports have counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from streammine.engine.replay_meter import STEP_BYTES

WINDOW_SECONDS = 2.0
"""Long enough that the beat of the heartbeats does not show."""

MOST_SAMPLES = 64


@dataclass(frozen=True)
class Rates:
    """Per second; `busy_share` of one core. `processing`: bytes of input per second of work, None where there
    was no work."""

    input: float = 0.0
    output: float = 0.0
    processing: float | None = None
    busy_share: float = 0.0


@dataclass(frozen=True)
class _Sample:
    clock_seconds: float
    input_bytes: float
    output_bytes: float
    busy_seconds: float


class SliceMeter:
    """Of one replica. A source's input is what it makes of it: nobody counts a file's bytes."""

    def __init__(self, is_source: bool) -> None:
        self.rates = Rates()
        self._is_source = is_source
        self._samples: deque[_Sample] = deque(maxlen=MOST_SAMPLES)

    def note(self, clock_seconds: float, counters: Mapping[str, float]) -> None:
        """What it has counted by a time of its node's clock. When that is set back, it begins anew."""
        known = self._samples
        if known and clock_seconds < known[-1].clock_seconds:
            known.clear()
        if known and clock_seconds == known[-1].clock_seconds:
            return
        known.append(self._sample(clock_seconds, counters))
        while len(known) > 2 and known[1].clock_seconds <= clock_seconds - WINDOW_SECONDS:
            known.popleft()
        if len(known) > 1:
            self.rates = _between(known[0], known[-1])

    def _sample(self, clock_seconds: float, counters: Mapping[str, float]) -> _Sample:
        output = counters.get("bytes_out", 0.0)
        steps = counters.get("batches_in", 0.0) + counters.get("epochs", 0.0)
        rows = output if self._is_source else counters.get("bytes_in", 0.0)
        return _Sample(
            clock_seconds, rows + STEP_BYTES * steps, output, counters.get("busy_seconds", 0.0)
        )


def _between(first: _Sample, last: _Sample) -> Rates:
    seconds = last.clock_seconds - first.clock_seconds
    # a replica that was made anew under its old generation counts from nothing
    taken = max(0.0, last.input_bytes - first.input_bytes)
    made = max(0.0, last.output_bytes - first.output_bytes)
    busy_seconds = max(0.0, last.busy_seconds - first.busy_seconds)
    processing = taken / busy_seconds if taken and busy_seconds else None
    return Rates(taken / seconds, made / seconds, processing, busy_seconds / seconds)
