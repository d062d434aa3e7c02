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

import numpy as np
import numpy.typing as npt
from numba import types

from streammine.operators.kernels.bracket_steps import (
    append_chunk,
    drop_empty,
    enter,
    free_piece,
    insert,
    leave,
    make_room,
    next_chunk,
    search,
    trim,
    value_at,
)
from streammine.operators.kernels.compilation import (
    BOOLEAN,
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
    LAST,
    LEAST_CLASS,
    LOW,
    NOT_LOCATED,
    OFFSET_READ,
    QUEUES_TYPE,
    SIZE,
    SMALLEST,
    START,
    TOUCHED,
    USED,
    VALUE,
    Brackets,
    Ints,
    Queues,
)

_KERNELS = KernelSet("0c5df388")
load_kernels = _KERNELS.load

_RANGE_BITS = 12
RANGES = 1 << _RANGE_BITS
"""In which values are counted when one is selected; a histogram has as many places."""

COMES, STAYS = -1, -2
"""In the place of the number of a window that a value leaves."""

ROW, FOUND_ROWS, LACKS_ROOM, STATE_FIELDS = 0, 1, 2, 3
"""What `slide` says of how far it has come."""


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
def _span(links: npt.NDArray[np.int32], chunk: int, offset: int, left: int) -> tuple[int, int, int]:
    """Of the values that are left of a window the next ones: their chunk, and where they lie in the pool,
    from first to before last. What is left then begins at the end of the chunk.

    No generator: numba never gives back what the state of one refers to, which is all arrays.
    """
    if offset == CHUNK:
        chunk, offset = int(links[chunk]), 0
    first = chunk * CHUNK + offset
    return chunk, first, first + min(CHUNK - offset, left)


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
    chunk, offset, left = head[CHUNK_READ], head[OFFSET_READ], head[COUNT]
    while left > 0:
        chunk, first, stop = _span(queues.links, chunk, offset, left)
        offset, left = np.int64(CHUNK), left - (stop - first)
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
        chunk, offset, left = head[CHUNK_READ], head[OFFSET_READ], head[COUNT]
        while left > 0:
            chunk, first, stop = _span(queues.links, chunk, offset, left)
            offset, left = np.int64(CHUNK), left - (stop - first)
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
    chunk, offset, left = head[CHUNK_READ], head[OFFSET_READ], head[COUNT]
    while left > 0:
        chunk, first, stop = _span(queues.links, chunk, offset, left)
        offset, left = np.int64(CHUNK), left - (stop - first)
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
        chunk, offset, left = head[CHUNK_READ], head[OFFSET_READ], head[COUNT]
        while left > 0:
            chunk, first, stop = _span(queues.links, chunk, offset, left)
            offset, left = np.int64(CHUNK), left - (stop - first)
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


@helper
def _settled(
    queues: Queues,
    brackets: Brackets,
    head: Ints,
    numerator: int,
    denominator: int,
    buffer: Ints,
    counts: Ints,
    histogram: Ints,
) -> int:
    """Have FOUND say between which two values of a window its quantile lies. 1: that is something else than
    before, or the window has none; 0: it is as before; -1: there must be more room for that."""
    lower, upper, remainder = np.int64(0), np.int64(0), np.int64(-1)
    count = head[COUNT]
    if count:
        power = max(LEAST_CLASS, reach_class(count) + 2)
        # some slack in both directions, so that counts about a limit cost nothing
        if not power - 1 <= head[CLASS] <= power + 2 and not _make_large(brackets, head, power):
            return -1
        if (1 << head[CLASS]) > buffer.size:
            return -1
        # in two steps: the product of a large count and the numerator may not fit
        whole, rest = divmod(count - 1, denominator)
        part = rest * numerator
        rank = whole * numerator + part // denominator
        remainder = part % denominator
        values, held = brackets.values, brackets.counts
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
        remainder >= 0
        and remainder == head[FOUND_REMAINDER]
        and lower == head[FOUND_LOWER]
        and upper == head[FOUND_UPPER]
    ):
        return 0
    head[FOUND_LOWER], head[FOUND_UPPER], head[FOUND_REMAINDER] = lower, upper, remainder
    return 1


@_KERNELS.kernel(
    QUEUES_TYPE,
    BRACKETS_TYPE,
    INT64,
    INT64,
    INT64,
    BOOLEAN,
    INT64_IN,
    INT64_IN,
    INT64_IN,
    INT64_IN,
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
    writable(types.int64, 2),
)
def slide(
    queues: Queues,
    brackets: Brackets,
    windows: int,
    numerator: int,
    denominator: int,
    settles: bool,
    keys: Ints,
    slides: Ints,
    leaves: Ints,
    values: Ints,
    buffer: Ints,
    counts: Ints,
    histogram: Ints,
    freed: Ints,
    state: Ints,
    found: Ints,
) -> bool:
    """All that happens to some keys in some slides, key by key, so that what is known of a key is looked for
    in memory once and not with each slide.

    Of each row: the key, ascending, and of one key the slide, ascending; and which window `leaves` its oldest
    value, or COMES where `values` has one for all of them, or STAYS where nothing happens. A shorter window
    is always ahead of a longer one, and the last is the longest. Where a slide of a key ends, those of its
    windows that are touched are settled: with n values the quantile lies at (n - 1) * numerator /
    denominator, counted from 0. Where that is something else than was found before, or there is none, `found`
    gets the slide, the head's number, the values before and behind, and the remainder of the division, or 0,
    0 and -1; `state[FOUND_ROWS]` says how often. Without `settles` nothing is settled, and rows may come in
    any order. Chunks that are of no use any more are added to the list `freed`, behind its length.

    Begins with row `state[ROW]`. Returns whether it came to the end; else the arena, or the buffer and
    `counts`, must be made larger for the head `state[LACKS_ROOM]`.
    """
    # what is rare gets all arrays, what is not only those it needs: passing them on costs more than the rest
    heads, narrow, broad, tails = brackets.heads, queues.narrow, queues.broad, queues.tails
    bracket_values, bracket_counts = brackets.values, brackets.counts
    rows = keys.size
    row = state[ROW]
    while True:
        if (
            settles
            and row
            and (row == rows or keys[row] != keys[row - 1] or slides[row] != slides[row - 1])
        ):
            first = keys[row - 1] * windows
            for number in range(first, first + windows):
                head = heads[number]
                if not head[TOUCHED]:
                    continue
                differs = _settled(
                    queues, brackets, head, numerator, denominator, buffer, counts, histogram
                )
                if differs < 0:
                    state[ROW], state[LACKS_ROOM] = row, number
                    return False
                if differs:
                    told = state[FOUND_ROWS]
                    found[told, 0], found[told, 1] = slides[row - 1], number
                    found[told, 2], found[told, 3] = head[FOUND_LOWER], head[FOUND_UPPER]
                    found[told, 4] = head[FOUND_REMAINDER]
                    state[FOUND_ROWS] = told + 1
        if row == rows:
            return True
        key, window = keys[row], leaves[row]
        if window == COMES:
            value = values[row]
            last, used = np.int64(tails[key, LAST]), np.int64(tails[key, USED])
            if last < 0 or used == CHUNK:
                last, used = np.int64(append_chunk(queues, heads, windows, key)), np.int64(0)
            if broad.size:
                broad[last * CHUNK + used] = value
            else:
                narrow[last * CHUNK + used] = value
            tails[key, USED] = used + 1
            for number in range(key * windows, (key + 1) * windows):
                head = heads[number]
                if not enter(bracket_values, bracket_counts, head, value):
                    make_room(brackets, head)
                    if head[LOW] <= value <= head[HIGH]:
                        insert(bracket_values, bracket_counts, head, value)
                head[TOUCHED] = 1
        elif window != STAYS:
            head = heads[key * windows + window]
            if head[OFFSET_READ] == CHUNK:
                next_chunk(queues, head, freed, window == windows - 1)
            place = head[CHUNK_READ] * CHUNK + head[OFFSET_READ]
            head[OFFSET_READ] += 1
            value = int(broad[place]) if broad.size else int(narrow[place])
            leave(bracket_values, bracket_counts, head, value)
            head[TOUCHED] = 1
        row += 1
