"""How long rows took: what nodes know of when an epoch was read, and the column that sinks make of it."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa
import pytest

from streammine import Topology, TopologyError
from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.frames import FrameHeader, FrameKind
from streammine.model.topology import Sink
from streammine.operators.sinks import SinkOperator, SinkSettings
from streammine.runtime import read_times
from streammine.runtime.read_times import ReadTimes
from tests.unit.memory_store import MemoryStore

SCHEMA = pa.schema([("value", pa.int64())])
ROWS = pa.record_batch({"value": pa.array([1, 2])})
COUNTED = EpochDefinition("count", 2)


def test_the_oldest_row_of_an_epoch_counts() -> None:
    times = ReadTimes()
    for at in (50, 30, 0, 40):
        times.note(7, at)
    assert (times.of(7), times.of(8)) == (30, 0)
    assert times.delay_milliseconds(8) is None
    times.note(9, int((time.time() - 2.0) * 1e6))
    found = times.delay_milliseconds(9)
    assert found is not None
    assert 2_000 <= found < 60_000


def test_what_is_known_travels_in_headers() -> None:
    here, there = ReadTimes(), ReadTimes()
    here.note(7, 1_234)
    header = FrameHeader(1, 2, 3, 4, 7, 0, 6, 7, FrameKind.DATA)
    received = FrameHeader.decode(header.encode(here.of(7)))
    assert received == replace(header, read_at=1_234)
    assert there.noted(received) is received
    assert there.of(7) == 1_234


def test_only_so_many_epochs_are_remembered() -> None:
    times = ReadTimes()
    for epoch in range(read_times.MOST_EPOCHS + 10):
        times.note(epoch, 1 + epoch)
    assert times.of(9) == 0
    assert times.of(10) == 11


@pytest.mark.parametrize("delay", [12.5, None])
def test_a_sink_adds_the_delay_of_each_epoch(delay: float | None) -> None:
    columns = Sink(input="rows", format="parquet", path="out", delay="delay").columns("out", SCHEMA)
    assert columns == pa.schema([("value", pa.int64()), ("delay", pa.float64())])
    store = MemoryStore()
    sink = SinkOperator(SinkSettings("out", "json", columns, 0), store, 0, 1, lambda epoch: delay)
    accumulator = sink.accumulator(0)
    accumulator.add(ROWS)
    sink.close(EpochClose(0, 0, COUNTED), [accumulator])
    (name,) = store.list("")
    text = bytes(store.get(name)).decode()
    assert text.count("12.5") == (2 if delay else 0)
    assert text.count("value") == 2


def test_the_delay_is_volatile_and_needs_a_name_of_its_own() -> None:
    sink = Sink(input="rows", format="parquet", path="out", delay="delay", volatile=("seen",))
    assert sink.all_volatile == ("seen", "delay")
    with pytest.raises(TopologyError, match="has a column 'delay' already; use another name"):
        sink.columns("out", pa.schema([("delay", pa.int64())]))
    topology = Topology(name="t", epoch={"count": 10}).source("rows", generator="keys", rows=10)
    assert topology.sink("out", input="rows", format="console", delay="d").sinks["out"].delay == "d"
