"""What is done with brackets both when values come and go and when ranks are looked for.

Kernels of other files call these. Numba's cache does not notice when they change, as with `machine_words`:
who changes one here touches `value_queues` and `sliding_order`, too.
"""

from __future__ import annotations

from streammine.operators.kernels.compilation import helper
from streammine.operators.kernels.order_layout import (
    CLASS,
    CURSOR,
    HIGH,
    LOW,
    SIZE,
    START,
    Brackets,
    Ints,
    Queues,
)


@helper
def value_at(queues: Queues, place: int) -> int:
    """The value at a place of the pool."""
    if queues.broad.size:
        return int(queues.broad[place])
    return int(queues.narrow[place])


@helper
def search(values: Ints, start: int, size: int, value: int) -> int:
    """The first of the ascending values that is not less, counted from the start."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if values[start + middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def drop_empty(brackets: Brackets, head: Ints) -> None:
    """Give up entries that count nothing, but for the cursor's, which may stand behind the last one."""
    start, size, cursor = head[START], head[SIZE], head[CURSOR]
    kept = 0
    for index in range(size):
        if index == cursor:
            head[CURSOR] = kept
        if index == cursor or brackets.counts[start + index]:
            brackets.values[start + kept] = brackets.values[start + index]
            brackets.counts[start + kept] = brackets.counts[start + index]
            kept += 1
    head[SIZE] = kept
    if cursor == size:
        head[CURSOR] = kept


@helper
def trim(brackets: Brackets, head: Ints, first: int, stop: int) -> None:
    """Keep the entries from first to before stop, and know no others."""
    start = head[START]
    if stop < head[SIZE]:
        head[SIZE] = stop
        head[HIGH] = brackets.values[start + stop - 1]
    if first > 0:
        for index in range(first, head[SIZE]):
            brackets.values[start + index - first] = brackets.values[start + index]
            brackets.counts[start + index - first] = brackets.counts[start + index]
        head[SIZE] -= first
        head[CURSOR] -= first
        head[LOW] = brackets.values[start]


@helper
def free_piece(brackets: Brackets, head: Ints) -> None:
    """Give back the place of a bracket's entries."""
    if head[CLASS] >= 0:
        brackets.values[head[START]] = brackets.arena[1 + head[CLASS]]
        brackets.arena[1 + head[CLASS]] = head[START]
        head[CLASS] = -1
