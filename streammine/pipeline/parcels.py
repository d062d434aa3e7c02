"""The parcels of a replay (`model.replay`): how rows are cut into them, and how streams are joined.

Everything here follows from the log's bytes, the slices' number and the epochs that are asked for,
so that every attempt makes the same parcels with the same marks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

import pyarrow as pa

from streammine.model.epochs import EpochDefinition
from streammine.model.replay import END_PARTITION, PARCEL_BYTES, DeadLetter, Mark


@dataclass(frozen=True)
class Content:
    """A parcel before it is written; `batch` has `epoch_log.log_schema`, None for no rows."""

    mark: Mark
    batch: pa.RecordBatch | None = None
    dead: tuple[DeadLetter, ...] = ()

    @property
    def rows(self) -> int:
        return 0 if self.batch is None else int(self.batch.num_rows)


class ReplayableLog(Protocol):
    """A log to be replayed, as it stood when it was opened; travels to Spark's tasks.

    `identity` is the same as long as the log is, and of no other log. `whole_epoch`: up to it
    no row can come any more (it grows where the log is one of a live source). `first_epoch` may lie below
    the first row's, `last_epoch` above the last one's; all three are None for a log without rows.
    """

    location: str
    identity: str
    columns: pa.Schema
    epoch: EpochDefinition
    first_epoch: int | None
    last_epoch: int | None
    whole_epoch: int | None

    @property
    def partitions(self) -> int: ...

    def contents(
        self, partition: int, epochs: range, after: Mark | None = None
    ) -> Iterator[Content]:
        """The parcels of a partition (LETTERS_PARTITION: of what belongs to none) and those epochs,
        in order, behind `after`. Raises InputError where the log is damaged."""
        ...


def slice_contents(
    log: ReplayableLog, partitions: Iterable[int], epochs: range, after: Mark | None = None
) -> Iterator[Content]:
    """What a slice that has these partitions gets: all of it in the order of its marks, then the end
    of the epochs."""
    if not epochs:
        return
    streams = [log.contents(partition, epochs, after) for partition in partitions]
    yield from heapq.merge(*streams, key=attrgetter("mark"))
    end = Mark(epochs[-1], END_PARTITION, 0)
    if after is None or end > after:
        yield Content(end)


def with_open_epochs(contents: Iterable[Content]) -> Iterator[tuple[Content, int]]:
    """Each parcel with the lowest epoch that is still open behind it."""
    before: Content | None = None
    for content in contents:
        if before is not None:
            yield before, content.mark.epoch
        before = content
    if before is not None:
        yield before, before.mark.epoch + 1


class PartNumbers:
    """Numbers the parcels of one partition, epoch by epoch, and leaves out those up to `after`."""

    def __init__(self, partition: int, after: Mark | None) -> None:
        self._partition = partition
        self._after = after
        self._epoch: int | None = None
        self._part = 0

    def parcels(
        self, epoch: int, batch: pa.RecordBatch | None, dead: tuple[DeadLetter, ...] = ()
    ) -> Iterator[Content]:
        """The parcels that rows and dead rows of an epoch make."""
        pieces: list[pa.RecordBatch | None] = [None]
        if batch is not None and batch.num_rows:
            pieces = [*cut(batch)]
        elif not dead:
            return
        for piece in pieces:
            if epoch != self._epoch:
                self._epoch, self._part = epoch, 0
            mark = Mark(epoch, self._partition, self._part)
            self._part += 1
            if self._after is None or mark > self._after:
                yield Content(mark, piece, dead)
            dead = ()


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of about PARCEL_BYTES at most, halved until they are so small."""
    if batch.nbytes <= PARCEL_BYTES or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from cut(batch.slice(0, half))
    yield from cut(batch.slice(half))
