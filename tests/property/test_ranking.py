"""A ranking of many keys, after each batch of changes, against all of them sorted."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators.kernels import leading
from streammine.operators.kernels.leading import (
    BAR_RANK,
    BAR_STAMP,
    BEHIND,
    BEHIND_SIZE,
    HEAP_SIZE,
    HELD_LEAST,
    HELD_MOST,
    NOWHERE,
    TOP_SIZE,
)
from streammine.operators.ranking import Ranking

COUNT = 3
KEYS = 10 * HELD_LEAST
BATCH = 60

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Sorted:
    """What Ranking says, found by sorting all keys after each change."""

    def __init__(self) -> None:
        self.standing: dict[int, tuple[int, int]] = {}
        self.stamps: dict[int, int] = {}
        self.stamp = 1
        self.told: list[int] = []

    def advance(
        self, ids: Numbers, ranks: Numbers, listed: Mask, by_event: Mask
    ) -> list[list[int]]:
        """The foremost keys, each time that they are others."""
        found = []
        for key, rank, is_listed, is_event in zip(ids, ranks, listed, by_event, strict=True):
            if is_event or key not in self.stamps:
                self.stamps[key] = self.stamp
                self.stamp += 1
            self.standing.pop(key, None)
            if is_listed:
                self.standing[key] = (rank, self.stamps[key])
            if is_event:
                foremost = self.foremost()
                if foremost != self.told:
                    found.append(foremost)
                    self.told = foremost
        return found

    def foremost(self) -> list[int]:
        return heapq.nlargest(COUNT, self.standing, key=self.standing.__getitem__)


@pytest.fixture(autouse=True, scope="module")
def kernels() -> None:
    leading.load_kernels()


def changes(draw: st.DrawFn, falling: bool) -> tuple[Numbers, Numbers, Mask, Mask]:
    """Some of all keys: ranks that fall or rise on the whole, among few so that many are equal."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, BATCH))
    trend = draw(st.integers(0, 30))
    ranks = random.integers(0, 10, size) + (-trend if falling else trend)
    listed = random.random(size) < draw(st.sampled_from([0.2, 0.9, 1.0]))
    by_event = random.random(size) < draw(st.sampled_from([0.3, 1.0]))
    return random.integers(0, KEYS, size), ranks, listed, by_event


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Numbers, Numbers, Mask, Mask]]:
    everybody = np.random.default_rng(draw(st.integers(0, 2**32)))
    start = (
        everybody.permutation(KEYS),
        everybody.integers(0, draw(st.sampled_from([2, 1_000])), KEYS),
        np.ones(KEYS, np.bool_),
        np.ones(KEYS, np.bool_),
    )
    return [start, *(changes(draw, each) for each in draw(st.lists(st.booleans(), max_size=12)))]


def advance(ranking: Ranking, batch: tuple[Numbers, Numbers, Mask, Mask]) -> list[list[int]]:
    ids, ranks, listed, by_event = batch
    nobody = np.zeros(ids.size, np.bool_)
    told = ranking.advance(ids, ranks, listed, nobody, by_event, by_event, [])
    rows = [
        [ids[place] if place >= 0 else -2 - place for place in row if place != -1]
        for row in told.places
    ]
    return [[int(key) for key in row] for row in rows]


def check_structure(ranking: Ranking, reference: Sorted) -> None:
    numbers, places, ranks, stamps = (
        ranking._numbers,
        ranking._places,
        ranking._ranks,
        ranking.stamps,
    )

    def order(key: int) -> tuple[int, int]:
        return int(ranks[key]), int(stamps[key])

    top = [int(key) for key in ranking._top[: numbers[TOP_SIZE]]]
    heap = [int(key) for key in ranking._heap[: numbers[HEAP_SIZE]]]
    behind = [int(key) for key in np.flatnonzero(places == BEHIND)]
    assert sorted([*top, *heap, *behind]) == sorted(reference.standing)
    assert len(behind) == numbers[BEHIND_SIZE]
    assert {key: order(key) for key in reference.standing} == reference.standing
    assert top == reference.foremost()
    assert [int(places[key]) for key in top] == [-2 - place for place in range(len(top))]
    assert [int(places[key]) for key in heap] == list(range(len(heap)))
    assert all(order(heap[(place - 1) // 2]) > order(heap[place]) for place in range(1, len(heap)))
    assert len(heap) <= HELD_MOST * max(HELD_LEAST, places.size // leading.HELD_SHARE)
    bar = (int(numbers[BAR_RANK]), int(numbers[BAR_STAMP]))
    assert all(order(key) >= bar for key in heap)
    assert all(order(key) < bar for key in behind)
    assert np.count_nonzero(places != NOWHERE) == len(reference.standing)


def rebuild(ranking: Ranking, reference: Sorted) -> None:
    """As after a restore."""
    listed = np.zeros(KEYS, np.bool_)
    listed[list(reference.standing)] = True
    ranking.rebuild(ranking._ranks[:KEYS].copy(), listed, [])


@settings(max_examples=200)
@given(histories(), st.sets(st.integers(0, 12)))
def test_a_ranking_of_many_keys_is_as_if_all_were_sorted(
    batches: list[tuple[Numbers, Numbers, Mask, Mask]], rebuilt_behind: set[int]
) -> None:
    ranking, reference = Ranking(COUNT, 0), Sorted()
    ranking.grow(KEYS)
    for number, batch in enumerate(batches):
        assert advance(ranking, batch) == reference.advance(*batch)
        check_structure(ranking, reference)
        if number in rebuilt_behind:
            rebuild(ranking, reference)
            check_structure(ranking, reference)


LEAVING = {
    "the foremost first": lambda standing: standing[0],
    "the next in line first": lambda standing: standing[min(COUNT, len(standing) - 1)],
    "all of the heap, then the foremost first": lambda standing: standing[
        COUNT if len(standing) > KEYS - HELD_MOST * HELD_LEAST else 0
    ],
    "the last first": lambda standing: standing[-1],
}


@pytest.mark.parametrize("who", LEAVING)
def test_all_leave_one_by_one_and_come_again_with_lower_ranks(who: str) -> None:
    ranking, reference = Ranking(COUNT, 0), Sorted()
    ranking.grow(KEYS)
    everybody = np.ones(KEYS, np.bool_)
    start = (np.arange(KEYS), 1_000 + np.arange(KEYS), everybody, everybody)
    assert advance(ranking, start) == reference.advance(*start)
    bars = {int(ranking._numbers[BAR_RANK])}
    standing = [*reversed(range(KEYS))]
    while standing:
        key = LEAVING[who](standing)
        standing.remove(key)
        gone = (np.array([key]), np.array([0]), np.array([False]), np.array([True]))
        assert advance(ranking, gone) == reference.advance(*gone)
        check_structure(ranking, reference)
        bars.add(int(ranking._numbers[BAR_RANK]))
    for rank in range(KEYS):
        come = (np.array([rank]), np.array([rank]), np.array([True]), np.array([True]))
        assert advance(ranking, come) == reference.advance(*come)
        check_structure(ranking, reference)
    if who == "the foremost first":
        assert len(bars) > KEYS // (2 * HELD_MOST * HELD_LEAST), "the bar was lowered often"
