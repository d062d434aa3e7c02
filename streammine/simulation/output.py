"""Reading back what a simulated job committed."""

from __future__ import annotations

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


def read_seal(store: Store) -> Seal | None:
    newest = highest_seal(store.list("seals/"))
    return None if newest is None else decode_seal(newest, store.get(newest))


def read_manifests(store: Store, seal: Seal) -> list[Manifest]:
    """Those that count, oldest first."""
    return committed_chain(
        store.list("manifests/"), seal, lambda name: decode_manifest(name, store.get(name))
    )


def read_lost(store: Store, seal: Seal) -> EpochRanges:
    """The epochs that may lack rows."""
    return EpochRanges(each for one in read_manifests(store, seal) for each in one.lost)


def read_epochs(store: Store, seal: Seal) -> dict[int, pa.Table]:
    """The committed rows by epoch, ascending."""
    pieces: dict[int, list[pa.Table]] = {}
    for manifest in read_manifests(store, seal):
        for file in manifest.files:
            data = store.get(file.name)
            assert checksum(data) == file.checksum, f"{file.name} is damaged"
            table = decode_file(seal.description.format, data, seal.description.schema)
            start = 0
            for epoch, count in zip(file.epochs, file.rows, strict=True):
                pieces.setdefault(epoch, []).append(table.slice(start, count))
                start += count
    return {epoch: pa.concat_tables(pieces[epoch]) for epoch in sorted(pieces)}


def sink_digest(seal: Seal, epochs: dict[int, pa.Table]) -> SinkDigest:
    described = seal.description
    digest = SinkDigest(
        described.sink, described.schema, ordered=described.ordered, volatile=described.volatile
    )
    for epoch, table in epochs.items():
        digest.add(epoch, table)
    return digest
