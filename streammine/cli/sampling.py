"""A small part of a topology's input, for simulating it: the first rows of each source, as tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from streammine.cli.topologies import read_topology
from streammine.model.topology import FilesSource, GeneratorSource, LogSource, Topology
from streammine.runtime.sources import open_reader, resolve_source, schema_of

EPOCHS = 24
"""About how many a sample should have unless told, where epochs are counted in rows."""

EPOCH_ROWS = 25
ROWS = 2000
"""Taken of each source where nobody says how many: of epochs that are counted in rows so many as fill
`EPOCHS` with `EPOCH_ROWS` each."""


def sampled(
    path: Path, overrides: tuple[str, ...], rows: int | None, epochs: int = EPOCHS
) -> tuple[Topology, dict[str, pa.Table], list[str]]:
    """The topology cut down to `rows` rows per source, the rows of its files, and what was cut.

    Raises TopologyError and InputError.
    """
    topology = read_topology(path, overrides)
    notes = []
    epoch = topology.epoch_definition()
    if rows is None:
        rows = epochs * EPOCH_ROWS if epoch.kind == "count" else ROWS
    if epoch.kind == "count" and epoch.length * epochs > rows:
        length = max(1, rows // epochs)
        topology = read_topology(path, (*overrides, f"epoch.count={length}"))
        notes.append(f"an epoch is cut to {length} rows, so that there are about {epochs}")
    sources = dict(topology.sources)
    tables = {}
    for name, source in topology.sources.items():
        if isinstance(source, GeneratorSource):
            cut = {"rows": min(rows, source.rows)}
            sources[name] = source.unpaced.model_copy(update=cut)
            continue
        if not isinstance(source, FilesSource | LogSource):
            # the simulation refuses it by name
            continue
        sources[name] = source.unpaced
        tables[name] = _first_rows(name, topology, path, rows)
        notes.append(f"source {name}: its first {tables[name].num_rows:,} rows")
    return topology.model_copy(update={"sources": sources}), tables, notes


def _first_rows(name: str, topology: Topology, path: Path, rows: int) -> pa.Table:
    """Read as a node reads, but raw files without preparing them."""
    source = topology.sources[name]
    assert isinstance(source, FilesSource | LogSource)
    source = source.unpaced
    if isinstance(source, FilesSource):
        source = source.model_copy(update={"prepare": None})
    epoch = topology.epoch_definition()
    resolved = resolve_source(name, source, epoch, str(path.absolute().parent))
    reader = open_reader(resolved, source, epoch, 0, 1, None)
    batches: list[pa.RecordBatch] = []
    wanted = rows
    try:
        while wanted > 0:
            delivery = reader.read(wanted, 0.0)
            for piece in delivery.pieces:
                batches.append(piece.batch.slice(0, max(0, wanted)))
                wanted -= batches[-1].num_rows
            if delivery.exhausted:
                break
    finally:
        reader.close()
    return pa.Table.from_batches(batches, schema_of(resolved))
