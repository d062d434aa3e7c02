"""Schema-checked msgpack: a set of messages, each a frozen dataclass whose fields are its schema.

On the wire a message is ``[kind, {field: value, …}]``. Every field of the kind must be there with a
value of its type, and no other: what comes from outside is either a message of the set or a
ProtocolError.

Types: int is any int64 and never a bool; float takes no int (writing converts); tuples of any length and
of a fixed one, named tuples, dicts with text keys and messages nest. Tuples of a fixed number of ints, rows,
come up to MOST_ROWS in a tuple.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import types
import typing
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

import msgpack

from streammine.model.errors import ProtocolError

MOST_ROWS = 4096
"""In a tuple of rows: whoever gets them can do nothing else meanwhile."""

_DEEPEST_PAYLOAD = 32
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

Payload = dict[str, Any]
"""A free tree: None, bool, int, float, str, bytes, lists and dicts with text keys."""

Message = TypeVar("Message")


class Vocabulary(Generic[Message]):
    """The messages that one kind of connection knows. `what` is one of them, in errors."""

    def __init__(self, what: str, messages: tuple[type[Any], ...], maximum_bytes: int) -> None:
        self._what = what
        self._kinds = {kind.__name__: kind for kind in messages}
        self._maximum_bytes = maximum_bytes

    def encode(self, message: Message) -> bytes:
        """The message's bytes. Wrong types are our own bug and fail an assertion.

        Raises ProtocolError when it is too long.
        """
        kind = type(message)
        name = kind.__name__
        assert self._kinds.get(name) is kind, f"{name} is no {self._what}"
        tree = [name, _codec(typing.cast(Hashable, kind)).write(message, name)]
        # a user's error may hold what UTF-8 can't, and must be told all the same
        data: bytes = msgpack.packb(tree, use_bin_type=True, unicode_errors="backslashreplace")
        self._check_length(len(data), name)
        return data

    def decode(self, data: bytes | memoryview) -> Message:
        """Raises ProtocolError for anything but a whole message of a known kind."""
        self._check_length(len(data), "message")
        try:
            tree = msgpack.unpackb(data, raw=False, strict_map_key=True, use_list=True)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise ProtocolError(f"{self._what} is not msgpack: {error}") from None
        if not (isinstance(tree, list) and len(tree) == 2 and isinstance(tree[0], str)):
            raise ProtocolError(f"{self._what} should be [kind, fields]")
        kind = self._kinds.get(tree[0])
        if kind is None:
            raise ProtocolError(
                f"{self._what} of unknown kind {tree[0][:64]!r}; known are {', '.join(self._kinds)}"
            )
        message: Message = _codec(typing.cast(Hashable, kind)).read(tree[1], kind.__name__)
        return message

    def _check_length(self, length: int, what: str) -> None:
        if length > self._maximum_bytes:
            raise ProtocolError(
                f"{what} of {length} bytes; {self._what}s have at most {self._maximum_bytes}"
            )


@dataclass(frozen=True, slots=True)
class _Codec:
    """How one type is written to and read from msgpack's trees; `where` is for messages."""

    write: Callable[[Any, str], Any]
    read: Callable[[Any, str], Any]


@functools.cache
def _codec(kind: Any) -> _Codec:
    origin = typing.get_origin(kind)
    if kind == Payload:
        return _Codec(_write_payload, _read_payload)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if dataclasses.is_dataclass(kind):
        return _record_codec(typing.cast(type[Any], kind))
    arguments = typing.get_args(kind)
    if origin is tuple and arguments[1:] == (...,):
        if set(typing.get_args(arguments[0])) == {int}:
            return _rows_codec(typing.get_args(arguments[0]))
        return _sequence_codec(_codec(arguments[0]))
    if origin is tuple:
        return _fixed_codec(arguments, lambda *fields: fields)
    if hasattr(kind, "_fields"):
        return _fixed_codec(tuple(typing.get_type_hints(kind).values()), kind)
    if origin is dict:
        assert arguments[0] is str, f"dicts with text keys only: {kind}"
        return _mapping_codec(_codec(arguments[1]))
    assert origin is types.UnionType, f"no codec for {kind}"
    assert arguments[1:] == (types.NoneType,), f"no codec for {kind}"
    return _optional_codec(_codec(arguments[0]))


def _record_codec(kind: type[Any]) -> _Codec:
    hints = typing.get_type_hints(kind)
    fields = [(name, _codec(hints[name])) for name in (f.name for f in dataclasses.fields(kind))]
    names = frozenset(hints)

    def write(value: Any, where: str) -> Any:
        assert type(value) is kind, f"{where}: {value!r} is no {kind.__name__}"
        return {name: codec.write(getattr(value, name), name) for name, codec in fields}

    def read(tree: Any, where: str) -> Any:
        if not isinstance(tree, dict):
            raise _wrong(where, f"the fields of {kind.__name__}", tree)
        if tree.keys() != names:
            missing, unknown = sorted(names - tree.keys()), sorted(tree.keys() - names)
            raise ProtocolError(
                f"{where}: fields of {kind.__name__} missing: {missing}, unknown: {unknown[:8]}"
            )
        return kind(*[codec.read(tree[name], f"{where}.{name}") for name, codec in fields])

    return _Codec(write, read)


def _sequence_codec(item: _Codec) -> _Codec:
    def write(value: Any, where: str) -> Any:
        assert isinstance(value, tuple), f"{where}: {value!r} is no tuple"
        return [item.write(entry, where) for entry in value]

    def read(tree: Any, where: str) -> Any:
        if not isinstance(tree, list):
            raise _wrong(where, "a list", tree)
        return tuple([item.read(entry, where) for entry in tree])

    return _Codec(write, read)


def _fixed_codec(kinds: tuple[Any, ...], build: Callable[..., tuple[Any, ...]]) -> _Codec:
    """A tuple of a fixed length."""
    codecs = [_codec(kind) for kind in kinds]

    def write(value: Any, where: str) -> Any:
        assert isinstance(value, tuple), f"{where}: {value!r} is no tuple"
        return [codec.write(entry, where) for codec, entry in zip(codecs, value, strict=True)]

    def read(tree: Any, where: str) -> Any:
        if not isinstance(tree, list) or len(tree) != len(codecs):
            raise _wrong(where, f"a list of {len(codecs)}", tree)
        return build(*(codec.read(entry, where) for codec, entry in zip(codecs, tree, strict=True)))

    return _Codec(write, read)


def _rows_codec(columns: tuple[Any, ...]) -> _Codec:
    """Rows of ints: there are thousands in a message, so nothing is called for each."""
    assert set(columns) == {int}, f"rows of ints only, not {columns}"
    width = len(columns)

    def are_rows(rows: Any, sequence: type[list[Any]] | type[tuple[Any, ...]]) -> bool:
        if not isinstance(rows, sequence) or len(rows) > MOST_ROWS:
            return False
        if not rows:
            return True
        if set(map(type, rows)) != {sequence} or set(map(len, rows)) != {width}:
            return False
        if set(map(type, chain.from_iterable(rows))) != {int}:
            return False
        lowest: int = min(map(min, rows))
        highest: int = max(map(max, rows))
        return lowest >= _LOWEST and highest <= _HIGHEST

    def write(value: Any, where: str) -> Any:
        assert are_rows(value, tuple), f"{where}: {reprlib.repr(value)} are no rows of {width} ints"
        return value

    def read(tree: Any, where: str) -> Any:
        if not are_rows(tree, list):
            raise _wrong(where, f"up to {MOST_ROWS} rows of {width} int64", tree)
        return tuple(map(tuple, tree))

    return _Codec(write, read)


def _mapping_codec(item: _Codec) -> _Codec:
    def write(value: Any, where: str) -> Any:
        assert isinstance(value, dict), f"{where}: {value!r} is no dict"
        return {_TEXT.write(key, where): item.write(entry, where) for key, entry in value.items()}

    def read(tree: Any, where: str) -> Any:
        if not isinstance(tree, dict):
            raise _wrong(where, "a map", tree)
        return {_TEXT.read(key, where): item.read(entry, where) for key, entry in tree.items()}

    return _Codec(write, read)


def _optional_codec(item: _Codec) -> _Codec:
    return _Codec(
        lambda value, where: None if value is None else item.write(value, where),
        lambda tree, where: None if tree is None else item.read(tree, where),
    )


def _write_int(value: Any, where: str) -> Any:
    assert type(value) is int, f"{where}: {value!r} is no int"
    assert _LOWEST <= value <= _HIGHEST, f"{where}: {value} is no int64"
    return value


def _read_int(tree: Any, where: str) -> Any:
    if type(tree) is not int or not _LOWEST <= tree <= _HIGHEST:
        raise _wrong(where, "an int64", tree)
    return tree


def _write_float(value: Any, where: str) -> Any:
    assert isinstance(value, int | float), f"{where}: {value!r} is no number"
    assert not isinstance(value, bool), f"{where}: {value!r} is no number"
    return float(value)


def _read_float(tree: Any, where: str) -> Any:
    if type(tree) is not float:
        raise _wrong(where, "a float", tree)
    return tree


def _exact_codec(kind: type, name: str) -> _Codec:
    def write(value: Any, where: str) -> Any:
        assert isinstance(value, kind), f"{where}: {value!r} is not {name}"
        return value

    def read(tree: Any, where: str) -> Any:
        if not isinstance(tree, kind):
            raise _wrong(where, name, tree)
        return tree

    return _Codec(write, read)


_TEXT = _exact_codec(str, "text")

_SCALARS: dict[Any, _Codec] = {
    int: _Codec(_write_int, _read_int),
    float: _Codec(_write_float, _read_float),
    str: _TEXT,
    bool: _exact_codec(bool, "a bool"),
    bytes: _exact_codec(bytes, "bytes"),
}


def _write_payload(value: Any, where: str) -> Any:
    assert isinstance(value, dict), f"{where}: {value!r} is no dict"
    try:
        return _read_payload(value, where)
    except ProtocolError as error:
        raise AssertionError(str(error)) from None


def _read_payload(tree: Any, where: str) -> Any:
    if not isinstance(tree, dict):
        raise _wrong(where, "a map", tree)
    return _payload_tree(tree, where, 0)


def _payload_tree(tree: Any, where: str, depth: int) -> Any:
    if depth > _DEEPEST_PAYLOAD:
        raise ProtocolError(f"{where}: nested more than {_DEEPEST_PAYLOAD} deep")
    if tree is None or isinstance(tree, bool | float | str | bytes):
        return tree
    if isinstance(tree, int):
        return _read_int(tree, where)
    if type(tree) in (list, tuple):
        return [_payload_tree(entry, where, depth + 1) for entry in tree]
    if isinstance(tree, dict):
        return {
            _TEXT.read(key, where): _payload_tree(entry, where, depth + 1)
            for key, entry in tree.items()
        }
    raise _wrong(where, "plain data", tree)


def _wrong(where: str, expected: str, tree: Any) -> ProtocolError:
    return ProtocolError(f"{where}: expected {expected}, not {reprlib.repr(tree)}")
