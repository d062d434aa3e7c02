"""What a virtual node holds of a job."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from streammine.assembly import BuiltSlice, CompiledJob, Seats, StepTimes
from streammine.engine.processor import Processor
from streammine.engine.replay_meter import ReplayCount
from streammine.model.ids import SliceId

Replica = tuple[SliceId, int]


@dataclass
class HostedJob:
    """What a node holds of a job. `verified`: snapshots that it has read back."""

    compiled: CompiledJob
    times: StepTimes
    replicas: dict[Replica, BuiltSlice] = field(default_factory=dict)
    replays: defaultdict[Replica, ReplayCount] = field(
        default_factory=lambda: defaultdict(ReplayCount)
    )
    schemas: dict[int, pa.Schema] = field(default_factory=dict)
    verified: set[str] = field(default_factory=set)
    began_at_seconds: float = 0.0

    @cached_property
    def seats(self) -> Seats:
        return Seats(self.times)

    def withdraw(self, replica: Replica) -> None:
        self.replays.pop(replica, None)
        built = self.replicas.pop(replica, None)
        if built is not None:
            built.close()


def counters_of(processor: Processor, replay: ReplayCount) -> dict[str, float]:
    counted = processor.counters
    return {
        "rows_in": float(counted.rows_in),
        "rows_out": float(counted.rows_out),
        "rows_dead": float(counted.rows_dead),
        "batches_in": float(counted.batches_in),
        "epochs": float(counted.epochs),
        "state_bytes": float(counted.state_bytes),
        "buffered_bytes": float(counted.buffered_bytes),
        "spilled_bytes": float(counted.spilled_bytes),
        "busy_seconds": counted.busy_seconds,
        **replay.counters(),
    }
