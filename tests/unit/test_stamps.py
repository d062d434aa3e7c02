"""Stamps: (epoch, round) as one number, in order, and what they are at the borders of a loop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import InputError
from streammine.model.job import EdgeKind
from streammine.model.stamps import (
    FINAL_ROUND,
    LARGEST_EPOCH,
    LOWEST_EPOCH,
    arriving,
    covered,
    epoch_of,
    epochs_below,
    final,
    is_final,
    leaving,
    made_in,
    round_of,
    stamp,
)

EPOCHS = st.integers(LOWEST_EPOCH + 2, LARGEST_EPOCH - 1)
ROUNDS = st.integers(0, FINAL_ROUND)
KINDS: tuple[EdgeKind, ...] = ("inside", "back", "exit")


@given(EPOCHS, ROUNDS, EPOCHS, ROUNDS)
def test_stamps_are_ordered_as_pairs_are(e: int, r: int, f: int, s: int) -> None:
    assert (stamp(e, r) < stamp(f, s)) == ((e, r) < (f, s))
    assert (epoch_of(stamp(e, r)), round_of(stamp(e, r))) == (e, r)
    assert BEGINNING < stamp(e, r) < INFINITY


@given(EPOCHS)
def test_the_final_round_is_the_last_before_the_next_epoch(epoch: int) -> None:
    assert final(epoch) + 1 == stamp(epoch + 1)
    assert is_final(final(epoch))
    assert not is_final(stamp(epoch))
    assert epochs_below(final(epoch)) == epoch
    assert epochs_below(final(epoch) + 1) == epoch + 1


@given(EPOCHS, ROUNDS)
def test_what_is_made_in_an_epoch_is_known_by_it_on_every_kind_of_edge(e: int, r: int) -> None:
    for kind in KINDS:
        assert made_in(kind, leaving(kind, stamp(e, r))) == e
        assert leaving(kind, stamp(e, r)) <= covered(kind, e) < leaving(kind, stamp(e + 1))
    assert arriving("entry", e) == stamp(e)
    assert leaving("back", final(e)) == stamp(e + 1)


def test_the_ends_of_time_stay_themselves() -> None:
    for end in (BEGINNING, INFINITY):
        assert stamp(end) == final(end) == epoch_of(end) == end
        for kind in KINDS:
            assert leaving(kind, end) == covered(kind, end) == made_in(kind, end) == end
    assert not is_final(INFINITY)


def test_the_epoch_before_all_others_counts_for_nothing_outside() -> None:
    assert epochs_below(final(LOWEST_EPOCH) + 1) == BEGINNING


@pytest.mark.parametrize("epoch", [LARGEST_EPOCH + 1, LOWEST_EPOCH - 1])
def test_epochs_that_are_too_large_are_refused(epoch: int) -> None:
    with pytest.raises(InputError, match="can't go through a loop"):
        stamp(epoch)
