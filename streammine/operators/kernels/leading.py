"""The foremost groups of a ranking, after each change of one of them.

The foremost few stand in order in an array, the next in line in a heap, all others behind a bar, in no order
at all. Most changes are of groups that stay behind the bar, and cost a comparison with it. Where the heap has
run out, a share of the best of those behind comes into it; where it has become too large, only the best of it
stay.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    BOOLEAN,
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    MASK_OUT,
    KernelSet,
    helper,
    read_only,
    writable,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

NOWHERE = -1
"""The place of a group that is not ranked; others are a place in the heap, or one less than the negated
place in front, counted from 1, or BEHIND."""

BEHIND = -(2**62)
"""The place of all groups that are ranked behind the bar."""

TOP_SIZE, HEAP_SIZE, NEXT_STAMP, BEHIND_SIZE, BAR_RANK, BAR_STAMP = range(6)
"""Places in `numbers`: groups in front, groups in the heap, the stamp of the next change, groups behind the
bar, and the bar itself: rank and stamp of the last that may stand in the heap."""

HELD_SHARE = 256
"""The heap is filled with one group of so many that are known, ranked or not."""

HELD_LEAST = 32
"""But with no fewer, if there are as many."""

HELD_MOST = 2
"""Times as many as it is filled with may stand in the heap."""

IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@helper
def _before(ranks: IntArray, stamps: IntArray, one: int, other: int) -> bool:
    """Whether group `one` stands before `other`: a higher rank, or the same and changed more recently."""
    if ranks[one] != ranks[other]:
        return bool(ranks[one] > ranks[other])
    return bool(stamps[one] > stamps[other])


@helper
def _rise(heap: IntArray, places: IntArray, ranks: IntArray, stamps: IntArray, place: int) -> int:
    group = heap[place]
    while place > 0:
        above = (place - 1) // 2
        if not _before(ranks, stamps, group, heap[above]):
            break
        heap[place] = heap[above]
        places[heap[place]] = place
        place = above
    heap[place] = group
    places[group] = place
    return place


@helper
def _sink(
    heap: IntArray, size: int, places: IntArray, ranks: IntArray, stamps: IntArray, place: int
) -> None:
    group = heap[place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _before(ranks, stamps, heap[below + 1], heap[below]):
            below += 1
        if not _before(ranks, stamps, heap[below], group):
            break
        heap[place] = heap[below]
        places[heap[place]] = place
        place = below
    heap[place] = group
    places[group] = place


@helper
def _passes(numbers: IntArray, rank: int, stamp: int) -> bool:
    """Whether what has this rank and stamp does not stand behind the bar."""
    if rank != numbers[BAR_RANK]:
        return bool(rank > numbers[BAR_RANK])
    return bool(stamp >= numbers[BAR_STAMP])


@helper
def _push(
    heap: IntArray,
    numbers: IntArray,
    places: IntArray,
    ranks: IntArray,
    stamps: IntArray,
    group: int,
) -> None:
    """Rank a group behind those in front."""
    if not _passes(numbers, ranks[group], stamps[group]):
        places[group] = BEHIND
        numbers[BEHIND_SIZE] += 1
        return
    place = numbers[HEAP_SIZE]
    heap[place] = group
    numbers[HEAP_SIZE] += 1
    _rise(heap, places, ranks, stamps, place)
    if numbers[HEAP_SIZE] > HELD_MOST * _filling(places.size):
        _raise_bar(heap, numbers, places, ranks, stamps)


@helper
def _filling(groups: int) -> int:
    """With how many the heap is filled where so many are known. Filling it looks at all of them, which as
    many changes have gone before as are a fixed part of these."""
    return int(max(HELD_LEAST, groups // HELD_SHARE))


@helper
def _raise_bar(
    heap: IntArray, numbers: IntArray, places: IntArray, ranks: IntArray, stamps: IntArray
) -> None:
    """Leave only the best in the heap; those behind them are put behind the bar."""
    size, held = numbers[HEAP_SIZE], _filling(places.size)
    # the best go to the end: at most half of all stay, so below none is written over
    for number in range(held):
        best = heap[0]
        last = size - 1 - number
        heap[0] = heap[last]
        heap[last] = best
        _sink(heap, last, places, ranks, stamps, 0)
    for number in range(size - held):
        places[heap[number]] = BEHIND
    # best first is a heap, too
    for number in range(held):
        group = heap[size - 1 - number]
        heap[number] = group
        places[group] = number
    bar = heap[held - 1]
    numbers[HEAP_SIZE] = held
    numbers[BEHIND_SIZE] += size - held
    numbers[BAR_RANK], numbers[BAR_STAMP] = ranks[bar], stamps[bar]


@helper
def _refill(
    heap: IntArray, numbers: IntArray, places: IntArray, ranks: IntArray, stamps: IntArray
) -> None:
    """Fill the empty heap with the best of those behind the bar."""
    for group in range(places.size):
        if places[group] == BEHIND:
            heap[numbers[HEAP_SIZE]] = group
            numbers[HEAP_SIZE] += 1
            _rise(heap, places, ranks, stamps, numbers[HEAP_SIZE] - 1)
    numbers[BEHIND_SIZE] = 0
    numbers[BAR_RANK] = numbers[BAR_STAMP] = np.iinfo(np.int64).min
    if numbers[HEAP_SIZE] > HELD_MOST * _filling(places.size):
        _raise_bar(heap, numbers, places, ranks, stamps)


@helper
def _take_out(
    heap: IntArray,
    numbers: IntArray,
    places: IntArray,
    ranks: IntArray,
    stamps: IntArray,
    place: int,
) -> int:
    """Take the group at a place out of the heap."""
    group = heap[place]
    numbers[HEAP_SIZE] -= 1
    size = numbers[HEAP_SIZE]
    if place < size:
        heap[place] = heap[size]
        places[heap[place]] = place
        if _rise(heap, places, ranks, stamps, place) == place:
            _sink(heap, size, places, ranks, stamps, place)
    places[group] = NOWHERE
    return int(group)


@helper
def _put_in_front(
    top: IntArray,
    numbers: IntArray,
    places: IntArray,
    ranks: IntArray,
    stamps: IntArray,
    group: int,
) -> None:
    """Put a group in its place in front, where there is room."""
    place = numbers[TOP_SIZE]
    numbers[TOP_SIZE] += 1
    while place > 0 and _before(ranks, stamps, group, top[place - 1]):
        top[place] = top[place - 1]
        places[top[place]] = -2 - place
        place -= 1
    top[place] = group
    places[group] = -2 - place


@helper
def _enter(
    top: IntArray,
    heap: IntArray,
    numbers: IntArray,
    places: IntArray,
    ranks: IntArray,
    stamps: IntArray,
    group: int,
) -> bool:
    """Rank a group that stands nowhere; whether it came to the front."""
    if numbers[TOP_SIZE] == top.size:
        last = top[top.size - 1]
        if not _before(ranks, stamps, group, last):
            _push(heap, numbers, places, ranks, stamps, group)
            return False
        numbers[TOP_SIZE] -= 1
        _push(heap, numbers, places, ranks, stamps, last)
    _put_in_front(top, numbers, places, ranks, stamps, group)
    return True


@helper
def _leave(
    top: IntArray,
    heap: IntArray,
    numbers: IntArray,
    places: IntArray,
    ranks: IntArray,
    stamps: IntArray,
    group: int,
) -> bool:
    """Take a group out of the ranking; whether it stood in front."""
    place = places[group]
    if place >= 0:
        _take_out(heap, numbers, places, ranks, stamps, place)
        return False
    if place == BEHIND:
        numbers[BEHIND_SIZE] -= 1
        places[group] = NOWHERE
        return False
    if place == NOWHERE:
        return False
    for number in range(-2 - place, numbers[TOP_SIZE] - 1):
        top[number] = top[number + 1]
        places[top[number]] = -2 - number
    numbers[TOP_SIZE] -= 1
    places[group] = NOWHERE
    if numbers[HEAP_SIZE] == 0 and numbers[BEHIND_SIZE]:
        _refill(heap, numbers, places, ranks, stamps)
    if numbers[HEAP_SIZE]:
        following = _take_out(heap, numbers, places, ranks, stamps, 0)
        _put_in_front(top, numbers, places, ranks, stamps, following)
    return True


@_KERNELS.kernel(
    INT64_IN,
    INT64_IN,
    MASK_IN,
    MASK_IN,
    MASK_IN,
    MASK_IN,
    read_only(INT64, 2),
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
    writable(INT64, 2),
    INT64_OUT,
    INT64_OUT,
    writable(INT64, 2),
    INT64_OUT,
    INT64_OUT,
    writable(INT64, 2),
)
def advance_leaders(
    ids: IntArray,
    new_ranks: IntArray,
    listed: Mask,
    forgotten: Mask,
    by_event: Mask,
    tells: Mask,
    new_shown: npt.NDArray[np.int64],
    ranks: IntArray,
    stamps: IntArray,
    places: IntArray,
    heap: IntArray,
    top: IntArray,
    shown: npt.NDArray[np.int64],
    numbers: IntArray,
    last_ids: IntArray,
    last_shown: npt.NDArray[np.int64],
    changed_in: IntArray,
    told_by: IntArray,
    told: npt.NDArray[np.int64],
) -> int:
    """Take in changes in their order, and note the groups in front wherever they are others, or show
    something else, than they last did.

    Of each change: the group, its new rank, whether it is `listed`, whether it is `forgotten` (as if it had
    never been), whether an event makes the change or time alone, whether it is the last one of an event, so
    that what is in front is looked at, and what is shown of the group (int64[columns, changes]).

    By group: `ranks`, `stamps` (when an event last changed it), `places`, `shown`, `changed_in` (the change
    by which it has its values, -1 for none of these, as it is before and afterwards). `last_ids` and
    `last_shown` are what was in front when it was last told. Told are the change (`told_by`) and for each
    place the change by which the group there has its values, or -2 - group, or -1 for nobody.

    Returns how often there is something to tell.
    """
    count = 0
    # time alone may have changed what is in front since it was last looked at
    touched = True
    columns = new_shown.shape[0]
    for row in range(ids.size):
        group = ids[row]
        rank = new_ranks[row]
        changed_in[group] = row
        stamp = stamps[group]
        if by_event[row] or stamp == 0:
            stamp = numbers[NEXT_STAMP]
            numbers[NEXT_STAMP] += 1
        # not in a helper: a call here, which takes seven arrays, costs more than most changes
        place = places[group]
        if (
            place in (BEHIND, NOWHERE)
            and numbers[TOP_SIZE] == top.size
            and numbers[HEAP_SIZE]
            and not _passes(numbers, rank, stamp)
        ):
            # most changes are such: it is behind the bar, or not ranked, and stays so
            numbers[BEHIND_SIZE] += int(listed[row]) - int(place == BEHIND)
            places[group] = BEHIND if listed[row] else NOWHERE
            ranks[group] = rank
            stamps[group] = stamp
        elif (
            place >= 0
            and listed[row]
            and _passes(numbers, rank, stamp)
            and numbers[TOP_SIZE] == top.size
            and (
                rank < ranks[top[top.size - 1]]
                or (rank == ranks[top[top.size - 1]] and stamp < stamps[top[top.size - 1]])
            )
        ):
            ranks[group] = rank
            stamps[group] = stamp
            if _rise(heap, places, ranks, stamps, place) == place:
                _sink(heap, numbers[HEAP_SIZE], places, ranks, stamps, place)
        else:
            touched |= _leave(top, heap, numbers, places, ranks, stamps, group)
            ranks[group] = rank
            stamps[group] = stamp
            if listed[row]:
                touched |= _enter(top, heap, numbers, places, ranks, stamps, group)
        if forgotten[row]:
            stamps[group] = 0
        for column in range(columns):
            shown[column, group] = new_shown[column, row]
        if not tells[row] or not touched:
            continue
        touched = False
        different = False
        for number in range(top.size):
            group = top[number] if number < numbers[TOP_SIZE] else -1
            if last_ids[number] != group:
                different = True
                last_ids[number] = group
            for column in range(columns):
                value = shown[column, group] if group >= 0 else 0
                if last_shown[column, number] != value:
                    different = True
                    last_shown[column, number] = value
        if different:
            told_by[count] = row
            for number in range(top.size):
                group = last_ids[number]
                if group < 0:
                    told[count, number] = -1
                elif changed_in[group] >= 0:
                    told[count, number] = changed_in[group]
                else:
                    told[count, number] = -2 - group
            count += 1
    for row in range(ids.size):
        changed_in[ids[row]] = -1
    return count


@_KERNELS.kernel(
    INT64_IN, MASK_IN, INT64_IN, MASK_IN, BOOLEAN, INT64_OUT, MASK_OUT, INT64_OUT, MASK_OUT
)
def follow(
    ids: IntArray,
    carries: Mask,
    values: IntArray,
    valid: Mask,
    adds: bool,
    held: IntArray,
    known: Mask,
    after: IntArray,
    known_after: Mask,
) -> int:
    """A measure after each change: the latest value of the group, or the sum of all where it `adds`.

    `carries`: whether the change has a value of this measure. `held` and `known` are by group. Returns how
    many changes were followed; where these are not all, the next one's sum leaves 64 bits.
    """
    for row in range(ids.size):
        group = ids[row]
        if carries[row]:
            if not adds:
                held[group] = values[row] if valid[row] else 0
                known[group] = valid[row]
            elif valid[row]:
                before, value = held[group], values[row]
                total = before + value
                # both have the sign that it has not
                if (before ^ total) & (value ^ total) < 0:
                    return row
                held[group] = total
        after[row] = held[group]
        known_after[row] = known[group]
    return ids.size


@_KERNELS.kernel(read_only(INT64, 2), read_only(INT64, 2), INT64_OUT)
def merge_in_order(
    left: npt.NDArray[np.int64], right: npt.NDArray[np.int64], order: IntArray
) -> None:
    """Two sorted runs, int64[columns, rows] with the most significant column first, as one: `order` gets
    the rows, those of `right` numbered on from those of `left`, which comes first where they are equal."""
    columns, lefts = left.shape
    rights = right.shape[1]
    i = j = 0
    for place in range(lefts + rights):
        takes_left = j == rights
        if i < lefts and j < rights:
            takes_left = True
            for column in range(columns):
                if left[column, i] != right[column, j]:
                    takes_left = left[column, i] < right[column, j]
                    break
        if takes_left:
            order[place] = i
            i += 1
        else:
            order[place] = lefts + j
            j += 1
