"""Numbers as int64 images that keep their order, and back.

Integers are their own images. Of a float it is its bits, those behind the sign turned round for negative
ones. -0.0 is 0.0, and every NaN one NaN, which is greater than all numbers. Columns of 32 bits or fewer have
images of 32 bits, so that they can be kept in half of the space.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.model.errors import TopologyError
from streammine.operators.expressions import unknown_column
from streammine.operators.kernels.columns import fixed_values

_LARGE = 1 << 61
"""Two integers below it can be added."""

Floats = npt.NDArray[np.float64]


class Images:
    """The images of one column's values, and the numbers that images stand for."""

    def __init__(self, operator: str, column: str, schema: pa.Schema) -> None:
        """Raises TopologyError where the column's values have no images."""
        if column not in schema.names:
            raise TopologyError(
                f"operator {operator!r}: quantile: of: {unknown_column(column, schema)}"
            )
        kind = schema.field(column).type
        floating = pa.types.is_float32(kind) or pa.types.is_float64(kind)
        if not floating and (not pa.types.is_integer(kind) or pa.types.is_uint64(kind)):
            raise TopologyError(
                f"operator {operator!r}: quantile: of: column {column!r} has type {kind}; quantiles are of "
                f"integers of up to 63 bits, float32 or float64: make it one with a map before, for "
                f"example cast({column} as double)"
            )
        self.column = column
        self._floats: Any = None
        if floating:
            self._floats = np.float32 if pa.types.is_float32(kind) else np.float64
        self.broad = bool(kind.bit_width == 64 or pa.types.is_uint32(kind))
        """Whether images need 64 bits."""

    def of(self, values: pa.Array) -> IntArray:
        """The image (int64) of each value of a column without nulls."""
        numbers = fixed_values(values)
        if self._floats is None:
            return numbers.astype(np.int64, copy=False)
        # adding zero makes 0.0 of -0.0
        numbers = numbers + self._floats(0)
        numbers[np.isnan(numbers)] = np.nan
        bits = numbers.view(np.int64 if self.broad else np.int32)
        return _turned(bits).astype(np.int64, copy=False)

    def between(
        self, lower: IntArray, upper: IntArray, remainders: IntArray, denominator: int
    ) -> Floats:
        """The points between pairs of images that lie at remainders / denominator, in [0, 1), of the way from
        the lower one to the upper: to each the nearest float64.

        Half-way, the way of medians, is worked out for all pairs at once, other places one by one.
        """
        low, high = self._numbers(lower), self._numbers(upper)
        half = 2 * remainders == denominator
        found = low.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            if self._floats is None:
                # integers of so many bits can be added, and the sum is rounded once
                half &= (np.abs(low) < _LARGE) & (np.abs(high) < _LARGE)
                found[half] = (lower[half] + upper[half]).astype(np.float64) / 2
            else:
                found[half] = (low[half] + high[half]) / 2
                # the sum of large ones may be no number
                beyond = half & np.isinf(found) & np.isfinite(low) & np.isfinite(high)
                found[beyond] = low[beyond] / 2 + high[beyond] / 2
            equal = (remainders <= 0) | (lower == upper)
            for place in np.flatnonzero(~half & ~equal):
                part = Fraction(int(remainders[place]), denominator)
                found[place] = self._point(lower[place], upper[place], part)
        found[equal] = low[equal]
        found += 0.0
        found[np.isnan(found)] = np.nan
        return found

    def _point(self, lower: np.int64, upper: np.int64, part: Fraction) -> float:
        ends = np.array([lower, upper])
        if self._floats is None:
            low, high = map(Fraction, ends.tolist())
        elif np.isfinite(self._numbers(ends)).all():
            low, high = map(Fraction, self._numbers(ends).tolist())
        else:
            low, high = self._numbers(ends)
            return float(low * float(1 - part) + high * float(part))
        return float(low + (high - low) * part)

    def _numbers(self, images: IntArray) -> Floats:
        if self._floats is None:
            return images.astype(np.float64)
        bits = _turned(images if self.broad else images.astype(np.int32))
        return np.asarray(bits.view(self._floats), np.float64)


def _turned(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats' bits as integers of the same order, and back."""
    behind = np.iinfo(bits.dtype).max
    return np.asarray(bits ^ ((bits >> (bits.dtype.itemsize * 8 - 1)) & behind))
