"""How the values of sliding windows lie in memory, for the kernels that work on them.

Values are int64 images that keep their order. Each key has a *queue* of its values, oldest first, in chunks
of a common pool. The windows of a key all end now and begin at different places of its queue. For each window
there is a *bracket*: the distinct values near the wanted rank, ascending, with how often the window holds
each. See `sliding_order` for what is done with them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from streammine.operators.kernels.compilation import INT32_OUT, INT64_OUT, writable

CHUNK = 64
"""Values of a key that lie behind each other."""

SMALLEST, GREATEST = -(1 << 63), (1 << 63) - 1

FREE, UNUSED = 0, 1
"""In `Queues.pool`: the first free chunk or -1, and the first that was never used."""

LAST, USED = 0, 1
"""In `Queues.tails`: a key's last chunk or -1, and how many values it holds."""

(
    LOW,
    HIGH,
    VALUE,
    BEFORE,
    COUNT,
    CURSOR,
    SIZE,
    START,
    CLASS,
    CHUNK_READ,
    OFFSET_READ,
    TOUCHED,
    FOUND_LOWER,
    FOUND_UPPER,
    FOUND_REMAINDER,
    FIELDS,
) = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16)
"""A row of `Brackets.heads`, two cache lines. Values from LOW to HIGH are in the bracket. VALUE is that of
the entry at the CURSOR, and BEFORE the number of the window's values that are less; COUNT is that of all.
The bracket has SIZE entries from START on and place for 2^CLASS, CLASS -1 for none. The window's
oldest value is at OFFSET_READ of CHUNK_READ. TOUCHED says that something came or went since the
window was settled, and the FOUND fields what was found then."""

NOT_LOCATED = -1
"""SIZE of a bracket of which nothing is known but the COUNT."""

CLASSES = 48
LEAST_CLASS = 3
"""Brackets have place for 2^3 to 2^47 entries."""

Ints = npt.NDArray[np.int64]


class Queues(NamedTuple):
    """The values of all keys. `narrow` or `broad` has them, the other one is empty."""

    narrow: npt.NDArray[np.int32]
    broad: Ints
    links: npt.NDArray[np.int32]
    """Of a chunk that is in a queue, the next one; of a free one, the next free one."""
    pool: Ints
    tails: npt.NDArray[np.int32]


class Brackets(NamedTuple):
    """The brackets of all keys and windows, those of a key behind each other."""

    heads: Ints
    values: Ints
    counts: Ints
    arena: Ints
    """Of `values` and `counts`: the first place never used, then for each class the first free
    piece or -1; a free piece has the next one in its first value."""


_named_tuple: Any = types.NamedTuple

QUEUES_TYPE = _named_tuple(
    [writable(types.int32), INT64_OUT, INT32_OUT, INT64_OUT, writable(types.int32, 2)], Queues
)
BRACKETS_TYPE = _named_tuple([writable(types.int64, 2), INT64_OUT, INT64_OUT, INT64_OUT], Brackets)


def new_arena() -> Ints:
    """Of brackets that have no entries."""
    return np.array([0] + [-1] * CLASSES, np.int64)


def empty_head() -> Ints:
    """Of a window that nothing has ever come to."""
    head = np.zeros(FIELDS, np.int64)
    head[[LOW, HIGH, VALUE]] = GREATEST, SMALLEST, GREATEST
    head[[SIZE, CLASS, CHUNK_READ, FOUND_REMAINDER]] = NOT_LOCATED, -1, -1, -1
    return head
