"""What all per-group states share: growth and the checks of group ids."""

from typing import Any

import numpy as np
import numpy.typing as npt

NO_MASK = np.empty(0, dtype=np.bool_)
"""The validity mask of values without nulls."""
NO_MASK.flags.writeable = False


def extended(array: npt.NDArray[Any], size: int, fill: int) -> npt.NDArray[Any]:
    """The array itself if it has `size` entries, else a copy of at least twice its size."""
    if size <= array.size:
        return array
    larger = np.full(max(size, 2 * array.size, 16), fill, dtype=array.dtype)
    larger[: array.size] = array
    return larger


def check_lengths(group_ids: npt.NDArray[np.int64], rows: int, mask: npt.NDArray[np.bool_]) -> None:
    """Raise ValueError unless there is one group id, and one mask entry or none, per row."""
    if group_ids.size != rows or mask.size not in (0, rows):
        raise ValueError(f"{group_ids.size} group ids and a mask of {mask.size} for {rows} values")


def checked_groups(group_ids: npt.NDArray[np.int64], rows: int, size: int) -> npt.NDArray[np.int64]:
    """Return the ids, contiguous. Raises ValueError, or IndexError if one is not in [0, size)."""
    if group_ids.size != rows:
        raise ValueError(f"{group_ids.size} group ids for {rows} rows")
    if rows and not (int(group_ids.min()) >= 0 and int(group_ids.max()) < size):
        raise IndexError(
            f"a group id lies outside [0, {size}): ids run from {group_ids.min()} to "
            f"{group_ids.max()}"
        )
    return np.ascontiguousarray(group_ids, dtype=np.int64)
