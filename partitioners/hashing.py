"""Slices by a hash of the key that is the same over processes, machines and releases.

The hash is part of the promise that output does not depend on where and when a job runs, and of
what is on disk; golden values in tests/unit/test_partitioners.py hold it fast.

Values that are equal hash alike whatever the width of their column: integers of all sizes and bools
as 64-bit integers; floats as 64-bit floats, -0.0 as 0.0 and every NaN as one; dates, timestamps,
times and durations as nanoseconds; decimals of one scale as 256-bit integers; texts and binaries as
their bytes.

A column's values are folded into a running 64-bit hash, word by word, with the finalizer of
splitmix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators"). The slice
is the upper half of hash times slices, ``((hash >> 32) * slices) >> 32``, which needs no division
and uses the best mixed bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.errors import TopologyError

Words = npt.NDArray[np.uint64]

_SEED = np.uint64(0x243F6A8885A308D3)
_NULL = np.uint64(0x13198A2E03707344)
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_NANOSECONDS = 86_400 * 10**9


class Hash:
    """Partitions by a stable hash of the key columns.

    Without key columns all rows go to slice 0.
    """

    broadcast = False

    def prepare(self) -> None:
        """See contracts.Prepares."""
        _kernels()

    def targets(self, keys: Sequence[pa.Array], slices: int) -> npt.NDArray[np.int32]:
        """See contracts.Partitioner. Raises TopologyError for a column that can't be a key."""
        if not keys:
            raise TopologyError(
                "hash: there are no key columns; name them (`key`) or use one slice"
            )
        targets = np.zeros(len(keys[0]), dtype=np.int32)
        if slices > 1:
            _kernels().spread(key_hashes(keys), np.uint64(slices), targets)
        return targets


def key_hashes(keys: Sequence[pa.Array]) -> Words:
    """64-bit hash of each key row (uint64[n]). Raises TopologyError."""
    hashes = np.full(len(keys[0]), _SEED, dtype=np.uint64)
    for column in keys:
        _fold_column(column, hashes)
    return hashes


@cache
def _kernels() -> ModuleType:
    """Loaded for whoever hashes rows; most commands only look at topologies."""
    from partitioners import kernels

    return kernels


def _fold_column(column: pa.Array, hashes: Words) -> None:
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_null(kind):
        _kernels().fold_words(np.full(len(column), _NULL), hashes)
        return
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    before = hashes[nulls] if nulls is not None else None
    if _is_bytes(kind):
        data, offsets = _byte_ranges(column)
        _kernels().fold_bytes(data, offsets, hashes)
    else:
        for words in _words(column):
            _kernels().fold_words(words, hashes)
    if nulls is not None and before is not None:
        _kernels().fold_words(np.full(len(before), _NULL), before)
        hashes[nulls] = before


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _byte_ranges(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """(bytes, int64[n + 1] offsets) of a text or binary column."""
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        column = column.cast(pa.large_binary())
        width: np.dtype[Any] = np.dtype(np.int64)
    else:
        width = np.dtype(np.int32)
    _, offset_buffer, data_buffer = column.buffers()
    if not len(column):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(
        offset_buffer, width, count=len(column) + 1, offset=column.offset * width.itemsize
    ).astype(np.int64)
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return data, offsets


def _words(column: pa.Array) -> list[Words]:
    """Words of a fixed-width column, least significant first; nulls have arbitrary ones."""
    kind = column.type
    types = pa.types
    if types.is_boolean(kind):
        return [_fixed(column.cast(pa.uint8())).astype(np.uint64)]
    if types.is_unsigned_integer(kind):
        return [_fixed(column).astype(np.uint64)]
    if types.is_integer(kind):
        return [_fixed(column).astype(np.int64).view(np.uint64)]
    if types.is_floating(kind):
        floats = _fixed(column).astype(np.float64) + 0.0
        floats[np.isnan(floats)] = np.nan
        return [floats.view(np.uint64)]
    if types.is_decimal(kind):
        wide = _fixed(pc.cast(column, pa.decimal256(76, kind.scale)))
        return [np.ascontiguousarray(wide[number::4]) for number in range(4)]
    if types.is_temporal(kind):
        return [_nanoseconds(column)]
    raise TopologyError(
        f"a column of type {kind} can't be a key; use a number, text, date, timestamp or binary"
    )


def _nanoseconds(column: pa.Array) -> Words:
    """Ticks as nanoseconds modulo 2**64: equal moments are equal whatever their unit."""
    kind = column.type
    if pa.types.is_date32(kind):
        factor = _DAY_NANOSECONDS
    elif pa.types.is_date64(kind):
        factor = _NANOSECONDS["ms"]
    elif hasattr(kind, "unit"):
        factor = _NANOSECONDS[kind.unit]
    else:
        raise TopologyError(f"a column of type {kind} can't be a key")
    ticks = _fixed(column.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
    words: Words = ticks.astype(np.int64).view(np.uint64) * np.uint64(factor)
    return words


def _fixed(column: pa.Array) -> npt.NDArray[np.generic]:
    """Values of a fixed-width column without a copy; a 256-bit decimal gives four words each."""
    kind = column.type
    words = 4 if pa.types.is_decimal(kind) else 1
    dtype = np.dtype(np.uint64) if words == 4 else np.dtype(kind.to_pandas_dtype())
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column) * words, dtype)
    values: npt.NDArray[np.generic] = np.frombuffer(
        buffer, dtype, count=len(column) * words, offset=column.offset * words * dtype.itemsize
    )
    return values
