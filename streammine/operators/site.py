"""What an operator is told of the place in a job that it is built for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from streammine.model.durations import Interval
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology import (
    RowWindow,
    Sliding,
    Tumbling,
    interval_epochs,
)
from streammine.operators.event_time import EventTime
from streammine.operators.loading import Loader
from streammine.operators.windows import AlignedWindows


@dataclass(frozen=True)
class Site:
    """`inputs`: the visible columns of each port. `combined`: the accumulators get partials instead of
    rows. `ordered`: a consumer downstream needs the rows of an epoch in canonical order;
    `carries_order`: and the columns that order them. `base` and `loader` are where user code comes from;
    `orders` are the fields that order the rows of each port, for a user's Operator; `job` is its
    name."""

    name: str
    inputs: Sequence[pa.Schema]
    epoch: EpochDefinition
    combined: bool = False
    ordered: bool = False
    carries_order: bool = False
    base: str | Path = "."
    loader: Loader | None = None
    orders: Sequence[Sequence[pa.Field]] = ()
    job: str = ""

    @property
    def input(self) -> pa.Schema:
        """The columns of the only port."""
        (schema,) = self.inputs
        return schema

    def tumbling(self, window: Tumbling | None) -> AlignedWindows:
        """Tumbling windows; of one epoch where the operator says none. Raises TopologyError."""
        if window is None:
            return AlignedWindows.tumbling()
        return AlignedWindows.tumbling(self.epochs_of(window.length))

    def windows(self, window: RowWindow | None) -> AlignedWindows:
        """Windows that tumble or slide; of one epoch where the operator says none. Raises TopologyError."""
        if window is None:
            return AlignedWindows.tumbling()
        epochs = self.epochs_of(window.length)
        slide = self.epochs_of(window.slide, "slide") if isinstance(window, Sliding) else epochs
        return AlignedWindows(epochs, slide)

    def epochs_of(self, interval: Interval, what: str = "window") -> int:
        """How many whole epochs an interval has. Raises TopologyError."""
        count = interval_epochs(interval, self.epoch, what)
        if isinstance(count, str):
            raise TopologyError(f"operator {self.name!r}: {count}")
        return count

    def event_time(self, column: str | None, port: int = 0, setting: str = "time") -> EventTime:
        """The event time of a port's rows; `column`: as the user names it in `setting`. Raises
        TopologyError."""
        return EventTime(self.name, self.inputs[port], self.epoch, column, setting)
