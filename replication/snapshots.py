"""Snapshots of slices in a store: written in parts, published by a header, read back with suspicion.

A snapshot is a header document and the parts of the slice's state. The parts are put first, each as soon
as it is full, so memory is bounded by one part whatever the state's size; the header names them with
their checksums, and its put publishes the snapshot. Whoever dies before has written nothing that counts.

A snapshot that is not full names the one before it and its checksum, so a chain leads back to a full
one, and the checksum in a `SnapshotRecord` vouches for the whole chain.

A part holds pieces one after the other, each from a multiple of 64 bytes on, as Arrow likes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from replication.documents import fetch, seal, unseal
from replication.naming import SnapshotName, snapshot_of
from streammine.model.contracts import FrozenSlice, Position, Store
from streammine.model.documents import checksum
from streammine.model.errors import SnapshotDamagedError
from streammine.model.ids import SliceId
from streammine.model.snapshots import SnapshotRecord

PART_BYTES = 8 << 20
"""Pieces are gathered up to here. A piece that is longer is a part of its own."""

_ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class Part:
    """A blob of state: `pieces` are the lengths of what it holds, in bytes."""

    name: str
    checksum: str
    nbytes: int
    pieces: tuple[int, ...]


@dataclass(frozen=True)
class Header:
    """What a snapshot says of itself. `previous` is (name, checksum) of the header that it builds on.

    `chain` counts the snapshots that are read to restore it, this one included.
    """

    name: SnapshotName
    last_epoch: int
    due: int | None
    position: Position | None
    state_version: int
    full: bool
    chain: int
    previous: tuple[str, str] | None
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Layer:
    """The state of one snapshot of a chain.

    `pieces` gives what `FrozenState.pieces` gave, once. It reads a part at a time and raises
    SnapshotDamagedError when it comes to a damaged one.
    """

    epoch: int
    full: bool
    state_version: int
    pieces: Iterator[pa.Buffer]


@dataclass(frozen=True)
class LoadedSnapshot:
    """A snapshot whose headers have been read and found sound.

    `layers`: the full one first, then the later ones in their order.
    """

    slice_id: SliceId
    generation: int
    epoch: int
    last_epoch: int
    due: int | None
    position: Position | None
    layers: tuple[Layer, ...]


def write_snapshot(
    store: Store,
    slice_id: SliceId,
    generation: int,
    frozen: FrozenSlice,
    previous: SnapshotRecord | None,
) -> SnapshotRecord:
    """Write a slice's state and publish it.

    `previous` is the snapshot of the freeze before; needed only where the state is not full. Raises
    OutputError when the store can't be written; then nothing is published.
    """
    name = SnapshotName(slice_id, frozen.epoch, generation)
    state = frozen.state
    full = state is None or state.full
    base = None if full else previous
    assert full or base is not None, f"{name.header} holds changes only, but to what?"
    parts = tuple(_put_parts(store, name, iter(()) if state is None else state.pieces()))
    chain = 1 if base is None else base.chain + 1
    header = Header(
        name,
        frozen.last_epoch,
        frozen.due,
        frozen.position,
        frozen.state_version,
        full,
        chain,
        None if base is None else (base.name, base.checksum),
        parts,
    )
    data = _encode(header)
    store.put(name.header, data)
    nbytes = len(data) + sum(part.nbytes for part in parts)
    return SnapshotRecord(
        frozen.epoch, generation, name.header, checksum(data), nbytes, full, chain
    )


def load_snapshot(store: Store, record: SnapshotRecord) -> LoadedSnapshot:
    """The snapshot and the layers of its state.

    Raises SnapshotDamagedError, naming the blob and what is wrong with it, when any header of the chain
    is missing or not what it was; for parts see `Layer`. Raises StateVersionError for a chain that
    another version of the engine wrote in a format that this one does not know.
    """
    headers = read_chain(store, record)
    top = headers[-1]
    return LoadedSnapshot(
        top.name.slice_id,
        top.name.generation,
        top.name.epoch,
        top.last_epoch,
        top.due,
        top.position,
        tuple(
            Layer(one.name.epoch, one.full, one.state_version, _pieces(store, one.parts))
            for one in headers
        ),
    )


def verify_snapshot(store: Store, record: SnapshotRecord) -> None:
    """Read a chain back and build nothing of it. Raises like `load_snapshot` and its layers."""
    for header in read_chain(store, record):
        for part in header.parts:
            _read_part(store, part)


def read_chain(store: Store, record: SnapshotRecord) -> list[Header]:
    """The headers that lead up to `record`, the full one first. Raises like `load_snapshot`."""
    header = read_header(store, record.name, record.checksum)
    said = (header.name.epoch, header.name.generation, header.full, header.chain)
    if said != (record.epoch, record.generation, record.full, record.chain):
        raise SnapshotDamagedError(f"{record.name} is not the snapshot that {record} speaks of")
    return follow_chain(store, header)


def follow_chain(store: Store, header: Header) -> list[Header]:
    """The headers that lead up to `header`, the full one first. Raises like `load_snapshot`."""
    chain = [header]
    while chain[-1].previous is not None:
        chain.append(read_header(store, *chain[-1].previous))
    chain.reverse()
    for before, after in pairwise(chain):
        if (
            before.name.slice_id != after.name.slice_id
            or before.name.epoch >= after.name.epoch
            or before.chain != after.chain - 1
        ):
            raise SnapshotDamagedError(
                f"{after.name.header} can't build on {before.name.header}: "
                "it is not the same slice's snapshot before it"
            )
    return chain


def read_header(store: Store, name: str, expected: str | None) -> Header:
    """The header of that name, with the `expected` checksum where that is known.

    Raises like `load_snapshot`.
    """

    def build(document: dict[str, Any]) -> Header:
        header = _header(document)
        if header.name.header != name:
            raise ValueError(f"it says that it is {header.name.header}; somebody renamed it")
        return header

    return unseal(name, fetch(store, name, expected), "snapshot", build)


def _put_parts(store: Store, name: SnapshotName, pieces: Iterator[pa.Buffer]) -> Iterator[Part]:
    gathered: list[pa.Buffer] = []
    nbytes = 0
    number = 0
    for piece in pieces:
        if gathered and nbytes + piece.size > PART_BYTES:
            yield _put_part(store, name.part(number), gathered, nbytes)
            gathered, nbytes, number = [], 0, number + 1
        gathered.append(piece)
        nbytes += _aligned(piece.size)
    if gathered:
        yield _put_part(store, name.part(number), gathered, nbytes)


def _put_part(store: Store, name: str, pieces: list[pa.Buffer], nbytes: int) -> Part:
    data = bytearray(nbytes)
    start = 0
    for piece in pieces:
        data[start : start + piece.size] = memoryview(piece).cast("B")
        start += _aligned(piece.size)
    store.put(name, pa.py_buffer(data))
    return Part(name, checksum(data), nbytes, tuple(piece.size for piece in pieces))


def _read_part(store: Store, part: Part) -> pa.Buffer:
    data = fetch(store, part.name, part.checksum)
    if data.size != part.nbytes:
        raise SnapshotDamagedError(f"{part.name} has {data.size} bytes instead of {part.nbytes}")
    return data


def _pieces(store: Store, parts: tuple[Part, ...]) -> Iterator[pa.Buffer]:
    for part in parts:
        data = _read_part(store, part)
        start = 0
        for length in part.pieces:
            yield data.slice(start, length)
            start += _aligned(length)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _encode(header: Header) -> bytes:
    slice_id = header.name.slice_id
    previous = header.previous
    return seal(
        "snapshot",
        {
            "vertex": slice_id.vertex,
            "index": slice_id.index,
            "epoch": header.name.epoch,
            "generation": header.name.generation,
            "last_epoch": header.last_epoch,
            "due": header.due,
            "position": header.position,
            "state_version": header.state_version,
            "full": header.full,
            "chain": header.chain,
            "previous": previous and {"name": previous[0], "checksum": previous[1]},
            "parts": [
                {
                    "name": part.name,
                    "checksum": part.checksum,
                    "bytes": part.nbytes,
                    "pieces": list(part.pieces),
                }
                for part in header.parts
            ],
        },
    )


def _header(document: dict[str, Any]) -> Header:
    name = SnapshotName(
        SliceId(str(document["vertex"]), int(document["index"])),
        int(document["epoch"]),
        int(document["generation"]),
    )
    due, position, previous = document["due"], document["position"], document["previous"]
    full, chain = bool(document["full"]), int(document["chain"])
    if full != (previous is None) or full != (chain == 1):
        raise ValueError("it does not say what it builds on")
    return Header(
        name,
        int(document["last_epoch"]),
        None if due is None else int(due),
        None if position is None else dict(position),
        int(document["state_version"]),
        full,
        chain,
        None if previous is None else (str(previous["name"]), str(previous["checksum"])),
        tuple(_part(name, one) for one in document["parts"]),
    )


def _part(header: SnapshotName, document: dict[str, Any]) -> Part:
    pieces = tuple(map(int, document["pieces"]))
    part = Part(str(document["name"]), str(document["checksum"]), int(document["bytes"]), pieces)
    if snapshot_of(part.name) != header:
        raise ValueError(f"{part.name} is no part of it")
    if part.nbytes != sum(map(_aligned, pieces)):
        raise ValueError(f"{part.name} can't hold its pieces")
    return part
