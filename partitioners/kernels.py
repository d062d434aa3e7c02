"""The loops of the hash, compiled.

Each has one signature, so nothing is compiled while a job runs.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import types

_WORDS_IN = types.Array(types.uint64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "C")
_BYTES_IN = types.Array(types.uint8, 1, "C", readonly=True)
_OFFSETS_IN = types.Array(types.int64, 1, "C", readonly=True)
_TARGETS = types.Array(types.int32, 1, "C")


def _kernel(*arguments: Any) -> Any:
    signature = types.void(*arguments)
    return numba.njit(signature, cache=True, nogil=True, error_model="numpy")


@numba.njit(inline="always")
def _mixed(word: Any) -> Any:
    """The finalizer of splitmix64."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@_kernel(_WORDS_IN, _WORDS)  # type: ignore[untyped-decorator]
def fold_words(words: npt.NDArray[np.uint64], hashes: npt.NDArray[np.uint64]) -> None:
    """Fold one word per row into the running hashes."""
    for row in range(words.size):
        hashes[row] = _mixed((hashes[row] ^ words[row]) + np.uint64(0x9E3779B97F4A7C15))


@_kernel(_BYTES_IN, _OFFSETS_IN, _WORDS)  # type: ignore[untyped-decorator]
def fold_bytes(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.uint64],
) -> None:
    """Fold a byte string per row into the running hashes: its length, then little-endian words."""
    for row in range(hashes.size):
        begin = offsets[row]
        end = offsets[row + 1]
        value = hashes[row] ^ np.uint64(end - begin)
        while begin < end:
            count = min(end - begin, 8)
            word = np.uint64(0)
            if count == 8:
                # Written out, so that the compiler makes one load of it.
                word = (
                    np.uint64(data[begin])
                    | (np.uint64(data[begin + 1]) << np.uint64(8))
                    | (np.uint64(data[begin + 2]) << np.uint64(16))
                    | (np.uint64(data[begin + 3]) << np.uint64(24))
                    | (np.uint64(data[begin + 4]) << np.uint64(32))
                    | (np.uint64(data[begin + 5]) << np.uint64(40))
                    | (np.uint64(data[begin + 6]) << np.uint64(48))
                    | (np.uint64(data[begin + 7]) << np.uint64(56))
                )
            else:
                for index in range(count):
                    word |= np.uint64(data[begin + index]) << np.uint64(8 * index)
            value = _mixed((value ^ word) + np.uint64(0x9E3779B97F4A7C15))
            begin += 8
        if offsets[row] == end:
            value = _mixed(value + np.uint64(0x9E3779B97F4A7C15))
        hashes[row] = value


@_kernel(_WORDS_IN, types.uint64, _TARGETS)  # type: ignore[untyped-decorator]
def spread(
    hashes: npt.NDArray[np.uint64], slices: np.uint64, targets: npt.NDArray[np.int32]
) -> None:
    """The slice of each hash: the upper half of its upper 32 bits times the slices."""
    for row in range(hashes.size):
        targets[row] = np.int32(((hashes[row] >> np.uint64(32)) * slices) >> np.uint64(32))
