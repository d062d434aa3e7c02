"""A prepared epoch log as a source."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.epoch_log import (
    EpochSettings,
    InputFile,
    Manifest,
    Partition,
    Segment,
    epoch_metadata,
    epochs_schema,
    log_schema,
    segment_name,
)
from streammine.model.epochs import INFINITY, EpochDefinition
from streammine.model.errors import InputError, TopologyError
from streammine.model.topology.sources import LogSource
from streammine.runtime.sources import open_reader, resolve_source
from tests.unit.source_reading import COUNT, TIME, Read, assert_independent, read_all


class TestLog:
    def test_partitions_are_read_in_step_by_epoch(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", partitions=3, epochs={0: 10, 1: 4, 5: 7})
        source = LogSource.model_validate({"log": "log"})
        read = assert_independent(source, COUNT, tmp_path)
        assert Counter(row[0] for row in read.rows) == {0: 10, 1: 4, 5: 7}
        assert read.dead == [("raw.csv", 3, "bad"), ("raw.csv", 9, "worse")]
        resolved = resolve_source("s", source, COUNT, str(tmp_path))
        reader = open_reader(resolved, source, COUNT, 1, 2, ["v"])
        seen = [reader.read(1000, 0.0) for _ in range(3)]
        assert [each.open_epoch for each in seen] == [1, 5, INFINITY]
        assert seen[0].pieces[0].batch.schema.names == ["v"]

    def test_a_paced_log_is_read_in_its_order(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", partitions=2, epochs={0: 10, 1: 4}, dead=False)
        source = LogSource.model_validate({"log": "log", "rate": "1/s"})
        resolved = resolve_source("s", source, COUNT, str(tmp_path))
        due = []
        for index in range(2):
            reader = open_reader(resolved, source, COUNT, index, 2, None)
            rows = 0
            while not (delivery := reader.read(1000, 6.5)).wake_after_seconds:
                rows += delivery.rows_read
                if delivery.exhausted:
                    break
            due.append(rows + delivery.rows_read)
        assert due == [5, 2], "rows 0 to 4 lie in partition 0, 5 and 6 in partition 1"

    @pytest.mark.parametrize("columns", [["v"], []])
    def test_times_come_with_the_rows_though_no_operator_reads_their_column(
        self, tmp_path: Path, columns: list[str]
    ) -> None:
        write_log(tmp_path / "log", partitions=2, epochs={-1: 10, 3: 4}, definition=TIME)
        source = LogSource.model_validate({"log": "log"})
        resolved = resolve_source("s", source, TIME, str(tmp_path))
        times: dict[tuple[int, int], int] = {}
        epochs: Counter[int] = Counter()
        for index in range(3):
            read = Read()
            read_all(open_reader(resolved, source, TIME, index, 3, columns), 4, read)
            for piece in (piece for each in read.deliveries for piece in each.pieces):
                assert len(piece.batch.schema.names) == 1, "the time is not handed out as a column"
                assert piece.batch.schema.names == columns or not columns
                assert piece.times is not None
                assert piece.rows is not None
                assert (TIME.of_time(piece.times) == piece.epoch).all()
                places = zip([piece.epoch] * len(piece.rows), piece.rows.tolist(), strict=True)
                times |= zip(places, piece.times.tolist(), strict=True)
                epochs[piece.epoch] += piece.batch.num_rows
        assert epochs == {-1: 10, 3: 4}
        first = {(-1, row): (row - 10) * 1_000_000 for row in range(10)}
        assert times == first | {(3, 10 + row): (30 + row) * 1_000_000 for row in range(4)}

    def test_a_log_of_other_epochs_is_refused(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log", partitions=1, epochs={0: 10})
        source = LogSource.model_validate({"log": "log"})
        with pytest.raises(TopologyError, match="70 rows, the topology has 10 s of 'ts'"):
            resolve_source("s", source, TIME, str(tmp_path))
        with pytest.raises(InputError, match=r"manifest\.json"):
            resolve_source("s", LogSource.model_validate({"log": "gone"}), COUNT, str(tmp_path))


def write_log(
    folder: Path,
    partitions: int,
    epochs: dict[int, int],
    dead: bool = True,
    definition: EpochDefinition = COUNT,
) -> None:
    """An epoch log of the given rows per epoch, a segment per partition and batches of three
    rows. The time column has the rows' numbers or, under time epochs, a second of the epoch."""
    columns = pa.schema({"ts": pa.int64(), "v": pa.float64()})
    counts = {
        epoch: [len(part) for part in np.array_split(np.arange(rows), partitions)]
        for epoch, rows in epochs.items()
    }
    row = 0
    batches: list[list[tuple[int, pa.RecordBatch]]] = [[] for _ in range(partitions)]
    for epoch, shares in counts.items():
        start = row
        for number, share in enumerate(shares):
            rows = np.arange(row, row + share)
            row += share
            seconds = rows
            if definition.kind == "time":
                seconds = epoch * definition.length // 1_000_000 + rows - start
            values = [seconds, rows / 2, np.zeros(share, np.int32), rows]
            batch = pa.record_batch([pa.array(each) for each in values], schema=log_schema(columns))
            batches[number] += [(epoch, batch.slice(at, 3)) for at in range(0, share, 3)]
    parts = []
    for number, part in enumerate(batches):
        name = segment_name(number, 0)
        (folder / name).parent.mkdir(parents=True)
        with pa.ipc.new_file(str(folder / name), log_schema(columns)) as writer:
            for epoch, batch in part:
                writer.write_batch(batch, custom_metadata=epoch_metadata(epoch))
        total = sum(batch.num_rows for _, batch in part)
        segment = Segment(
            name=name,
            rows=total,
            bytes=(folder / name).stat().st_size,
            batches=len(part),
            first_epoch=part[0][0],
            last_epoch=part[-1][0],
            digest="",
        )
        parts.append(Partition(rows=total, segments=(segment,)))
    table = pa.table(
        {"epoch": list(counts), "rows": list(counts.values())}, schema=epochs_schema(partitions)
    )
    with pa.ipc.new_file(str(folder / "epochs.arrow"), table.schema) as writer:
        writer.write_table(table)
    letters = ["bad", "worse"] if dead else []
    (folder / "dead-letters.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "file": "raw.csv",
                    "row": 3 + 6 * at,
                    "reason": reason,
                    "text": "x",
                    "epoch": next(iter(epochs)),
                }
            )
            + "\n"
            for at, reason in enumerate(letters)
        )
    )
    manifest = Manifest(
        source_schema=columns.serialize().to_pybytes().hex(),
        epoch=EpochSettings.of(definition),
        order="time" if definition.kind == "time" else "position",
        rows_read=row + len(letters),
        rows_used=row,
        rows_dead=len(letters),
        epochs=len(epochs),
        first_epoch=min(epochs),
        last_epoch=max(epochs),
        files=(InputFile(path="raw.csv", rows=row),),
        partitions=tuple(parts),
        epochs_digest="",
        dead_letters_digest="",
        fingerprint="",
    )
    (folder / "manifest.json").write_bytes(manifest.sealed().encode())
