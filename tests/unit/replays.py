"""Replays without Spark and nodes: slices of a source read by threads, and pushed by this one."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from streammine.model.contracts import Position
from streammine.model.epoch_log import EpochSettings
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.replay_job import ReplayRequest, ReplayTarget
from streammine.model.source_contracts import Delivery
from streammine.model.topology.replay_source import ReplaySource
from streammine.pipeline.replay import replay_of, serve
from streammine.runtime.sources.live import open_replay_reader
from streammine.runtime.sources.live.opening import slice_log

SCHEMA = {"ts": "int64", "v": "float64"}
PATIENCE_SECONDS = 30.0


class Gathered:
    """All that readers gave; a row is (epoch, file, row, its values)."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.dead: list[tuple[int, str | None, int | None, str]] = []
        self.rows_read = 0
        self.open_epoch = BEGINNING

    def add(self, delivery: Delivery) -> None:
        epochs = [piece.epoch for piece in delivery.pieces]
        assert epochs == sorted(set(epochs))
        assert all(epoch >= self.open_epoch for epoch in epochs), "epochs never reopen"
        assert all(epoch >= self.open_epoch for epoch, _ in delivery.dead)
        assert delivery.open_epoch >= self.open_epoch
        for piece in delivery.pieces:
            assert piece.rows is not None
            assert piece.files is not None
            values = [tuple(row.values()) for row in piece.batch.to_pylist()]
            numbers = zip(piece.files.tolist(), piece.rows.tolist(), values, strict=True)
            self.rows += [(piece.epoch, *row) for row in numbers]
        for epoch, dead in delivery.dead:
            letters = zip(dead.files, dead.numbers, dead.reasons, strict=True)
            self.dead += [(epoch, *letter) for letter in letters]
        self.rows_read += delivery.rows_read
        self.open_epoch = delivery.open_epoch


class Slice:
    """One slice of a source, read by a thread while it is `running`."""

    def __init__(
        self,
        settings: ReplaySource,
        epoch: EpochDefinition,
        base: Path,
        index: int,
        position: Position | None = None,
    ) -> None:
        self.reader = open_replay_reader("s", settings, epoch, str(base), index, None, position)
        self.gathered = Gathered()
        self.over = threading.Event()
        self.running = threading.Event()
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._closing = False

    def start(self) -> None:
        self.running.set()
        self._thread.start()

    def _read(self) -> None:
        try:
            while not self._closing:
                self.running.wait()
                delivery = self.reader.read(1000, 0.0)
                self.gathered.add(delivery)
                if delivery.exhausted:
                    assert delivery.open_epoch == INFINITY
                    self.over.set()
                    return
                if delivery.wake_after_seconds is not None:
                    time.sleep(delivery.wake_after_seconds)
        except Exception as error:
            self.failure = error

    def close(self) -> None:
        self._closing = True
        self.running.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.reader.close()
        if self.failure is not None:
            raise self.failure


class Source:
    """All slices of a replay source."""

    def __init__(
        self, base: Path, epoch: EpochDefinition, slices: int = 2, **settings: Any
    ) -> None:
        given = {"type": "replay", "ingest_log": "own", "slices": slices, "schema": SCHEMA}
        self.settings = ReplaySource.model_validate({**given, **settings})
        self.base = base
        self.epoch = epoch
        self.slices: list[Slice] = []

    def __enter__(self) -> Source:
        self.slices = [self.open(index) for index in range(self.settings.slices)]
        for each in self.slices:
            each.start()
        return self

    def open(self, index: int, position: Position | None = None) -> Slice:
        return Slice(self.settings, self.epoch, self.base, index, position)

    def __exit__(self, *_: object) -> None:
        for each in self.slices:
            each.close()

    def target(self) -> ReplayTarget:
        logs = range(self.settings.slices)
        return ReplayTarget(
            source="s",
            logs=tuple(slice_log(self.settings.ingest_log, str(self.base), at) for at in logs),
            columns=self.settings.arrow_schema.serialize().to_pybytes().hex(),
            epoch=EpochSettings.of(self.epoch),
            keys=None if self.settings.keys is None else str(self.base / self.settings.keys),
        )

    def request(self, log: Path, replay: str = "r", **changes: Any) -> ReplayRequest:
        given = {"log": str(log), "target": self.target(), "replay": replay}
        return ReplayRequest(**{**given, "patience_seconds": PATIENCE_SECONDS, **changes})

    def push(self, log: Path, attempt: int = 1, **changes: Any) -> dict[str, Any]:
        """A whole replay, in one task; ends the source unless it is told otherwise."""
        work = replay_of(self.request(log, **changes))
        every = range(self.settings.slices)
        sent = serve(every, attempt, work, False, None)
        if not work.request.keep_open:
            serve(every, attempt + 1, work, True, None)
        return sent

    def gathered(self) -> Gathered:
        """What all slices gave, once they are over."""
        whole = Gathered()
        for each in self.slices:
            assert each.over.wait(PATIENCE_SECONDS), each.failure
            whole.rows += each.gathered.rows
            whole.dead += each.gathered.dead
            whole.rows_read += each.gathered.rows_read
        whole.rows.sort()
        whole.dead.sort()
        return whole

    def wait_for_rows(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while sum(each.gathered.rows_read for each in self.slices) < count:
            assert time.monotonic() < deadline, [each.gathered.rows_read for each in self.slices]
            time.sleep(0.01)
