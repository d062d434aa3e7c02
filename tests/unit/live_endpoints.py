"""A live source over real sockets on loopback: its receiver, and its reader."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path

from streammine.model.source_contracts import SourceReader
from streammine.runtime.sources.live.addresses import Address
from streammine.runtime.sources.live.handover import Handover
from streammine.runtime.sources.live.intake import Intake, IntakeRules
from streammine.runtime.sources.live.log_folder import LocalLog
from streammine.runtime.sources.live.log_writer import LogWriter
from streammine.runtime.sources.live.reader import LiveReader, SourceRows, logged_entries
from streammine.runtime.sources.live.receiver import Clock, Endpoint, Receiver
from tests.unit.live_logs import BY_COUNT, Seen, rules

PATIENCE_SECONDS = 20.0
LOOPBACK = Address("127.0.0.1", 0)
LARGEST = 64 << 10
SECRET = "0123456789abcdef0123456789abcdef"


class Live:
    """A receiver on a free port, and its reader."""

    def __init__(
        self,
        folder: Path,
        endpoint: Endpoint,
        live_rules: IntakeRules | None = None,
        writer: type[LogWriter] = LogWriter,
        handover_bytes: int = 1 << 20,
        clock: Clock | None = None,
    ) -> None:
        chosen = live_rules or rules(BY_COUNT)
        log = LocalLog(folder)
        self.writer = writer(log, chosen.schema, chosen.epoch, chosen.lateness_microseconds, 1000)
        self.handover = Handover(handover_bytes)
        self.receiver = Receiver(
            self.writer, Intake(chosen, self.writer.ids), endpoint, self.handover, clock
        )
        self.reader: SourceReader = LiveReader(
            "s/0",
            0,
            logged_entries(log, self.writer.newest, None),
            None,
            SourceRows(chosen.schema, chosen.epoch, None),
            self.handover,
            self.receiver,
        )
        self.receiver.start()
        host, _, port = self.receiver.address.rpartition(":")
        self.host, self.port = host, int(port)
        self.seen = Seen()

    def read_until(self, reached: Callable[[Seen], bool]) -> Seen:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached(self.seen):
            assert time.monotonic() < deadline, f"still only {self.seen}"
            delivery = self.reader.read(100, 0.0)
            self.seen.add(delivery)
            if delivery.wake_after_seconds is not None:
                time.sleep(delivery.wake_after_seconds)
        return self.seen

    def read_rows(self, count: int) -> Seen:
        return self.read_until(lambda seen: seen.rows_read >= count)


class Client:
    """A TCP client that reads answers line by line."""

    def __init__(self, live: Live) -> None:
        self.socket = socket.create_connection((live.host, live.port), PATIENCE_SECONDS)
        self._answers = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> bytes:
        with contextlib.suppress(ConnectionError):
            return self._answers.readline()
        return b""

    def wait_for(self, count: int) -> None:
        """Read answers until `count` lines are acknowledged."""
        while (answer := self.answer()) != b"ok %d\n" % count:
            assert answer.startswith(b"ok "), answer

    def close(self) -> None:
        self._answers.close()
        self.socket.close()
