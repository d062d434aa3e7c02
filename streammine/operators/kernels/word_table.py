"""Rows of k 64-bit words to dense ids, in order of first appearance.

Two layouts of an open-addressing table with linear probing. For one word a slot holds the word
and id + 1 side by side, so a hit touches one cache line. For more words a slot holds 32 bits of
the hash and id + 1, and only a slot whose hash bits agree leads to the comparison of the row
itself. Either way all columns are decided in one probe, never column by column.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    BOOLEAN,
    INT64,
    INT64_IN,
    INT64_OUT,
    KernelSet,
    helper,
    read_only,
)
from streammine.operators.kernels.key_box import KeyBox, KeyColumn
from streammine.operators.kernels.machine_words import fold_product

_KERNELS = KernelSet("78512f6e")
load_kernels = _KERNELS.load

_SALT_ONE = 0x9E3779B97F4A7C15
_SALT_TWO = 0xD1B54A32D192ED03
_IDENTITY_BITS = 0xFFFFFFFF
_MAXIMUM_GROUPS = 0x7FFFFFFE

# Slot words per key at the fullest. A sparse table costs memory, but each probe of a second slot
# is a mispredicted branch.
_SINGLE_SHARE = 5
_ROWS_SHARE = 3


@helper
def _mix(word: np.int64, mixed: np.uint64) -> np.uint64:
    return fold_product(  # type: ignore[no-any-return]
        np.uint64(word) ^ np.uint64(_SALT_ONE), mixed ^ np.uint64(_SALT_TWO)
    )


@_KERNELS.kernel(INT64_IN, INT64, BOOLEAN, INT64_OUT, INT64_OUT, INT64_OUT, INT64_OUT)
def _find_single(
    words: npt.NDArray[np.int64],
    first_row: int,
    insert: bool,
    slots: npt.NDArray[np.int64],
    keys: npt.NDArray[np.int64],
    state: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
) -> int:
    """Fill ids from first_row on; return the row that needs a larger table, or the row count."""
    slot_mask = np.uint64(slots.size // 2 - 1)
    count = state[0]
    count_limit = min(slots.size // _SINGLE_SHARE, keys.size)
    for row in range(first_row, words.size):
        word = words[row]
        slot = _mix(word, np.uint64(0)) & slot_mask
        while True:
            found = slots[2 * slot + np.uint64(1)] - 1
            if found < 0 or slots[2 * slot] == word:
                break
            slot = (slot + np.uint64(1)) & slot_mask
        if found < 0 and insert:
            if count >= count_limit:
                state[0] = count
                return row
            slots[2 * slot] = word
            slots[2 * slot + np.uint64(1)] = count + 1
            keys[count] = word
            found = count
            count += 1
        ids[row] = found
    state[0] = count
    return words.size


@_KERNELS.kernel(read_only(INT64, 2), INT64, BOOLEAN, INT64_OUT, INT64_OUT, INT64_OUT, INT64_OUT)
def _find_rows(
    words: npt.NDArray[np.int64],
    first_row: int,
    insert: bool,
    slots: npt.NDArray[np.int64],
    keys: npt.NDArray[np.int64],
    state: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
) -> int:
    """As _find_single, for words[k, n] and keys of k words in a row."""
    width, rows = words.shape
    slot_mask = np.uint64(slots.size - 1)
    count = state[0]
    count_limit = min(slots.size // _ROWS_SHARE, keys.size // width)
    for row in range(first_row, rows):
        mixed = np.uint64(width)
        for column in range(width):
            mixed = _mix(words[column, row], mixed)
        slot = mixed & slot_mask
        tag = np.int64(mixed) & ~_IDENTITY_BITS
        found = np.int64(-1)
        while True:
            entry = slots[slot]
            if entry == 0:
                break
            if (entry & ~_IDENTITY_BITS) == tag:
                identity = (entry & _IDENTITY_BITS) - 1
                base = identity * width
                different = np.int64(0)
                for column in range(width):
                    different |= keys[base + column] ^ words[column, row]
                if different == 0:
                    found = identity
                    break
            slot = (slot + np.uint64(1)) & slot_mask
        if found < 0 and insert:
            if count >= count_limit:
                state[0] = count
                return row
            slots[slot] = tag | (count + 1)
            for column in range(width):
                keys[count * width + column] = words[column, row]
            found = count
            count += 1
        ids[row] = found
    state[0] = count
    return ids.size


@_KERNELS.kernel(INT64, INT64, INT64_IN, INT64_OUT)
def _enter_keys(
    width: int, count: int, keys: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]
) -> None:
    """Fill an empty slot table from the keys of all ids; the keys are known to be distinct."""
    if width == 1:
        slot_mask = np.uint64(slots.size // 2 - 1)
        for identity in range(count):
            slot = _mix(keys[identity], np.uint64(0)) & slot_mask
            while slots[2 * slot + np.uint64(1)] != 0:
                slot = (slot + np.uint64(1)) & slot_mask
            slots[2 * slot] = keys[identity]
            slots[2 * slot + np.uint64(1)] = identity + 1
        return
    slot_mask = np.uint64(slots.size - 1)
    for identity in range(count):
        mixed = np.uint64(width)
        for column in range(width):
            mixed = _mix(keys[identity * width + column], mixed)
        slot = mixed & slot_mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & slot_mask
        slots[slot] = (np.int64(mixed) & ~_IDENTITY_BITS) | (identity + 1)


def _words(columns: Sequence[KeyColumn]) -> npt.NDArray[np.int64]:
    """Columns as words[width, n], each a row in C order."""
    words = np.empty((len(columns), columns[0].size), dtype=np.int64)
    for number, column in enumerate(columns):
        words[number] = column
    return words


class WordTable:
    """Growing table of distinct rows of `width` int64 words."""

    def __init__(self, width: int) -> None:
        assert width >= 1, width
        load_kernels()
        self.width = width
        self._slots = np.zeros(2048, dtype=np.int64)
        self._keys = np.empty(256 * width, dtype=np.int64)
        self._state = np.zeros(1, dtype=np.int64)
        self._box = KeyBox()

    @property
    def size(self) -> int:
        """Number of distinct rows."""
        return int(self._state[0])

    @property
    def nbytes(self) -> int:
        """Bytes held by the table."""
        return self._slots.nbytes + self._keys.nbytes + self._box.nbytes

    def ids(self, columns: Sequence[KeyColumn], insert: bool) -> npt.NDArray[np.int64]:
        """Return int64[n] ids of the rows whose words stand in `width` contiguous columns.

        Without `insert` an unknown row gets -1. Raises OverflowError beyond 2^31 - 2 rows.
        """
        assert len(columns) == self.width, (len(columns), self.width)
        if not self._box.active:
            ids = self._search(_words(columns), insert)
            if self._box.wants_layout(ids.size, ids.size):
                self._box.lay_out(self.keys())
            return ids
        ids, missing, outside = self._box.find(columns)
        if missing.size > 0:
            rest = _words([column[missing] for column in columns])
            found = self._search(rest, insert)
            ids[missing] = found
            if self._box.wants_layout(ids.size, outside):
                self._box.lay_out(self.keys())
            else:
                self._box.enter(rest, found)
        return ids

    def _search(self, words: npt.NDArray[np.int64], insert: bool) -> npt.NDArray[np.int64]:
        """The ids of words[width, n] from the hash table."""
        rows = words.shape[1]
        ids = np.empty(rows, dtype=np.int64)
        kernel = _find_single if self.width == 1 else _find_rows
        source = words[0] if self.width == 1 else words
        row = 0
        while True:
            row = kernel(source, row, insert, self._slots, self._keys, self._state, ids)
            if row == rows:
                return ids
            self._grow()

    def keys(self) -> npt.NDArray[np.int64]:
        """Return int64[size, width]: the row of each id."""
        return self._keys[: self.size * self.width].reshape(self.size, self.width)

    def widen(self) -> None:
        """Append one word to every row, zero in all rows so far."""
        keys = np.zeros((self._keys.size // self.width, self.width + 1), dtype=np.int64)
        keys[: self.size, :-1] = self.keys()
        self.width += 1
        self._keys = keys.reshape(-1)
        self._box.reset()
        self._rebuild(self._slots.size)

    def _grow(self) -> None:
        size = self.size
        if size >= _MAXIMUM_GROUPS:
            raise OverflowError(f"more than {_MAXIMUM_GROUPS} distinct keys in one table")
        if size >= self._keys.size // self.width:
            keys = np.empty(2 * self._keys.size, dtype=np.int64)
            keys[: size * self.width] = self._keys[: size * self.width]
            self._keys = keys
        if size >= self._slots.size // (_SINGLE_SHARE if self.width == 1 else _ROWS_SHARE):
            self._rebuild(self._slots.size * (4 if size < 1 << 20 else 2))

    def _rebuild(self, slot_words: int) -> None:
        self._slots = np.zeros(slot_words, dtype=np.int64)
        _enter_keys(self.width, self.size, self._keys, self._slots)
