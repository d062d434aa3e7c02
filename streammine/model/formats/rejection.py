"""Rows that can't be used, as they are collected while a block is parsed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import DeadRows

TEXT_LIMIT_CHARACTERS = 1000
"""Longer texts of dead rows are cut: enough to find the row by, and a block of them stays small."""


def row_text(data: bytes) -> str:
    """A record's bytes as a person may read them, without its line end, cut where too long."""
    head = data[: TEXT_LIMIT_CHARACTERS * 4 + 2].rstrip(b"\r\n")
    text = head.decode("utf-8", errors="backslashreplace")
    if len(text) > TEXT_LIMIT_CHARACTERS or len(data) > len(head) + 2:
        return text[:TEXT_LIMIT_CHARACTERS] + "…"
    return text


class Rejections:
    """Collects (row in file, reason, record) and hands them out in row order."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._rows: list[tuple[int, str, str]] = []

    def add(self, row: int, reason: str, record: bytes) -> None:
        self._rows.append((row, reason, row_text(record)))

    def dead(self) -> DeadRows | None:
        """What was collected, or None for nothing; afterwards empty again."""
        if not self._rows:
            return None
        rows, self._rows = sorted(self._rows), []
        return DeadRows(
            reasons=tuple(reason for _, reason, _ in rows),
            rows=tuple(text for _, _, text in rows),
            files=(self._file,) * len(rows),
            numbers=tuple(number for number, _, _ in rows),
        )


def failing(values: pa.Array, convert: Callable[[pa.Array], object]) -> npt.NDArray[np.bool_]:
    """Which of the values `convert` refuses (raises ArrowInvalid for), found by halving.

    `convert` must judge each value apart from the others. Costs about k log n calls for k refused
    values among n.
    """
    mask = np.zeros(len(values), dtype=np.bool_)
    ranges = [(0, len(values))]
    while ranges:
        first, last = ranges.pop()
        if first == last:
            continue
        try:
            convert(values.slice(first, last - first))
        except pa.ArrowInvalid:
            if last - first == 1:
                mask[first] = True
            else:
                middle = (first + last) // 2
                ranges += [(first, middle), (middle, last)]
    return mask
