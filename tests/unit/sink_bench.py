"""A sink with its slices and its committer, driven epoch by epoch without an engine."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streammine.model.contracts import EpochClose, Store
from streammine.model.epochs import EpochDefinition
from streammine.model.manifest import SinkDescription
from streammine.operators.committer import CommitOperator
from streammine.operators.sinks import SinkOperator, SinkSettings

DEFINITION = EpochDefinition("count", 10)


def at(epoch: int) -> EpochClose:
    return EpochClose(epoch, epoch * 1000, DEFINITION)


class Sink:
    """`slices` sink slices and a committer over one store."""

    def __init__(
        self,
        store: Store,
        schema: pa.Schema,
        *,
        slices: int = 1,
        run: int = 1,
        generation: int = 0,
        every: int = 1,
        file_format: str = "parquet",
        ordered: bool = False,
        file_bytes: int = 1 << 20,
        job: str = "job",
        name: str = "result",
        beside: tuple[int, ...] = (),
    ) -> None:
        settings = SinkSettings(name, file_format, schema, run, every, file_bytes)
        description = SinkDescription(job, name, file_format, schema, ordered)
        self.slices = [SinkOperator(settings, store, one, generation) for one in range(slices)]
        self.committer = CommitOperator(description, store, run, generation, every, beside)

    def send(self, index: int, epoch: int, rows: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Close an epoch at one slice; what goes to the committer."""
        accumulator = self.slices[index].accumulator(0)
        for batch in rows:
            accumulator.add(batch)
        return list(self.slices[index].close(at(epoch), [accumulator]))

    def commit(self, epoch: int, records: Sequence[pa.RecordBatch]) -> None:
        accumulator = self.committer.accumulator(0)
        for batch in records:
            accumulator.add(batch)
        self.committer.close(at(epoch), [accumulator])

    def epoch(self, epoch: int, *rows: Sequence[pa.RecordBatch]) -> None:
        """Close an epoch everywhere, after those that are due before; `rows[i]` are slice i's."""
        while (due := self.due()) is not None and due < epoch:
            self._close(due, ())
        self._close(epoch, rows)

    def _close(self, epoch: int, rows: Sequence[Sequence[pa.RecordBatch]]) -> None:
        records = []
        for index in range(len(self.slices)):
            records += self.send(index, epoch, rows[index] if index < len(rows) else [])
        self.commit(epoch, records)

    def finish(self, epoch: int) -> None:
        """The input is over: due epochs are closed in turn, as the engine does it."""
        while (due := self.due()) is not None:
            self._close(due, ())
        self.committer.flush(at(epoch))

    def due(self) -> int | None:
        """The next epoch that a slice or the committer wants closed."""
        wanted = [one.due_epoch for one in (*self.slices, self.committer)]
        return min((epoch for epoch in wanted if epoch is not None), default=None)
