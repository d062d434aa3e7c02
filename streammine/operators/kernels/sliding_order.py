"""The value at a rank, in sliding windows of many keys at once.

Each window has a *bracket* of the distinct values near the wanted rank (see `order_layout`). Of a value
outside of it, it matters only on which side it lies. A cursor stands at the entry that holds the wanted
rank and moves to its neighbours as values come and go: Huang, Yang and Tang, "A fast two-dimensional median
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

import numpy as np
from numba import types

from streammine.operators.kernels.bracket_steps import (
    drop_empty,
    free_piece,
    search,
    trim,
    value_at,
)
from streammine.operators.kernels.compilation import (
    INT64,
    INT64_IN,
    INT64_OUT,
    KernelSet,
    helper,
    writable,
)
from streammine.operators.kernels.order_layout import (
    BEFORE,
    BRACKETS_TYPE,
    CHUNK,
    CHUNK_READ,
    CLASS,
    COUNT,
    CURSOR,
    FOUND_LOWER,
    FOUND_REMAINDER,
    FOUND_UPPER,
    GREATEST,
    HIGH,
    LEAST_CLASS,
    LOW,
    NOT_LOCATED,
    OFFSET_READ,
    QUEUES_TYPE,
    SIZE,
    SMALLEST,
    START,
    TOUCHED,
    VALUE,
    Brackets,
    Ints,
    Queues,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

RANGES = 4_096
"""In which values are counted when one is selected; a histogram has as many places."""

_RANGE_BITS = 12


@helper
def reach_class(count: int) -> int:
    """The reach of a bracket for so many values, as a power of two; it has place for four times that."""
    # count^(2/3) / 8 and 2^power, both to the third power and times 8^3: roots take longer than the rest
    cube, square = 4096.0, float(count) * float(count)
    power = 1
    while cube < square:
        cube *= 8.0
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
def _piece(brackets: Brackets, power: int) -> int:
    """The start of a piece for 2^power entries, -1 where there is no place."""
    start = int(brackets.arena[1 + power])
    if start >= 0:
        brackets.arena[1 + power] = brackets.values[start]
        return start
    start = int(brackets.arena[0])
    if start + (1 << power) > brackets.values.size:
        return -1
    brackets.arena[0] += 1 << power
    return start


@helper
def _make_large(brackets: Brackets, head: Ints, power: int) -> bool:
    """Give the bracket place for 2^power entries. False where the arena is too small for it."""
    start = _piece(brackets, power)
    if start < 0:
        return False
    before, size = head[START], head[SIZE]
    if size > 1 << power:
        free_piece(brackets, head)
        size = head[SIZE] = NOT_LOCATED
    elif head[CLASS] >= 0:
        for index in range(size):
            brackets.values[start + index] = brackets.values[before + index]
            brackets.counts[start + index] = brackets.counts[before + index]
        free_piece(brackets, head)
    head[START] = start
    head[CLASS] = power
    return True


@helper
def _selected(queues: Queues, head: Ints, rank: int, histogram: Ints) -> tuple[int, int]:
    """The window's value of a rank, and how many are less."""
    low, high = GREATEST, SMALLEST
    for first, stop in _spans(queues, head):
        for place in range(first, stop):
            value = value_at(queues, place)
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
                value = value_at(queues, place)
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
            high = int(low + np.int64(last))
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
            value = value_at(queues, place) ^ flip
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
                value = value_at(queues, place) ^ flip
                if bound <= value <= limit:
                    counts[search(buffer, 0, size, value)] += 1
    return size


@helper
def _extend_up(
    queues: Queues, brackets: Brackets, head: Ints, bound: int, buffer: Ints, counts: Ints
) -> None:
    """Add entries for values from `bound` on, the first that is beyond the bracket."""
    reach = (1 << head[CLASS]) >> 2
    found = _neighbours(queues, head, bound, 0, reach, buffer, counts)
    if found > (1 << head[CLASS]) - head[SIZE]:
        drop_empty(brackets, head)
    room = (1 << head[CLASS]) - head[SIZE]
    if found > room:
        trim(brackets, head, found - room, head[SIZE])
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
        drop_empty(brackets, head)
    room = (1 << head[CLASS]) - head[SIZE]
    if found > room:
        trim(brackets, head, 0, head[SIZE] - (found - room))
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
def _next_entry(counts: Ints, head: Ints) -> int:
    """The first entry behind the cursor that counts anything; SIZE where there is none."""
    start = head[START]
    place = int(head[CURSOR] + 1)
    while place < head[SIZE] and counts[start + place] == 0:
        place += 1
    return place


@helper
def _step(values: Ints, counts: Ints, head: Ints, rank: int) -> bool:
    """Move the cursor to the entry that holds the rank, or off an end of the bracket, which is False."""
    start, size, cursor, before = head[START], head[SIZE], head[CURSOR], head[BEFORE]
    while before > rank and cursor > 0:
        cursor -= 1
        before -= counts[start + cursor]
    while cursor < size and before + counts[start + cursor] <= rank:
        before += counts[start + cursor]
        cursor += 1
    head[BEFORE] = before
    head[CURSOR] = cursor
    if before > rank or cursor >= size:
        return False
    head[VALUE] = values[start + cursor]
    return True


@helper
def _extend(
    queues: Queues,
    brackets: Brackets,
    head: Ints,
    rank: int,
    buffer: Ints,
    counts: Ints,
    histogram: Ints,
) -> None:
    """Have the bracket reach to where the rank is, or nearer to it."""
    before = head[BEFORE]
    reach = (1 << head[CLASS]) >> 2
    if head[SIZE] == NOT_LOCATED or reach < (before - rank if before > rank else rank - before + 1):
        _locate(queues, brackets, head, rank, buffer, counts, histogram)
    elif before > rank:
        _extend_down(queues, brackets, head, head[LOW] - 1, buffer, counts)
    else:
        _extend_up(queues, brackets, head, head[HIGH] + 1, buffer, counts)


@_KERNELS.kernel(
    QUEUES_TYPE,
    BRACKETS_TYPE,
    INT64,
    INT64,
    INT64_IN,
    INT64,
    INT64_OUT,
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
    changed: Ints,
    found: Ints,
) -> int:
    """For each touched head from `begin` on, the two values between which the quantile lies.

    With n values it lies at (n - 1) * numerator / denominator, counted from 0. The heads for which there is
    something else than was found before, and those without values, are added to the list `changed`, behind
    its length; `found` gets the values before and behind it and the remainder of the division, 0, 0 and -1
    where n is 0. Returns how many heads are done; where it is not all of them, the arena, or the buffer and
    `counts`, must be made larger.
    """
    heads, values, held = brackets.heads, brackets.values, brackets.counts
    for index in range(begin, touched[0]):
        number = touched[index + 1]
        head = heads[number]
        lower, upper, remainder = np.int64(0), np.int64(0), np.int64(-1)
        count = head[COUNT]
        if count:
            power = max(LEAST_CLASS, reach_class(count) + 2)
            # some slack in both directions, so that counts about a limit cost nothing
            if not power - 1 <= head[CLASS] <= power + 2 and not _make_large(brackets, head, power):
                return index
            if (1 << head[CLASS]) > buffer.size:
                return index
            # in two steps: the product of a large count and the numerator may not fit
            whole, rest = divmod(count - 1, denominator)
            part = rest * numerator
            rank = whole * numerator + part // denominator
            remainder = part % denominator
            while head[SIZE] == NOT_LOCATED or not _step(values, held, head, rank):
                _extend(queues, brackets, head, rank, buffer, counts, histogram)
            lower = upper = head[VALUE]
            if remainder and rank + 1 == head[BEFORE] + held[head[START] + head[CURSOR]]:
                place = _next_entry(held, head)
                if place == head[SIZE]:
                    _extend_up(queues, brackets, head, head[HIGH] + 1, buffer, counts)
                    place = _next_entry(held, head)
                upper = values[head[START] + place]
        head[TOUCHED] = 0
        if (
            remainder < 0
            or remainder != head[FOUND_REMAINDER]
            or lower != head[FOUND_LOWER]
            or upper != head[FOUND_UPPER]
        ):
            head[FOUND_LOWER], head[FOUND_UPPER], head[FOUND_REMAINDER] = lower, upper, remainder
            row = changed[0]
            found[row, 0], found[row, 1], found[row, 2] = lower, upper, remainder
            changed[row + 1] = number
            changed[0] = row + 1
    return int(touched[0])
