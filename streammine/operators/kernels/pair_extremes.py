"""The least or greatest pair of two values per group, such as the value at the earliest time.

Pairs are compared by their first member, equal ones by the second, both in the canonical order. So
the result is the same for any order of the rows.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.canonical import canonical_order
from streammine.operators.kernels.compilation import (
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_OUT,
    KernelSet,
)
from streammine.operators.kernels.extremes import Direction, Extreme
from streammine.operators.kernels.group_states import check_lengths, checked_groups, extended
from streammine.operators.kernels.ordered_words import (
    has_ordered_words,
    ordered_array,
    ordered_words,
    present_rows,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load


@_KERNELS.kernel(INT64_IN, INT64_IN, INT64_IN, INT64, INT64, INT64_OUT, INT64_OUT, MASK_OUT)
def _take_pairs(
    groups: npt.NDArray[np.int64],
    firsts: npt.NDArray[np.int64],
    seconds: npt.NDArray[np.int64],
    flip: int,
    size: int,
    first_state: npt.NDArray[np.int64],
    second_state: npt.NDArray[np.int64],
    present: npt.NDArray[np.bool_],
) -> bool:
    """Lower each group's state to its least pair of words; return whether all groups were valid.

    The words order as the values do, all bits flipped (`flip` = -1) for the greatest pair.
    """
    limit = np.uint64(size)
    for row in range(groups.size):
        group = groups[row]
        if np.uint64(group) >= limit:
            return False
        first = firsts[row] ^ flip
        second = seconds[row] ^ flip
        better = not present[group] or first < first_state[group]
        if better or (first == first_state[group] and second < second_state[group]):
            first_state[group] = first
            second_state[group] = second
            present[group] = True
    return True


class WordPairs:
    """The least or greatest pair per group, both members being numbers, booleans, dates or times."""

    def __init__(
        self, direction: Direction, first_type: pa.DataType, second_type: pa.DataType
    ) -> None:
        """Raises ValueError for an unknown direction."""
        _check_direction(direction)
        load_kernels()
        self._types = (first_type, second_type)
        self._direction = direction
        self._flip = -1 if direction == "max" else 0
        self._size = 0
        self._firsts = np.zeros(0, dtype=np.int64)
        self._seconds = np.zeros(0, dtype=np.int64)
        self._present = np.zeros(0, dtype=np.bool_)

    @property
    def size(self) -> int:
        """Number of groups."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._firsts.nbytes + self._seconds.nbytes + self._present.nbytes

    def add(
        self, group_ids: npt.NDArray[np.int64], firsts: pa.Array, seconds: pa.Array, size: int
    ) -> None:
        """Take pairs of the declared types for int64[n] groups in [0, size).

        A pair with a null does not count. Raises ValueError for lengths that differ, IndexError for
        a group id out of range; after the latter the state is unusable.
        """
        self.resize(size)
        group_ids, firsts, seconds = _present_pairs(group_ids, firsts, seconds)
        if not _take_pairs(
            np.ascontiguousarray(group_ids),
            ordered_words(firsts),
            ordered_words(seconds),
            self._flip,
            size,
            self._firsts,
            self._seconds,
            self._present,
        ):
            checked_groups(group_ids, len(firsts), size)

    def resize(self, size: int) -> None:
        """Set the number of groups; new ones have none. Raises ValueError if there were more."""
        if size < self._size:
            raise ValueError(f"{size} groups asked for, there are {self._size} already")
        self._firsts = extended(self._firsts, size, 0)
        self._seconds = extended(self._seconds, size, 0)
        self._present = extended(self._present, size, 0)
        self._size = size

    def merge(self, other: Self, id_map: npt.NDArray[np.int64]) -> None:
        """Take group i of other into group id_map[i]. Raises ValueError, IndexError."""
        assert other._direction == self._direction, "least pairs can't be merged with greatest"
        self.add(id_map, *other.finish(), self._size)

    def finish(self) -> tuple[pa.Array, pa.Array]:
        """The members of each group's pair, in the declared types; both null where there is none."""
        present = self._present[: self._size]
        first, second = (
            ordered_array(np.where(present, words[: self._size] ^ self._flip, 0), kind, present)
            for words, kind in zip((self._firsts, self._seconds), self._types, strict=True)
        )
        return first, second


class OrderedPairs:
    """The least or greatest pair per group of any two types that have a canonical order.

    Sorts, so it is slower than `WordPairs`; but where the first member is one word, only the rows that
    have the best one of their group are sorted.
    """

    def __init__(
        self, direction: Direction, first_type: pa.DataType, second_type: pa.DataType
    ) -> None:
        """Raises ValueError for an unknown direction."""
        _check_direction(direction)
        self._direction = direction
        self._size = 0
        self._best = Extreme(direction, first_type) if has_ordered_words(first_type) else None
        self._firsts = pa.array([], first_type)
        self._seconds = pa.array([], second_type)

    @property
    def size(self) -> int:
        """Number of groups."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        best = 0 if self._best is None else self._best.nbytes
        return best + int(self._firsts.nbytes) + int(self._seconds.nbytes)

    def add(
        self, group_ids: npt.NDArray[np.int64], firsts: pa.Array, seconds: pa.Array, size: int
    ) -> None:
        """As `WordPairs.add`."""
        self.resize(size)
        group_ids, firsts, seconds = _present_pairs(group_ids, firsts, seconds)
        firsts, seconds = _with_one_nan(firsts), _with_one_nan(seconds)
        groups = checked_groups(group_ids, len(firsts), size)
        if self._best is not None:
            self._best.add(groups, firsts, size)
            bests = ordered_words(self._best.finish())
            rows = np.flatnonzero(ordered_words(firsts) == bests[groups])
            groups = groups[rows]
            firsts, seconds = firsts.take(pa.array(rows)), seconds.take(pa.array(rows))
        if not groups.size:
            return
        touched = np.unique(groups)
        known = touched[self._firsts.is_valid().to_numpy(zero_copy_only=False)[touched]]
        before = pa.array(known)
        candidates = pa.record_batch(
            {
                "group": np.concatenate([known, groups]),
                "first": pa.concat_arrays([self._firsts.take(before), firsts]),
                "second": pa.concat_arrays([self._seconds.take(before), seconds]),
            }
        )
        self._replace(touched, candidates)

    def resize(self, size: int) -> None:
        """Set the number of groups; new ones have none. Raises ValueError if there were more."""
        if size < self._size:
            raise ValueError(f"{size} groups asked for, there are {self._size} already")
        if size > self._size:
            self._firsts = _lengthened(self._firsts, size)
            self._seconds = _lengthened(self._seconds, size)
        self._size = size

    def merge(self, other: Self, id_map: npt.NDArray[np.int64]) -> None:
        """Take group i of other into group id_map[i]. Raises ValueError, IndexError."""
        assert other._direction == self._direction, "least pairs can't be merged with greatest"
        self.add(id_map, *other.finish(), self._size)

    def finish(self) -> tuple[pa.Array, pa.Array]:
        """The members of each group's pair, in the declared types; both null where there is none."""
        return self._firsts, self._seconds

    def _replace(self, touched: npt.NDArray[np.int64], candidates: pa.RecordBatch) -> None:
        """Give the touched groups (ascending, each once) the best of the candidates."""
        order = canonical_order(candidates)
        ends = np.flatnonzero(np.diff(candidates["group"].to_numpy()[order])) + 1
        if self._direction == "min":
            chosen = order[np.concatenate([[0], ends])]
        else:
            chosen = order[np.concatenate([ends, [order.size]]) - 1]
        places = np.arange(self._size, dtype=np.int64)
        places[touched] = self._size + np.arange(touched.size)
        rows, winners = pa.array(places), candidates.take(pa.array(chosen))
        self._firsts = pa.concat_arrays([self._firsts, winners["first"]]).take(rows)
        self._seconds = pa.concat_arrays([self._seconds, winners["second"]]).take(rows)


def _check_direction(direction: str) -> None:
    if direction not in ("min", "max"):
        raise ValueError(f"unknown direction {direction!r}; use 'min' or 'max'")


def _present_pairs(
    group_ids: npt.NDArray[np.int64], firsts: pa.Array, seconds: pa.Array
) -> tuple[npt.NDArray[np.int64], pa.Array, pa.Array]:
    """The pairs without a null."""
    present = present_rows(firsts, seconds)
    check_lengths(group_ids, len(firsts), np.empty(0, np.bool_) if present is None else present)
    if present is None:
        return group_ids, firsts, seconds
    kept = pa.array(present)
    return group_ids[present], pc.filter(firsts, kept), pc.filter(seconds, kept)


def _with_one_nan(array: pa.Array) -> pa.Array:
    """The array with the same bits for all NaNs, of which the order takes any."""
    if not pa.types.is_floating(array.type):
        return array
    return ordered_array(ordered_words(array), array.type)


def _lengthened(array: pa.Array, size: int) -> pa.Array:
    return pa.concat_arrays([array, pa.nulls(size - len(array), array.type)])
