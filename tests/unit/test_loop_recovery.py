"""Slices of a loop when others, or they themselves, were lost: what is thrown away, made again, and kept."""

from __future__ import annotations

import pytest

from streammine.engine.slice_settings import Phase, RestoredTo
from streammine.model.epochs import INFINITY
from streammine.model.job import EdgeKind
from tests.unit.small_loops import LoopPlayer, after, check, player


def began(restored: RestoredTo, max_rounds: int = 10, back: int = 1) -> LoopPlayer:
    """A head with the replicas that feed it, of the first generation; epoch 4 lies behind all."""
    kinds: dict[int, EdgeKind] = {back: "back", 1 - back: "entry"}
    head = player(head=True, max_rounds=max_rounds, restored=restored, kinds=kinds)
    for line in (f"{1 - back} comes from 1", f"{back} comes from 1", "start"):
        head(line)
    return head


# --- what a lost sender gave of an open stamp ----------------------------------------------------


def test_rows_of_a_round_that_is_not_decided_come_once_though_their_sender_is_lost() -> None:
    head = began(after(4, 5))
    check(
        head,
        """
        > 0.0 data 5, the last
          credit on 0 for 5
          credit on 1 for 5/0
          run accumulate 5/0 from 0, close 5/0
        > done out 8:5/0 closed 5/0
          credit on 1 for 5/1
          send 8.0 data 5/0, the last says 0
        > 1.0 data 5/1
        > 1.1 data 5/1
        > 1 comes from 2
          subscribe 1@2 from 5/1
        > 1@2.0 data 5/1
        > 1@2.1 data 5/1, the last says 2
          run accumulate 5/1 from 1, accumulate 5/1 from 1, close 5/1
        """,
    )


def test_rows_that_entered_the_loop_come_once_though_their_sender_is_lost() -> None:
    head = began(after(4, 5))
    check(
        head,
        """
        > 0.0 data 5
          run accumulate 5/0 from 0
        > 0.1 data 5
        > 0 comes from 2
          subscribe 0@2 from 5
          subscribe 1 from 5/1, at 5/0
        > done
          credit on 0@2 for 5
          credit on 1 for 5/0
        > 0@2.0 data 5
          run discard 5/0 from 0, accumulate 5/0 from 0
        > 0@2.1 data 5, the last
        > done
          run accumulate 5/0 from 0, close 5/0
        """,
    )


@pytest.mark.parametrize("back", [0, 1])
def test_what_is_carried_stays_when_a_sender_of_the_next_epochs_rows_is_lost(back: int) -> None:
    # the round that left it over was complete; the sender's frames of (6, 0) were not
    head = began(after(4, 5), max_rounds=1, back=back)
    entry, carried = 1 - back, ~back
    for line in (
        f"{entry}.0 data 5, the last",
        "done out 8:5/0 closed 5/0",
        f"{back}.0 data 5/1, the last says 1",
        "done closed 5/f",
        f"{back}.1 data 6/0",
        f"{back} comes from 2",
        f"{back}@2.0 data 6/0, the last says 6",
    ):
        assert f"run accumulate 5/1 from {back}" not in head(line)
    assert head(f"{entry}.1 end 6")[-1] == (
        f"run accumulate 6/0 from {carried}, accumulate 6/0 from {back}, close 6/0"
    )


@pytest.mark.parametrize("back", [0, 1])
def test_what_a_snapshot_carries_stays_when_a_sender_is_lost(back: int) -> None:
    head = began(after(4, 5, rows=1), max_rounds=1, back=back)
    entry, carried = 1 - back, ~back
    head(f"{back} comes from 2")
    assert head(f"{entry}.0 end 5")[-1] == f"run accumulate 5/0 from {carried}, close 5/0"


# --- barriers ------------------------------------------------------------------------------------


def test_a_head_does_not_freeze_while_somebody_outside_is_still_in_the_barriers_epoch() -> None:
    kinds: dict[int, EdgeKind] = {0: "entry", 1: "back", 2: "entry"}
    head = player(head=True, restored=after(4, 5), kinds=kinds)
    for line in ("0 comes from 1", "1 comes from 1", "2 comes from 1", "start"):
        head(line)
    check(
        head,
        """
        > 0.0 end 5, flagged
          credit on 0 for 5
          credit on 1 for 5/0
          credit on 2 for 5
        > 2.0 data 5, the last, flagged
          run accumulate 5/0 from 2, close 5/0
        """,
    )


@pytest.mark.parametrize("other", [6, 7])
def test_a_head_goes_back_to_no_barrier_that_it_has_frozen_at(other: int) -> None:
    # it jumps from 5 to 8; of two rebuilt members one froze behind 7, the other one behind `other`
    kinds: dict[int, EdgeKind] = {0: "entry", 1: "back", 2: "back"}
    head = player(head=True, restored=after(5, 8), kinds=kinds)
    for line in ("0 comes from 1", "1 comes from 1", "2 comes from 1", "start"):
        head(line)
    check(
        head,
        f"""
        > 1.0 end 8/0, flagged says 8
          credit on 0 for 7
          credit on 1 for 6/0
          credit on 2 for 6/0
          run freeze 7 in full, data up to 5
        > done frozen 7
          write snapshot 7
          credit on 0 for 8
        > written 7
          progressed
        > 2.0 end {other + 1}/0, flagged says 8
        """,
    )
    assert head.machine.barriers == []


def test_a_rebuilt_member_freezes_where_its_own_entry_says_though_the_head_went_past() -> None:
    check(
        player(head=False, restored=after(4)),
        """
        > 0 comes from 1
          subscribe 0 from 5
        > 1 comes from 1
          subscribe 0 from 5
          subscribe 1 from 5/0
        > start
          subscribe 0 from 5
          subscribe 1 from 5/0
        > 0.0 end 5, flagged
        > 1.0 end 900/0 says 0
          credit on 0 for 5
          credit on 1 for 5/f
          run freeze 5 in full, data up to 4
        > done frozen 5
          write snapshot 5
          credit on 0 for 6
          credit on 1 for 6/0
          send 9.0 end 6/0, flagged says 6
          send 10.0 end 5, flagged
        """,
    )


# --- slices that had finished --------------------------------------------------------------------


@pytest.mark.parametrize("head", [False, True])
def test_a_slice_restored_from_a_finished_one_has_nothing_to_do_but_to_say_so(head: bool) -> None:
    done = player(head, restored=RestoredTo(9, 7, finished=True))
    inside = 8 if head else 9
    check(
        done,
        f"""
        > 0 comes from 1
          subscribe 0 from inf
          send {inside}.0 end inf
          send 10.0 end inf
        > 1 comes from 1
          subscribe 0 from inf
          subscribe 1 from inf
        > start
          subscribe 0 from inf
          subscribe 1 from inf
        > {inside} credit inf
        > 10 credit inf
        > 0 announced 0
        > 1 announced 0
        > beat
          announce on {inside}: next is 1
          announce on 10: next is 1
          credit on 0 for inf
          credit on 1 for inf
        > 0.0 end inf after 7
        > 1.0 end inf after 7
        """,
    )
    assert done.machine.phase is Phase.FINISHED
    assert done.machine.processed_epoch == INFINITY
    assert done.machine.final_epoch == 8
