"""The least word of each group, and which rows can still be among its first ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    INT64_IN,
    MASK_OUT,
    UINT64_IN,
    UINT64_OUT,
    KernelSet,
)

Marking: TypeAlias = Callable[
    [
        npt.NDArray[np.int64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.bool_],
    ],
    None,
]
"""What both kernels are: groups, words, bounds, and what they mark."""

_KERNELS = KernelSet()
load_kernels = _KERNELS.load


@_KERNELS.kernel(INT64_IN, UINT64_IN, UINT64_OUT, MASK_OUT)
def keep_least(
    groups: npt.NDArray[np.int64],
    words: npt.NDArray[np.uint64],
    bounds: npt.NDArray[np.uint64],
    kept: npt.NDArray[np.bool_],
) -> None:
    """Lower the bound of each group to its least word, and mark the rows that have it.

    `groups`, `words` and `kept` are per row, `bounds` per group.
    """
    for row in range(groups.size):
        group = groups[row]
        bounds[group] = min(bounds[group], words[row])
    for row in range(groups.size):
        kept[row] = words[row] == bounds[groups[row]]


@_KERNELS.kernel(INT64_IN, UINT64_IN, UINT64_OUT, MASK_OUT)
def keep_below(
    groups: npt.NDArray[np.int64],
    words: npt.NDArray[np.uint64],
    bounds: npt.NDArray[np.uint64],
    kept: npt.NDArray[np.bool_],
) -> None:
    """Mark the rows whose word is not above the bound of their group."""
    for row in range(groups.size):
        kept[row] = words[row] <= bounds[groups[row]]
