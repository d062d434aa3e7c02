"""The committer: the one slice of a sink that decides what is output.

It collects the file records of all sink slices and writes one manifest per group of epochs, in
ascending order, when all the rows that the slices announced for the group are in files. Nothing
else makes a row visible. Its first act is the seal of its generation, written when the first
epoch is over: a job that fails before that leaves the folder as it found it. See
`streammine.model.manifest` for the documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streammine.model.contracts import Accumulator, Combiner, EpochClose, Store, Traits
from streammine.model.errors import OutputError
from streammine.model.manifest import (
    Manifest,
    Seal,
    SinkDescription,
    WrittenFile,
    committed_chain,
    decode_manifest,
    decode_seal,
    encode_manifest,
    encode_seal,
    highest_seal,
    run_of,
)
from streammine.operators.sinks import FILE_RECORD, SinkAccumulator


@dataclass
class _Group:
    """What is known of a group of epochs that is not committed yet."""

    announced: int = 0
    written: int = 0
    files: list[tuple[int, int, WrittenFile]] = field(default_factory=list)


class CommitOperator:
    """Slice 0 of a sink's committer.

    `run` and `generation` number its seal and manifests; `every` must be that of the sink's slices.
    `last_epoch` (None: none yet) and `rows_committed` tell how far the output is. Raises
    OutputError if the store fails, or if another run or a newer committer has taken the folder
    over.
    """

    def __init__(
        self,
        description: SinkDescription,
        store: Store,
        run: int,
        generation: int,
        every: int = 1,
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
        self.rows_committed = 0
        self.manifests_written = 0
        self.finished = False
        self._store = store
        self._every = every
        self._seal = Seal(run, generation, None, description)
        self._tip: Manifest | None = None
        self._started = False
        self._groups: dict[int, _Group] = {}

    def prepare(self) -> None:
        """Nothing to load."""

    def combiner(self) -> Combiner:
        raise AssertionError("a committer has no combiner")

    def accumulator(self, port: int) -> SinkAccumulator:
        assert port == 0, "a committer has one port"
        return SinkAccumulator()

    def start(self) -> None:
        """Write the seal, and remove what earlier runs left. Does nothing when called again."""
        if self._started:
            return
        seal, names = self._seal, self._store.list("")
        newest = highest_seal(names)
        if newest is not None:
            found = decode_seal(newest, self._store.get(newest))
            if (found.run, found.generation) >= (seal.run, seal.generation):
                raise OutputError(
                    f"the folder of sink {seal.description.sink} was taken over by run "
                    f"{found.run}, committer {found.generation} (this is run {seal.run}, committer "
                    f"{seal.generation}); let only one job write into a folder"
                )
            if found.run == seal.run:
                self._continue(found, names)
        self._store.put(self._seal.name, encode_seal(self._seal))
        for name in names:
            run = run_of(name)
            if run is not None and run < seal.run:
                self._store.delete(name)
        self._started = True

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Take the records of an epoch and commit the groups that are complete by it."""
        self.start()
        (records,) = accumulators
        assert isinstance(records, SinkAccumulator)
        for batch in records.batches:
            assert batch.schema.equals(FILE_RECORD), f"not file records: {batch.schema}"
            for record in batch.to_pylist():
                self._take(record)
        for number in sorted(self._groups):
            group = self._groups[number]
            over = (number + 1) * self._every - 1 <= epoch.epoch
            if not over or group.announced != group.written:
                break
            self._commit(number, epoch.watermark, epoch.epoch)
        return ()

    def flush(self, epoch: EpochClose) -> Sequence[pa.RecordBatch]:
        """The input is over: commit the rest and say that nothing follows."""
        self.start()
        if self.finished:
            return ()
        for number in sorted(self._groups):
            group = self._groups[number]
            assert group.announced == group.written, (
                f"{self.name}: group {number} ended with {group.written} of {group.announced} rows"
            )
            self._commit(number, epoch.watermark, epoch.epoch)
        last = epoch.epoch if self.last_epoch is None else max(self.last_epoch, epoch.epoch)
        self._append(last, last, epoch.watermark, (), finished=True)
        self.finished = True
        return ()

    @property
    def state_nbytes(self) -> int:
        return sum(256 * len(group.files) for group in self._groups.values())

    def _continue(self, found: Seal, names: list[str]) -> None:
        """Go on from the last manifest of this run's previous committer."""

        def read(name: str) -> Manifest:
            return decode_manifest(name, self._store.get(name))

        chain = committed_chain(names, found, read)
        if not chain:
            return
        self._tip = chain[-1]
        own = self._seal
        self._seal = Seal(own.run, own.generation, self._tip.name, own.description)
        self.last_epoch = self._tip.last_epoch
        self.rows_committed = sum(manifest.rows for manifest in chain)
        self.finished = self._tip.finished

    def _take(self, record: dict[str, Any]) -> None:
        """Note what a record says, group by group. Committed groups are known already."""
        by_group: dict[int, int] = {}
        for epoch, rows in zip(record["epochs"], record["rows"], strict=True):
            number = epoch // self._every
            by_group[number] = by_group.get(number, 0) + rows
        assert len(by_group) == 1, f"a file holds epochs of one group, not {record['epochs']}"
        ((number, rows),) = by_group.items()
        if self.last_epoch is not None and number <= self.last_epoch // self._every:
            return
        group = self._groups.setdefault(number, _Group())
        if record["name"] is None:
            group.announced += rows
            return
        group.written += rows
        written = WrittenFile(
            record["name"],
            tuple(record["epochs"]),
            tuple(record["rows"]),
            record["bytes"],
            record["checksum"],
        )
        group.files.append((record["slice"], record["number"], written))

    def _commit(self, number: int, watermark: int, closed: int) -> None:
        group = self._groups.pop(number)
        first = number * self._every
        # At the end of the input a group may be over before its last epoch.
        last = min(first + self._every - 1, closed)
        files = sorted(group.files, key=lambda one: one[:2])
        self._append(first, last, watermark, tuple(file for _, _, file in files))

    def _append(
        self,
        first: int,
        last: int,
        watermark: int,
        files: tuple[WrittenFile, ...],
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
        )
        self._store.put(manifest.name, encode_manifest(manifest))
        self._tip = manifest
        self.last_epoch = last
        self.rows_committed += manifest.rows
        self.manifests_written += 1
