"""Plain Python data as bytes and back, exactly and without pickle.

None, bool, int of any size, float, str, bytes, and lists, tuples, dicts, sets and frozensets of
plain data, as msgpack with extension types; decimals too. What comes back is equal and of the same
types.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgpack

_BIG_INTEGER, _TUPLE, _SET, _FROZENSET, _DECIMAL = 1, 2, 3, 4, 5
_NATIVE = frozenset([type(None), bool, int, float, str, bytes])
SCALARS = _NATIVE | {Decimal}


class NotPlainError(TypeError):
    """A value of a type that isn't plain data. The message says what would be right."""


def encode(value: Any) -> bytes:
    """The value as bytes. Dicts keep their order, sets are sorted by their encoding.

    Raises NotPlainError.
    """
    try:
        packed: bytes = msgpack.packb(value, strict_types=True, default=_extension)
    except (OverflowError, ValueError) as error:
        raise NotPlainError(f"{type(value).__name__} can't be encoded: {error}") from None
    return packed


def encode_canonical(value: Any) -> bytes:
    """Like `encode`, with dicts sorted by their encoded keys: equal values give equal bytes."""
    return encode(value if type(value) in SCALARS else _sorted(value))


def encode_all_canonical(values: list[Any]) -> list[bytes]:
    """`encode_canonical` of each value, quick where all are numbers or texts."""
    if set(map(type, values)) <= _NATIVE:
        try:
            return list(map(msgpack.Packer().pack, values))
        except OverflowError:
            return [encode_canonical(value) for value in values]
    return [encode_canonical(value) for value in values]


def decode(data: bytes) -> Any:
    """The inverse of `encode`."""
    return msgpack.unpackb(data, ext_hook=_from_extension, strict_map_key=False, use_list=True)


def _extension(value: Any) -> msgpack.ExtType:
    kind = type(value)
    if kind is int:
        size = value.bit_length() // 8 + 1
        return msgpack.ExtType(_BIG_INTEGER, value.to_bytes(size, "little", signed=True))
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, encode(list(value)))
    if kind is set or kind is frozenset:
        members = b"".join(sorted(map(encode, value)))
        return msgpack.ExtType(_SET if kind is set else _FROZENSET, members)
    if kind is Decimal:
        return msgpack.ExtType(_DECIMAL, str(value).encode("ascii"))
    raise NotPlainError(
        f"{kind.__module__}.{kind.__qualname__} is not plain data (None, bool, int, float, "
        "str, bytes, Decimal, and lists, tuples, dicts, sets of them)"
    )


def _from_extension(code: int, data: bytes) -> Any:
    if code == _BIG_INTEGER:
        return int.from_bytes(data, "little", signed=True)
    if code == _TUPLE:
        return tuple(decode(data))
    if code in (_SET, _FROZENSET):
        unpacker = msgpack.Unpacker(
            ext_hook=_from_extension, strict_map_key=False, max_buffer_size=max(1, len(data))
        )
        unpacker.feed(data)
        return set(unpacker) if code == _SET else frozenset(unpacker)
    assert code == _DECIMAL, f"extension {code} was not written by this encoder"
    return Decimal(data.decode("ascii"))


def _sorted(value: Any) -> Any:
    """The value with all dicts inside it sorted."""
    kind = type(value)
    if kind is list:
        return [_sorted(item) for item in value]
    if kind is tuple:
        return tuple([_sorted(item) for item in value])
    if kind is dict:
        pairs = sorted((encode(key), key, item) for key, item in value.items())
        return {key: _sorted(item) for _, key, item in pairs}
    return value
