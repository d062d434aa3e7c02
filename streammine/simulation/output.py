"""Reading back what a simulated job committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from streammine.model.contracts import Store
from streammine.model.digest import SinkDigest
from streammine.model.epoch_ranges import EpochRanges
from streammine.model.manifest import (
    Manifest,
    Seal,
    checksum,
    committed_chain,
    decode_manifest,
    decode_seal,
    highest_seal,
)
from streammine.operators.file_formats import decode_file


@dataclass(frozen=True)
class Committed:
    """What counts of a sink's output: the rows by epoch, ascending, and the epochs that may lack some."""

    seal: Seal
    epochs: dict[int, pa.Table]
    lost: EpochRanges


def read_committed(store: Store) -> Committed | None:
    """None where nobody has begun to write."""
    newest = highest_seal(store.list("seals/"))
    if newest is None:
        return None
    seal = decode_seal(newest, store.get(newest))
    manifests = committed_chain(
        store.list("manifests/"), seal, lambda name: decode_manifest(name, store.get(name))
    )
    lost = EpochRanges(each for one in manifests for each in one.lost)
    return Committed(seal, _read_epochs(store, seal, manifests), lost)


def _read_epochs(store: Store, seal: Seal, manifests: Iterable[Manifest]) -> dict[int, pa.Table]:
    pieces: dict[int, list[pa.Table]] = {}
    for manifest in manifests:
        for file in manifest.files:
            data = store.get(file.name)
            assert checksum(data) == file.checksum, f"{file.name} is damaged"
            table = decode_file(seal.description.format, data, seal.description.schema)
            start = 0
            for epoch, count in zip(file.epochs, file.rows, strict=True):
                pieces.setdefault(epoch, []).append(table.slice(start, count))
                start += count
    return {epoch: pa.concat_tables(pieces[epoch]) for epoch in sorted(pieces)}


def sink_digest(committed: Committed) -> SinkDigest:
    described = committed.seal.description
    digest = SinkDigest(
        described.sink, described.schema, ordered=described.ordered, volatile=described.volatile
    )
    for epoch, table in committed.epochs.items():
        digest.add(epoch, table)
    return digest
