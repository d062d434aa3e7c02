"""Between Arrow columns and what kernels read: 64-bit words, byte ranges and validity masks.

A fixed-width value becomes one or more int64 words such that two values are the same key if and
only if their words are equal: -0.0 is written as 0.0, and every NaN as one NaN.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NO_MASK = np.empty(0, dtype=np.bool_)
_NO_MASK.flags.writeable = False


def is_bytes_type(value_type: pa.DataType) -> bool:
    """Whether values of this type are byte strings to the kernels."""
    types = pa.types
    return bool(
        types.is_string(value_type)
        or types.is_large_string(value_type)
        or types.is_binary(value_type)
        or types.is_large_binary(value_type)
        or types.is_fixed_size_binary(value_type)
    )


def word_count(value_type: pa.DataType) -> int:
    """Words per value of a fixed-width type. Raises TypeError for a type that cannot be a key."""
    types = pa.types
    if types.is_decimal(value_type):
        return value_type.bit_width // 64 if value_type.bit_width > 64 else 1
    if (
        types.is_boolean(value_type)
        or types.is_integer(value_type)
        or types.is_floating(value_type)
        or types.is_date(value_type)
        or types.is_time(value_type)
        or types.is_timestamp(value_type)
        or types.is_duration(value_type)
    ):
        return 1
    raise TypeError(
        f"a column of type {value_type} cannot be a key: use a number, boolean, date, time, "
        "timestamp, duration, decimal, string or binary column"
    )


def validity_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return bool[n], true where a value is present, or an empty array if all are."""
    if array.null_count == 0:
        return _NO_MASK
    mask: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _number_type(value_type: pa.DataType) -> np.dtype[Any]:
    """The NumPy type with the memory layout of this Arrow type."""
    if pa.types.is_floating(value_type):
        return np.dtype(f"f{value_type.bit_width // 8}")
    if pa.types.is_unsigned_integer(value_type):
        return np.dtype(f"u{value_type.bit_width // 8}")
    return np.dtype(f"i{min(value_type.bit_width, 64) // 8}")


def fixed_values(array: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a fixed-width array in its own width, without a copy where possible.

    Decimals above 64 bits give their words one after the other. A null has an arbitrary value.
    """
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    dtype = _number_type(array.type)
    words = word_count(array.type)
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array) * words, dtype=dtype)
    first = array.offset * words * dtype.itemsize
    return np.frombuffer(buffer, dtype=dtype, count=len(array) * words, offset=first)


def canonical_words(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return int64[words, n]: equal words mean equal keys. A null has arbitrary words."""
    values = fixed_values(array)
    if pa.types.is_floating(array.type):
        wide = values.astype(np.float64)
        wide += 0.0
        wide[np.isnan(wide)] = np.nan
        values = wide.view(np.int64)
    elif values.dtype == np.uint64:
        values = values.view(np.int64)
    elif values.dtype != np.int64:
        values = values.astype(np.int64)
    words = word_count(array.type)
    if words == 1:
        return values.reshape(1, -1)
    return np.ascontiguousarray(values.reshape(-1, words).T)


def words_to_array(
    words: npt.NDArray[np.int64], validity: npt.NDArray[np.bool_], value_type: pa.DataType
) -> pa.Array:
    """The inverse of `canonical_words`: words[n, k] and bool[n] (or empty) to an Arrow array."""
    rows = words.shape[0]
    buffer = _validity_buffer(validity)
    if pa.types.is_boolean(value_type):
        data = np.packbits(words[:, 0] != 0, bitorder="little")
    elif pa.types.is_floating(value_type):
        floats = np.ascontiguousarray(words[:, 0]).view(np.float64)
        data = floats.astype(_number_type(value_type))
    else:
        data = np.ascontiguousarray(words).astype(_number_type(value_type))
    return pa.Array.from_buffers(value_type, rows, [buffer, pa.py_buffer(data)])


def byte_ranges(
    array: pa.Array,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return (uint8 data, int64[n + 1] offsets) of a string or binary array."""
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if large else np.int32)
    _, offset_buffer, data_buffer = array.buffers()
    if offset_buffer is None or len(array) == 0:
        return np.empty(0, dtype=np.uint8), np.zeros(len(array) + 1, dtype=np.int64)
    offsets = np.frombuffer(
        offset_buffer,
        dtype=dtype,
        count=len(array) + 1,
        offset=array.offset * dtype.itemsize,
    ).astype(np.int64, copy=False)
    if data_buffer is None:
        return np.empty(0, dtype=np.uint8), offsets
    return np.frombuffer(data_buffer, dtype=np.uint8), offsets


def bytes_to_array(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    value_type: pa.DataType,
) -> pa.Array:
    """The inverse of `byte_ranges`, for the original type.

    Raises OverflowError if a type with 32-bit offsets would have to hold more than 2 GiB.
    """
    types = pa.types
    large = types.is_large_string(value_type) or types.is_large_binary(value_type)
    direct = large or types.is_string(value_type) or types.is_binary(value_type)
    stored_type = value_type if direct else pa.large_binary()
    if direct and not large:
        if int(offsets[-1]) > np.iinfo(np.int32).max:
            raise OverflowError(
                f"{int(offsets[-1])} bytes of keys do not fit type {value_type}; "
                f"use large_{value_type}"
            )
        stored_offsets: npt.NDArray[Any] = offsets.astype(np.int32)
    else:
        stored_offsets = offsets
    array = pa.Array.from_buffers(
        stored_type,
        offsets.size - 1,
        [_validity_buffer(validity), pa.py_buffer(stored_offsets), pa.py_buffer(data)],
    )
    return array if direct else array.cast(value_type)


def taken_bytes(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    value_type: pa.DataType,
    places: npt.NDArray[np.int64],
) -> pa.Array:
    """The values at some places (int64[n]) of what `bytes_to_array` gives; costs by n, but for nulls.

    Raises OverflowError if a type with 32-bit offsets would have to hold more than 2 GiB.
    """
    nulls = validity.size > 0 and not validity[places].all()
    known = _validity_buffer(validity) if nulls else None
    stored = [known, pa.py_buffer(offsets), pa.py_buffer(data)]
    values = pa.Array.from_buffers(pa.large_binary(), offsets.size - 1, stored).take(
        pa.array(places)
    )
    if pa.types.is_large_binary(value_type):
        return values
    if not pa.types.is_fixed_size_binary(value_type):
        return bytes_to_array(*byte_ranges(values), validity_mask(values), value_type)
    return values.cast(value_type)


def _validity_buffer(validity: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    if validity.size == 0 or bool(validity.all()):
        return None
    return pa.py_buffer(np.packbits(validity, bitorder="little"))
