"""Totals by group after each row that comes or goes, and which row is its group's latest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    MASK_OUT,
    KernelSet,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@_KERNELS.kernel(
    INT64_IN, MASK_IN, MASK_IN, INT64_IN, INT64_OUT, INT64_OUT, INT64_OUT, MASK_OUT, MASK_OUT
)
def advance_totals(
    ids: IntArray,
    comes: Mask,
    counts: Mask,
    values: IntArray,
    numbers: IntArray,
    totals: IntArray,
    after: IntArray,
    known: Mask,
    changed: Mask,
) -> int:
    """Take in values[row] of group ids[row], which comes or goes, where it `counts`.

    `numbers` and `totals` are by group: how many values it has, and their sum. `after`, `known` and `changed`
    tell of each row its group's total then, whether there is one and whether it is another than before.
    Returns how many rows were taken in; where these are not all, the next one's total leaves 64 bits.
    """
    for row in range(ids.size):
        group = ids[row]
        before, had = totals[group], numbers[group] > 0
        if counts[row]:
            value = values[row]
            if comes[row]:
                numbers[group] += 1
                total = before + value
                # both have the sign that it has not
                if (before ^ total) & (value ^ total) < 0:
                    return row
            else:
                numbers[group] -= 1
                total = before - value
                if (before ^ value) & (before ^ total) < 0:
                    return row
            totals[group] = total
        after[row] = totals[group]
        known[row] = numbers[group] > 0
        changed[row] = before != after[row] or had != known[row]
    return ids.size


@_KERNELS.kernel(
    INT64_IN,
    MASK_IN,
    INT64_IN,
    INT64_IN,
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
    MASK_OUT,
)
def advance_latest(
    ids: IntArray,
    comes: Mask,
    numbers: IntArray,
    contents: IntArray,
    latest: IntArray,
    latest_contents: IntArray,
    parents: IntArray,
    told: IntArray,
    enters: Mask,
) -> int:
    """Take in rows number numbers[row] of group ids[row], which come or go by age.

    `latest` and `latest_contents` are by group: the number of its latest row, -1 where there is none, and
    its content. Of each thing to tell: `parents`, the row by which it happens, `told`, the content, and
    whether it `enters` or leaves. Room for two a row. Returns how many.
    """
    count = 0
    for row in range(ids.size):
        group = ids[row]
        if comes[row]:
            if latest[group] >= 0:
                parents[count] = row
                told[count] = latest_contents[group]
                enters[count] = False
                count += 1
            latest[group] = numbers[row]
            latest_contents[group] = contents[row]
            parents[count] = row
            told[count] = contents[row]
            enters[count] = True
            count += 1
        elif latest[group] == numbers[row]:
            parents[count] = row
            told[count] = contents[row]
            enters[count] = False
            count += 1
            latest[group] = -1
    return count
