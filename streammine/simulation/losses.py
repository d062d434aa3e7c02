"""What must hold of output that gap recovery has taken from: nothing is missing but what is named, and
nothing is named but what some plan has left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streammine.engine.slice import SliceMachine
from streammine.model.epoch_ranges import EpochRanges
from streammine.model.job import Plan
from streammine.simulation.contents import MASK, content_of


def watch_losses(machine: SliceMachine) -> EpochRanges:
    """All that a replica ever counts as lost, also what it forgets again."""
    known = EpochRanges(machine.losses.epochs)
    losses: Any = machine.losses
    note = losses.lost

    def lost(first: int, last: int) -> None:
        known.add(first, last)
        note(first, last)

    losses.lost = lost
    return known


@dataclass
class LossBook:
    """What plans have left out, by vertex and slice."""

    left_out: EpochRanges = field(default_factory=EpochRanges)

    def planned(self, plan: Plan) -> None:
        for group in plan.placements.values():
            for each in group:
                if each.restore is not None:
                    self.left_out.add(each.restore.epoch + 1, each.restore.left_out_until)

    def explained(self, windows: Iterable[tuple[int, int]]) -> EpochRanges:
        """What may be lost then: with the windows that hold some of it, and the windows that hold these.
        `windows`: length and slide of each, in epochs."""
        found = EpochRanges(self.left_out)
        for epochs, slide in windows:
            found = EpochRanges(
                (first // slide * slide, last // slide * slide + epochs - 1)
                for first, last in found
            )
        return found


Outputs = Mapping[str, Mapping[int, pa.Table]]
"""By sink, the committed rows by epoch."""


def difference(expected: Outputs, found: Outputs, lost: Mapping[str, EpochRanges]) -> str | None:
    """Where output differs in an epoch that is not lost, if anywhere."""
    for sink, rows in expected.items():
        for epoch in sorted({*rows, *found[sink]}):
            here, there = _rows(rows, epoch), _rows(found[sink], epoch)
            if here != there and epoch not in lost[sink]:
                return f"sink {sink} has other rows in epoch {epoch}, which is not lost ({lost[sink]} are)"
    return None


def _rows(epochs: Mapping[int, pa.Table], epoch: int) -> tuple[int, int]:
    """How many there are, and a number that tells them from others, whatever their order."""
    table = epochs.get(epoch)
    batches = [] if table is None else table.to_batches()
    return sum(each.num_rows for each in batches), sum(map(content_of, batches)) & MASK
