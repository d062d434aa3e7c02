"""Byte strings to dense ids, in order of first appearance.

A slot is two words. For a string of up to eight bytes the first word is the string itself, so
equality costs one comparison and no further memory access; for a longer one it is the whole
64-bit hash, and the bytes are compared in the arena. The second word holds id + 1 and a length
code; zero means empty. The hash multiplies eight bytes at a time and folds the 128-bit product,
the scheme of Wang's wyhash. It never leaves the table: ids depend on row order alone.
"""

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    BOOLEAN,
    BYTES_IN,
    BYTES_OUT,
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    KernelSet,
    helper,
)
from streammine.operators.kernels.machine_words import fold_product, load_word, store_word

_KERNELS = KernelSet("78512f6e")
load_kernels = _KERNELS.load

_SALT_ONE = 0x9E3779B97F4A7C15
_SALT_TWO = 0xD1B54A32D192ED03
_LONG_CODE = 9
_IDENTITY_BITS = 0xFFFFFFFF
_MAXIMUM_GROUPS = 0x7FFFFFFE

_COUNT, _NULL_ID, _STATE_SIZE = 0, 1, 2


@helper
def _hash_short(word: np.uint64, length: int) -> np.uint64:
    return fold_product(  # type: ignore[no-any-return]
        word ^ np.uint64(_SALT_ONE), np.uint64(length) ^ np.uint64(_SALT_TWO)
    )


@helper
def _hash_long(data: npt.NDArray[np.uint8], begin: int, end: int) -> np.uint64:
    """Hash of more than eight bytes; the last sixteen (or eight) may be read twice."""
    mixed = np.uint64(end - begin) ^ np.uint64(_SALT_TWO)
    position = begin
    while position + 16 < end:
        mixed = fold_product(
            load_word(data, position) ^ np.uint64(_SALT_ONE),
            load_word(data, position + 8) ^ mixed,
        )
        position += 16
    first = load_word(data, max(begin, end - 16))
    return fold_product(  # type: ignore[no-any-return]
        first ^ np.uint64(_SALT_ONE), load_word(data, end - 8) ^ mixed
    )


@helper
def _short_word(data: npt.NDArray[np.uint8], begin: int, end: int) -> np.uint64:
    """Up to eight bytes as one word; never reads past the end of the buffer."""
    length = end - begin
    if begin + 8 <= data.size:
        # Two half shifts, because a shift by 64 is undefined.
        half = np.uint64(4 * length)
        mask = ((np.uint64(1) << half) << half) - np.uint64(1)
        return load_word(data, begin) & mask  # type: ignore[no-any-return]
    word = np.uint64(0)
    for index in range(length):
        word |= np.uint64(data[begin + index]) << np.uint64(8 * index)
    return word


@helper
def _same_bytes(
    left: npt.NDArray[np.uint8],
    left_begin: int,
    right: npt.NDArray[np.uint8],
    right_begin: int,
    length: int,
) -> bool:
    """Whether two ranges of more than eight bytes are equal."""
    position = 0
    while position + 8 < length:
        if load_word(left, left_begin + position) != load_word(right, right_begin + position):
            return False
        position += 8
    position = length - 8
    return load_word(left, left_begin + position) == load_word(  # type: ignore[no-any-return]
        right, right_begin + position
    )


@helper
def _copy_bytes(
    source: npt.NDArray[np.uint8],
    begin: int,
    end: int,
    target: npt.NDArray[np.uint8],
    position: int,
) -> None:
    while begin + 8 <= end:
        store_word(target, position, load_word(source, begin))
        begin += 8
        position += 8
    while begin < end:
        target[position] = source[begin]
        begin += 1
        position += 1


@_KERNELS.kernel(
    BYTES_IN,
    INT64_IN,
    MASK_IN,
    INT64,
    BOOLEAN,
    INT64_OUT,
    INT64_OUT,
    BYTES_OUT,
    INT64_OUT,
    INT64_OUT,
)
def _find_strings(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    first_row: int,
    insert: bool,
    slots: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    arena: npt.NDArray[np.uint8],
    state: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
) -> int:
    """Fill ids from first_row on; return the row that needs a larger table, or the row count."""
    rows = ids.size
    slot_mask = np.uint64(slots.size // 2 - 1)
    count = state[_COUNT]
    count_limit = min(slots.size // 4, starts.size - 1)
    has_nulls = validity.size > 0
    row = first_row
    while row < rows:
        if has_nulls and not validity[row]:
            if state[_NULL_ID] < 0 and insert:
                if count >= count_limit:
                    break
                state[_NULL_ID] = count
                starts[count + 1] = starts[count]
                count += 1
            ids[row] = state[_NULL_ID]
            row += 1
            continue
        begin, end = offsets[row], offsets[row + 1]
        length = end - begin
        if length <= 8:
            word = _short_word(data, begin, end)
            mixed = _hash_short(word, length)
            code = length << 32
        else:
            word = _hash_long(data, begin, end)
            mixed = word
            code = _LONG_CODE << 32
        first = np.int64(word)
        slot = mixed & slot_mask
        found = np.int64(-1)
        while True:
            entry = slots[2 * slot + np.uint64(1)]
            if entry == 0:
                break
            if slots[2 * slot] == first and (entry & ~_IDENTITY_BITS) == code:
                identity = (entry & _IDENTITY_BITS) - 1
                start = starts[identity]
                if length <= 8 or (
                    starts[identity + 1] - start == length
                    and _same_bytes(arena, start, data, begin, length)
                ):
                    found = identity
                    break
            slot = (slot + np.uint64(1)) & slot_mask
        if found < 0 and insert:
            if count >= count_limit or starts[count] + length > arena.size:
                break
            _copy_bytes(data, begin, end, arena, starts[count])
            starts[count + 1] = starts[count] + length
            slots[2 * slot] = first
            slots[2 * slot + np.uint64(1)] = code | (count + 1)
            found = count
            count += 1
        ids[row] = found
        row += 1
    state[_COUNT] = count
    return row


@_KERNELS.kernel(INT64_IN, INT64_OUT)
def _move_slots(old: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> None:
    """Enter all full slots into a larger, empty table."""
    slot_mask = np.uint64(new.size // 2 - 1)
    for index in range(old.size // 2):
        entry = old[2 * index + 1]
        if entry == 0:
            continue
        first = old[2 * index]
        length = entry >> 32
        mixed = np.uint64(first)
        if length < _LONG_CODE:
            mixed = _hash_short(mixed, length)
        slot = mixed & slot_mask
        while new[2 * slot + np.uint64(1)] != 0:
            slot = (slot + np.uint64(1)) & slot_mask
        new[2 * slot] = first
        new[2 * slot + np.uint64(1)] = entry


StringContents = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.bool_]]
"""Bytes, offsets (int64[n + 1]), and validity (bool[n], or empty where nothing is null)."""


class StringTable:
    """Growing table of distinct byte strings; a null is one further string of its own."""

    def __init__(self) -> None:
        load_kernels()
        self._slots = np.zeros(2 * 1024, dtype=np.int64)
        self._starts = np.zeros(257, dtype=np.int64)
        self._arena = np.empty(4096, dtype=np.uint8)
        self._state = np.array([0, -1], dtype=np.int64)

    @property
    def size(self) -> int:
        """Number of distinct strings, the null included."""
        return int(self._state[_COUNT])

    @property
    def nbytes(self) -> int:
        """Bytes held by the table."""
        return self._slots.nbytes + self._starts.nbytes + self._arena.nbytes

    def ids(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        validity: npt.NDArray[np.bool_],
        insert: bool,
    ) -> npt.NDArray[np.int64]:
        """Return int64[n] ids of the strings data[offsets[i]:offsets[i + 1]].

        `validity` is bool[n], or empty when there are no nulls. Without `insert` an unknown
        string gets -1. Raises OverflowError beyond 2^31 - 2 strings.
        """
        rows = offsets.size - 1
        ids = np.empty(rows, dtype=np.int64)
        row = 0
        while True:
            row = _find_strings(
                data,
                offsets,
                validity,
                row,
                insert,
                self._slots,
                self._starts,
                self._arena,
                self._state,
                ids,
            )
            if row == rows:
                return ids
            self._grow(int(offsets[row + 1] - offsets[row]))

    def contents(self) -> StringContents:
        """Return (bytes, int64[size + 1] offsets, bool[size] validity or empty) in id order.

        The arrays are views; what they show never changes, as the table only appends.
        """
        starts = self._starts[: self.size + 1]
        validity = np.empty(0, dtype=np.bool_)
        null_id = int(self._state[_NULL_ID])
        if null_id >= 0:
            validity = np.ones(self.size, dtype=np.bool_)
            validity[null_id] = False
        return self._arena[: int(starts[-1])], starts, validity

    def _grow(self, length: int) -> None:
        """Make room for at least one more string of this length."""
        size = self.size
        if size >= _MAXIMUM_GROUPS:
            raise OverflowError(f"more than {_MAXIMUM_GROUPS} distinct strings in one table")
        if size >= self._slots.size // 4:
            slots = np.zeros(self._slots.size * (4 if size < 1 << 20 else 2), dtype=np.int64)
            _move_slots(self._slots, slots)
            self._slots = slots
        if size >= self._starts.size - 1:
            starts = np.empty(2 * self._starts.size - 1, dtype=np.int64)
            starts[: size + 1] = self._starts[: size + 1]
            self._starts = starts
        used = int(self._starts[size])
        if used + length > self._arena.size:
            arena = np.empty(max(2 * self._arena.size, used + length), dtype=np.uint8)
            arena[:used] = self._arena[:used]
            self._arena = arena
