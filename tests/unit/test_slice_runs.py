"""Runs of work that close several small epochs, in transcripts (see tests/unit/transcripts.py)."""

from __future__ import annotations

import pytest

from streammine.engine.slice_settings import EPOCHS_PER_RUN
from streammine.engine.stimuli import CloseEpoch, Run, Work
from streammine.engine.waiting import MOST_PER_RUN
from tests.unit.small_slices import check, operator
from tests.unit.transcripts import SlicePlayer, played


def begun(player: SlicePlayer, script: str) -> SlicePlayer:
    """It is at work on epoch 4, while more comes."""
    played("> start\n> 0.0 little 4\n> 0.1 end 4", player)
    played(script, player)
    return player


def runs(player: SlicePlayer, line: str) -> list[Work]:
    (run,) = [each for each in player.effects(line) if isinstance(each, Run)]
    return list(run.work)


def test_what_waits_of_complete_epochs_is_closed_in_one_run() -> None:
    player = operator(inputs=1)
    played("> start\n> 0.0 little 4\n> 0.1 end 4", player)
    check(
        player,
        """
        > 0.2 little 5
        > 0.3 little 6
        > 0.4 little 6
        > 0.5 end 8
        > 0.6 little 9
        > done closed 4 out 8:4
          credit on 0 for 5
          send 8.1 data 4, the last
          run accumulate 5 from 0, close 5, accumulate 6 from 0, accumulate 6 from 0, close 6
        > done closed 5 closed 6 out 8:5 out 8:6
          credit on 0 for 9
          send 8.2 data 5, the last
          send 8.3 data 6
          send 8.4 end 8
        """,
    )


def test_what_the_operators_side_leaves_open_is_asked_for_again() -> None:
    """It may: of epochs whose results are large."""
    player = begun(operator(inputs=1), "> 0.2 little 5\n> 0.3 little 6\n> 0.4 end 6")
    check(
        player,
        """
        > done closed 4
          credit on 0 for 5
          send 8.1 end 4
          run accumulate 5 from 0, close 5, accumulate 6 from 0, close 6
        > done closed 5 out 8:5
          credit on 0 for 6
          send 8.2 data 5, the last
          run close 6
        """,
    )


def test_what_became_due_between_two_epochs_is_closed_unasked() -> None:
    player = begun(operator(inputs=1), "> 0.2 little 5\n> 0.3 little 9\n> 0.4 end 9")
    check(
        player,
        """
        > done closed 4
          credit on 0 for 5
          send 8.1 end 4
          run accumulate 5 from 0, close 5, accumulate 9 from 0, close 9
        > done closed 5 closed 7 closed 9 due 12 out 8:7
          credit on 0 for 10
          send 8.2 data 7
          send 8.3 end 9
        """,
    )


def test_a_due_epoch_comes_first_and_others_go_with_it() -> None:
    player = begun(operator(inputs=1), "> 0.2 little 9\n> 0.3 end 9")
    check(
        player,
        """
        > done closed 4 due 6
          credit on 0 for 6
          send 8.1 end 5
          run accumulate 9 from 0, close 6, close 9
        """,
    )


def test_nothing_above_a_barrier_goes_with_what_is_below() -> None:
    player = begun(
        operator(inputs=1, mode="asynchronous"),
        """
        > 0.2 little 5
        > 0.3 little 6
        > 0.4 end 6, flagged
        > 0.5 little 7
        > 0.6 end 7
        """,
    )
    check(
        player,
        """
        > done closed 4
          credit on 0 for 5
          send 8.1 end 4
          run accumulate 5 from 0, close 5, accumulate 6 from 0, close 6
        > done closed 5 closed 6
          credit on 0 for 6
          send 8.2 end 5
          run freeze 6 in full, data up to 7
        > done frozen 6
          write snapshot 6
          credit on 0 for 7
          send 8.3 end 6, flagged
          run accumulate 7 from 0, close 7
        """,
    )


def test_a_run_takes_no_more_batches_for_several_epochs_than_for_one() -> None:
    player = begun(operator(inputs=1), "")
    for place in range(MOST_PER_RUN):
        player.effects(f"0.{2 + place} little {5 if place < 10 else 6}")
    player.effects(f"0.{2 + MOST_PER_RUN} end 6")
    work = runs(player, "done closed 4")
    assert len(work) == MOST_PER_RUN
    assert [each.epoch for each in work if isinstance(each, CloseEpoch)] == [5]


def test_an_epoch_that_a_channel_has_not_ended_stays_open() -> None:
    player = operator(inputs=2)
    played("> start\n> 0.0 little 4\n> 0.1 end 4\n> 1.0 end 5\n> 0.2 little 5\n> 0.3 end 5", player)
    check(
        player,
        """
        > 0.4 little 6
        > 0.5 end 6
        > done closed 4
          credit on 0 for 5
          credit on 1 for 5
          send 8.1 end 4
          run accumulate 5 from 0, close 5
        """,
    )


def test_who_only_stands_behind_another_takes_short_turns() -> None:
    player = operator(inputs=1)
    played("> stands behind", player)
    begun(player, "> 0.2 little 5\n> 0.3 end 5\n> 0.4 little 6\n> 0.5 end 6")
    work = runs(player, "done closed 4")
    assert [each.epoch for each in work if isinstance(each, CloseEpoch)] == [5]


def test_while_output_waits_for_credit_nothing_is_closed() -> None:
    player = begun(
        operator(inputs=1, budget=15),
        "> 0.2 little 5\n> 0.3 end 5\n> 0.4 little 6\n> 0.5 end 6",
    )
    made = "done closed 4 out 8:4 out 8:4"
    assert not [work for work in runs(player, made) if isinstance(work, CloseEpoch)]


@pytest.mark.parametrize(("kind", "closed"), [("little", EPOCHS_PER_RUN), ("data", 1)])
def test_a_run_has_an_end(kind: str, closed: int) -> None:
    """Large epochs gain nothing by it, and what comes behind them would wait for all of them."""
    epochs = range(5, 5 + 2 * EPOCHS_PER_RUN)
    player = begun(operator(inputs=1), "")
    for place, epoch in enumerate(epochs):
        player.effects(f"0.{2 + place} {kind} {epoch}, the last")
    work = runs(player, "done closed 4")
    assert [each.epoch for each in work if isinstance(each, CloseEpoch)] == list(epochs[:closed])
