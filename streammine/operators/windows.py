"""Tumbling windows of whole epochs.

Windows are aligned as epochs are: window w holds the epochs [w * n, (w + 1) * n). One closes with
its last epoch, which an operator with open windows names as due (`HoldsWindows.due_epoch`), so
that the engine closes it even if it has no data. What leaves carries that epoch's number.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TumblingWindow:
    """A window of `epochs` whole epochs."""

    epochs: int = 1

    def __post_init__(self) -> None:
        assert self.epochs >= 1, self.epochs

    def last_epoch(self, epoch: int) -> int:
        """The last epoch of the window that `epoch` lies in."""
        return (epoch // self.epochs + 1) * self.epochs - 1
