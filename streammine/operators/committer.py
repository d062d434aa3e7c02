"""The committer: the one slice of a sink that decides what is output.

It collects the file records of all sink slices and writes one manifest per group of epochs, in
ascending order, when the group's last epoch is over on all slices. Nothing else makes a row
visible. Its first act is the seal of its generation, written when the first epoch is over: a job
that fails before that leaves the folder as it found it. See `streammine.model.manifest` for the
documents.

A snapshot of it holds the records of groups that are not committed; what is committed stands in the
folder. So a restored committer goes on from the folder's last manifest, which may be ahead of its
snapshot, and drops the groups that are in it. However long the run has been, it reads
no other, but for the last of each replica beside it.

An epoch that gap recovery has lost (see `EpochClose.lost`) makes its group of epochs a lost one: files of
the group may hold rows of several of its epochs, from replicas of a sink slice that have lost different
ones. What is committed already is not lost any more. The next manifest names the lost epochs; where no rows
were left to commit, there is one without files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from streammine.model.contracts import Accumulator, Combiner, EpochClose, Store, Traits
from streammine.model.epoch_ranges import EpochRange, EpochRanges
from streammine.model.epochs import BEGINNING
from streammine.model.errors import OutputError, ReplacedError
from streammine.model.manifest import (
    Manifest,
    Seal,
    SinkDescription,
    WrittenFile,
    decode_manifest,
    decode_seal,
    encode_manifest,
    encode_seal,
    highest_seal,
    last_committed,
    run_of,
)
from streammine.operators.collected_rows import CollectedRows
from streammine.operators.frozen import Handover, check_version, decode_piece, encode_piece
from streammine.operators.sinks import FILE_RECORD

_RECORDS_PER_PIECE = 4096


@dataclass
class _Group:
    """The files of a group of epochs that is not committed yet, with slice and number."""

    files: list[tuple[int, int, WrittenFile]] = field(default_factory=list)


class CommitOperator:
    """Slice 0 of a sink's committer.

    `run` and `generation` number its seal and manifests; `every` must be that of the sink's slices.
    `beside`: the generations of its other replicas, which commit the same.
    `last_epoch` (None: none yet) and `epochs_lost` tell how far the output is. Raises
    OutputError if the store fails, or if another run or a newer committer has taken the folder
    over.
    """

    state_version = 1

    def __init__(
        self,
        description: SinkDescription,
        store: Store,
        run: int,
        generation: int,
        every: int = 1,
        beside: tuple[int, ...] = (),
    ) -> None:
        self.name = f"{description.sink}.commit"
        self.traits = Traits(commutative=True, mergeable=True)
        self.output = pa.schema([])
        self.output_order: tuple[str, ...] = ()
        self.keys: tuple[tuple[str, ...], ...] = ((),)
        self.needs: tuple[frozenset[str] | None, ...] = (None,)
        self.partial_schema: pa.Schema | None = None
        self.partial_keys: tuple[str, ...] = ()
        self.last_epoch: int | None = None
        self.epochs_lost = 0
        self.finished = False
        self._store = store
        self._every = every
        self._seal = Seal(run, generation, None, description, beside)
        self._tip: Manifest | None = None
        self._started = False
        self._groups: dict[int, _Group] = {}
        self._lost = EpochRanges()
        self._expected: int | None = None

    def prepare(self) -> None:
        """The folder is not looked at before the first epoch is over."""

    def combiner(self) -> Combiner:
        raise AssertionError("a committer has no combiner")

    def accumulator(self, port: int) -> CollectedRows:
        assert port == 0, "a committer has one port"
        return CollectedRows()

    def start(self) -> None:
        """Write the seal, and remove what earlier runs left. Does nothing when called again."""
        if self._started:
            return
        seal = self._seal
        found, is_clean = self._newest_seal()
        if found is not None:
            newer = (found.run, found.generation) >= (seal.run, seal.generation)
            if newer and not (found.run == seal.run and seal.generation in found.beside):
                replaced = found.run == seal.run and found.generation > seal.generation
                raise (ReplacedError if replaced else OutputError)(
                    f"the folder of sink {seal.description.sink} was taken over by run "
                    f"{found.run}, committer {found.generation} (this is run {seal.run}, committer "
                    f"{seal.generation}); let only one job write into a folder"
                )
            if found.run == seal.run:
                self._continue(found)
        if self._expected is not None and not self._is_at(self._expected):
            raise OutputError(
                f"the folder of sink {seal.description.sink} no longer holds what this run had "
                f"committed, up to epoch {self._expected}; put it back, or run the topology anew"
            )
        for number in [number for number in self._groups if self._is_committed(number)]:
            del self._groups[number]
        self._forget_committed()
        self._store.put(self._seal.name, encode_seal(self._seal))
        if not is_clean:
            self._remove_earlier_runs()
        self._started = True

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Take the records of an epoch and commit the groups that are over by it."""
        self.start()
        (records,) = accumulators
        assert isinstance(records, CollectedRows)
        for batch in records.batches:
            assert batch.schema.equals(FILE_RECORD), f"not file records: {batch.schema}"
            for record in batch.to_pylist():
                self._take(record)
        for first, last in epoch.lost:
            self._lost.add(first // self._every * self._every, self._last_of(last // self._every))
        self._forget_committed()
        for number in sorted(self._groups):
            if self._last_of(number) > epoch.epoch:
                break
            self._commit(number, epoch.watermark)
        self._commit_lost(epoch)
        return ()

    def _is_committed(self, number: int) -> bool:
        return self.last_epoch is not None and number <= self.last_epoch // self._every

    def _last_of(self, number: int) -> int:
        return (number + 1) * self._every - 1

    @property
    def due_epoch(self) -> int | None:
        """The last epoch of the lowest group that has files, or is lost."""
        numbers = [*self._groups, *(first // self._every for first, _ in self._lost)]
        return min(map(self._last_of, numbers), default=None)

    def flush(self, epoch: EpochClose) -> Sequence[pa.RecordBatch]:
        """The input is over: say that nothing follows."""
        self.start()
        if self.finished:
            return ()
        assert not self._groups, f"{self.name}: groups {sorted(self._groups)} are not committed"
        assert not self._lost, f"{self.name}: that {self._lost} are lost is not committed"
        last = epoch.epoch if self.last_epoch is None else max(self.last_epoch, epoch.epoch)
        self._append(last, last, epoch.watermark, (), finished=True)
        self.finished = True
        return ()

    @property
    def state_nbytes(self) -> int:
        return sum(256 * len(group.files) for group in self._groups.values())

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState. All of it each time, as it is little."""
        records = [
            {
                "slice": slice_index,
                "number": number,
                "name": file.name,
                "epochs": list(file.epochs),
                "rows": list(file.rows),
                "bytes": file.bytes,
                "checksum": file.checksum,
            }
            for group in self._groups.values()
            for slice_index, number, file in group.files
        ]
        return Handover(True, _pieces(self.last_epoch, list(self._lost), records))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState. The store is not touched before the next epoch is over."""
        check_version(self.name, version, self.state_version)
        self._groups = {}
        self._lost = EpochRanges()
        for piece in pieces:
            header, batches = decode_piece(piece)
            self._expected = header.get("committed", self._expected)
            for first, last in header.get("lost", ()):
                self._lost.add(first, last)
            for batch in batches:
                for record in batch.to_pylist():
                    self._take(record)

    def _newest_seal(self) -> tuple[Seal | None, bool]:
        """The seal that counts now, and whether all that earlier runs left was removed: seals go last.

        Without any seal nobody has looked yet. What a paused committer of an earlier run writes afterwards
        stays until the next run; nobody reads it.

        A replica beside this one may have removed what an earlier run left, after it was listed: it has
        written a higher seal before.
        """
        listed = None
        while True:
            seals = self._store.list("seals/")
            newest = highest_seal(seals)
            if newest is None:
                return None, False
            try:
                found = decode_seal(newest, self._store.get(newest))
                return found, not any(map(self._is_earlier, seals))
            except OutputError:
                if newest == listed:
                    raise
                listed = newest

    def _is_at(self, epoch: int) -> bool:
        """Whether the chain reaches as far as an epoch."""
        return self.last_epoch is not None and self.last_epoch >= epoch

    def _is_earlier(self, name: str) -> bool:
        """It was left by a run before this one."""
        run = run_of(name)
        return run is not None and run < self._seal.run

    def _remove_earlier_runs(self) -> None:
        """Their seals last: as long as one is there, who comes after this one goes on removing."""
        earlier = [name for name in self._store.list("") if self._is_earlier(name)]
        for name in sorted(earlier, key=lambda each: each.startswith("seals/")):
            self._store.delete(name)

    def _continue(self, found: Seal) -> None:
        """Go on from the last manifest of this run's previous committer."""
        tip = last_committed(self._store.list("manifests/"), found, self._read)
        if tip is None:
            return
        self._tip = tip
        self._seal = replace(self._seal, continues_from=tip.name)
        self.last_epoch = tip.last_epoch
        self.epochs_lost = tip.lost_before + tip.lost_count
        self.finished = tip.finished

    def _read(self, name: str) -> Manifest:
        return decode_manifest(name, self._store.get(name))

    def _take(self, record: dict[str, Any]) -> None:
        """Note a file. Those of committed groups are known already."""
        numbers = {epoch // self._every for epoch in record["epochs"]}
        assert len(numbers) == 1, f"a file holds epochs of one group, not {record['epochs']}"
        (number,) = numbers
        if self._is_committed(number):
            return
        group = self._groups.setdefault(number, _Group())
        written = WrittenFile(
            record["name"],
            tuple(record["epochs"]),
            tuple(record["rows"]),
            record["bytes"],
            record["checksum"],
        )
        group.files.append((record["slice"], record["number"], written))

    def _commit(self, number: int, watermark: int) -> None:
        group = self._groups.pop(number)
        files = sorted(group.files, key=lambda one: one[:2])
        files_in_order = tuple(file for _, _, file in files)
        last = self._last_of(number)
        lost = self._lost.between(BEGINNING, last)
        first = min([number * self._every, *(each[0] for each in lost)])
        self._append(first, last, watermark, files_in_order, lost)

    def _commit_lost(self, close: EpochClose) -> None:
        """Of groups that are over nothing is left but that they are lost."""
        over = (close.epoch + 1) // self._every * self._every - 1
        lost = self._lost.between(BEGINNING, over)
        if lost:
            self._append(lost[0][0], lost[-1][1], close.watermark, (), lost)

    def _forget_committed(self) -> None:
        """What is committed, as it was before, is not lost any more."""
        if self.last_epoch is not None:
            self._lost.drop(self._last_of(self.last_epoch // self._every))

    def _append(
        self,
        first: int,
        last: int,
        watermark: int,
        files: tuple[WrittenFile, ...],
        lost: tuple[EpochRange, ...] = (),
        finished: bool = False,
    ) -> None:
        manifest = Manifest(
            run=self._seal.run,
            generation=self._seal.generation,
            sequence=0 if self._tip is None else self._tip.sequence + 1,
            first_epoch=first,
            last_epoch=last,
            watermark=watermark,
            previous=None if self._tip is None else self._tip.name,
            files=files,
            finished=finished,
            lost=lost,
            lost_before=self.epochs_lost,
        )
        self._store.put(manifest.name, encode_manifest(manifest))
        self._tip = manifest
        self.last_epoch = last
        self.epochs_lost += manifest.lost_count
        self._forget_committed()


def _pieces(
    committed: int | None, lost: list[EpochRange], records: Sequence[dict[str, Any]]
) -> Iterator[pa.Buffer]:
    yield encode_piece({"committed": committed, "lost": lost})
    for start in range(0, len(records), _RECORDS_PER_PIECE):
        some = list(records[start : start + _RECORDS_PER_PIECE])
        yield encode_piece({}, pa.RecordBatch.from_pylist(some, schema=FILE_RECORD))
