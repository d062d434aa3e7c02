"""Epoch logs: manifests keep what they say, segments are read without decoding."""

import json
import re

import pyarrow as pa
import pytest

from streammine.model.epoch_log import (
    EpochSettings,
    InputFile,
    Manifest,
    Partition,
    Segment,
    SegmentReader,
    epoch_metadata,
    epochs_schema,
    log_schema,
    segment_name,
)
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import InputError, TopologyError
from streammine.model.preparation import FormatSettings, PrepareRequest, RawFile, request_for

COLUMNS = pa.schema([("word", pa.string()), ("count", pa.int64())])


def manifest(**changes: object) -> Manifest:
    segment = Segment(
        name=segment_name(0, 0),
        rows=3,
        bytes=100,
        batches=1,
        first_epoch=0,
        last_epoch=0,
        digest="00",
    )
    content = {
        "source_schema": COLUMNS.serialize().to_pybytes().hex(),
        "epoch": EpochSettings.of(EpochDefinition("count", 10)),
        "order": "position",
        "rows_read": 4,
        "rows_used": 3,
        "rows_dead": 1,
        "epochs": 1,
        "first_epoch": 0,
        "last_epoch": 0,
        "files": (InputFile(path="a.txt", rows=4),),
        "partitions": (Partition(rows=3, segments=(segment,)),),
        "epochs_digest": "01",
        "dead_letters_digest": "02",
        "fingerprint": "03",
        **changes,
    }
    return Manifest(**content).sealed()  # type: ignore[arg-type]


def segment_bytes(epochs: list[int], rows_each: int = 2) -> pa.Buffer:
    schema = log_schema(COLUMNS)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for epoch in epochs:
            columns = [["w"] * rows_each, [epoch] * rows_each, [0] * rows_each, range(rows_each)]
            arrays = [
                pa.array(values, each.type) for values, each in zip(columns, schema, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            writer.write_batch(batch, custom_metadata=epoch_metadata(epoch))
    return sink.getvalue()


def test_a_manifest_reads_back_as_it_was_written() -> None:
    written = manifest()
    read = Manifest.decode(written.encode(), "log")
    assert read == written
    assert read.schema == COLUMNS
    assert read.epoch.definition == EpochDefinition("count", 10)


def test_a_manifests_digest_covers_the_content_but_not_what_it_was_made_of() -> None:
    assert manifest(fingerprint="99").digest == manifest().digest
    assert manifest(epochs_digest="99").digest != manifest().digest
    assert manifest(files=(InputFile(path="b.txt", rows=4),)).digest != manifest().digest


def test_a_changed_manifest_is_refused_by_name() -> None:
    content = json.loads(manifest().encode())
    content["rows_used"] = 2
    with pytest.raises(InputError, match=re.escape("logs/x/manifest.json is damaged: its digest")):
        Manifest.decode(json.dumps(content).encode(), "logs/x")
    del content["rows_used"]
    with pytest.raises(InputError, match="rows_used"):
        Manifest.decode(json.dumps(content).encode(), "logs/x")


@pytest.mark.parametrize("data", [b"", b"[1]", b"{}", b"\xff\xfe", b'{"version": '])
def test_something_else_than_a_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="is not the manifest of an epoch log"):
        Manifest.decode(data, "log")


def test_a_log_of_another_layout_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="layout version 99; this release reads 2: prepare"):
        Manifest.decode(b'{"version": 99}', "log")


def test_a_segment_gives_batches_with_their_epochs() -> None:
    reader = SegmentReader(segment_bytes([3, 3, 7]), "s")
    assert reader.batches == 3
    assert [reader.read(index)[0] for index in range(3)] == [3, 3, 7]
    assert reader.read(2)[1].schema == log_schema(COLUMNS)
    assert reader.read(2)[1].column("count").to_pylist() == [7, 7]


def test_a_segment_gives_only_the_columns_that_are_wanted() -> None:
    data = segment_bytes([1])
    assert SegmentReader(data, "s", ["count"]).read(0)[1].schema.names == [
        "count",
        "__file",
        "__row",
    ]
    assert SegmentReader(data, "s", ["word"], positions=False).read(0)[1].schema.names == ["word"]


def test_reading_a_segment_copies_nothing() -> None:
    data = segment_bytes([1], rows_each=1000)
    column = SegmentReader(data, "s").read(0)[1].column("count")
    address = column.buffers()[1].address
    assert data.address <= address < data.address + data.size


def test_damaged_segments_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="segment p/s of an epoch log is damaged"):
        SegmentReader(pa.py_buffer(b"nonsense"), "p/s")
    whole = segment_bytes([1, 2]).to_pybytes()
    with pytest.raises(InputError, match="segment p/s of an epoch log is damaged"):
        SegmentReader(pa.py_buffer(whole[:-20]), "p/s")


def test_the_epoch_table_has_a_count_for_each_partition() -> None:
    batch = pa.RecordBatch.from_pylist([{"epoch": 1, "rows": [2, 3]}], schema=epochs_schema(2))
    assert batch.column("rows").to_pylist() == [[2, 3]]


def request(**changes: object) -> PrepareRequest:
    files = [RawFile(path=path, size_bytes=1, modified_nanoseconds=2) for path in ("b", "a")]
    made = request_for(files, FormatSettings(kind="text"), COLUMNS, EpochDefinition("count", 5))
    return made.model_copy(update=changes)


def test_a_fingerprint_is_of_input_and_settings_alone() -> None:
    base = request().fingerprint
    assert request(files=tuple(reversed(request().files))).fingerprint == base
    assert request(master="local[1]", output="elsewhere").fingerprint == base
    touched = (*request().files[:1], RawFile(path="a", size_bytes=1, modified_nanoseconds=3))
    assert request(files=touched).fingerprint != base
    assert request(partitions=3).fingerprint != base
    assert request(merge_by="count").fingerprint != base


def test_a_request_survives_the_way_to_the_job() -> None:
    again = PrepareRequest.model_validate_json(request().model_dump_json())
    assert again == request()
    assert again.schema == COLUMNS
    assert [file.path for file in again.ordered_files] == ["a", "b"]


def test_too_many_partitions_are_refused_with_what_would_be_right() -> None:
    with pytest.raises(TopologyError, match="can't have 5,000 partitions; it has at most 512"):
        request_for(
            [],
            FormatSettings(kind="text"),
            COLUMNS,
            EpochDefinition("count", 5),
            partitions=5000,
        )
