"""What is done with the queues of values without looking at ranks: copies, and places given back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from streammine.operators.kernels.bracket_steps import free_piece, value_at
from streammine.operators.kernels.compilation import (
    INT64,
    INT64_IN,
    INT64_OUT,
    KernelSet,
    writable,
)
from streammine.operators.kernels.order_layout import (
    BRACKETS_TYPE,
    CHUNK,
    CHUNK_READ,
    COUNT,
    FREE,
    LAST,
    NOT_LOCATED,
    OFFSET_READ,
    QUEUES_TYPE,
    SIZE,
    Brackets,
    Ints,
    Queues,
)

_KERNELS = KernelSet("0c5df388")
load_kernels = _KERNELS.load


@_KERNELS.kernel(QUEUES_TYPE, BRACKETS_TYPE, INT64, INT64_IN, INT64_OUT)
def forget(queues: Queues, brackets: Brackets, windows: int, keys: Ints, freed: Ints) -> None:
    """Keys without values give back what they hold, chunks to the list `freed`."""
    for key in keys:
        chunk = int(queues.tails[key, LAST])
        if chunk >= 0:
            freed[freed[0] + 1] = chunk
            freed[0] += 1
            queues.tails[key, LAST] = -1
        for number in range(key * windows, (key + 1) * windows):
            head = brackets.heads[number]
            free_piece(brackets, head)
            head[SIZE] = NOT_LOCATED
            head[CHUNK_READ] = -1


@_KERNELS.kernel(QUEUES_TYPE, INT64_IN)
def free_chunks(queues: Queues, freed: Ints) -> None:
    """What other kernels have listed may be used again."""
    for index in range(1, freed[0] + 1):
        queues.links[freed[index]] = queues.pool[FREE]
        queues.pool[FREE] = freed[index]


@_KERNELS.kernel(QUEUES_TYPE, BRACKETS_TYPE, INT64, INT64, INT64_IN, INT64_IN)
def skip(
    queues: Queues, brackets: Brackets, windows: int, window: int, keys: Ints, counts: Ints
) -> None:
    """So many of the oldest values of each key leave one of their windows, which no bracket knows yet."""
    for row in range(keys.size):
        head = brackets.heads[keys[row] * windows + window]
        head[COUNT] -= counts[row]
        offset = head[OFFSET_READ] + counts[row]
        while offset > CHUNK:
            head[CHUNK_READ] = queues.links[head[CHUNK_READ]]
            offset -= CHUNK
        head[OFFSET_READ] = offset


@_KERNELS.kernel(QUEUES_TYPE, writable(types.int64, 2), INT64, INT64_OUT)
def copy_out(queues: Queues, heads: npt.NDArray[np.int64], begin: int, values: Ints) -> int:
    """Copy the values of windows, those of the heads from `begin` on behind each other, until there is no
    place for more. The heads move on by what was copied. Returns the first that is not empty then."""
    room = values.size
    filled = 0
    for number in range(begin, heads.shape[0]):
        head = heads[number]
        while head[COUNT] > 0:
            if filled == room:
                return number
            if head[OFFSET_READ] == CHUNK:
                head[CHUNK_READ] = queues.links[head[CHUNK_READ]]
                head[OFFSET_READ] = 0
            stop = min(CHUNK - head[OFFSET_READ], head[COUNT], room - filled)
            first = head[CHUNK_READ] * CHUNK + head[OFFSET_READ]
            for place in range(first, first + stop):
                values[filled] = value_at(queues, place)
                filled += 1
            head[OFFSET_READ] += stop
            head[COUNT] -= stop
    return len(heads)
