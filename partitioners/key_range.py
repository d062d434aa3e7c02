"""Slices by ranges of the key: slice i holds the keys from boundary i-1 (inclusive) to i."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.errors import TopologyError


class KeyRange:
    """Partitions by ascending boundaries, of which there is one less than slices.

    A boundary is a value for the first key column, or a list of values for the first columns of the
    key; a key lies at or above it when it does so column by column. Texts compare by their UTF-8
    bytes, NaN comes after all numbers, null after everything.
    """

    broadcast = False

    def __init__(self, boundaries: Sequence[Any]) -> None:
        """Raises TopologyError when there is none or one is null."""
        if isinstance(boundaries, (str, bytes)) or not isinstance(boundaries, Sequence):
            raise TopologyError(f"key_range: boundaries must be a list, not {boundaries!r}")
        rows = [list(b) if isinstance(b, (list, tuple)) else [b] for b in boundaries]
        if not rows:
            raise TopologyError("key_range: boundaries must name at least one value")
        for row, boundary in zip(rows, boundaries, strict=True):
            if not row or any(value is None or value != value for value in row):
                raise TopologyError(f"key_range: {boundary!r} can't be a boundary; use a value")
        self._boundaries = rows

    def check(self, types: Sequence[pa.DataType], slices: int) -> None:
        """Raises TopologyError unless the boundaries fit the key columns and number of slices."""
        if len(self._boundaries) != slices - 1:
            raise TopologyError(
                f"key_range: {len(self._boundaries)} boundaries make {len(self._boundaries) + 1} "
                f"slices, but the operator has {slices}; set slices: {len(self._boundaries) + 1}"
            )
        scalars = [self._scalars(boundary, types) for boundary in self._boundaries]
        for number in range(1, len(scalars)):
            columns = [pa.array([scalar.as_py()], scalar.type) for scalar in scalars[number]]
            if not _reached(columns, scalars[number - 1])[0]:
                raise TopologyError(
                    f"key_range: boundary {_shown(self._boundaries[number])} must be greater than "
                    f"{_shown(self._boundaries[number - 1])} before it"
                )
            if self._boundaries[number] == self._boundaries[number - 1]:
                raise TopologyError(
                    f"key_range: boundary {_shown(self._boundaries[number])} is there twice"
                )

    def targets(self, keys: Sequence[pa.Array], slices: int) -> npt.NDArray[np.int32]:
        """See contracts.Partitioner. Raises TopologyError as `check` does."""
        types = [column.type for column in keys]
        self.check(types, slices)
        targets = np.zeros(len(keys[0]) if keys else 0, dtype=np.int32)
        for boundary in self._boundaries:
            targets += _reached(keys, self._scalars(boundary, types))
        return targets

    def _scalars(self, boundary: list[Any], types: Sequence[pa.DataType]) -> list[pa.Scalar]:
        if len(boundary) > len(types):
            raise TopologyError(
                f"key_range: boundary {_shown(boundary)} has {len(boundary)} values, the key has "
                f"{len(types)} columns"
            )
        scalars = []
        for value, kind in zip(boundary, types, strict=False):
            try:
                scalars.append(pa.scalar(value, kind))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise TopologyError(
                    f"key_range: boundary {value!r} is no {kind}, which its key column is"
                ) from error
        return scalars


def _reached(keys: Sequence[pa.Array], boundary: list[pa.Scalar]) -> npt.NDArray[np.bool_]:
    """For each row whether its key is at or above the boundary, column by column."""
    reached = np.ones(len(keys[0]), dtype=np.bool_)
    for column, scalar in reversed(list(zip(keys, boundary, strict=False))):
        greater = _filled(pc.greater(column, scalar))
        if pa.types.is_floating(column.type):
            greater |= _filled(pc.is_nan(column))
        reached = greater | (reached & _filled(pc.equal(column, scalar), null=False))
    return reached


def _filled(mask: pa.Array, null: bool = True) -> npt.NDArray[np.bool_]:
    """The mask with nulls as given: a null key is greater than all boundaries, equal to none."""
    filled: npt.NDArray[np.bool_] = pc.fill_null(mask, null).to_numpy(zero_copy_only=False).copy()
    return filled


def _shown(boundary: list[Any]) -> str:
    return repr(boundary[0]) if len(boundary) == 1 else repr(boundary)
