"""A multiset of 64-bit words per group: each word once, with how often it occurs.

What comes is appended to a buffer. Once the buffer is as long as what is there, it is sorted by
group and word and merged with that. So every row is sorted once and merged a bounded number of times on
average, and memory follows the number of different values, not that of rows.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    INT32_IN,
    INT64_IN,
    INT64_OUT,
    KernelSet,
)
from streammine.operators.kernels.group_states import checked_groups, extended

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

_BUFFER_ROWS = 262_144

Words = npt.NDArray[np.int64]
_NO_WORDS: Words = np.empty(0, dtype=np.int64)


class Entries(NamedTuple):
    """What a bag holds: those of group g stand at offsets[g] to offsets[g + 1].

    offsets: int64[groups + 1]; words: int64[n], ascending within a group, each once; counts:
    int64[n], how often each occurs, at least once.
    """

    offsets: Words
    words: Words
    counts: Words

    def totals(self) -> Words:
        """int64[groups]: how many words each group has, with repetitions."""
        sums = _running(self.counts)
        return sums[self.offsets[1:]] - sums[self.offsets[:-1]]

    def at_ranks(self, groups: Words, ranks: Words) -> Words:
        """The word at each rank, from 0 and with repetitions, of each of int64[n] groups (int64[n])."""
        sums = _running(self.counts)
        places = np.searchsorted(sums[1:], sums[self.offsets[groups]] + ranks, side="right")
        return self.words[places]


def _running(counts: Words) -> Words:
    sums = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


class WordBag:
    """The words of groups 0 to size - 1. For one thread at a time; reading sorts what has come."""

    def __init__(self) -> None:
        load_kernels()
        self._entries = Entries(np.zeros(1, dtype=np.int64), _NO_WORDS, _NO_WORDS)
        self._size = 0
        self._rows = 0
        self._groups = np.empty(0, dtype=np.int32)
        self._words = _NO_WORDS
        self._counts: Words | None = None

    @property
    def size(self) -> int:
        """Number of groups."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        counts = 0 if self._counts is None else self._counts.nbytes
        held = sum(array.nbytes for array in self._entries)
        return held + self._groups.nbytes + self._words.nbytes + counts

    def resize(self, size: int) -> None:
        """Set the number of groups; new ones are empty. Raises ValueError if there were more."""
        if size < self._size:
            raise ValueError(f"{size} groups asked for, there are {self._size} already")
        self._size = size

    def add(self, group_ids: Words, words: Words, size: int, counts: Words | None = None) -> None:
        """Add int64[n] words to their groups, each in [0, size), as often as int64[n] counts say.

        Without counts once each. Raises ValueError for lengths that differ, IndexError for a group
        out of range; nothing is added then.
        """
        self.resize(size)
        groups = checked_groups(group_ids, words.size, size)
        if counts is not None and self._counts is None:
            self._counts = np.ones(self._words.size, dtype=np.int64)
        end = self._rows + words.size
        self._groups = extended(self._groups, end, 0)
        self._words = extended(self._words, end, 0)
        self._groups[self._rows : end] = groups
        self._words[self._rows : end] = words
        if self._counts is not None:
            self._counts = extended(self._counts, end, 1)
            self._counts[self._rows : end] = 1 if counts is None else counts
        self._rows = end
        if end > max(_BUFFER_ROWS, self._entries.words.size):
            self.entries()

    def subtract(self, group_ids: Words, words: Words, counts: Words) -> None:
        """Take int64[n] words, which were added before, out of their groups as often as counts say."""
        self.add(group_ids, words, self._size, -counts)

    def merge(self, other: Self, id_map: Words) -> None:
        """Add group i of other to group id_map[i]. Raises ValueError, IndexError."""
        groups = checked_groups(id_map, other.size, self._size)
        offsets, words, counts = other.entries()
        self.add(np.repeat(groups, np.diff(offsets)), words, self._size, counts)

    def entries(self) -> Entries:
        """What there is, of all groups. Not changed by what comes later."""
        offsets = self._entries.offsets
        if offsets.size <= self._size:
            grown = np.full(self._size + 1, offsets[-1], dtype=np.int64)
            grown[: offsets.size] = offsets
            self._entries = self._entries._replace(offsets=grown)
        if self._rows:
            self._entries = _merged(self._entries, self._sorted_buffer())
            self._rows = 0
            self._groups = np.empty(0, dtype=np.int32)
            self._words, self._counts = _NO_WORDS, None
        return self._entries

    def _sorted_buffer(self) -> Entries:
        """The buffer in order, where a word may still occur more than once; no counts: once each."""
        rows = self._rows
        counts = _NO_WORDS if self._counts is None else self._counts[:rows]
        offsets = np.zeros(self._size + 1, dtype=np.int64)
        words = np.empty(rows, dtype=np.int64)
        placed = np.empty(counts.size, dtype=np.int64)
        _place_by_group(self._groups[:rows], self._words[:rows], counts, offsets, words, placed)
        sort_groups(offsets, words, placed)
        return Entries(offsets, words, placed)


def _merged(entries: Entries, added: Entries) -> Entries:
    most = entries.words.size + added.words.size
    offsets = np.empty(entries.offsets.size, dtype=np.int64)
    words, counts = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    length = _merge_groups(*entries, *added, offsets, words, counts)
    if 4 * length < 3 * most:
        # a view would keep what the repetitions took
        return Entries(offsets, words[:length].copy(), counts[:length].copy())
    return Entries(offsets, words[:length], counts[:length])


@_KERNELS.kernel(INT32_IN, INT64_IN, INT64_IN, INT64_OUT, INT64_OUT, INT64_OUT)
def _place_by_group(
    groups: npt.NDArray[np.int32],
    words: Words,
    counts: Words,
    offsets: Words,
    placed_words: Words,
    placed_counts: Words,
) -> None:
    """Put the rows of each group together; offsets, all zero, become those of the groups."""
    for row in range(groups.size):
        offsets[groups[row] + 1] += 1
    for group in range(1, offsets.size):
        offsets[group] += offsets[group - 1]
    for row in range(groups.size):
        place = offsets[groups[row]]
        offsets[groups[row]] = place + 1
        placed_words[place] = words[row]
        if counts.size:
            placed_counts[place] = counts[row]
    # each offset has gone on to where the next group begins
    for group in range(offsets.size - 1, 0, -1):
        offsets[group] = offsets[group - 1]
    offsets[0] = 0


@_KERNELS.kernel(INT64_IN, INT64_OUT, INT64_OUT)
def sort_groups(offsets: Words, words: Words, counts: Words) -> None:
    """Sort the words of each group, and with them their counts where there are any."""
    for group in range(offsets.size - 1):
        start, end = offsets[group], offsets[group + 1]
        in_order = True
        for place in range(start + 1, end):
            if words[place] < words[place - 1]:
                in_order = False
                break
        if in_order:
            continue
        if counts.size:
            order = np.argsort(words[start:end])
            words[start:end] = words[start:end][order]
            counts[start:end] = counts[start:end][order]
        else:
            words[start:end].sort()


@_KERNELS.kernel(
    INT64_IN,
    INT64_IN,
    INT64_IN,
    INT64_IN,
    INT64_IN,
    INT64_IN,
    INT64_OUT,
    INT64_OUT,
    INT64_OUT,
)
def _merge_groups(
    offsets: Words,
    words: Words,
    counts: Words,
    added_offsets: Words,
    added_words: Words,
    added_counts: Words,
    merged_offsets: Words,
    merged_words: Words,
    merged_counts: Words,
) -> int:
    """Merge group by group, equal words into one, those that occur no more into none. Return how many
    there are."""
    place = 0
    merged_offsets[0] = 0
    for group in range(offsets.size - 1):
        first = place
        left, left_end = offsets[group], offsets[group + 1]
        right, right_end = added_offsets[group], added_offsets[group + 1]
        while left < left_end or right < right_end:
            if right == right_end or (left < left_end and words[left] < added_words[right]):
                word, count = words[left], counts[left]
                left += 1
            else:
                word = added_words[right]
                count = added_counts[right] if added_counts.size else 1
                right += 1
            if place > first and merged_words[place - 1] == word:
                merged_counts[place - 1] += count
            else:
                if place > first and merged_counts[place - 1] == 0:
                    place -= 1
                merged_words[place] = word
                merged_counts[place] = count
                place += 1
        if place > first and merged_counts[place - 1] == 0:
            place -= 1
        merged_offsets[group + 1] = place
    return place
