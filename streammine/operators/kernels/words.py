"""Text lines to words."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.operators.kernels.columns import byte_ranges, validity_mask
from streammine.operators.kernels.compilation import (
    BOOLEAN,
    BYTES_IN,
    BYTES_OUT,
    INT32_OUT,
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    UINT64_IN,
    UINT64_OUT,
    KernelSet,
    helper,
)
from streammine.operators.kernels.machine_words import load_word, store_word, trailing_zeros

_KERNELS = KernelSet("78512f6e")
load_kernels = _KERNELS.load

WordMode = Literal["whitespace", "letters"]

OFFSET_LIMIT = 2**31 - 1
"""Largest offset of an Arrow utf8 array, in bytes."""

_PADDING = 16

# A byte repeated eight times; sums of seven-bit bytes do not carry into their neighbours.
_ONES = 0x0101010101010101
_LOW_BITS = 0x7F * _ONES
_TOP_BITS = 0x80 * _ONES
_CASE_BITS = 0x20 * _ONES
_SPACES = 0x20 * _ONES
_GATHER = 0x0102040810204080


@helper
def _between(word: np.uint64, least: int, greatest: int) -> np.uint64:
    """The top bit of every byte of word & 0x7f.. that lies in [least, greatest]."""
    low = word & np.uint64(_LOW_BITS)
    reached = low + np.uint64((0x80 - least) * _ONES)
    passed = low + np.uint64((0x7F - greatest) * _ONES)
    return reached & ~passed & np.uint64(_TOP_BITS)


@helper
def _letters(word: np.uint64) -> np.uint64:
    """The top bit of every byte that is an ASCII letter."""
    return _between(word | np.uint64(_CASE_BITS), ord("a"), ord("z")) & ~word


@helper
def _white_space(word: np.uint64) -> np.uint64:
    """The top bit of every byte that is ASCII white space: 9 to 13 or 32."""
    other = word ^ np.uint64(_SPACES)
    no_space = ((other & np.uint64(_LOW_BITS)) + np.uint64(_LOW_BITS)) | other
    return (_between(word, 9, 13) & ~word) | (~no_space & np.uint64(_TOP_BITS))


@helper
def _lowered(word: np.uint64) -> np.uint64:
    upper = _letters(word) & ~(word << np.uint64(2))
    return word | (upper >> np.uint64(2))


@helper
def _bytes_at(data: npt.NDArray[np.uint8], position: int) -> np.uint64:
    """Eight bytes, or as many as there are, with zeros for the rest."""
    if position + 8 <= data.size:
        return load_word(data, position)  # type: ignore[no-any-return]
    word = np.uint64(0)
    for index in range(position, data.size):
        word |= np.uint64(data[index]) << np.uint64(8 * (index - position))
    return word


@helper
def _word_bits(word: np.uint64, letters_only: bool) -> np.uint64:
    """One bit for each of eight bytes, set if it belongs to a word."""
    inside = _letters(word) if letters_only else ~_white_space(word)
    inside = (inside >> np.uint64(7)) & np.uint64(_ONES)
    return (inside * np.uint64(_GATHER)) >> np.uint64(56)


@_KERNELS.kernel(BYTES_IN, INT64, INT64, BOOLEAN, UINT64_OUT)
def _mark_words(
    data: npt.NDArray[np.uint8],
    begin: int,
    end: int,
    letters_only: bool,
    marks: npt.NDArray[np.uint64],
) -> None:
    """Set one bit for each byte of data[begin:end] that belongs to a word."""
    full_blocks = (end - begin) // 64
    for block in range(marks.size):
        gathered = np.uint64(0)
        position = begin + 64 * block
        if block < full_blocks:
            for part in range(8):
                word = load_word(data, position + 8 * part)
                gathered |= _word_bits(word, letters_only) << np.uint64(8 * part)
        else:
            for part in range(8):
                word = _bytes_at(data, min(position + 8 * part, data.size))
                gathered |= _word_bits(word, letters_only) << np.uint64(8 * part)
            gathered &= ~(~np.uint64(0) << np.uint64((end - begin) & 63))
        marks[block] = gathered


@_KERNELS.kernel(INT64_IN, MASK_IN, UINT64_OUT, UINT64_OUT)
def _mark_rows(
    offsets: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    marks: npt.NDArray[np.uint64],
    borders: npt.NDArray[np.uint64],
) -> None:
    """Set the bit of each row's first byte in borders; clear the bytes of null rows in marks."""
    first = offsets[0]
    for row in range(offsets.size - 1):
        begin, end = offsets[row] - first, offsets[row + 1] - first
        borders[begin >> 6] |= np.uint64(1) << np.uint64(begin & 63)
        if validity.size > 0 and not validity[row]:
            for position in range(begin, end):
                marks[position >> 6] &= ~(np.uint64(1) << np.uint64(position & 63))


@_KERNELS.kernel(UINT64_IN, UINT64_IN, INT64_OUT, INT64_OUT)
def _find_words(
    marks: npt.NDArray[np.uint64],
    borders: npt.NDArray[np.uint64],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> int:
    """Write where the runs of marks start and end, cut at the borders; return their number.

    The last mark must be clear. Starts and ends are found apart, 64 bytes at a time, so that no
    step has to wait for the position the one before it found.
    """
    one = np.uint64(1)
    start_count = 0
    end_count = 0
    before = np.uint64(0)
    for block in range(marks.size):
        bits = marks[block]
        previous = (bits << one) | before
        before = bits >> np.uint64(63)
        found = bits & (~previous | borders[block])
        while found != 0:
            starts[start_count] = 64 * block + trailing_zeros(found)
            start_count += 1
            found &= found - one
        found = previous & (~bits | borders[block])
        while found != 0:
            ends[end_count] = 64 * block + trailing_zeros(found)
            end_count += 1
            found &= found - one
    return start_count


@_KERNELS.kernel(
    BYTES_IN,
    INT64_IN,
    INT64_IN,
    INT64_IN,
    BOOLEAN,
    BYTES_OUT,
    INT32_OUT,
    INT64_OUT,
)
def _copy_words(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    lower: bool,
    target: npt.NDArray[np.uint8],
    word_offsets: npt.NDArray[np.int32],
    parents: npt.NDArray[np.int64],
) -> int:
    """Write the words one after the other and the row of each; return the number of bytes.

    Sixteen bytes are copied at a time, so that few words need a second round; what is too much
    is overwritten by the next word.
    """
    written = 0
    word_offsets[0] = 0
    row = 0
    for word in range(starts.size):
        start = offsets[0] + starts[word]
        end = offsets[0] + ends[word]
        while offsets[row + 1] <= start:
            row += 1
        parents[word] = row
        for index in range(0, end - start, 16):
            for half in range(index, index + 16, 8):
                part = _bytes_at(data, start + half)
                store_word(target, written + half, _lowered(part) if lower else part)
        written += end - start
        word_offsets[word + 1] = np.int32(written)
    return written


def split_words(
    array: pa.Array, mode: WordMode = "whitespace", lower: bool = False
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Split every line into its words, in order.

    Args:
        array: utf8 or large_utf8 lines; a null line has no words.
        mode: 'whitespace' takes the non-empty runs between ASCII white space (space, tab, line
            feed, vertical tab, form feed, carriage return); 'letters' takes the runs of A-Z and
            a-z, so that every other byte, also of a letter beyond ASCII, separates.
        lower: whether A-Z become a-z; other bytes stay.

    Returns:
        The words as one utf8 array without nulls, and int64[words], the row of each word.

    Raises:
        TypeError: array holds no strings. ValueError: the mode is unknown.
        OverflowError: the words have more than 2 GiB; split the batch.
    """
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise TypeError(f"words are split from utf8 or large_utf8, not from {array.type}")
    if mode not in ("whitespace", "letters"):
        raise ValueError(f"unknown word mode {mode!r}; use 'whitespace' or 'letters'")
    load_kernels()
    data, offsets = byte_ranges(array)
    begin, end = int(offsets[0]), int(offsets[-1])
    # One bit more than bytes, so that a word at the very end is seen to end.
    marks = np.empty((end - begin) // 64 + 1, dtype=np.uint64)
    borders = np.zeros(marks.size, dtype=np.uint64)
    _mark_words(data, begin, end, mode == "letters", marks)
    _mark_rows(offsets, validity_mask(array), marks, borders)
    # Every word but a row's last is followed by a separator.
    word_limit = (end - begin + len(array)) // 2
    starts = np.empty(word_limit, dtype=np.int64)
    ends = np.empty(word_limit, dtype=np.int64)
    words = _find_words(marks, borders, starts, ends)
    target = np.empty(end - begin + _PADDING, dtype=np.uint8)
    word_offsets = np.empty(words + 1, dtype=np.int32)
    parents = np.empty(words, dtype=np.int64)
    size = _copy_words(
        data, offsets, starts[:words], ends[:words], lower, target, word_offsets, parents
    )
    if size > OFFSET_LIMIT:
        raise OverflowError(
            f"the words of one batch have {size} bytes, a utf8 array holds {OFFSET_LIMIT}; "
            "use smaller batches"
        )
    buffers = [None, pa.py_buffer(word_offsets), pa.py_buffer(target)]
    return pa.Array.from_buffers(pa.utf8(), words, buffers), parents
