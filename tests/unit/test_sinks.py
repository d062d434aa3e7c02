"""Sink slices and their committer: files, groups, and exactly what becomes visible when."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammine.model.errors import OutputError, ReplacedError, StateVersionError, TopologyError
from streammine.operators.sinks import FILE_RECORD, SinkOperator, SinkSettings
from streammine.runtime.output import CommittedOutput, clean, leftovers, output_digest, read_output
from tests.unit.memory_store import MemoryStore
from tests.unit.sink_bench import Sink, at

SCHEMA = pa.schema([("x", pa.int64())])


def rows(*values: int) -> list[pa.RecordBatch]:
    return [pa.record_batch([pa.array([value], pa.int64())], schema=SCHEMA) for value in values]


def visible(store: MemoryStore) -> dict[int, list[int]]:
    return {epoch: table.column("x").to_pylist() for epoch, table in read_output(store)}


def parts(store: MemoryStore) -> list[str]:
    return store.list("part-")


def test_each_epoch_becomes_visible_when_it_is_over() -> None:
    store = MemoryStore()
    sink = Sink(store, SCHEMA, slices=2)
    sink.epoch(0, rows(1, 2), rows(3))
    assert visible(store) == {0: [1, 2, 3]}
    sink.epoch(1, [], [])
    sink.epoch(2, [], rows(4))
    assert visible(store) == {0: [1, 2, 3], 2: [4]}
    assert not CommittedOutput(store).finished
    sink.finish(2)
    output = CommittedOutput(store)
    assert output.finished
    assert output.rows == 4
    assert sink.committer.last_epoch == 2


def test_a_group_becomes_visible_as_one_with_one_file_per_slice() -> None:
    store = MemoryStore()
    sink = Sink(store, SCHEMA, slices=2, every=3)
    sink.epoch(0, rows(1), rows(2))
    sink.epoch(1, rows(3), [])
    assert visible(store) == {}
    assert parts(store) == []
    sink.epoch(2, rows(4), [])
    assert visible(store) == {0: [1, 2], 1: [3], 2: [4]}
    assert len(parts(store)) == 2
    sink.epoch(3, rows(5), [])
    sink.finish(3)
    assert visible(store) == {0: [1, 2], 1: [3], 2: [4], 3: [5]}


def test_negative_epochs_have_groups_too() -> None:
    store = MemoryStore()
    sink = Sink(store, SCHEMA, every=2)
    for epoch in (-3, -2, -1, 0):
        sink.epoch(epoch, rows(epoch))
    assert visible(store) == {-3: [-3], -2: [-2], -1: [-1]}


def test_a_groups_last_epoch_is_due_where_rows_wait() -> None:
    # Groups of two. No slice has rows in epoch 5, yet epoch 4 becomes visible by its end.
    store = MemoryStore()
    sink = Sink(store, SCHEMA, slices=2, every=2)
    sink.epoch(4, rows(1), rows(2))
    assert visible(store) == {}
    assert [one.due_epoch for one in sink.slices] == [5, 5]
    sink.epoch(5)
    assert visible(store) == {4: [1, 2]}
    assert [one.due_epoch for one in sink.slices] == [None, None]
    assert sink.committer.due_epoch is None


def test_a_large_group_is_written_in_several_files() -> None:
    store = MemoryStore()
    sink = Sink(store, SCHEMA, every=4, file_bytes=80)
    sink.epoch(0, rows(*range(25)))
    sink.epoch(1, rows(100))
    sink.epoch(2, rows(*range(200, 212)))
    assert visible(store) == {}
    sink.epoch(3, [])
    assert visible(store) == {0: list(range(25)), 1: [100], 2: list(range(200, 212))}
    assert len(parts(store)) == 3 + 2


def test_after_which_epoch_a_file_is_written_does_not_depend_on_batches() -> None:
    # Bits that share a byte, validity maps and text under nulls make `nbytes` of the parts differ.
    schema = pa.schema([("flag", pa.bool_()), ("text", pa.string())])
    texts = pa.Array.from_buffers(
        pa.string(), 3, [pa.py_buffer(b"\x05"), *pa.array(["a", "hidden" * 9, "c"]).buffers()[1:]]
    )
    whole = pa.record_batch([pa.array([True, None, False]), texts], schema=schema)
    apart = [pa.RecordBatch.from_pylist([row], schema=schema) for row in whole.to_pylist()]
    for file_bytes in range(1, 120):
        found = []
        for batches in ([whole], apart, [whole.slice(0, 1), whole.slice(1)]):
            sink = Sink(MemoryStore(), schema, every=1000, file_bytes=file_bytes)
            records = [sink.send(0, epoch, batches) for epoch in range(9)]
            found.append(
                [[file["rows"] for one in epoch for file in one.to_pylist()] for epoch in records]
            )
        assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("file_bytes", [1, 40, 1000])
def test_a_delay_is_written_beside_the_rows_and_decides_nothing(file_bytes: int) -> None:
    schema = SCHEMA.append(pa.field("delay", pa.float64()))
    settings = SinkSettings("result", "parquet", schema, 1, every=4, file_bytes=file_bytes)

    def told(delays: dict[int, float], restored: bool) -> tuple[list[object], list[object]]:
        sink = SinkOperator(settings, MemoryStore(), 0, 0, delays.get)
        files: list[object] = []
        for epoch in range(8):
            accumulator = sink.accumulator(0)
            for batch in rows(epoch, epoch + 1):
                accumulator.add(batch)
            for record in sink.close(at(epoch), [accumulator]):
                files += [(epoch, file["epochs"], file["rows"]) for file in record.to_pylist()]
            if restored:
                pieces = iter(list(sink.freeze(True).pieces()))
                sink = SinkOperator(settings, sink._store, 0, 1, lambda epoch: None)
                sink.restore(1, True, pieces)
                sink._delay_of = delays.get
        store = sink._store
        assert isinstance(store, MemoryStore)
        tables = [pq.read_table(pa.py_buffer(data)) for data in store.blobs.values()]
        assert all(table.schema.names == ["x", "delay"] for table in tables)
        return files, sorted(tuple(r.values()) for t in tables for r in t.to_pylist())

    known = {epoch: 1.5 * epoch for epoch in range(8)}
    files, written = told(known, restored=False)
    assert written == sorted((x, 1.5 * e) for e in range(8) for x in (e, e + 1))
    # what is measured, or that it is not, changes no file's rows, nor does a restore
    assert told({}, restored=False)[0] == told(known, restored=True)[0] == files
    assert told(known, restored=True)[1] == written


def test_records_say_what_is_in_a_file() -> None:
    store = MemoryStore()
    sink = Sink(store, SCHEMA)
    (batch,) = sink.send(0, 7, rows(1, 2))
    assert batch.schema.equals(FILE_RECORD)
    (written,) = batch.to_pylist()
    assert (written["name"], written["epochs"], written["rows"]) == (parts(store)[0], [7], [2])
    assert written["bytes"] == len(store.blobs[parts(store)[0]])


def test_a_merged_accumulator_holds_the_rows_in_channel_order() -> None:
    store = MemoryStore()
    sink = Sink(store, SCHEMA)
    one, two = (sink.slices[0].accumulator(0) for _ in range(2))
    for batch in rows(1, 2):
        one.add(batch)
    two.add(rows(3)[0])
    one.merge(two)
    assert one.nbytes == 24


def test_a_resumed_committer_goes_on_where_the_chain_ends() -> None:
    store = MemoryStore()
    old = Sink(store, SCHEMA)
    old.epoch(0, rows(1))
    old.epoch(1, rows(2))
    new = Sink(store, SCHEMA, generation=1)
    # Epoch 1 is replayed, because its senders can't know that it was committed.
    new.epoch(1, rows(2))
    assert CommittedOutput(store).rows == 2
    old.epoch(2, rows(666))
    new.epoch(2, rows(3))
    new.finish(2)
    assert visible(store) == {0: [1], 1: [2], 2: [3]}
    assert len(leftovers(store)) == 4
    clean(store)
    assert visible(store) == {0: [1], 1: [2], 2: [3]}
    assert leftovers(store) == []


def test_a_restored_committer_drops_what_was_committed_after_its_snapshot() -> None:
    # Groups of two. The snapshot of epoch 0 holds a file of group 0, which is committed at epoch 1.
    store = MemoryStore()
    old = Sink(store, SCHEMA, every=2, file_bytes=1)
    old.epoch(0, rows(1))
    of_slice = old.slices[0].freeze(True).pieces()
    of_committer = list(old.committer.freeze(True).pieces())
    states = [list(of_slice), of_committer]
    old.epoch(1, rows(2))
    assert visible(store) == {0: [1], 1: [2]}
    new = Sink(store, SCHEMA, every=2, file_bytes=1, generation=1)
    new.slices[0].restore(1, True, iter(states[0]))
    new.committer.restore(1, True, iter(states[1]))
    assert new.committer.due_epoch == 1
    before = dict(store.blobs)
    new.epoch(1, rows(2))
    assert CommittedOutput(store).rows == 2
    new.epoch(2, rows(3))
    new.finish(2)
    assert visible(store) == {0: [1], 1: [2], 2: [3]}
    assert CommittedOutput(store).rows == 3
    assert all(store.blobs[name] == data for name, data in before.items())
    with pytest.raises(StateVersionError, match=r"result.commit.*version 2, this release reads"):
        new.committer.restore(2, True, iter([]))


def test_a_committer_of_the_past_may_not_start() -> None:
    store = MemoryStore()
    Sink(store, SCHEMA, generation=2).epoch(0, rows(1))
    for generation in (1, 2):
        with pytest.raises(OutputError, match="taken over by run 1, committer 2") as raised:
            Sink(store, SCHEMA, run=1, generation=generation).epoch(0, rows(1))
        assert isinstance(raised.value, ReplacedError) == (generation == 1)
    Sink(store, SCHEMA, run=2, generation=1).epoch(0, rows(1))
    with pytest.raises(OutputError, match="taken over by run 2, committer 1") as raised:
        Sink(store, SCHEMA, run=1, generation=3).epoch(0, rows(1))
    assert not isinstance(raised.value, ReplacedError), "another job writes there now"


def test_the_old_output_stands_until_the_new_runs_first_epoch_is_over() -> None:
    store = MemoryStore()
    old = Sink(store, SCHEMA)
    old.epoch(0, rows(1))
    old.finish(0)
    store.put("notes.txt", b"mine")
    new = Sink(store, SCHEMA, run=2)
    records = new.send(0, 0, rows(7))
    assert visible(store) == {0: [1]}
    new.commit(0, records)
    assert visible(store) == {0: [7]}
    assert len(parts(store)) == 1
    assert "notes.txt" in store.blobs
    sealed = store.log.index(("put", "seals/000002-000000.json"))
    assert all(verb == "put" for verb, _ in store.log[:sealed])


def test_a_run_without_rows_is_a_readable_output() -> None:
    store = MemoryStore()
    Sink(store, SCHEMA).finish(0)
    output = CommittedOutput(store)
    assert output.finished
    assert output.head(5).schema.equals(SCHEMA)
    assert len(output_digest({"result": store})) == 64


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())])])
def test_csv_refuses_what_it_cannot_hold(kind: pa.DataType) -> None:
    with pytest.raises(TopologyError, match=r"column x has type .*, which CSV can't hold"):
        Sink(MemoryStore(), pa.schema([("x", kind)]), file_format="csv")


def test_closing_an_epoch_inside_a_group_touches_no_store() -> None:
    store = MemoryStore()
    sink = Sink(store, SCHEMA, every=1000)
    for epoch in range(999):
        sink.send(0, epoch, rows(1, 2, 3))
    assert store.log == []


def test_a_time_that_a_text_file_cannot_hold_stops_the_sink_before_anything_is_written() -> None:
    store = MemoryStore()
    schema = pa.schema([("at", pa.timestamp("s"))])
    sink = Sink(store, schema, file_format="csv")
    good, bad = (
        pa.record_batch([pa.array([n], schema.field(0).type)], schema) for n in (1, 1 << 40)
    )
    sink.epoch(0, [good])
    with pytest.raises(
        OutputError, match=r"sink .*: rows of epoch 1: column 'at' has a time in the year 36\d+"
    ):
        sink.epoch(1, [bad])
    assert [epoch for epoch, _ in read_output(store)] == [0]
    assert len(parts(store)) == 1
