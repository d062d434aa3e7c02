"""Sample input of one operator, and the ways in which it may arrive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.epochs import EpochDefinition

Row: TypeAlias = tuple[int, int, int]
"""Epoch, port and row number of an event in the sample."""

Arrival: TypeAlias = list[tuple[int, npt.NDArray[np.int64]]]
"""The batches of one epoch in the order in which they come: port, and row numbers."""


@dataclass(frozen=True)
class Events:
    """What is sent to an operator: for each epoch, ascending, the rows of every port in their order."""

    definition: EpochDefinition
    epochs: Mapping[int, tuple[pa.RecordBatch, ...]]

    @property
    def rows(self) -> list[Row]:
        return [
            (epoch, port, row)
            for epoch, ports in self.epochs.items()
            for port, batch in enumerate(ports)
            for row in range(batch.num_rows)
        ]

    def only(self, rows: Sequence[Row]) -> Events:
        """These events alone; epochs that keep none are left out."""
        epochs = {}
        for epoch in sorted({row[0] for row in rows}):
            epochs[epoch] = tuple(
                batch.take(
                    pa.array([row for e, p, row in rows if (e, p) == (epoch, port)], pa.int64())
                )
                for port, batch in enumerate(self.epochs[epoch])
            )
        return Events(self.definition, epochs)

    def at_most(self, rows: int) -> Events:
        """About so many of the events, the first ones of every epoch and port."""
        share = min(1.0, rows / max(1, len(self.rows)))
        epochs = {
            epoch: tuple(batch.slice(0, math.ceil(batch.num_rows * share)) for batch in ports)
            for epoch, ports in self.epochs.items()
        }
        return Events(self.definition, epochs)

    def spread(self, epochs: int) -> Events:
        """The events of one epoch shared out, in their order, over it and those that follow."""
        ((first, ports),) = self.epochs.items()
        shares = {
            first + number: tuple(
                batch.slice(
                    start := batch.num_rows * number // epochs,
                    batch.num_rows * (number + 1) // epochs - start,
                )
                for batch in ports
            )
            for number in range(epochs)
        }
        filled = {
            number: ports
            for number, ports in shares.items()
            if any(batch.num_rows for batch in ports)
        }
        return Events(self.definition, filled)

    def value(self, row: Row) -> str:
        """An event as text."""
        epoch, port, number = row
        batch = self.epochs[epoch][port]
        values = batch.slice(number, 1).to_pylist()[0]
        return ", ".join(f"{name}={shortened(value)}" for name, value in values.items())


@dataclass(frozen=True)
class Trial:
    """One way for the events to arrive. `parts`: number of combiners or accumulators."""

    rows_per_batch: int | None
    """None: all rows of a port in one batch."""
    shuffled: bool = False
    parts: int = 1
    combined: bool = False
    restored: bool = False
    epochs_together: int = 1
    """Handed over at once, to an operator that GoesByTime, which users don't write."""

    def __str__(self) -> str:
        words = []
        if self.rows_per_batch is not None:
            words = [f"batches of {self.rows_per_batch} row{'s' * (self.rows_per_batch > 1)}"]
        words += ["shuffled"] if self.shuffled else []
        words += [f"{self.parts} combiners"] if self.combined else []
        words += [f"{self.parts} accumulators"] if self.parts > 1 and not self.combined else []
        words += [f"{self.epochs_together} epochs at once"] if self.epochs_together > 1 else []
        words += ["lost and restored from snapshots"] if self.restored else []
        return ", ".join(words) or "the same events once more"

    @property
    def offence(self) -> str:
        """What is wrong with an operator that passes simpler trials and not this one."""
        if self.restored:
            return "remembers something outside its state, which a crash loses"
        if self.epochs_together > 1:
            return "depends on how many epochs it is given at once"
        if self.parts > 1:
            return "depends on how events are grouped before they are merged"
        if self.shuffled:
            return "depends on the order in which an epoch's events arrive"
        if self.rows_per_batch is not None:
            return "depends on how events are cut into batches"
        return "gives something else when it runs again"

    def arrival(self, ports: Sequence[pa.RecordBatch], random: np.random.Generator) -> Arrival:
        """The batches of one epoch."""
        batches: Arrival = []
        for port, batch in enumerate(ports):
            numbers = np.arange(batch.num_rows)
            if self.shuffled:
                numbers = random.permutation(batch.num_rows)
            step = self.rows_per_batch or max(1, batch.num_rows)
            batches += [(port, numbers[at : at + step]) for at in range(0, len(numbers), step)]
        if self.shuffled and len(ports) > 1:
            batches = [batches[place] for place in random.permutation(len(batches))]
        return batches


def shortened(value: object) -> str:
    """A value as text of at most some hundred characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
