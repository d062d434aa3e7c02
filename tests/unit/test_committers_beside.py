"""Replicas of a committer: what they write in whatever order is one chain; a replaced one is on none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from streammine.model.errors import OutputError, ReplacedError
from streammine.model.manifest import Seal, decode_seal, encode_seal, highest_seal
from streammine.runtime.output import (
    CommittedOutput,
    Tail,
    begin_run,
    clean,
    leftovers,
    read_output,
)
from tests.unit.memory_store import MemoryStore
from tests.unit.sink_bench import Sink, at

SCHEMA = pa.schema([("x", pa.int64())])


def rows(*values: int) -> list[pa.RecordBatch]:
    return [pa.record_batch([pa.array([value], pa.int64())], schema=SCHEMA) for value in values]


def replica(
    store: MemoryStore, generation: int, *beside: int, run: int = 1, every: int = 1
) -> Sink:
    """A replica of the sink's slice and one of its committer, of the same generation."""
    return Sink(store, SCHEMA, run=run, generation=generation, every=every, beside=tuple(beside))


def visible(store: MemoryStore) -> list[int]:
    return [value for _, table in read_output(store) for value in table.column("x").to_pylist()]


def taken(sinks: Sequence[Sink], epochs: int, turns: Sequence[int], store: MemoryStore) -> None:
    """Each turn names the replica that commits its next epoch; what is visible only ever grows."""
    reached = [0] * len(sinks)
    for turn in turns:
        if reached[turn] < epochs:
            sinks[turn].epoch(reached[turn], rows(reached[turn]))
            reached[turn] += 1
            assert visible(store) == list(range(max(reached)))


@pytest.mark.parametrize("seed", range(12))
def test_two_that_commit_in_any_order_give_one_chain(seed: int) -> None:
    store = MemoryStore()
    sinks = [replica(store, 1, 2), replica(store, 2, 1)]
    taken(sinks, 8, Random(seed).choices((0, 1), k=40), store)
    for sink in sinks:
        sink.finish(7)
    output = CommittedOutput(store)
    assert output.finished
    assert [manifest.sequence for manifest in output.manifests] == list(range(9))
    assert visible(store) == list(range(8))


@pytest.mark.parametrize("seed", range(4))
def test_three_give_one_chain_too(seed: int) -> None:
    store = MemoryStore()
    sinks = [replica(store, 1, 2, 3), replica(store, 2, 1, 3), replica(store, 3, 1, 2)]
    taken(sinks, 6, Random(seed).choices((0, 1, 2), k=60), store)
    assert visible(store) == list(range(6))


def test_one_that_stood_still_goes_on_beside_the_other() -> None:
    store = MemoryStore()
    first, second = replica(store, 1, 2), replica(store, 2, 1)
    taken([first, second], 6, [0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1], store)
    assert visible(store) == list(range(6))
    assert first.committer.last_epoch == second.committer.last_epoch == 5


def test_one_that_begins_late_goes_on_from_what_the_other_has_committed() -> None:
    store = MemoryStore()
    first, second = replica(store, 1, 2), replica(store, 2, 1)
    for epoch in range(3):
        first.epoch(epoch, rows(epoch))
    for epoch in range(5):
        second.epoch(epoch, rows(epoch))
    assert visible(store) == list(range(5))
    assert CommittedOutput(store).rows == 5
    assert [each.generation for each in CommittedOutput(store).manifests] == [1, 1, 1, 2, 2]


def test_the_lower_generation_may_begin_after_the_higher() -> None:
    store = MemoryStore()
    first, second = replica(store, 1, 2), replica(store, 2, 1)
    second.epoch(0, rows(0))
    for epoch in range(3):
        first.epoch(epoch, rows(epoch))
    assert visible(store) == [0, 1, 2]


def test_a_replaced_one_is_followed_by_nobody() -> None:
    #   g1: 0 1 | stands still ....... 2 3      g3 takes its place beside g2
    store = MemoryStore()
    first, second = replica(store, 1, 2), replica(store, 2, 1)
    taken([first, second], 2, [0, 1, 0, 1], store)
    third = replica(store, 3, 2)
    third.epoch(2, rows(2))
    first.epoch(2, rows(-2))
    first.epoch(3, rows(-3))
    assert visible(store) == [0, 1, 2]
    second.epoch(2, rows(2))
    second.epoch(3, rows(3))
    assert visible(store) == [0, 1, 2, 3]
    third.epoch(3, rows(3))
    third.epoch(4, rows(4))
    first.epoch(4, rows(-4))
    first.epoch(5, rows(-5))
    assert visible(store) == [0, 1, 2, 3, 4]


def test_one_that_goes_on_from_further_takes_nothing_back() -> None:
    #   g1: 0 1 2 3 |    g2: 0 1      g3 takes the place of g1, before g2 has come so far
    store = MemoryStore()
    first, second = replica(store, 1, 2), replica(store, 2, 1)
    taken([first, second], 4, [0, 1, 0, 1, 0, 0], store)
    third = replica(store, 3, 2)
    third.epoch(0, rows(0))
    assert visible(store) == [0, 1, 2, 3]
    for epoch in (1, 2, 3):
        third.epoch(epoch, rows(epoch))
    second.epoch(2, rows(2))
    assert visible(store) == [0, 1, 2, 3]
    third.epoch(4, rows(4))
    assert visible(store) == [0, 1, 2, 3, 4]
    fourth = replica(store, 4, 2)
    fourth.epoch(5, rows(5))
    assert visible(store) == [0, 1, 2, 3, 4, 5]


def test_what_a_seal_goes_on_from_is_missed_though_another_one_has_less() -> None:
    store = MemoryStore()
    first, second = replica(store, 1, 2), replica(store, 2, 1)
    taken([first, second], 4, [0, 1, 0, 1, 0, 0], store)
    replica(store, 3, 2).epoch(0, rows(0))
    store.delete(max(store.list("manifests/000001-000001")))
    with pytest.raises(OutputError, match=r"seals/000001-000003.json goes on from it"):
        visible(store)


def test_cleaning_leaves_what_the_seal_goes_on_from() -> None:
    store = MemoryStore()
    first, second = replica(store, 1, 2), replica(store, 2, 1)
    taken([first, second], 3, [0, 0, 0, 1, 1], store)
    replica(store, 3, 2).epoch(0, rows(0))
    for epoch in (2, 3):
        second.epoch(epoch, rows(epoch))
    assert visible(store) == [0, 1, 2, 3]
    assert clean(store)
    assert visible(store) == [0, 1, 2, 3]


def test_a_replaced_one_that_has_not_begun_does_not_begin() -> None:
    store = MemoryStore()
    first, second, third = replica(store, 1, 2), replica(store, 2, 1), replica(store, 3, 2)
    second.epoch(0, rows(0))
    third.epoch(0, rows(0))
    with pytest.raises(ReplacedError):
        first.epoch(0, rows(-1))
    assert visible(store) == [0]


def test_another_run_is_beside_nobody() -> None:
    store = MemoryStore()
    old = replica(store, 1, 2, run=1)
    old.epoch(0, rows(0))
    new = replica(store, 2, 1, run=2)
    new.epoch(0, rows(10))
    with pytest.raises(OutputError, match="taken over by run 2"):
        replica(store, 1, 2, run=1).epoch(0, rows(0))
    assert visible(store) == [10]


def test_both_groups_of_epochs_are_cut_alike() -> None:
    store = MemoryStore()
    sinks = [replica(store, 1, 2, every=3), replica(store, 2, 1, every=3)]
    for epoch, turn in ((0, 0), (0, 1), (1, 1), (2, 1), (3, 1), (1, 0), (2, 0), (3, 0)):
        sinks[turn].epoch(epoch, rows(epoch))
    for turn in (0, 1):
        sinks[turn].finish(3)
    assert visible(store) == [0, 1, 2, 3]
    assert [each.last_epoch for each in CommittedOutput(store).manifests] == [2, 5, 5]


def test_a_tail_gives_each_epoch_once_whoever_commits_it() -> None:
    store = MemoryStore()
    tail = Tail(store)
    sinks = [replica(store, 1, 2), replica(store, 2, 1)]
    seen: list[int] = []
    random = Random(3)
    reached = [0, 0]
    while min(reached) < 10:
        turn = random.randrange(2)
        if reached[turn] < 10:
            sinks[turn].epoch(reached[turn], rows(reached[turn]))
            reached[turn] += 1
        if random.random() < 0.6:
            seen += [epoch for epoch, _ in tail.new()]
    seen += [epoch for epoch, _ in tail.new()]
    assert seen == list(range(10))


def test_what_nobody_counts_is_left_over_and_cleaned() -> None:
    store = MemoryStore()
    sinks = [replica(store, 1, 2), replica(store, 2, 1)]
    taken(sinks, 3, [0, 1, 1, 0, 0, 1], store)
    unused = set(leftovers(store))
    assert unused, "each epoch was written twice, and one file of it counts"
    counted = {file.name for each in CommittedOutput(store).manifests for file in each.files}
    assert not unused & counted
    clean(store)
    assert visible(store) == [0, 1, 2]
    assert not leftovers(store)


def test_a_new_run_removes_what_both_have_written() -> None:
    store = MemoryStore()
    sinks = [replica(store, 1, 2), replica(store, 2, 1)]
    taken(sinks, 2, [0, 1, 1, 0], store)
    run = begin_run(store, "job", "result", overwrite=True)
    new = replica(store, 1, run=run)
    new.epoch(0, rows(7))
    assert visible(store) == [7]
    assert {name.partition("-")[0] for name in store.list("manifests/")} == {f"manifests/{run:06}"}


def test_a_seal_tells_who_is_beside() -> None:
    store = MemoryStore()
    replica(store, 4, 2, 3).epoch(0, rows(0))
    name = highest_seal(store.list(""))
    assert name is not None
    seal = decode_seal(name, store.get(name))
    assert seal.beside == (2, 3)
    assert decode_seal(name, encode_seal(seal)) == seal
    assert isinstance(seal, Seal)


def test_a_seal_that_another_one_removed_since_it_was_listed_is_no_damage() -> None:
    #   g2: lists seal of run 1 .......................... reads it
    #   g1:                       writes seal of run 2, removes run 1
    class Interrupted(MemoryStore):
        def get(self, name: str) -> pa.Buffer:
            if waiting and name.startswith("seals/000001"):
                waiting.pop().epoch(0, rows(5))
            if name not in self.blobs:
                raise OutputError(f"can't read {name}: No such file or directory")
            return super().get(name)

    store, waiting = Interrupted(), list[Sink]()
    replica(store, 1, run=1).epoch(0, rows(0))
    first, second = replica(store, 1, 2, run=2), replica(store, 2, 1, run=2)
    waiting.append(first)
    second.epoch(0, rows(5))
    second.epoch(1, rows(6))
    assert visible(store) == [5, 6]


def test_a_seal_that_can_not_be_read_is_damage() -> None:
    store = MemoryStore()
    replica(store, 1).epoch(0, rows(0))
    store.blobs["seals/000001-000001.json"] = b"{}"
    with pytest.raises(OutputError, match="is damaged"):
        replica(store, 2, 1).epoch(0, rows(0))


class Watched(MemoryStore):
    """`read`: what was read, and the folders that were listed. After `deletes` many the disk fails."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.deletes = 1000

    def get(self, name: str) -> pa.Buffer:
        self.read.append(name)
        return super().get(name)

    def list(self, prefix: str) -> list[str]:
        self.read.append(prefix)
        return super().list(prefix)

    def delete(self, name: str) -> None:
        self.deletes -= 1
        if self.deletes < 0:
            raise OutputError(f"can't remove {name}")
        super().delete(name)


def test_who_goes_on_reads_the_last_manifest_however_many_there_are() -> None:
    store = Watched()
    first = replica(store, 1, 2)
    for epoch in range(6):
        first.epoch(epoch, rows(epoch, epoch))
    store.read.clear()
    second = replica(store, 2, 1)
    second.committer.prepare()
    second.epoch(6, rows(6))
    assert store.read == [
        "seals/",
        "seals/000001-000001.json",
        "manifests/",
        "manifests/000001-000001-0000000005.json",
    ]
    assert CommittedOutput(store).rows == 13


def test_of_those_beside_it_who_goes_on_reads_the_last_manifests_once() -> None:
    store = Watched()
    sinks = [replica(store, 1, 2), replica(store, 2, 1)]
    taken(sinks, 3, [0, 1, 0, 1, 1, 0], store)
    store.read.clear()
    third = replica(store, 3, 1, 2)
    third.epoch(3, rows(3))
    assert sorted(name for name in store.read if name.startswith("manifests/0")) == [
        "manifests/000001-000001-0000000002.json",
        "manifests/000001-000002-0000000002.json",
    ]
    assert visible(store) == list(range(4))


def test_what_is_lost_is_counted_along_the_chain() -> None:
    store = MemoryStore()
    first = replica(store, 1)
    first.epoch(0, rows(0))
    for epoch, lost in ((2, ((1, 2),)), (4, ((4, 4),))):
        first.committer.close(replace(at(epoch), lost=lost), [first.committer.accumulator(0)])
    second = replica(store, 2)
    second.epoch(5, rows(5))
    assert second.committer.epochs_lost == 3
    assert CommittedOutput(store).lost.count == 3


@pytest.mark.parametrize("deletes", range(4))
def test_who_comes_next_goes_on_removing_what_an_earlier_run_left(deletes: int) -> None:
    store = Watched()
    replica(store, 1, run=1).epoch(0, rows(0))
    old = set(store.blobs)
    assert len(old) == 3, "a file, its manifest and a seal"
    store.deletes = deletes
    first = replica(store, 1, run=2)
    if deletes < len(old):
        with pytest.raises(OutputError):
            first.epoch(0, rows(7))
    else:
        first.epoch(0, rows(7))
    store.deletes = 1000
    replica(store, 2, run=2).epoch(0, rows(7))
    assert visible(store) == [7]
    assert not old & set(store.blobs)
