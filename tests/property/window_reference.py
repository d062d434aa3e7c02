"""Which epochs lie in which windows, by counting."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from hypothesis import strategies as st

from streammine.operators.windows import AlignedWindows

WINDOWS = st.integers(1, 5).flatmap(
    lambda length: st.builds(AlignedWindows, st.just(length), st.integers(1, length))
)
"""Windows that tumble or slide."""


def epochs_by_window(epochs: Collection[int], window: AlignedWindows) -> dict[int, list[int]]:
    """By the last epoch of each window that holds some of these epochs, those that it holds."""
    found: dict[int, list[int]] = {}
    for start in range(min(epochs) - window.epochs, max(epochs) + 1):
        inside = [epoch for epoch in sorted(epochs) if start <= epoch < start + window.epochs]
        if inside and start % window.slide == 0:
            found[start + window.epochs - 1] = inside
    return found


def moment(seconds: int) -> datetime:
    """So many seconds after the beginning of 1970, as windows say when they start and end."""
    return datetime(1970, 1, 1) + timedelta(seconds=seconds)
