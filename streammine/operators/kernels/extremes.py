"""Minimum, maximum and count per group.

Floating-point numbers are compared in one total order, so that the result is the same bits for
any order of the values: -inf < ... < -0.0 < 0.0 < ... < inf < NaN, with one NaN. A maximum is
thus NaN as soon as one value is; a minimum ignores NaN unless there is nothing else.
"""

from typing import Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.operators.kernels.columns import (
    fixed_values,
    is_bytes_type,
    validity_mask,
    word_count,
    words_to_array,
)
from streammine.operators.kernels.compilation import (
    BOOLEAN,
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    MASK_OUT,
    KernelSet,
)
from streammine.operators.kernels.group_states import (
    NO_MASK,
    check_lengths,
    checked_groups,
    extended,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

Direction = Literal["min", "max"]

_SIGN_BIT = -(1 << 63)
_BELOW_SIGN = (1 << 63) - 1
_NAN_BITS = 0x7FF8 << 48
_INFINITY_BITS = 0x7FF << 52
_WORST = (1 << 63) - 1


@_KERNELS.kernel(INT64_IN, INT64_IN, MASK_IN, BOOLEAN, INT64, INT64, INT64_OUT, MASK_OUT)
def _take_extremes(
    groups: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    floating: bool,
    flip: int,
    size: int,
    state: npt.NDArray[np.int64],
    present: npt.NDArray[np.bool_],
) -> bool:
    """Lower each group's state to its least key; return whether all groups were valid.

    The key of a value orders as the value does, all bits flipped (`flip` = -1) for a maximum.
    """
    has_nulls = validity.size > 0
    limit = np.uint64(size)
    for row in range(values.size):
        if has_nulls and not validity[row]:
            continue
        group = groups[row]
        if np.uint64(group) >= limit:
            return False
        key = values[row]
        if floating:
            if (key & _BELOW_SIGN) > _INFINITY_BITS:
                key = np.int64(_NAN_BITS)
            key ^= (key >> 63) & _BELOW_SIGN
        key ^= flip
        state[group] = min(state[group], key)
        present[group] = True
    return True


@_KERNELS.kernel(INT64_IN, MASK_IN, INT64, INT64_OUT)
def _count_rows(
    groups: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    size: int,
    counts: npt.NDArray[np.int64],
) -> bool:
    """Count the valid rows of each group; return whether all groups were valid."""
    has_nulls = validity.size > 0
    limit = np.uint64(size)
    for row in range(groups.size):
        if has_nulls and not validity[row]:
            continue
        group = groups[row]
        if np.uint64(group) >= limit:
            return False
        counts[group] += 1
    return True


class Count:
    """Number of rows, or of non-null values, per group."""

    def __init__(self) -> None:
        load_kernels()
        self._size = 0
        self._counts = np.zeros(0, dtype=np.int64)

    @property
    def size(self) -> int:
        """Number of groups."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._counts.nbytes

    def add(
        self,
        group_ids: npt.NDArray[np.int64],
        size: int,
        validity: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Count int64[n] groups, each in [0, size); bool[n] validity false is not counted.

        Raises ValueError for lengths that differ, IndexError for a group id out of range; after
        the latter the counts are unusable.
        """
        mask = NO_MASK if validity is None else validity
        check_lengths(group_ids, group_ids.size, mask)
        self.resize(size)
        groups = np.ascontiguousarray(group_ids)
        if not _count_rows(groups, np.ascontiguousarray(mask), size, self._counts):
            checked_groups(group_ids, group_ids.size, size)

    def resize(self, size: int) -> None:
        """Set the number of groups; new ones are 0. Raises ValueError if there were more."""
        if size < self._size:
            raise ValueError(f"{size} groups asked for, there are {self._size} already")
        self._counts = extended(self._counts, size, 0)
        self._size = size

    def merge(self, other: Self, id_map: npt.NDArray[np.int64]) -> None:
        """Add group i of other to group id_map[i]. Raises ValueError, IndexError."""
        self.add_counts(id_map, other._counts[: other._size])

    def add_counts(
        self,
        group_ids: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        size: int | None = None,
    ) -> None:
        """Add int64[n] counts to their groups; `size` as in `add`, by default as before."""
        self.resize(self._size if size is None else size)
        groups = checked_groups(group_ids, counts.size, self._size)
        np.add.at(self._counts, groups, counts)

    def subtract_counts(
        self, group_ids: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> None:
        """Take int64[n] counts, which were added before, out of their groups."""
        np.subtract.at(self._counts, checked_groups(group_ids, counts.size, self._size), counts)

    def finish(self) -> npt.NDArray[np.int64]:
        """Return int64[size], a copy."""
        return self._counts[: self._size].copy()


class Extreme:
    """Minimum or maximum per group of numbers, booleans, dates and times.

    The result of `finish` is also the exact partial: it can be added to another state.
    """

    def __init__(self, direction: Direction, value_type: pa.DataType) -> None:
        """Raises TypeError for a type without a one-word order, ValueError for the direction."""
        if direction not in ("min", "max"):
            raise ValueError(f"unknown direction {direction!r}; use 'min' or 'max'")
        if is_bytes_type(value_type) or pa.types.is_decimal(value_type):
            raise TypeError(f"Extreme takes no {value_type}; use StringExtreme")
        assert word_count(value_type) == 1, value_type
        load_kernels()
        self._type = value_type
        self._flip = -1 if direction == "max" else 0
        self._floating = bool(pa.types.is_floating(value_type))
        # Unsigned 64-bit values order as int64 once their top bit is flipped.
        self._offset = _SIGN_BIT if value_type == pa.uint64() else 0
        self._size = 0
        self._state = np.zeros(0, dtype=np.int64)
        self._present = np.zeros(0, dtype=np.bool_)

    @property
    def size(self) -> int:
        """Number of groups."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._state.nbytes + self._present.nbytes

    def add(self, group_ids: npt.NDArray[np.int64], values: pa.Array, size: int) -> None:
        """Take values of the declared type, nulls skipped, for int64[n] groups in [0, size).

        Raises TypeError for another type, ValueError for lengths that differ, IndexError for a
        group id out of range; after the latter the state is unusable.
        """
        if values.type != self._type:
            raise TypeError(f"values have type {values.type}, declared was {self._type}")
        mask = validity_mask(values)
        check_lengths(group_ids, len(values), mask)
        self.resize(size)
        if not _take_extremes(
            np.ascontiguousarray(group_ids),
            self._words(values),
            mask,
            self._floating,
            self._flip,
            size,
            self._state,
            self._present,
        ):
            checked_groups(group_ids, len(values), size)

    def resize(self, size: int) -> None:
        """Set the number of groups; new ones are null. Raises ValueError if there were more."""
        if size < self._size:
            raise ValueError(f"{size} groups asked for, there are {self._size} already")
        self._state = extended(self._state, size, _WORST)
        self._present = extended(self._present, size, 0)
        self._size = size

    def merge(self, other: Self, id_map: npt.NDArray[np.int64]) -> None:
        """Take group i of other into group id_map[i]. Raises TypeError, ValueError, IndexError."""
        assert other._flip == self._flip, "a minimum cannot be merged with a maximum"
        self.add(id_map, other.finish(), self._size)

    def finish(self) -> pa.Array:
        """Return the declared type[size], null for a group without values."""
        present = self._present[: self._size]
        words = self._state[: self._size] ^ self._flip
        if self._floating:
            words = words ^ ((words >> 63) & _BELOW_SIGN)
        words = np.where(present, words ^ self._offset, 0)
        return words_to_array(words.reshape(-1, 1), present, self._type)

    def _words(self, values: pa.Array) -> npt.NDArray[np.int64]:
        numbers = fixed_values(values)
        if self._floating:
            return numbers.astype(np.float64, copy=False).view(np.int64)
        if self._offset:
            return numbers.view(np.int64) ^ self._offset
        return numbers.astype(np.int64, copy=False)


class StringExtreme:
    """Minimum or maximum per group of any type Arrow orders, strings by their bytes.

    Hash aggregation by Arrow, slower than `Extreme`.
    """

    def __init__(self, direction: Direction, value_type: pa.DataType) -> None:
        """Raises ValueError for an unknown direction, TypeError for floating-point numbers."""
        if direction not in ("min", "max"):
            raise ValueError(f"unknown direction {direction!r}; use 'min' or 'max'")
        if pa.types.is_floating(value_type):
            # Arrow's order leaves -0.0 and 0.0 to chance, and skips NaN.
            raise TypeError(f"StringExtreme takes no {value_type}; use Extreme")
        self._direction = direction
        self._type = value_type
        self._size = 0
        self._values = pa.array([], type=value_type)

    @property
    def size(self) -> int:
        """Number of groups."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self._values.nbytes)

    def add(self, group_ids: npt.NDArray[np.int64], values: pa.Array, size: int) -> None:
        """As `Extreme.add`."""
        if values.type != self._type:
            raise TypeError(f"values have type {values.type}, declared was {self._type}")
        self.resize(size)
        groups = checked_groups(group_ids, len(values), size)
        known = np.arange(size, dtype=np.int64)
        table = pa.table(
            {
                "group": np.concatenate([known, groups]),
                "value": pa.concat_arrays([self._values, values]),
            }
        )
        result = table.group_by("group").aggregate([("value", self._direction)])
        order = pc.sort_indices(result["group"])
        column = result[f"value_{self._direction}"].take(order).combine_chunks()
        self._values = column.cast(self._type)

    def resize(self, size: int) -> None:
        """Set the number of groups; new ones are null. Raises ValueError if there were more."""
        if size < self._size:
            raise ValueError(f"{size} groups asked for, there are {self._size} already")
        if size > self._size:
            new = pa.nulls(size - self._size, type=self._type)
            self._values = pa.concat_arrays([self._values, new])
        self._size = size

    def merge(self, other: Self, id_map: npt.NDArray[np.int64]) -> None:
        """Take group i of other into group id_map[i]. Raises TypeError, ValueError, IndexError."""
        assert other._direction == self._direction, "a minimum cannot be merged with a maximum"
        self.add(id_map, other.finish(), self._size)

    def finish(self) -> pa.Array:
        """Return the declared type[size], null for a group without values."""
        return self._values
