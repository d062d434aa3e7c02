"""The layout of an ingest log: what came from clients and can't be read again (DESIGN §5).

Each slice of a live source has a log of its own, a folder::

    seals/0000000001-3f9c2a7d                    a writer generation has taken the log over
    segments/0000000001-3f9c2a7d-0000000000      what it wrote, in order
    segments/0000000001-3f9c2a7d-0000000001
    segments/0000000002-81b2c04e-0000000000

A segment is a sequence of records. The first is an `Opening`; it carries everything that a reader
must know of what lies before (the log's state), and names the segment that it continues and how
many bytes of that one count. So the log is a chain, read backwards from the newest segment:
whatever a writer that was replaced still wrote stands outside the chain and is never seen. The
other records are `Events` (in the log of a source that is replayed into: `Replayed`), `Idle` and
`End`. Every decision that a clock made stands in them: which
rows were late, when an epoch ended, that a silent source's clock went on. Replay reads them.

A record is a head (magic, lengths, checksum of the rest, checksum of the head), a msgpack map and,
for events, an Arrow record batch, each padded to 8 bytes. A writer makes a record durable before it
starts the next one. So what is damaged with something behind it was durable once, and that is an
error; what is damaged at the very end of the newest segment was never acknowledged, and is cut.

This module opens no files: it is handed bytes.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import msgpack
import pyarrow as pa
import xxhash

from streammine.model.epoch_log import log_schema
from streammine.model.epochs import BEGINNING, EpochDefinition
from streammine.model.errors import InputError
from streammine.model.ids import ROW_COLUMN
from streammine.model.replay import DeadLetter, HeldLog, Mark

LAYOUT_VERSION = 1
SEALS = "seals/"
SEGMENTS = "segments/"
ADDRESSES = "addresses/"
"""Where the writer of a log that is replayed into listens; one file per generation."""

_MAGIC = b"SMIL"
_HEAD = struct.Struct("<4sIIQI")
_ALIGNMENT_BYTES = 8
_SEGMENT_NAME = re.compile(r"segments/([0-9]{10})-([0-9a-f]{8})-([0-9]{10})")
_SEAL_NAME = re.compile(r"seals/([0-9]{10})-([0-9a-f]{8})")


LogKind = Literal["clients", "replay"]


@dataclass(frozen=True, order=True)
class WriterGeneration:
    """One writer's tenure of a log. `token` tells two writers apart that took the same number."""

    number: int
    token: str

    @property
    def seal(self) -> str:
        return f"{SEALS}{self.number:010d}-{self.token}"

    @property
    def address(self) -> str:
        """Name of the file that says where the writer listens."""
        return f"{ADDRESSES}{self.number:010d}-{self.token}"

    def segment(self, number: int) -> str:
        """Name of its `number`-th segment."""
        return f"{SEGMENTS}{self.number:010d}-{self.token}-{number:010d}"

    @classmethod
    def of_seal(cls, name: str) -> WriterGeneration | None:
        """The generation that a seal names; None when the name is no seal's."""
        found = _SEAL_NAME.fullmatch(name)
        return None if found is None else cls(int(found[1]), found[2])


def segment_order(name: str) -> tuple[WriterGeneration, int] | None:
    """What segments are ordered by; None when the name is no segment's."""
    found = _SEGMENT_NAME.fullmatch(name)
    return None if found is None else (WriterGeneration(int(found[1]), found[2]), int(found[3]))


def row_schema(columns: pa.Schema) -> pa.Schema:
    """Schema of the batches of `Events`: the source's columns, then each row's number in the log."""
    return pa.schema([*columns, pa.field(ROW_COLUMN, pa.int64(), nullable=False)])


@dataclass(frozen=True)
class LogState:
    """Where a log has got to.

    `next_row`: the number that the next raw row gets. `clock`: the highest event time so far, in
    microseconds, moved on by idle time-outs (BEGINNING: none yet). `open_epoch`: every epoch below
    it is over. `ids`: how many messages with an id came so far. `ended`: the source is over.
    `replayed`: what it has of the log that was last replayed into it.
    """

    next_row: int = 0
    clock: int = BEGINNING
    open_epoch: int = BEGINNING
    ids: int = 0
    ended: bool = False
    replayed: HeldLog | None = None


@dataclass(frozen=True)
class Opening:
    """First record of a segment.

    `previous` names the segment that goes before it in the chain and `previous_bytes` says how many
    bytes of that one count; None for a log's first segment. `schema` is the visible columns' Arrow
    IPC schema message. `kind`: who writes to the log, clients or replays.
    """

    schema: bytes
    epoch: EpochDefinition
    lateness_microseconds: int
    state: LogState
    previous: str | None = None
    previous_bytes: int = 0
    kind: LogKind = "clients"
    version: int = LAYOUT_VERSION

    @property
    def columns(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self.schema))


@dataclass(frozen=True)
class DeadRow:
    """A row that can't be used. `epoch` is None where no event time was known yet."""

    row: int
    epoch: int | None
    reason: str
    text: str


@dataclass(frozen=True)
class Receipt:
    """What became of a message: rows used, rows dead, and the number of its first row.

    `first_position` is None for a message without rows.
    """

    accepted: int
    dead: int
    first_position: int | None


@dataclass(frozen=True)
class Events:
    """What arrived together: raw rows `first_row` to `first_row + raw_rows - 1`.

    `batch` holds the usable ones in `row_schema`, an encapsulated Arrow IPC message (empty bytes:
    none). `ids`: the client's id and receipt of each message that had one. `clock` and `open_epoch`
    are those after it.
    """

    first_row: int
    raw_rows: int
    batch: pa.Buffer
    dead: tuple[DeadRow, ...]
    ids: tuple[tuple[str, Receipt], ...]
    clock: int
    open_epoch: int

    def rows(self, columns: pa.Schema) -> pa.RecordBatch:
        """The usable rows. Raises ArrowInvalid when the bytes hold no batch of that schema."""
        schema = row_schema(columns)
        if not self.batch.size:
            return _empty(schema)
        batch = pa.ipc.read_record_batch(self.batch, schema)
        batch.validate()
        return batch


@dataclass(frozen=True)
class Parcel:
    """Rows of one epoch out of a log that is replayed, and dead rows of it.

    `batch` holds `rows` rows in `epoch_log.log_schema`, an encapsulated Arrow IPC message (empty
    bytes: none). With it every epoch below `open_epoch` is complete.
    """

    mark: Mark
    open_epoch: int
    rows: int
    batch: pa.Buffer
    dead: tuple[DeadLetter, ...] = ()

    def row_batch(self, columns: pa.Schema) -> pa.RecordBatch:
        """The rows. Raises ArrowInvalid when the bytes hold no batch of that schema."""
        schema = log_schema(columns)
        if not self.batch.size:
            return _empty(schema)
        batch = pa.ipc.read_record_batch(self.batch, schema)
        batch.validate()
        return batch


@dataclass(frozen=True)
class Replayed:
    """Parcels of a replay, in the order of their marks; `held` is the log's state after them."""

    held: HeldLog
    parcels: tuple[Parcel, ...]


@dataclass(frozen=True)
class Idle:
    """Nothing came for so long that the source's clock was moved on."""

    clock: int
    open_epoch: int


@dataclass(frozen=True)
class End:
    """The source is over: no row comes after it."""


Entry = Events | Replayed | Idle | End


def after(state: LogState, entry: Entry) -> LogState:
    """The log's state once `entry` stands in it."""
    if isinstance(entry, Events):
        return LogState(
            entry.first_row + entry.raw_rows,
            entry.clock,
            entry.open_epoch,
            state.ids + len(entry.ids),
        )
    if isinstance(entry, Replayed):
        rows = sum(each.rows + len(each.dead) for each in entry.parcels)
        return replace(
            state,
            next_row=state.next_row + rows,
            open_epoch=max(state.open_epoch, entry.parcels[-1].open_epoch),
            replayed=entry.held,
        )
    if isinstance(entry, Idle):
        return replace(state, clock=entry.clock, open_epoch=entry.open_epoch)
    return replace(state, ended=True)


def encode(record: Opening | Entry, segment: str) -> bytes:
    """A record's bytes for the segment of that name, checksums included; a whole number of 8 bytes.

    The checksum of the head covers the segment's name, which no client can know, so that nothing
    that a client sends passes for a head.
    """
    body: pa.Buffer | bytes = b""
    if isinstance(record, Events):
        body = record.batch
        content: dict[str, Any] = {
            "first_row": record.first_row,
            "raw_rows": record.raw_rows,
            "dead": [[each.row, each.epoch, each.reason, each.text] for each in record.dead],
            "ids": [
                [client, each.accepted, each.dead, each.first_position]
                for client, each in record.ids
            ],
            "clock": record.clock,
            "open_epoch": record.open_epoch,
        }
    elif isinstance(record, Replayed):
        body = b"".join(
            part for each in record.parcels for part in (each.batch, _padding(each.batch.size))
        )
        content = {
            "held": asdict(record.held),
            "parcels": [_parcel_head(each) for each in record.parcels],
        }
    else:
        content = asdict(record)
    meta = msgpack.packb([type(record).__name__, content])
    payload = b"".join([meta, _padding(len(meta)), memoryview(body), _padding(len(body))])
    head = _HEAD.pack(_MAGIC, len(meta), len(body), xxhash.xxh3_64_intdigest(payload), 0)
    own = zlib.crc32(head[:-4], zlib.crc32(segment.encode()))
    return head[:-4] + struct.pack("<I", own) + payload


def _parcel_head(parcel: Parcel) -> list[Any]:
    dead = [[each.file, each.row, each.reason, each.text] for each in parcel.dead]
    mark = [parcel.mark.epoch, parcel.mark.partition, parcel.mark.part]
    return [mark, parcel.open_epoch, parcel.rows, parcel.batch.size, dead]


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNMENT_BYTES)


def _padded(size: int) -> int:
    return size + -size % _ALIGNMENT_BYTES


@dataclass
class SegmentReader:
    """The records of one segment, given its bytes.

    `length` is how many of them count, as the segment behind it in the chain says; None for the
    newest segment, which may end in a torn record. Then `torn_at` is the offset where it was cut
    once the entries were read to their end (None: it was whole).
    """

    data: pa.Buffer
    name: str
    length: int | None = None
    torn_at: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._view = memoryview(self.data)
        self._seed = zlib.crc32(self.name.encode())
        if self.length is None:
            self._stop = self.data.size
        else:
            if self.length > self.data.size:
                raise InputError(
                    f"ingest log: {self.name} is cut short: it has {self.data.size:,} bytes, and "
                    f"{self.length:,} were made durable"
                )
            self._stop = self.length

    def opening(self) -> Opening | None:
        """The first record; None when the segment was torn before it was whole."""
        found = self._record(0)
        if found is None:
            return None
        record, _ = found
        if not isinstance(record, Opening):
            raise self._damaged(0, "its first record is no opening")
        return record

    def entries(self, offset: int = 0) -> Iterator[tuple[int, Entry, int]]:
        """(offset, entry, offset of the next) from the record at `offset` on; the opening is left
        out.

        Raises InputError, naming segment and offset, where it is damaged.
        """
        while (found := self._record(offset)) is not None:
            record, stop = found
            if not isinstance(record, Opening):
                yield offset, record, stop
            elif offset:
                raise self._damaged(offset, "an opening stands in the middle")
            offset = stop

    def _record(self, offset: int) -> tuple[Opening | Entry, int] | None:
        if offset == self._stop:
            return None
        lengths = self._head(offset)
        if lengths is None:
            self._cut(offset, offset + _ALIGNMENT_BYTES, "its head is damaged")
            return None
        meta_bytes, body_bytes, checksum = lengths
        start = offset + _HEAD.size
        stop = start + _padded(meta_bytes) + _padded(body_bytes)
        if stop > self._stop:
            self._cut(offset, self._stop, "it is cut short")
            return None
        if xxhash.xxh3_64_intdigest(self._view[start:stop]) != checksum:
            self._cut(offset, stop, "its checksum does not fit")
            return None
        body = self.data.slice(start + _padded(meta_bytes), body_bytes)
        try:
            return _decode(bytes(self._view[start : start + meta_bytes]), body), stop
        except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
            raise self._damaged(offset, f"it can't be understood: {error}") from None

    def _cut(self, offset: int, behind: int, why: str) -> None:
        """A bad record: the torn end, or an error when something durable stands behind it."""
        if self.length is not None or self._is_followed(behind):
            raise self._damaged(offset, why)
        self.torn_at = offset

    def _is_followed(self, behind: int) -> bool:
        """Whether a record's head stands at or after `behind`."""
        offsets = range(behind, self._stop, _ALIGNMENT_BYTES)
        return any(self._head(offset) is not None for offset in offsets)

    def _head(self, offset: int) -> tuple[int, int, int] | None:
        """(bytes of the map, bytes of the body, checksum) of the head at `offset`, if one stands
        there."""
        if offset + _HEAD.size > self._stop:
            return None
        head = self._view[offset : offset + _HEAD.size]
        magic, meta_bytes, body_bytes, checksum, own = _HEAD.unpack(head)
        if magic != _MAGIC or zlib.crc32(head[:-4], self._seed) != own:
            return None
        return meta_bytes, body_bytes, checksum

    def _damaged(self, offset: int, why: str) -> InputError:
        return InputError(
            f"ingest log: {self.name} is damaged: the record at byte {offset:,}: {why}; "
            "restore the file from a copy, or remove the log and lose what it holds"
        )


def _decode(meta: bytes, body: pa.Buffer) -> Opening | Entry:
    kind, content = msgpack.unpackb(meta, strict_map_key=True)
    return _DECODERS[kind](content, body)


def _opening(content: dict[str, Any], _: pa.Buffer) -> Opening:
    if content["version"] != LAYOUT_VERSION:
        raise ValueError(
            f"layout version {content['version']}, and this release reads {LAYOUT_VERSION}"
        )
    epoch = EpochDefinition(**content.pop("epoch"))
    state = content.pop("state")
    held = state.pop("replayed", None)
    state = LogState(**state, replayed=None if held is None else _held(held))
    return Opening(epoch=epoch, state=state, **content)


def _held(content: dict[str, Any]) -> HeldLog:
    return HeldLog(mark=Mark(**content.pop("mark")), **content)


def _events(content: dict[str, Any], body: pa.Buffer) -> Events:
    dead = tuple(DeadRow(*each) for each in content.pop("dead"))
    ids = tuple((each[0], Receipt(*each[1:])) for each in content.pop("ids"))
    return Events(batch=body, dead=dead, ids=ids, **content)


def _replayed(content: dict[str, Any], body: pa.Buffer) -> Replayed:
    parcels = []
    offset = 0
    for mark, open_epoch, rows, size, dead in content["parcels"]:
        letters = tuple(DeadLetter(*each) for each in dead)
        parcels.append(Parcel(Mark(*mark), open_epoch, rows, body.slice(offset, size), letters))
        offset += _padded(size)
    return Replayed(_held(content["held"]), tuple(parcels))


_DECODERS: dict[str, Callable[[dict[str, Any], pa.Buffer], Opening | Entry]] = {
    "Opening": _opening,
    "Events": _events,
    "Replayed": _replayed,
    "Idle": lambda content, _: Idle(**content),
    "End": lambda content, _: End(**content),
}


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.array([], each.type) for each in schema], schema=schema)
