"""Reading committed output, and starting a run over an earlier one's."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from streammine.model.digest import SinkDigest
from streammine.model.digest import output_digest as digest_of
from streammine.model.errors import OutputError
from streammine.runtime.output import (
    CommittedOutput,
    Tail,
    begin_run,
    head,
    output_digest,
    read_output,
    sink_digest,
)
from streammine.runtime.stores import LocalStore, open_store
from tests.unit.memory_store import MemoryStore
from tests.unit.sink_bench import Sink

SCHEMA = pa.schema([("word", pa.string()), ("n", pa.int64())])


def batch(*rows: tuple[str, int]) -> pa.RecordBatch:
    words, numbers = zip(*rows, strict=True)
    return pa.record_batch([pa.array(words), pa.array(numbers)], schema=SCHEMA)


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json", "arrow"])
def test_every_format_gives_the_digest_of_what_was_written(
    tmp_path: Path, file_format: str
) -> None:
    store = open_store(tmp_path / "out")
    sink = Sink(store, SCHEMA, slices=2, file_format=file_format, every=2)
    expected = SinkDigest("result", SCHEMA)
    for epoch in range(5):
        one, two = batch(("b", epoch), ("a", 1)), batch(("", -1))
        sink.epoch(epoch, [one], [two] if epoch % 2 else [])
        expected.add(epoch, pa.Table.from_batches([two, one] if epoch % 2 else [one]))
    sink.finish(4)
    assert output_digest({"result": store}) == digest_of([expected])


def test_files_are_plain_parquet_for_other_tools(tmp_path: Path) -> None:
    sink = Sink(open_store(tmp_path / "out"), SCHEMA)
    sink.epoch(0, [batch(("a", 1))])
    sink.epoch(1, [batch(("b", 2))])
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert [pa.parquet.read_table(file).to_pylist() for file in files] == [
        [{"word": "a", "n": 1}],
        [{"word": "b", "n": 2}],
    ]


def test_head_gives_the_first_rows(tmp_path: Path) -> None:
    store = MemoryStore()
    assert head(store, 3) is None
    sink = Sink(store, SCHEMA)
    sink.epoch(0, [batch(("a", 1), ("b", 2))])
    sink.epoch(1, [batch(("c", 3), ("d", 4))])
    taken = head(store, 3)
    assert taken is not None
    assert taken.column("word").to_pylist() == ["a", "b", "c"]
    assert CommittedOutput(store).head(0).num_rows == 0
    assert CommittedOutput(store).head(99).num_rows == 4


def test_a_tail_gives_each_epoch_once(tmp_path: Path) -> None:
    store = MemoryStore()
    tail = Tail(store)
    assert list(tail.new()) == []
    sink = Sink(store, SCHEMA)
    sink.epoch(0, [batch(("a", 1))])
    sink.epoch(1, [batch(("b", 2))])
    assert [epoch for epoch, _ in tail.new()] == [0, 1]
    assert list(tail.new()) == []
    sink.epoch(2, [batch(("c", 3))])
    sink.finish(2)
    assert not tail.finished
    assert [epoch for epoch, _ in tail.new()] == [2]
    assert tail.finished


def test_a_tail_starts_again_with_a_new_run() -> None:
    store = MemoryStore()
    Sink(store, SCHEMA).epoch(0, [batch(("a", 1))])
    tail = Tail(store)
    assert len(list(tail.new())) == 1
    Sink(store, SCHEMA, run=2).epoch(0, [batch(("b", 1))])
    assert [table.column("word").to_pylist() for _, table in tail.new()] == [["b"]]


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    Sink(store, SCHEMA).epoch(0, [batch(("a", 1))])
    (name,) = store.list("part-")
    data = bytearray(store.get(name))
    data[len(data) // 2] ^= 1
    store.put(name, bytes(data))
    with pytest.raises(OutputError, match=f"{name} is not as manifests/.* says it was written"):
        list(read_output(store))


def test_runs_into_one_folder_are_numbered() -> None:
    store = MemoryStore()
    assert begin_run(store, "job", "result") == 1
    Sink(store, SCHEMA).epoch(0, [batch(("a", 1))])
    assert begin_run(store, "job", "result") == 2


def test_output_of_another_job_is_not_overwritten_unasked() -> None:
    store = MemoryStore()
    Sink(store, SCHEMA, job="invoices").epoch(0, [batch(("a", 1))])
    with pytest.raises(OutputError, match=r"holds the output of job 'invoices'.*--overwrite"):
        begin_run(store, "wordcount", "result")
    assert begin_run(store, "wordcount", "result", overwrite=True) == 2


def test_digest_wants_an_output_of_the_right_sink() -> None:
    store = MemoryStore()
    with pytest.raises(OutputError, match="run the job first"):
        sink_digest(store)
    Sink(store, SCHEMA).finish(0)
    with pytest.raises(OutputError, match="holds the output of sink result"):
        output_digest({"other": store})
