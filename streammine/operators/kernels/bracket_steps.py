"""The steps by which values come to queues and brackets, and leave them.

Kernels of other files call these, which tell the digest of this one (see `compilation`).
"""

from __future__ import annotations

from streammine.operators.kernels.compilation import helper
from streammine.operators.kernels.order_layout import (
    BEFORE,
    CHUNK_READ,
    CLASS,
    COUNT,
    CURSOR,
    FREE,
    HIGH,
    LAST,
    LOW,
    NOT_LOCATED,
    OFFSET_READ,
    SIZE,
    START,
    UNUSED,
    USED,
    VALUE,
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


@helper
def new_chunk(queues: Queues) -> int:
    chunk = int(queues.pool[FREE])
    if chunk >= 0:
        queues.pool[FREE] = queues.links[chunk]
        return chunk
    chunk = int(queues.pool[UNUSED])
    queues.pool[UNUSED] += 1
    return chunk


@helper
def append_chunk(queues: Queues, heads: Ints, windows: int, key: int) -> int:
    """Put an empty chunk behind a key's queue."""
    last = int(queues.tails[key, LAST])
    chunk = new_chunk(queues)
    if last < 0:
        for number in range(key * windows, (key + 1) * windows):
            heads[number, CHUNK_READ] = chunk
            heads[number, OFFSET_READ] = 0
    else:
        queues.links[last] = chunk
    queues.tails[key, LAST] = chunk
    queues.tails[key, USED] = 0
    return chunk


@helper
def next_chunk(queues: Queues, head: Ints, freed: Ints, free: bool) -> None:
    """The window begins in the chunk behind now. `free`: no window has values of the one before any more."""
    chunk = head[CHUNK_READ]
    head[CHUNK_READ] = queues.links[chunk]
    head[OFFSET_READ] = 0
    if free:
        freed[freed[0] + 1] = chunk
        freed[0] += 1


@helper
def make_room(brackets: Brackets, head: Ints) -> None:
    """Give up entries that count nothing and, if that is not enough, those furthest from the cursor."""
    drop_empty(brackets, head)
    cursor, quarter = head[CURSOR], (1 << head[CLASS]) >> 2
    if head[SIZE] > 3 * quarter:
        trim(brackets, head, cursor - quarter, cursor + quarter)


@helper
def enter(values: Ints, counts: Ints, head: Ints, value: int) -> bool:
    """A value comes to a window. False where its bracket has no room for it, and counts it not yet."""
    head[COUNT] += 1
    if head[SIZE] == NOT_LOCATED:
        return True
    if value < head[VALUE]:
        head[BEFORE] += 1
    if value < head[LOW] or value > head[HIGH]:
        return True
    return insert(values, counts, head, value)


@helper
def insert(values: Ints, counts: Ints, head: Ints, value: int) -> bool:
    """Count a value in the bracket that it lies in. False where there is no room for it."""
    start, size = head[START], head[SIZE]
    place = search(values, start, size, value)
    if place < size and values[start + place] == value:
        counts[start + place] += 1
        return True
    if size == 1 << head[CLASS]:
        return False
    for index in range(start + size, start + place, -1):
        values[index] = values[index - 1]
        counts[index] = counts[index - 1]
    values[start + place] = value
    counts[start + place] = 1
    head[SIZE] = size + 1
    if place <= head[CURSOR]:
        head[CURSOR] += 1
    return True


@helper
def leave(values: Ints, counts: Ints, head: Ints, value: int) -> None:
    head[COUNT] -= 1
    if head[SIZE] == NOT_LOCATED:
        return
    if value < head[VALUE]:
        head[BEFORE] -= 1
    if value < head[LOW] or value > head[HIGH]:
        return
    start = head[START]
    counts[start + search(values, start, head[SIZE], value)] -= 1
