"""Decisions in the store: fenced by seals, read back, and removed when a checkpoint covers them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replication.decisions import (
    forget_decisions,
    seal_decisions,
    store_decisions,
    superseded_decisions,
)
from replication.naming import DecisionsName, SealName, last_decided, seal_of
from streammine.model.agreement import Bag, BagSet, Decision, DecisionDurable, StoredDecision
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import OutputError
from streammine.model.ids import SliceId
from tests.unit.memory_store import MemoryStore

COUNTS, SUMS = SliceId("counts.x", 0), SliceId("sums", 3)


def decided(after: int, epoch: int, *bags: tuple[int, str], version: int = 1) -> StoredDecision:
    chosen = BagSet(epoch, tuple((channel, Bag(digest, 7)) for channel, digest in bags))
    return StoredDecision(version, Decision(after, chosen))


FIRST = decided(BEGINNING, -4, (0, "1"), (2, "2"))
SECOND = decided(-4, 9, (0, "0"))
LAST = decided(9, INFINITY)


def test_what_was_stored_is_read_by_those_who_seal() -> None:
    store = MemoryStore()
    answer = store_decisions(store, COUNTS, 1, (FIRST, SECOND))
    assert answer == DecisionDurable((FIRST, SECOND), seal=0)
    store_decisions(store, COUNTS, 2, (LAST,))
    store_decisions(store, SUMS, 1, (decided(BEGINNING, 3),))
    found = seal_decisions(store, COUNTS, 2, BEGINNING)
    assert found.plan_version == 2
    assert set(found.decisions) == {FIRST, SECOND, LAST}
    assert set(seal_decisions(store, COUNTS, 3, 8).decisions) == {FIRST, SECOND, LAST}
    assert seal_decisions(store, COUNTS, 3, 9).decisions == (LAST,), "what is known is not read"


def test_who_writes_finds_the_seal_that_came_before() -> None:
    store = MemoryStore()
    seal_decisions(store, COUNTS, 4, BEGINNING)
    seal_decisions(store, SUMS, 9, BEGINNING)
    assert store_decisions(store, COUNTS, 1, (FIRST,)).seal == 4


def test_decisions_that_are_stored_twice_lose_none() -> None:
    store = MemoryStore()
    store_decisions(store, COUNTS, 1, (FIRST, SECOND))
    store_decisions(store, COUNTS, 1, (SECOND,))
    assert set(seal_decisions(store, COUNTS, 2, BEGINNING).decisions) == {FIRST, SECOND}


def test_what_is_covered_goes_and_of_seals_the_newest_stays() -> None:
    store = MemoryStore()
    for version in (1, 2):
        seal_decisions(store, COUNTS, version, BEGINNING)
    store_decisions(store, COUNTS, 1, (FIRST, SECOND))
    store_decisions(store, COUNTS, 1, (LAST,))
    assert superseded_decisions(store, 8) == [SealName(COUNTS, 1).name]
    over = superseded_decisions(store, 9)
    assert over == [DecisionsName(COUNTS, 9, -4, 1, 1).name, SealName(COUNTS, 1).name]
    for name in over:
        store.delete(name)
    assert seal_decisions(store, COUNTS, 2, BEGINNING).decisions == (LAST,)


def test_what_can_not_be_read_back_does_not_count() -> None:
    class Rotten(MemoryStore):
        def put(self, name: str, data: pa.Buffer | bytes) -> None:
            super().put(name, bytes(data)[:-1] + b"?")

    with pytest.raises(OutputError, match="something else than was written"):
        store_decisions(Rotten(), COUNTS, 1, (FIRST,))


def test_damage_and_other_names_are_found() -> None:
    store = MemoryStore()
    store_decisions(store, COUNTS, 1, (FIRST,))
    (name,) = store.blobs
    data = store.blobs.pop(name)
    store.blobs[name.replace("-g00000001", "-g00000002")] = data
    assert seal_decisions(store, COUNTS, 2, BEGINNING).decisions == (FIRST,), (
        "who wrote it matters to nobody"
    )
    store.blobs[DecisionsName(COUNTS, 50, -4, 1, 1).name] = data
    store.blobs[DecisionsName(COUNTS, 60, -4, 1, 1).name] = data[:-9]
    warnings: list[str] = []
    assert seal_decisions(store, COUNTS, 3, BEGINNING, warnings.append).decisions == (FIRST,)
    assert ["renamed" in each for each in warnings] == [True, False]
    assert "damaged" in warnings[1]


class Silent(MemoryStore):
    """One that fails to read a blob, once; `gone`: because it was removed meanwhile."""

    def __init__(self, blobs: dict[str, bytes], unread: str, gone: bool) -> None:
        super().__init__()
        self.blobs = blobs
        self._unread: str | None = unread
        self._gone = gone

    def get(self, name: str) -> pa.Buffer:
        if name == self._unread:
            self._unread = None
            if self._gone:
                forget_decisions(self, 9, [name])
                self.delete(name)
            raise OutputError(f"{name} can't be read")
        return super().get(name)


def test_what_is_there_and_can_not_be_read_is_not_passed_over() -> None:
    """As the newest one it would be decided once more, and otherwise."""
    plain = stored_apart()
    newest = DecisionsName(COUNTS, INFINITY, INFINITY, 1, 1).name
    store = Silent(plain.blobs, newest, gone=False)
    with pytest.raises(OutputError, match="can't be read"):
        seal_decisions(store, COUNTS, 2, BEGINNING)
    assert set(seal_decisions(store, COUNTS, 2, BEGINNING).decisions) == {FIRST, SECOND, LAST}


def test_what_is_removed_while_others_read_is_said_to_be_no_damage() -> None:
    warnings: list[str] = []
    store = Silent(stored_apart().blobs, DecisionsName(COUNTS, 9, 9, 1, 1).name, gone=True)
    read = seal_decisions(store, COUNTS, 2, BEGINNING, warnings.append)
    assert set(read.decisions) == {FIRST, LAST}
    assert read.removed_until == 9
    assert not warnings


def stored_apart(*copied: StoredDecision) -> MemoryStore:
    """Each decision in a blob of its own, and some by another replica, too."""
    store = MemoryStore()
    for each in (FIRST, SECOND, LAST):
        store_decisions(store, COUNTS, 1, (each,))
    for each in copied:
        store_decisions(store, COUNTS, 2, (each,))
    return store


def damage(store: MemoryStore, decision: StoredDecision) -> None:
    epoch = decision.decision.chosen.epoch
    name = DecisionsName(COUNTS, epoch, epoch, 1, 1).name
    store.blobs[name] = store.blobs[name][:-9]


def test_a_hole_in_the_chain_is_like_what_was_removed() -> None:
    store, warnings = stored_apart(), list[str]()
    damage(store, SECOND)
    found = seal_decisions(store, COUNTS, 2, BEGINNING, warnings.append)
    assert found.removed_until == 9, "FIRST is no answer to what LAST rests on"
    assert "up to epoch 9 can't be read" in warnings[-1]
    assert seal_decisions(store, COUNTS, 3, 9).removed_until == BEGINNING, "who knows it goes on"


def test_what_is_damaged_is_no_hole_where_nothing_rests_on_it_or_another_wrote_it_too() -> None:
    store = stored_apart()
    damage(store, LAST)
    assert seal_decisions(store, COUNTS, 2, BEGINNING).removed_until == BEGINNING
    store = stored_apart(SECOND)
    damage(store, SECOND)
    found = seal_decisions(store, COUNTS, 2, BEGINNING)
    assert set(found.decisions) == {FIRST, SECOND, LAST}
    assert found.removed_until == BEGINNING


def test_what_a_later_plan_passed_over_makes_no_hole() -> None:
    # the first plan's SECOND came late; the second one had gone on from FIRST to the end
    store = MemoryStore()
    store_decisions(store, COUNTS, 1, (FIRST,))
    store_decisions(store, COUNTS, 2, (decided(-4, INFINITY, version=2),))
    store_decisions(store, COUNTS, 1, (SECOND,))
    damage(store, SECOND)
    assert seal_decisions(store, COUNTS, 3, BEGINNING).removed_until == BEGINNING


def test_names() -> None:
    assert seal_of(SealName(COUNTS, 12).name) == SealName(COUNTS, 12)
    assert last_decided(DecisionsName(SUMS, INFINITY, -5, 3, 4).name) == INFINITY
    assert last_decided(SealName(COUNTS, 12).name) is None
    assert seal_of("deciders/x/000001/else.json") is None
    assert seal_of(DecisionsName(SUMS, INFINITY, -5, 3, 4).name) is None
