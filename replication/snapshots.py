"""Snapshots of slices in a store: written in parts, published by a header, read back with suspicion.

A snapshot is a header document and the parts of the slice's state. The parts are put first, each as soon
as it is full, so memory is bounded by one part whatever the state's size; the header names them with
their checksums, and its put publishes the snapshot. Whoever dies before has written nothing that counts.

A snapshot that is not full names the one before it and its checksum, so a chain leads back to a full
one, and the checksum in a `SnapshotRecord` vouches for the whole chain.

A part holds pieces one after the other, each from a multiple of 64 bytes on, as Arrow likes it.

The head of a loop also keeps the rows that are carried into the next epoch: in parts of their own behind
those of the state, a piece per batch (an Arrow stream), whether the snapshot is full or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from replication.documents import fetch, seal, unseal
from replication.naming import SnapshotName, snapshot_of
from streammine.model.contracts import Carried, FrozenSlice, Position, Store
from streammine.model.documents import checksum
from streammine.model.epochs import BEGINNING
from streammine.model.errors import SnapshotDamagedError
from streammine.model.ids import SliceId
from streammine.model.snapshots import ALIGNMENT_BYTES, PART_BYTES, SnapshotRecord


@dataclass(frozen=True)
class Part:
    """A blob of state: `pieces` are the lengths of what it holds, in bytes."""

    name: str
    checksum: str
    nbytes: int
    pieces: tuple[int, ...]


@dataclass(frozen=True)
class CarriedParts:
    """Where a head's carried rows lie. `ports`: of each piece, in the order of the parts."""

    next_epoch: int
    ports: tuple[int, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Header:
    """What a snapshot says of itself. `previous` is (name, checksum) of the header that it builds on.

    `chain` counts the snapshots that are read to restore it, this one included. `carried` is that of a
    loop's head, `lost_until` as in `FrozenSlice`.
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
    carried: CarriedParts | None = None
    lost_until: int = BEGINNING


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
    nbytes: int


@dataclass(frozen=True)
class LoadedSnapshot:
    """A snapshot whose headers have been read and found sound.

    `layers`: the full one first, then the later ones in their order. `carried` reads what a loop's head
    keeps, None for any other slice; it raises like `Layer`.
    """

    slice_id: SliceId
    generation: int
    epoch: int
    last_epoch: int
    due: int | None
    position: Position | None
    layers: tuple[Layer, ...]
    carried: Callable[[], Carried | None]
    lost_until: int = BEGINNING

    @property
    def nbytes(self) -> int:
        """What is read of it, all layers together."""
        return sum(each.nbytes for each in self.layers)


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
    carried = _put_carried(store, name, frozen.carried, len(parts))
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
        carried,
        frozen.lost_until,
    )
    data = _encode(header)
    store.put(name.header, data)
    nbytes = len(data) + sum(part.nbytes for part in _all_parts(header))
    return SnapshotRecord(
        frozen.epoch, generation, name.header, checksum(data), nbytes, full, chain
    )


def load_snapshot(store: Store, record: SnapshotRecord, slice_id: SliceId) -> LoadedSnapshot:
    """The slice's snapshot and the layers of its state.

    Raises SnapshotDamagedError, naming the blob and what is wrong with it, when any header of the chain
    is missing or not what it was, or is another slice's; for parts see `Layer`. Raises StateVersionError for
    a chain that another version of the engine wrote in a format that this one does not know.
    """
    headers = read_chain(store, record)
    top = headers[-1]
    if top.name.slice_id != slice_id:
        raise SnapshotDamagedError(
            f"{record.name} is {top.name.slice_id}'s snapshot, not {slice_id}'s"
        )
    return LoadedSnapshot(
        top.name.slice_id,
        top.name.generation,
        top.name.epoch,
        top.last_epoch,
        top.due,
        top.position,
        tuple(
            Layer(
                one.name.epoch,
                one.full,
                one.state_version,
                _pieces(store, one.parts),
                sum(part.nbytes for part in one.parts),
            )
            for one in headers
        ),
        lambda: _carried(store, top.carried),
        top.lost_until,
    )


def verify_snapshot(
    store: Store, record: SnapshotRecord, verified: Collection[str] = ()
) -> list[str]:
    """Read a chain back, but for the parts of `verified` headers, and build nothing of it.

    Returns the names of its headers. Raises like `load_snapshot` and its layers.
    """
    chain = read_chain(store, record)
    for header in chain:
        if header.name.header not in verified:
            for part in _all_parts(header):
                _read_part(store, part)
    return [header.name.header for header in chain]


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


def _all_parts(header: Header) -> tuple[Part, ...]:
    return header.parts if header.carried is None else (*header.parts, *header.carried.parts)


def _put_carried(
    store: Store, name: SnapshotName, carried: Carried | None, number: int
) -> CarriedParts | None:
    if carried is None:
        return None
    pieces = (_stream_of(batch) for _, batch in carried.rows)
    parts = tuple(_put_parts(store, name, pieces, number))
    return CarriedParts(carried.next_epoch, tuple(port for port, _ in carried.rows), parts)


def _stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return out.getvalue()


def _carried(store: Store, found: CarriedParts | None) -> Carried | None:
    if found is None:
        return None
    rows = tuple(
        (port, batch)
        for port, piece in zip(found.ports, _pieces(store, found.parts), strict=True)
        for batch in pa.ipc.open_stream(piece)
    )
    return Carried(found.next_epoch, rows)


def _put_parts(
    store: Store, name: SnapshotName, pieces: Iterator[pa.Buffer], number: int = 0
) -> Iterator[Part]:
    gathered: list[pa.Buffer] = []
    nbytes = 0
    for piece in pieces:
        if gathered and nbytes + piece.size > PART_BYTES:
            yield _put_part(store, name.part(number), gathered, nbytes)
            gathered, nbytes, number = [], 0, number + 1
        gathered.append(piece)
        nbytes += _aligned(piece.size)
    if gathered:
        yield _put_part(store, name.part(number), gathered, nbytes)


def _put_part(store: Store, name: str, pieces: list[pa.Buffer], nbytes: int) -> Part:
    data = pieces[0] if pieces[0].size == nbytes else _joined(pieces, nbytes)
    store.put(name, data)
    return Part(name, checksum(data), nbytes, tuple(piece.size for piece in pieces))


def _joined(pieces: list[pa.Buffer], nbytes: int) -> pa.Buffer:
    data = bytearray(nbytes)
    start = 0
    for piece in pieces:
        data[start : start + piece.size] = memoryview(piece).cast("B")
        start += _aligned(piece.size)
    return pa.py_buffer(data)


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
    return -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


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
            "parts": [_part_document(part) for part in header.parts],
            **_carried_document(header.carried),
            **({} if header.lost_until == BEGINNING else {"lost_until": header.lost_until}),
        },
    )


def _carried_document(carried: CarriedParts | None) -> dict[str, Any]:
    if carried is None:
        return {}
    parts = [_part_document(part) for part in carried.parts]
    document = {"next_epoch": carried.next_epoch, "ports": list(carried.ports), "parts": parts}
    return {"carried": document}


def _part_document(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "checksum": part.checksum,
        "bytes": part.nbytes,
        "pieces": list(part.pieces),
    }


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
        _carried_parts(name, document.get("carried")),
        int(document.get("lost_until", BEGINNING)),
    )


def _carried_parts(name: SnapshotName, document: dict[str, Any] | None) -> CarriedParts | None:
    if document is None:
        return None
    ports = tuple(map(int, document["ports"]))
    parts = tuple(_part(name, one) for one in document["parts"])
    if len(ports) != sum(len(part.pieces) for part in parts):
        raise ValueError("it does not say where all rows that are carried belong")
    return CarriedParts(int(document["next_epoch"]), ports, parts)


def _part(header: SnapshotName, document: dict[str, Any]) -> Part:
    pieces = tuple(map(int, document["pieces"]))
    part = Part(str(document["name"]), str(document["checksum"]), int(document["bytes"]), pieces)
    if snapshot_of(part.name) != header:
        raise ValueError(f"{part.name} is no part of it")
    if part.nbytes != sum(map(_aligned, pieces)):
        raise ValueError(f"{part.name} can't hold its pieces")
    return part
