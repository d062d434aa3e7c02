"""Ingest logs without sockets, for tests: messages go in, deliveries come out."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from streammine.model.contracts import Position
from streammine.model.epochs import BEGINNING, EpochDefinition
from streammine.model.formats import RawFormat
from streammine.model.ingest_chain import find_end
from streammine.model.ingest_log import End, Entry, Receipt
from streammine.model.source_contracts import Delivery
from streammine.runtime.sources.live.handover import Handover
from streammine.runtime.sources.live.intake import Intake, IntakeRules
from streammine.runtime.sources.live.log_folder import LocalLog, LogFolder
from streammine.runtime.sources.live.log_writer import LogWriter
from streammine.runtime.sources.live.messages import Message
from streammine.runtime.sources.live.reader import LiveReader, SourceRows, logged_entries

SECOND = 1_000_000
SCHEMA = pa.schema([pa.field("ts", pa.int64()), pa.field("v", pa.string())])
BY_TIME = EpochDefinition("time", 10 * SECOND, "ts")
BY_COUNT = EpochDefinition("count", 5)
CSV = RawFormat("csv", header=False, columns=("ts", "v"))


class MemoryLog:
    """A log in memory: what no disk slows down."""

    location = "memory"
    appends = True

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._newest = ""

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self.files if name.startswith(prefix))

    def read(self, name: str) -> pa.Buffer:
        return pa.py_buffer(self.files[name])

    def create(self, name: str, data: bytes) -> None:
        self.files[name] = data
        self._newest = name

    def append(self, data: bytes) -> None:
        self.files[self._newest] += data

    def close(self) -> None:
        """Nothing is open."""


def rules(epoch: EpochDefinition = BY_TIME, **changes: Any) -> IntakeRules:
    given: dict[str, Any] = {"name": "s/0", "format": CSV, "schema": SCHEMA, "epoch": epoch}
    return IntakeRules(**{**given, **changes})


@dataclass
class Seen:
    """What deliveries gave: rows as (epoch, number, values), dead ones as (epoch, number, reason)."""

    rows: list[tuple[int, int, tuple[Any, ...]]] = field(default_factory=list)
    dead: list[tuple[int, int, str]] = field(default_factory=list)
    rows_read: int = 0
    open_epoch: int = BEGINNING
    exhausted: bool = False

    def add(self, delivery: Delivery) -> None:
        epochs = [piece.epoch for piece in delivery.pieces]
        assert epochs == sorted(set(epochs))
        assert all(epoch >= self.open_epoch for epoch in epochs), "epochs never reopen"
        assert all(epoch >= self.open_epoch for epoch, _ in delivery.dead)
        assert [epoch for epoch, _ in delivery.dead] == sorted({e for e, _ in delivery.dead})
        assert delivery.open_epoch >= self.open_epoch
        for piece in delivery.pieces:
            assert piece.rows is not None
            values = [tuple(row.values()) for row in piece.batch.to_pylist()]
            self.rows += [
                (piece.epoch, number, row)
                for number, row in zip(piece.rows.tolist(), values, strict=True)
            ]
        for epoch, dead in delivery.dead:
            for number, reason in zip(dead.numbers, dead.reasons, strict=True):
                assert number is not None
                self.dead.append((epoch, number, reason))
        self.rows_read += delivery.rows_read
        self.open_epoch = delivery.open_epoch
        self.exhausted = delivery.exhausted

    def values(self, column: int = 1) -> list[Any]:
        return [row[column] for _, _, row in sorted(self.rows, key=lambda each: each[1])]


class Session:
    """One writer's tenure of a log, and the reader beside it, driven by hand."""

    def __init__(
        self,
        folder: LogFolder | Path,
        intake_rules: IntakeRules | None = None,
        position: Position | None = None,
        segment_bytes: int = 1 << 20,
        most_ids: int = 100,
    ) -> None:
        self.folder = LocalLog(folder) if isinstance(folder, Path) else folder
        self.rules = intake_rules or rules()
        self.writer = LogWriter(
            self.folder,
            self.rules.schema,
            self.rules.epoch,
            self.rules.lateness_microseconds,
            most_ids,
            segment_bytes,
        )
        self.intake = Intake(self.rules, self.writer.ids)
        self.handover = Handover(1 << 20)
        self.reader = LiveReader(
            "s/0",
            0,
            logged_entries(self.folder, self.writer.newest, position),
            position,
            SourceRows(self.rules.schema, self.rules.epoch, None),
            self.handover,
            None,
        )
        self.seen = Seen()

    def send(self, *messages: Message, time_of_day: int = 0) -> list[Receipt]:
        """Log, hand on and acknowledge messages as one group."""
        entry, receipts = self.intake.take(messages, self.writer.state, time_of_day)
        if entry is not None:
            self.log(entry)
        return receipts

    def log(self, entry: Entry) -> None:
        self.handover.put(entry, self.writer.append(entry), 0)

    def end(self) -> None:
        self.log(End())

    def read(self, rows: int = 1000) -> Seen:
        """Read until nothing more is there."""
        while True:
            delivery = self.reader.read(rows, 0.0)
            self.seen.add(delivery)
            if delivery.exhausted or delivery.wake_after_seconds is not None:
                return self.seen


def replayed(
    folder: LogFolder | Path,
    intake_rules: IntakeRules | None = None,
    position: Position | None = None,
    rows: int = 1000,
) -> Seen:
    """What a log holds, read without taking it over."""
    log = LocalLog(folder) if isinstance(folder, Path) else folder
    read = intake_rules or rules()
    end = find_end(log)
    reader = LiveReader(
        "s/0",
        0,
        logged_entries(log, None if end is None else end.link, position),
        position,
        SourceRows(read.schema, read.epoch, None),
        Handover(0),
        None,
    )
    seen = Seen()
    while True:
        delivery = reader.read(rows, 0.0)
        seen.add(delivery)
        if delivery.exhausted or delivery.wake_after_seconds is not None:
            return seen


def lines(*rows: tuple[object, object]) -> Message:
    return Message("".join(f"{ts},{v}\n" for ts, v in rows).encode(), by_line=True)


def named(name: str, *rows: tuple[object, object]) -> Message:
    return Message(lines(*rows).body, name)


def only_segment(folder: Path) -> Path:
    (segment,) = (folder / "segments").iterdir()
    return segment


def newest_segment(folder: Path) -> Path:
    return max((folder / "segments").iterdir())


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            first = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = int(first.getsockname()[1])
            for further in range(1, count):
                stack.enter_context(socket.create_server(("127.0.0.1", port + further)))
            return port
