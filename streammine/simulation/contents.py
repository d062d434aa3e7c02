"""What a bag holds, as a number that is the same for every order and cut of its rows.

Where the consumer depends on their sequence, it is the same for every cut only.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import pyarrow as pa
import xxhash

from streammine.model.readable_rows import readable_columns
from streammine.operators.sinks import FILE_RECORD

_FILE_COLUMNS = ("slice", "epochs", "rows")
_FACTOR = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def content_of(batch: pa.RecordBatch) -> int:
    """The sum of the rows' hashes, modulo 2**64: adding those of a bag's batches gives the bag's.

    Word of written files counts by what is in them: each replica gives its files names of its own.
    """
    if batch.schema.equals(FILE_RECORD):
        batch = batch.select(_FILE_COLUMNS)
    return sum(_row_hashes(batch)) & MASK


def sequence_of(batch: pa.RecordBatch, before: int = 0) -> int:
    """The same for the rows in their order, behind those that came to `before`."""
    for row in _row_hashes(batch):
        before = (before * _FACTOR + row + 1) & MASK
    return before


def _row_hashes(batch: pa.RecordBatch) -> Iterable[int]:
    columns = readable_columns(batch).values()
    rows = map(str.encode, map(repr, zip(*columns, strict=True)))
    return map(xxhash.xxh3_64_intdigest, rows)


class BagContents:
    """The content of every (channel, epoch), as the first replica made it.

    Every other replica of the sender must make the same, and every replica of the receiver must take it; on
    the channels `sequenced` in the same order.
    """

    def __init__(self, sequenced: Container[int] = ()) -> None:
        self._sequenced = sequenced
        self._made: dict[int, dict[int, tuple[int, str]]] = {}

    def more(self, channel: int, content: int, batch: pa.RecordBatch) -> int:
        """The content of a bag, which is `content` so far, with the rows of a batch behind the others."""
        if channel in self._sequenced:
            return sequence_of(batch, content)
        return (content + content_of(batch)) & MASK

    def made(self, channel: int, epoch: int, content: int, maker: str) -> None:
        """A replica has made all of a bag that holds rows."""
        known = self._made.setdefault(channel, {}).setdefault(epoch, (content, maker))
        assert known[0] == content, (
            f"channel {channel}, epoch {epoch}: {maker} made another bag than {known[1]}"
        )

    def taken(self, channel: int, epoch: int, content: int | None, taker: str) -> None:
        """A replica closes an epoch with what it took of a channel, None for no rows."""
        known = self._made.get(channel, {}).get(epoch)
        assert (None if known is None else known[0]) == content, (
            f"{taker} closes epoch {epoch} with "
            f"{'no' if content is None else 'other'} rows of channel {channel}"
            + (" that nobody made" if known is None else f" than {known[1]} made")
        )

    def of(self, channel: int) -> Iterable[tuple[int, int]]:
        """The bags of a channel that hold rows, by time, with their contents."""
        return [(epoch, content) for epoch, (content, _) in self._made.get(channel, {}).items()]

    def between(self, channel: int, above: int, below: int) -> list[int]:
        """Epochs between two in which the channel holds rows."""
        return sorted(epoch for epoch in self._made.get(channel, {}) if above < epoch < below)
