"""Reading what a job committed, and making room for a new run.

Only the chain of the highest seal counts (see `streammine.model.manifest`). Files that no
manifest on it names are left over from crashes; `leftovers` lists them and `clean` removes them.

A run into a folder that holds an earlier run's output of the same job and sink replaces it: as
soon as the new run's first epoch is over, its seal makes the folder read as the new run's output,
and the old files go. Up to then the old output stands. Output of another job is refused, unless
`overwrite` is given. Files that aren't ours are never touched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from streammine.model import digest
from streammine.model.contracts import Store
from streammine.model.epoch_ranges import EpochRanges
from streammine.model.epochs import BEGINNING
from streammine.model.errors import OutputError
from streammine.model.manifest import (
    Manifest,
    Seal,
    SinkDescription,
    WrittenFile,
    checksum,
    committed_chain,
    decode_manifest,
    decode_seal,
    highest_seal,
    run_of,
)
from streammine.operators.file_formats import decode_file
from streammine.runtime.stores import LocalStore


def begin_run(store: Store, job: str, sink: str, *, overwrite: bool = False) -> int:
    """The number of a new run that is to write into this folder; changes nothing there.

    Raises OutputError if the folder holds output of another job or sink and `overwrite` is false,
    or if it can't be read.
    """
    newest = highest_seal(store.list("seals/"))
    if newest is None:
        return 1
    number = run_of(newest)
    assert number is not None
    if overwrite:
        return number + 1
    found = decode_seal(newest, store.get(newest)).description
    if (found.job, found.sink) != (job, sink):
        raise OutputError(
            f"the folder of sink {sink} holds the output of job {found.job!r}, sink "
            f"{found.sink!r}; choose another `path`, remove the folder, or "
            "run with --overwrite to replace it"
        )
    return number + 1


class CommittedOutput:
    """One sink's committed output as it is now. `refresh` looks again.

    `description` and `manifests` are what the highest seal's chain says; a folder without a seal
    has neither (None and an empty list). Documents never change, so each is read once. Raises
    OutputError where something is missing or damaged.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Manifest] = {}
        self.seal: Seal | None = None
        self.manifests: list[Manifest] = []
        self.refresh()

    @property
    def description(self) -> SinkDescription | None:
        return None if self.seal is None else self.seal.description

    @property
    def finished(self) -> bool:
        return bool(self.manifests) and self.manifests[-1].finished

    @property
    def rows(self) -> int:
        return sum(manifest.rows for manifest in self.manifests)

    @property
    def lost(self) -> EpochRanges:
        """The epochs that may lack rows, because gap recovery lost some of what they were made of."""
        return EpochRanges(each for manifest in self.manifests for each in manifest.lost)

    def epoch_numbers(self) -> set[int]:
        """The epochs that have rows."""
        return {
            epoch for manifest in self.manifests for file in manifest.files for epoch in file.epochs
        }

    def refresh(self) -> None:
        newest = highest_seal(self._store.list("seals/"))
        if newest is None:
            return
        if self.seal is None or self.seal.name != newest:
            self.seal = decode_seal(newest, self._store.get(newest))
        names = self._store.list("manifests/")
        self.manifests = committed_chain(names, self.seal, self._manifest)

    def epochs(self, start: int = 0) -> Iterator[tuple[int, pa.Table]]:
        """(epoch, its rows) ascending, from manifest number `start` on. One group is in memory."""
        for manifest in self.manifests[start:]:
            yield from self._group(manifest)

    def head(self, rows: int) -> pa.Table:
        """The first `rows` rows (or all there are), reading no more files than it takes."""
        assert self.description is not None, "an output without a seal has no columns"
        tables: list[pa.Table] = [self.description.schema.empty_table()]
        missing = rows
        for _, table in self.epochs():
            if missing <= 0:
                break
            tables.append(table.slice(0, missing))
            missing -= table.num_rows
        return pa.concat_tables(tables)

    def _manifest(self, name: str) -> Manifest:
        if name not in self._known:
            self._known[name] = decode_manifest(name, self._store.get(name))
        return self._known[name]

    def _group(self, manifest: Manifest) -> Iterator[tuple[int, pa.Table]]:
        pieces: dict[int, list[pa.Table]] = {}
        for file in manifest.files:
            table = self._file(manifest, file)
            start = 0
            for epoch, count in zip(file.epochs, file.rows, strict=True):
                pieces.setdefault(epoch, []).append(table.slice(start, count))
                start += count
        for epoch in sorted(pieces):
            yield epoch, pa.concat_tables(pieces[epoch])

    def _file(self, manifest: Manifest, file: WrittenFile) -> pa.Table:
        assert self.description is not None
        data = self._store.get(file.name)
        if data.size != file.bytes or checksum(data) != file.checksum:
            raise OutputError(
                f"{file.name} is not as {manifest.name} says it was written ({data.size} bytes, "
                f"{file.bytes} expected): it was changed or damaged; run the job again"
            )
        table = decode_file(self.description.format, data, self.description.schema)
        if table.num_rows != file.total_rows:
            raise OutputError(
                f"{file.name} has {table.num_rows} rows, but {manifest.name} says {file.total_rows}"
            )
        return table


class Tail:
    """Follows an output while it grows: each call of `new` gives what was committed since the
    last."""

    def __init__(self, store: Store) -> None:
        self._output = CommittedOutput(store)
        self._taken_until = BEGINNING
        self._run = self._current_run()

    @property
    def finished(self) -> bool:
        """Whether everything was given and nothing will follow."""
        return self._output.finished and self._start == len(self._output.manifests)

    def new(self) -> Iterator[tuple[int, pa.Table]]:
        """(epoch, its rows), ascending. A new run in the same folder starts from its beginning."""
        self._output.refresh()
        if self._current_run() != self._run:
            self._run = self._current_run()
            self._taken_until = BEGINNING
        start = self._start
        if start < len(self._output.manifests):
            self._taken_until = self._output.manifests[-1].last_epoch
        return self._output.epochs(start)

    @property
    def _start(self) -> int:
        """The first manifest that is new. What counts now need not be of the committer that wrote those
        before, so that they are not told by their number."""
        lasts = [each.last_epoch for each in self._output.manifests]
        return bisect_right(lasts, self._taken_until)

    def _current_run(self) -> int | None:
        return None if self._output.seal is None else self._output.seal.run


def read_output(store: Store) -> Iterator[tuple[int, pa.Table]]:
    """(epoch, its rows) of a sink's committed output, epochs ascending."""
    return CommittedOutput(store).epochs()


def head(store: Store, rows: int) -> pa.Table | None:
    """The first rows of a sink's committed output; None if there is no output at all."""
    output = CommittedOutput(store)
    return None if output.description is None else output.head(rows)


def sink_digest(store: Store, progress: Callable[[int], None] | None = None) -> digest.SinkDigest:
    """The digest of one sink, read from its folder. Calls `progress` with rows done, per epoch.

    Raises OutputError if there is no output.
    """
    output = CommittedOutput(store)
    described = output.description
    if described is None:
        raise OutputError("there is no committed output in this folder; run the job first")
    total = digest.SinkDigest(
        described.sink, described.schema, ordered=described.ordered, volatile=described.volatile
    )
    for epoch, table in output.epochs():
        total.add(epoch, table)
        if progress is not None:
            progress(total.rows)
    return total


def output_digest(sinks: Mapping[str, Store]) -> str:
    """The digest of a job's whole output, from the folders of its sinks by name.

    Raises OutputError if one of them has no output or that of another sink.
    """
    digests = []
    for name, store in sinks.items():
        one = sink_digest(store)
        if one.name != name:
            raise OutputError(f"the folder of sink {name} holds the output of sink {one.name}")
        digests.append(one)
    return digest.output_digest(digests)


def leftovers(store: Store) -> list[str]:
    """Files and documents of ours that don't count. Only right while no job writes there."""
    output = CommittedOutput(store)
    counted = {manifest.name for manifest in output.manifests}
    counted |= {file.name for manifest in output.manifests for file in manifest.files}
    if output.seal is not None:
        # who reads looks whether what the seal goes on from has come furthest
        counted |= {output.seal.name, output.seal.continues_from or ""}
    return [name for name in store.list("") if run_of(name) is not None and name not in counted]


def clean(store: Store) -> list[str]:
    """Remove what `leftovers` lists, and return it. Only while no job writes there."""
    found = leftovers(store)
    for name in found:
        store.delete(name)
    if isinstance(store, LocalStore):
        store.remove_temporaries()
    return found
