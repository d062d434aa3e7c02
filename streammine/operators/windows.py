"""Windows of whole epochs.

Windows are aligned as epochs are, and those of time epochs with them to the Unix epoch. Tumbling window
w holds the epochs [w * n, (w + 1) * n); sliding window w begins with epoch w * slide and holds as many
as it is long. One closes with its last epoch, which an operator with open windows names as due
(`HoldsWindows.due_epoch`), so that the engine closes it even if it has no data. What leaves carries that
epoch's number.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import pyarrow as pa

from streammine.model.epochs import EpochDefinition

SPAN_TYPE = pa.timestamp("us")
"""Of the columns that say when a window starts and ends."""


@dataclass(frozen=True)
class TumblingWindow:
    """A window of `epochs` whole epochs."""

    epochs: int = 1

    def __post_init__(self) -> None:
        assert self.epochs >= 1, self.epochs

    def last_epoch(self, epoch: int) -> int:
        """The last epoch of the window that `epoch` lies in."""
        return (epoch // self.epochs + 1) * self.epochs - 1

    def span(self, definition: EpochDefinition, last_epoch: int) -> tuple[int, int]:
        """Start and end of the window that ends with `last_epoch`, in microseconds where epochs are of
        time."""
        first_epoch = last_epoch - self.epochs + 1
        return definition.window(first_epoch)[0], definition.window(last_epoch)[1]


@dataclass(frozen=True)
class AlignedWindows:
    """Windows of `epochs` whole epochs, of which one begins every `slide` epochs; where these are equal, the
    windows tumble."""

    epochs: int
    slide: int

    def __post_init__(self) -> None:
        assert 1 <= self.slide <= self.epochs, (self.slide, self.epochs)

    @property
    def pane_epochs(self) -> int:
        """The longest stretches of epochs that every window holds as a whole or not at all."""
        return gcd(self.epochs, self.slide)

    @property
    def tumbles(self) -> bool:
        """Whether no two of them overlap."""
        return self.slide == self.epochs

    def span(self, definition: EpochDefinition, last_epoch: int) -> tuple[int, int]:
        """As that of a tumbling window."""
        return TumblingWindow(self.epochs).span(definition, last_epoch)

    @classmethod
    def tumbling(cls, epochs: int = 1) -> AlignedWindows:
        """One window behind the other."""
        return cls(epochs, epochs)

    def pane_end(self, epoch: int) -> int:
        """The last epoch of the pane that `epoch` lies in."""
        return TumblingWindow(self.pane_epochs).last_epoch(epoch)

    def ends_with(self, epoch: int) -> bool:
        """Whether a window ends with this epoch."""
        return (epoch + 1 - self.epochs) % self.slide == 0

    def next_end(self, epoch: int) -> int:
        """The last epoch of the first window that ends after this one."""
        return epoch + 1 + (self.epochs - 2 - epoch) % self.slide

    def first_needed(self, epoch: int) -> int:
        """The first epoch that a window holds which ends after this one."""
        return self.next_end(epoch) - self.epochs + 1
