"""Which rows begin a burst: rows of a key that come less than a length after its first one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    MASK_OUT,
    KernelSet,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

NO_START = -(2**63)
"""Stands for a key without a burst."""


@_KERNELS.kernel(MASK_IN, INT64_IN, INT64_IN, INT64, MASK_OUT, INT64_OUT)
def find_bursts(
    group_begins: npt.NDArray[np.bool_],
    times: npt.NDArray[np.int64],
    known: npt.NDArray[np.int64],
    length: int,
    begins: npt.NDArray[np.bool_],
    starts: npt.NDArray[np.int64],
) -> None:
    """Per row, whether it begins a burst, and the time at which its burst begins.

    Rows come group after group, each in the order of its `times`. `known`, per group: when the burst began
    that its first row may belong to.
    """
    group = -1
    start = NO_START
    for row in range(times.size):
        if group_begins[row]:
            group += 1
            start = known[group]
        begins[row] = start == NO_START or times[row] - start >= length
        if begins[row]:
            start = times[row]
        starts[row] = start
