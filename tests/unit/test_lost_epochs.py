"""Lost epochs where output is committed and read: what manifests name, and who is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from streammine.cli.digest_command import digest
from streammine.model.contracts import EpochClose
from streammine.model.epoch_ranges import EpochRange, EpochRanges
from streammine.model.manifest import decode_manifest
from streammine.runtime.output import CommittedOutput, Tail, read_output
from streammine.runtime.stores import open_store
from tests.unit.memory_store import MemoryStore
from tests.unit.sink_bench import Sink, at

SCHEMA = pa.schema([("x", pa.int64())])


def rows(*values: int) -> list[pa.RecordBatch]:
    return [pa.record_batch([pa.array([value], pa.int64())], schema=SCHEMA) for value in values]


class Losing(Sink):
    """A sink whose committer is told of lost epochs with the next one that it closes."""

    told: tuple[EpochRange, ...] = ()

    def lose(self, *lost: EpochRange) -> None:
        self.told = lost

    def commit(self, epoch: int, records: Sequence[pa.RecordBatch]) -> None:
        accumulator = self.committer.accumulator(0)
        for batch in records:
            accumulator.add(batch)
        close: EpochClose = replace(at(epoch), lost=self.told)
        self.committer.close(close, [accumulator])
        self.told = ()


def manifests(store: MemoryStore) -> list[tuple[int, int, tuple[EpochRange, ...]]]:
    output = CommittedOutput(store)
    return [(each.first_epoch, each.last_epoch, each.lost) for each in output.manifests]


def test_a_lost_epoch_stands_in_the_manifest_of_its_rows_or_in_one_without_files() -> None:
    store = MemoryStore()
    sink = Losing(store, SCHEMA)
    sink.epoch(0, rows(0))
    sink.lose((1, 1))
    sink.epoch(1, rows(1))
    sink.lose((2, 4))
    sink.epoch(4)
    sink.epoch(5, rows(5))
    sink.lose((6, 7))
    sink.epoch(8, rows(8))
    sink.finish(9)
    assert manifests(store) == [
        (0, 0, ()),
        (1, 1, ((1, 1),)),
        (2, 4, ((2, 4),)),
        (5, 5, ()),
        (6, 8, ((6, 7),)),
        (9, 9, ()),
    ]
    output = CommittedOutput(store)
    assert output.finished
    assert list(output.lost) == [(1, 4), (6, 7)]
    assert output.lost.count == sink.committer.epochs_lost == 6
    assert [epoch for epoch, _ in read_output(store)] == [0, 1, 5, 8]


def test_of_epochs_that_are_committed_together_all_count_as_lost() -> None:
    #   0 1 2 3 | 4 5 6 7 | 8 9 10 11
    store = MemoryStore()
    sink = Losing(store, SCHEMA, every=4)
    sink.epoch(3, rows(3))
    sink.lose((5, 5))
    sink.epoch(6, rows(6))
    sink.lose((9, 9))
    sink.epoch(9)
    sink.finish(10)
    assert manifests(store) == [(0, 3, ()), (4, 7, ((4, 7),)), (8, 11, ((8, 11),)), (11, 11, ())]


def test_what_is_committed_is_not_lost_any_more() -> None:
    store = MemoryStore()
    first = Losing(store, SCHEMA)
    for epoch in range(6):
        first.epoch(epoch, rows(epoch))
    second = Losing(store, SCHEMA, generation=1)
    second.lose((3, 7))
    second.epoch(7)
    second.finish(8)
    assert list(CommittedOutput(store).lost) == [(6, 7)]
    assert [epoch for epoch, _ in read_output(store)] == list(range(6))


def test_a_restored_committer_knows_what_is_still_to_be_named() -> None:
    store = MemoryStore()
    first = Losing(store, SCHEMA, every=4)
    first.epoch(3, rows(3))
    first.lose((4, 4))
    first.epoch(5)
    pieces = list(first.committer.freeze(True).pieces())
    second = Losing(store, SCHEMA, every=4, generation=1)
    second.committer.restore(1, True, iter(pieces))
    assert second.committer.due_epoch == 7
    second.epoch(8, rows(8))
    second.finish(9)
    assert list(CommittedOutput(store).lost) == [(4, 7)]
    assert second.committer.epochs_lost == 4


def test_of_two_that_have_lost_different_epochs_the_furthest_counts() -> None:
    #   1 has two manifests more than 2, and is an epoch behind in the end
    store = MemoryStore()
    first = Losing(store, SCHEMA, generation=1, beside=(2,))
    second = Losing(store, SCHEMA, generation=2, beside=(1,))
    tail = Tail(store)
    for one in (first, second):
        one.epoch(0, rows(0))
    for epoch in (1, 2):
        first.lose((epoch, epoch))
        first.epoch(epoch)
    first.epoch(3, rows(3))
    shown = [epoch for epoch, _ in tail.new()]
    second.epoch(3, rows(3))
    second.epoch(4, rows(4))
    assert [epoch for epoch, _ in read_output(store)] == [0, 3, 4]
    second.finish(5)
    output = CommittedOutput(store)
    assert output.finished
    assert not output.lost, "2 has all of them"
    shown += [epoch for epoch, _ in tail.new()]
    assert shown == [0, 3, 4], "each once, whoever has written it"
    assert tail.finished


def test_a_manifest_without_losses_is_as_it_always_was() -> None:
    store = MemoryStore()
    sink = Losing(store, SCHEMA)
    sink.epoch(0, rows(0))
    (name,) = store.list("manifests/")
    assert b'"lost"' not in store.get(name).to_pybytes()
    assert decode_manifest(name, store.get(name)).lost == ()


TOPOLOGY = """\
name: job
epoch: {count: 10}
sources: {lines: {files: lines.txt}}
sinks: {result: {input: lines, format: parquet, path: out}}
"""


def test_the_digest_names_lost_epochs_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    store = open_store(str(tmp_path / "out"))
    sink = Losing(store, SCHEMA)
    sink.epoch(0, rows(0))
    sink.lose((1, 1), (1200, 1300))
    sink.epoch(1300, rows(5))
    sink.finish(1301)
    done = CliRunner().invoke(digest, [str(tmp_path / "topology.yaml")])
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == (
        "result: 102 epochs may lack rows, which gap recovery has lost: 1, 1,200 to 1,300\n"
    )


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ([(3, 5)], [(3, 5)]),
        ([(3, 5), (6, 7)], [(3, 7)]),
        ([(3, 5), (7, 8)], [(3, 5), (7, 8)]),
        ([(7, 8), (3, 5)], [(3, 5), (7, 8)]),
        ([(3, 5), (9, 9), (4, 8)], [(3, 9)]),
        ([(3, 9), (4, 5)], [(3, 9)]),
        ([(5, 4)], []),
    ],
)
def test_ranges_that_meet_are_one(added: list[EpochRange], expected: list[EpochRange]) -> None:
    assert list(EpochRanges(added)) == expected


def test_ranges_are_cut_and_forgotten() -> None:
    ranges = EpochRanges([(3, 5), (8, 9)])
    assert ranges.between(4, 8) == ((4, 5), (8, 8))
    assert ranges.between(6, 7) == ()
    assert [epoch for epoch in range(12) if epoch in ranges] == [3, 4, 5, 8, 9]
    ranges.drop(3)
    assert list(ranges) == [(4, 5), (8, 9)]
    ranges.drop(8)
    assert list(ranges) == [(9, 9)]
