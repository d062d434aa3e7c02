"""Control messages between nodes, and between clients and nodes: schema-checked msgpack.

On the wire a message is ``[kind, {field: value, …}]``. Every field of the kind must be there with a
value of its type, and no other: what comes from outside is either a message of this table or a
ProtocolError.

Types: int is any int64 and never a bool; float takes no int (writing converts); tuples, dicts with
text keys and messages nest. The fields of a message are its schema; to add a kind, add it to
`MESSAGES`.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import types
import typing
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import msgpack

from streammine.model.errors import ProtocolError
from streammine.model.snapshots import SnapshotRecord

MAXIMUM_MESSAGE_BYTES = 16 << 20
"""Longest control message."""

_DEEPEST_PAYLOAD = 32
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

Payload = dict[str, Any]
"""A free tree: None, bool, int, float, str, bytes, lists and dicts with text keys."""


@dataclass(frozen=True, slots=True)
class Credit:
    """The receiver's frontier on a link: events of epochs up to it may always be sent.

    Links are named by channel and the generations of the replicas at their two ends.
    """

    job: int
    channel: int
    sender: int
    receiver: int
    frontier: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A receiver wants a link: every frame of epochs from `from_epoch` on. Repeated until confirmed."""

    job: int
    channel: int
    sender: int
    receiver: int
    from_epoch: int
    frontier: int


@dataclass(frozen=True, slots=True)
class ResendRequest:
    """A receiver misses the frames of a link from `sequence` on."""

    job: int
    channel: int
    sender: int
    receiver: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Announce:
    """The sequence number that a link's sender will use next: all below it were sent."""

    job: int
    channel: int
    sender: int
    receiver: int
    next_sequence: int


@dataclass(frozen=True, slots=True)
class SliceReport:
    """What a replica is doing. `slice` is "vertex/index"; the rest as in `recovery.SliceStanding`."""

    slice: str
    generation: int
    phase: str
    frontier: int
    finished: bool
    retained_after: int
    accepted: int
    frozen: int
    last_epoch: int
    final_epoch: int
    snapshots: tuple[SnapshotRecord, ...]
    counters: dict[str, float]


@dataclass(frozen=True, slots=True)
class DamagedSnapshot:
    """A snapshot, by the name of its header, that a slice could not be restored from."""

    slice: str
    generation: int
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobReport:
    """A node's share of a job. `failed` is the error's text."""

    job: int
    plan_version: int
    deployed: bool
    failed: str | None
    slices: tuple[SliceReport, ...]
    damaged: tuple[DamagedSnapshot, ...]


@dataclass(frozen=True, slots=True)
class Directive:
    """What the manager wants of a job at this moment; repeated with its heartbeats.

    `proposed`: the newest checkpoint epoch; `making`: the same while that checkpoint is neither complete nor
    given up, else BEGINNING; `retain_after`: nobody asks for epochs up to it again, as long as plan
    `plan_version` is the newest.
    """

    job: int
    proposed: int
    making: int
    retain_after: int
    plan_version: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a node tells the manager from time to time. `member` is its sequence number among all that ever
    joined; `load` holds CPU, memory, queues by name."""

    node: str
    member: int
    load: dict[str, float]
    jobs: tuple[JobReport, ...]


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """A client asks for one job's state, or, with None, for the cluster's."""

    job: int | None


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """The state asked for."""

    payload: Payload


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A client asks to stop a job."""

    job: int
    reason: str


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """A client asks for a checkpoint, and for the job's end once it is complete; nothing is flushed."""

    job: int


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A client asks to move a slice ("vertex/index") to a node.

    `mode`: "live", or "state-transfer" for the stop-and-copy yardstick.
    """

    job: int
    slice: str
    node: str
    mode: str


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """A client asks to move every slice of all jobs away from a node, and to place none there."""

    node: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """A request could not be served."""

    message: str


ControlMessage = (
    Credit
    | Subscribe
    | ResendRequest
    | Announce
    | Heartbeat
    | Directive
    | StatusRequest
    | StatusAnswer
    | StopRequest
    | SavepointRequest
    | MoveRequest
    | DrainRequest
    | ErrorAnswer
)

MESSAGES: tuple[type[Any], ...] = typing.get_args(ControlMessage)
"""Every kind that may stand on the wire by itself."""

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in MESSAGES}


def encode(message: ControlMessage) -> bytes:
    """The message's bytes. Wrong types are our own bug and fail an assertion.

    Raises ProtocolError when it is longer than MAXIMUM_MESSAGE_BYTES.
    """
    kind = type(message)
    assert _KINDS.get(kind.__name__) is kind, f"{kind.__name__} is no control message"
    tree = [kind.__name__, _codec(typing.cast(Hashable, kind)).write(message, kind.__name__)]
    # a user's error may hold what UTF-8 can't, and must be told all the same
    data: bytes = msgpack.packb(tree, use_bin_type=True, unicode_errors="backslashreplace")
    _check_length(len(data), kind.__name__)
    return data


def decode(data: bytes | memoryview) -> ControlMessage:
    """Raises ProtocolError for anything but a whole message of a known kind."""
    _check_length(len(data), "message")
    try:
        tree = msgpack.unpackb(data, raw=False, strict_map_key=True, use_list=True)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ProtocolError(f"control message is not msgpack: {error}") from None
    if not (isinstance(tree, list) and len(tree) == 2 and isinstance(tree[0], str)):
        raise ProtocolError("control message should be [kind, fields]")
    kind = _KINDS.get(tree[0])
    if kind is None:
        raise ProtocolError(
            f"control message of unknown kind {tree[0][:64]!r}; known are {', '.join(_KINDS)}"
        )
    message: ControlMessage = _codec(typing.cast(Hashable, kind)).read(tree[1], kind.__name__)
    return message


def _check_length(length: int, what: str) -> None:
    if length > MAXIMUM_MESSAGE_BYTES:
        raise ProtocolError(
            f"{what} of {length} bytes; control messages have at most {MAXIMUM_MESSAGE_BYTES}"
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
    if origin is tuple:
        assert arguments[1:] == (...,), f"tuples of one type only: {kind}"
        return _sequence_codec(_codec(arguments[0]))
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


def _mapping_codec(item: _Codec) -> _Codec:
    def write(value: Any, where: str) -> Any:
        assert isinstance(value, dict), f"{where}: {value!r} is no dict"
        return {_write_text(key, where): item.write(entry, where) for key, entry in value.items()}

    def read(tree: Any, where: str) -> Any:
        if not isinstance(tree, dict):
            raise _wrong(where, "a map", tree)
        return {_read_text(key, where): item.read(entry, where) for key, entry in tree.items()}

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


def _write_text(value: Any, where: str) -> Any:
    assert isinstance(value, str), f"{where}: {value!r} is no text"
    return value


def _read_text(tree: Any, where: str) -> Any:
    if not isinstance(tree, str):
        raise _wrong(where, "text", tree)
    return tree


def _write_bool(value: Any, where: str) -> Any:
    assert isinstance(value, bool), f"{where}: {value!r} is no bool"
    return value


def _read_bool(tree: Any, where: str) -> Any:
    if not isinstance(tree, bool):
        raise _wrong(where, "a bool", tree)
    return tree


def _write_bytes(value: Any, where: str) -> Any:
    assert isinstance(value, bytes), f"{where}: {value!r} is no bytes"
    return value


def _read_bytes(tree: Any, where: str) -> Any:
    if not isinstance(tree, bytes):
        raise _wrong(where, "bytes", tree)
    return tree


_SCALARS: dict[Any, _Codec] = {
    int: _Codec(_write_int, _read_int),
    float: _Codec(_write_float, _read_float),
    str: _Codec(_write_text, _read_text),
    bool: _Codec(_write_bool, _read_bool),
    bytes: _Codec(_write_bytes, _read_bytes),
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
            _read_text(key, where): _payload_tree(entry, where, depth + 1)
            for key, entry in tree.items()
        }
    raise _wrong(where, "plain data", tree)


def _wrong(where: str, expected: str, tree: Any) -> ProtocolError:
    return ProtocolError(f"{where}: expected {expected}, not {reprlib.repr(tree)}")
