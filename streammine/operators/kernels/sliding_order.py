"""The value at a rank, in sliding windows of many keys at once.

Values are int64 *images* that keep their order. Each key has a *queue* of its values, oldest first, in
chunks of a common pool. The windows of a key all end now and begin at different places of its queue. For
each window there is a *bracket*: the distinct values near the wanted rank, ascending, with how often
the window holds each. Of a value outside of the bracket it matters only on which side it lies, so
it costs some comparisons and no search. A cursor stands at the entry that holds the wanted rank
and moves to its neighbours as values come and go: Huang, Yang and Tang, "A fast two-dimensional median
filtering algorithm" (1979), do so in a histogram of all values.

When the cursor runs off an end of its bracket, the bracket is extended there by its *reach* of
distinct values, found by two passes over the window's values. When the rank lies further off than that,
the value is selected anew: each pass counts the values in 4,096 ranges of equal width and goes on with
one of them. For n values the reach is about n^(2/3) / 8, and it takes as many insertions and
deletions at least to run off again. So a value costs some n^(1/3) steps at worst, when all values differ
and the median wanders; as a rule it is a search among few entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from streammine.operators.kernels.compilation import (
    INT32_OUT,
    INT64,
    INT64_IN,
    INT64_OUT,
    KernelSet,
    helper,
    writable,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

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
    FIELDS,
) = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16)
"""A row of `Brackets.heads`, two cache lines. Values from LOW to HIGH are in the bracket. VALUE is that of
the entry at the CURSOR, and BEFORE the number of the window's values that are less; COUNT is that of all.
The bracket has SIZE entries from START on and place for 2^CLASS, CLASS -1 for none. The window's
oldest value is at OFFSET_READ of CHUNK_READ. TOUCHED says that something came or went since the last
`settle`."""

NOT_LOCATED = -1
"""SIZE of a bracket of which nothing is known but the COUNT."""

_CLASSES = 48
_LEAST_CLASS = 3
_RANGE_BITS = 12

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


_QUEUES = types.NamedTuple(
    [writable(types.int32), INT64_OUT, INT32_OUT, INT64_OUT, writable(types.int32, 2)], Queues
)
_BRACKETS = types.NamedTuple([writable(types.int64, 2), INT64_OUT, INT64_OUT, INT64_OUT], Brackets)


def new_arena() -> Ints:
    """Of brackets that have no entries."""
    return np.array([0] + [-1] * _CLASSES, np.int64)


def empty_head() -> Ints:
    """Of a window that nothing has ever come to."""
    head = np.zeros(FIELDS, np.int64)
    head[[LOW, HIGH, VALUE]] = GREATEST, SMALLEST, GREATEST
    head[[SIZE, CLASS, CHUNK_READ]] = NOT_LOCATED, -1, -1
    return head


@helper
def reach_class(count: int) -> int:
    """The reach of a bracket for so many values, as a power of two; it has place for four times that."""
    reach = 0.125 * count ** (2.0 / 3.0)
    power = 1
    while (1 << power) < reach:
        power += 1
    return power


@helper
def _spans(queues: Queues, head: Ints) -> Iterator[tuple[int, int]]:
    """Where the values of a window lie in the pool, from first to before last."""
    chunk, offset, left = head[CHUNK_READ], head[OFFSET_READ], head[COUNT]
    while left > 0:
        if offset == CHUNK:
            chunk = np.int64(queues.links[chunk])
            offset = 0
        stop = min(CHUNK, offset + left)
        yield chunk * CHUNK + offset, chunk * CHUNK + stop
        left -= stop - offset
        offset = stop


@helper
def _value_at(queues: Queues, place: int) -> int:
    if queues.broad.size:
        return queues.broad[place]
    return np.int64(queues.narrow[place])


@helper
def _new_chunk(queues: Queues) -> int:
    chunk = queues.pool[FREE]
    if chunk >= 0:
        queues.pool[FREE] = queues.links[chunk]
        return chunk
    chunk = queues.pool[UNUSED]
    queues.pool[UNUSED] += 1
    return chunk


@helper
def _push(queues: Queues, heads: Ints, windows: int, key: int, value: int) -> None:
    last = np.int64(queues.tails[key, LAST])
    used = np.int64(queues.tails[key, USED])
    if last < 0 or used == CHUNK:
        chunk = _new_chunk(queues)
        if last < 0:
            for number in range(key * windows, (key + 1) * windows):
                heads[number, CHUNK_READ] = chunk
                heads[number, OFFSET_READ] = 0
        else:
            queues.links[last] = chunk
        queues.tails[key, LAST] = last = chunk
        used = 0
    if queues.broad.size:
        queues.broad[last * CHUNK + used] = value
    else:
        queues.narrow[last * CHUNK + used] = value
    queues.tails[key, USED] = used + 1


@helper
def _pop(queues: Queues, head: Ints, freed: Ints, free: bool) -> int:
    """The window's oldest value, which it has no longer. `free`: no window has it any more."""
    chunk = head[CHUNK_READ]
    if head[OFFSET_READ] == CHUNK:
        after = np.int64(queues.links[chunk])
        if free:
            freed[freed[0] + 1] = chunk
            freed[0] += 1
        head[CHUNK_READ] = chunk = after
        head[OFFSET_READ] = 0
    value = _value_at(queues, chunk * CHUNK + head[OFFSET_READ])
    head[OFFSET_READ] += 1
    return value


@helper
def _search(values: Ints, start: int, size: int, value: int) -> int:
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
def _enter(brackets: Brackets, head: Ints, value: int) -> None:
    head[COUNT] += 1
    if head[SIZE] == NOT_LOCATED:
        return
    if value < head[VALUE]:
        head[BEFORE] += 1
    if value < head[LOW] or value > head[HIGH]:
        return
    start, size = head[START], head[SIZE]
    place = _search(brackets.values, start, size, value)
    if place < size and brackets.values[start + place] == value:
        brackets.counts[start + place] += 1
        return
    if size == 1 << head[CLASS]:
        _make_room(brackets, head)
        if value < head[LOW] or value > head[HIGH]:
            return
        start, size = head[START], head[SIZE]
        place = _search(brackets.values, start, size, value)
    for index in range(start + size, start + place, -1):
        brackets.values[index] = brackets.values[index - 1]
        brackets.counts[index] = brackets.counts[index - 1]
    brackets.values[start + place] = value
    brackets.counts[start + place] = 1
    head[SIZE] = size + 1
    if place <= head[CURSOR]:
        head[CURSOR] += 1


@helper
def _leave(brackets: Brackets, head: Ints, value: int) -> None:
    head[COUNT] -= 1
    if head[SIZE] == NOT_LOCATED:
        return
    if value < head[VALUE]:
        head[BEFORE] -= 1
    if value < head[LOW] or value > head[HIGH]:
        return
    start = head[START]
    place = _search(brackets.values, start, head[SIZE], value)
    brackets.counts[start + place] -= 1


@helper
def _make_room(brackets: Brackets, head: Ints) -> None:
    """Give up entries that count nothing and, if that is not enough, those furthest from the cursor."""
    _drop_empty(brackets, head)
    cursor, quarter = head[CURSOR], (1 << head[CLASS]) >> 2
    if head[SIZE] > 3 * quarter:
        _trim(brackets, head, cursor - quarter, cursor + quarter)


@helper
def _drop_empty(brackets: Brackets, head: Ints) -> None:
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
def _trim(brackets: Brackets, head: Ints, first: int, stop: int) -> None:
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
def _free_piece(brackets: Brackets, head: Ints) -> None:
    if head[CLASS] >= 0:
        brackets.values[head[START]] = brackets.arena[1 + head[CLASS]]
        brackets.arena[1 + head[CLASS]] = head[START]
        head[CLASS] = -1


@helper
def _piece(brackets: Brackets, power: int) -> int:
    """The start of a piece for 2^power entries, -1 where there is no place."""
    start = brackets.arena[1 + power]
    if start >= 0:
        brackets.arena[1 + power] = brackets.values[start]
        return start
    start = brackets.arena[0]
    if start + (1 << power) > brackets.values.size:
        return -1
    brackets.arena[0] += 1 << power
    return start


@helper
def _make_large(brackets: Brackets, head: Ints) -> bool:
    """Give the bracket a place that fits the count. False where the arena is too small for it."""
    power = max(_LEAST_CLASS, reach_class(head[COUNT]) + 2)
    # some slack in both directions, so that counts about a limit cost nothing
    if power - 1 <= head[CLASS] <= power + 2:
        return True
    start = _piece(brackets, power)
    if start < 0:
        return False
    before, size = head[START], head[SIZE]
    if size > 1 << power:
        _free_piece(brackets, head)
        size = head[SIZE] = NOT_LOCATED
    elif head[CLASS] >= 0:
        for index in range(size):
            brackets.values[start + index] = brackets.values[before + index]
            brackets.counts[start + index] = brackets.counts[before + index]
        _free_piece(brackets, head)
    head[START] = start
    head[CLASS] = power
    return True


@helper
def _selected(queues: Queues, head: Ints, rank: int, histogram: Ints) -> tuple[int, int]:
    """The window's value of a rank, and how many are less."""
    low, high = GREATEST, SMALLEST
    for first, stop in _spans(queues, head):
        for place in range(first, stop):
            value = _value_at(queues, place)
            low = min(low, value)
            high = max(high, value)
    before = 0
    while low < high:
        # the difference of two int64 fits into uint64
        width = np.uint64(high) - np.uint64(low)
        shift = 0
        while (width >> np.uint64(shift)) >> np.uint64(_RANGE_BITS):
            shift += 1
        histogram[:] = 0
        for first, stop in _spans(queues, head):
            for place in range(first, stop):
                value = _value_at(queues, place)
                if low <= value <= high:
                    distance = np.uint64(value) - np.uint64(low)
                    histogram[np.int64(distance >> np.uint64(shift))] += 1
        bucket = 0
        while before + histogram[bucket] <= rank:
            before += histogram[bucket]
            bucket += 1
        low += bucket << shift
        last = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
        if np.uint64(high) - np.uint64(low) > last:
            high = low + np.int64(last)
    return low, before


@helper
def _unique(buffer: Ints, size: int, most: int) -> int:
    """Sort the values and keep the least, each once; how many there are."""
    buffer[:size].sort()
    kept = 0
    for index in range(size):
        if kept == 0 or buffer[index] != buffer[kept - 1]:
            buffer[kept] = buffer[index]
            kept += 1
            if kept == most:
                break
    return kept


@helper
def _neighbours(
    queues: Queues, head: Ints, bound: int, flip: int, reach: int, buffer: Ints, counts: Ints
) -> int:
    """Put the window's `reach` least distinct values from `bound` on into the buffer, ascending, with
    their counts; how many there are. With `flip` -1 instead of 0 all values, and the bound, are taken
    for their complements, so that these are the greatest ones up to it."""
    size = 0
    limit = GREATEST
    for first, stop in _spans(queues, head):
        for place in range(first, stop):
            value = _value_at(queues, place) ^ flip
            if bound <= value <= limit and (size == 0 or value != buffer[size - 1]):
                if size == 4 * reach:
                    size = _unique(buffer, size, reach)
                    if size == reach:
                        limit = buffer[reach - 1]
                if value <= limit:
                    buffer[size] = value
                    size += 1
    size = _unique(buffer, size, reach)
    counts[:size] = 0
    if size:
        limit = buffer[size - 1]
        for first, stop in _spans(queues, head):
            for place in range(first, stop):
                value = _value_at(queues, place) ^ flip
                if bound <= value <= limit:
                    counts[_search(buffer, 0, size, value)] += 1
    return size


@helper
def _extend_up(
    queues: Queues, brackets: Brackets, head: Ints, bound: int, buffer: Ints, counts: Ints
) -> None:
    """Add entries for values from `bound` on, the first that is beyond the bracket."""
    reach = (1 << head[CLASS]) >> 2
    found = _neighbours(queues, head, bound, 0, reach, buffer, counts)
    if found > (1 << head[CLASS]) - head[SIZE]:
        _drop_empty(brackets, head)
    room = (1 << head[CLASS]) - head[SIZE]
    if found > room:
        _trim(brackets, head, found - room, head[SIZE])
    end = head[START] + head[SIZE]
    brackets.values[end : end + found] = buffer[:found]
    brackets.counts[end : end + found] = counts[:found]
    head[SIZE] += found
    head[HIGH] = GREATEST if found < reach else buffer[found - 1]


@helper
def _extend_down(
    queues: Queues, brackets: Brackets, head: Ints, bound: int, buffer: Ints, counts: Ints
) -> None:
    """Add entries for values up to `bound`, the last that is before the bracket."""
    reach = (1 << head[CLASS]) >> 2
    found = _neighbours(queues, head, ~bound, -1, reach, buffer, counts)
    if found > (1 << head[CLASS]) - head[SIZE]:
        _drop_empty(brackets, head)
    room = (1 << head[CLASS]) - head[SIZE]
    if found > room:
        _trim(brackets, head, 0, head[SIZE] - (found - room))
    start = head[START]
    for index in range(head[SIZE] - 1, -1, -1):
        brackets.values[start + index + found] = brackets.values[start + index]
        brackets.counts[start + index + found] = brackets.counts[start + index]
    for index in range(found):
        brackets.values[start + found - 1 - index] = ~buffer[index]
        brackets.counts[start + found - 1 - index] = counts[index]
    head[SIZE] += found
    head[CURSOR] += found
    head[LOW] = SMALLEST if found < reach else ~buffer[found - 1]


@helper
def _locate(
    queues: Queues,
    brackets: Brackets,
    head: Ints,
    rank: int,
    buffer: Ints,
    counts: Ints,
    histogram: Ints,
) -> None:
    """Make the bracket anew, about the value of a rank."""
    if head[COUNT] <= (1 << head[CLASS]) >> 2:
        value, before = SMALLEST, 0
    else:
        value, before = _selected(queues, head, rank, histogram)
    head[SIZE] = 0
    head[CURSOR] = 0
    head[BEFORE] = before
    head[LOW] = value
    _extend_up(queues, brackets, head, value, buffer, counts)
    if before:
        _extend_down(queues, brackets, head, value - 1, buffer, counts)
    else:
        head[LOW] = SMALLEST
    head[VALUE] = brackets.values[head[START] + head[CURSOR]]


@helper
def _next_entry(brackets: Brackets, head: Ints) -> int:
    """The first entry behind the cursor that counts anything; SIZE where there is none."""
    start = head[START]
    place = head[CURSOR] + 1
    while place < head[SIZE] and brackets.counts[start + place] == 0:
        place += 1
    return place


@helper
def _seek(
    queues: Queues,
    brackets: Brackets,
    head: Ints,
    rank: int,
    buffer: Ints,
    counts: Ints,
    histogram: Ints,
) -> None:
    """Move the cursor to the entry that holds the rank."""
    if head[SIZE] == NOT_LOCATED:
        _locate(queues, brackets, head, rank, buffer, counts, histogram)
    while True:
        start, size, cursor, before = head[START], head[SIZE], head[CURSOR], head[BEFORE]
        while before > rank and cursor > 0:
            cursor -= 1
            before -= brackets.counts[start + cursor]
        while cursor < size and before + brackets.counts[start + cursor] <= rank:
            before += brackets.counts[start + cursor]
            cursor += 1
        head[BEFORE] = before
        head[CURSOR] = cursor
        if before <= rank and cursor < size:
            head[VALUE] = brackets.values[start + cursor]
            return
        reach = (1 << head[CLASS]) >> 2
        if (before - rank if before > rank else rank - before + 1) > reach:
            _locate(queues, brackets, head, rank, buffer, counts, histogram)
        elif before > rank:
            _extend_down(queues, brackets, head, head[LOW] - 1, buffer, counts)
        else:
            _extend_up(queues, brackets, head, head[HIGH] + 1, buffer, counts)


@helper
def _touch(head: Ints, number: int, touched: Ints) -> None:
    if not head[TOUCHED]:
        head[TOUCHED] = 1
        touched[touched[0] + 1] = number
        touched[0] += 1


@_KERNELS.kernel(_QUEUES, _BRACKETS, INT64, INT64_IN, INT64_IN, INT64_OUT)
def take_in(
    queues: Queues, brackets: Brackets, windows: int, keys: Ints, values: Ints, touched: Ints
) -> None:
    """Values come into all windows of their keys. `touched` lists heads' numbers, behind its length."""
    for row in range(keys.size):
        key, value = keys[row], values[row]
        _push(queues, brackets.heads, windows, key, value)
        for number in range(key * windows, (key + 1) * windows):
            head = brackets.heads[number]
            _enter(brackets, head, value)
            _touch(head, number, touched)


@_KERNELS.kernel(_QUEUES, _BRACKETS, INT64, INT64, INT64_IN, INT64_OUT, INT64_OUT)
def let_go(
    queues: Queues,
    brackets: Brackets,
    windows: int,
    window: int,
    keys: Ints,
    touched: Ints,
    freed: Ints,
) -> None:
    """The oldest values of keys leave one of their windows; a shorter one is always ahead of a longer one.

    The last window is the longest. Chunks that are of no use any more are added to the list `freed`,
    behind its length.
    """
    for row in range(keys.size):
        number = keys[row] * windows + window
        head = brackets.heads[number]
        value = _pop(queues, head, freed, window == windows - 1)
        _leave(brackets, head, value)
        _touch(head, number, touched)


@_KERNELS.kernel(
    _QUEUES,
    _BRACKETS,
    INT64,
    INT64,
    INT64_IN,
    INT64,
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
    writable(types.int64, 2),
)
def settle(
    queues: Queues,
    brackets: Brackets,
    numerator: int,
    denominator: int,
    touched: Ints,
    begin: int,
    buffer: Ints,
    counts: Ints,
    histogram: Ints,
    found: Ints,
) -> int:
    """For each touched head from `begin` on, the two values between which the quantile lies.

    With n values it lies at (n - 1) * numerator / denominator, counted from 0: `found` gets the values
    before and behind it and the remainder of the division, -1 where n is 0. Returns how many are done;
    where it is not all of them, the arena, or the buffer and `counts`, must be made larger.
    """
    for index in range(begin, touched[0]):
        head = brackets.heads[touched[index + 1]]
        if head[COUNT] == 0:
            head[TOUCHED] = 0
            found[index, 2] = -1
            continue
        if not _make_large(brackets, head) or (1 << head[CLASS]) > buffer.size:
            return index
        head[TOUCHED] = 0
        # in two steps: the product of a large count and the numerator may not fit
        whole, rest = divmod(head[COUNT] - 1, denominator)
        part = rest * numerator
        rank = whole * numerator + part // denominator
        found[index, 2] = part % denominator
        _seek(queues, brackets, head, rank, buffer, counts, histogram)
        found[index, 0] = found[index, 1] = head[VALUE]
        if (
            found[index, 2]
            and rank + 1 == head[BEFORE] + brackets.counts[head[START] + head[CURSOR]]
        ):
            place = _next_entry(brackets, head)
            if place == head[SIZE]:
                _extend_up(queues, brackets, head, head[HIGH] + 1, buffer, counts)
                place = _next_entry(brackets, head)
            found[index, 1] = brackets.values[head[START] + place]
    return np.int64(touched[0])


@_KERNELS.kernel(_QUEUES, INT64_IN)
def free_chunks(queues: Queues, freed: Ints) -> None:
    """What `let_go` has listed may be used again."""
    for index in range(1, freed[0] + 1):
        queues.links[freed[index]] = queues.pool[FREE]
        queues.pool[FREE] = freed[index]


@_KERNELS.kernel(_QUEUES, _BRACKETS, INT64, INT64_IN, INT64_OUT)
def forget(queues: Queues, brackets: Brackets, windows: int, keys: Ints, freed: Ints) -> None:
    """Keys without values give back what they hold, chunks to the list `freed`."""
    for key in keys:
        chunk = np.int64(queues.tails[key, LAST])
        if chunk >= 0:
            freed[freed[0] + 1] = chunk
            freed[0] += 1
            queues.tails[key, LAST] = -1
        for number in range(key * windows, (key + 1) * windows):
            head = brackets.heads[number]
            _free_piece(brackets, head)
            head[SIZE] = NOT_LOCATED
            head[CHUNK_READ] = -1


@_KERNELS.kernel(_QUEUES, _BRACKETS, INT64, INT64, INT64_IN, INT64_IN)
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


@_KERNELS.kernel(_QUEUES, writable(types.int64, 2), INT64, INT64_OUT)
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
                values[filled] = _value_at(queues, place)
                filled += 1
            head[OFFSET_READ] += stop
            head[COUNT] -= stop
    return np.int64(heads.shape[0])
