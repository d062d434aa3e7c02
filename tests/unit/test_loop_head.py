"""The head of a loop in transcripts: what it hears, and which stamps it closes then."""

from __future__ import annotations

import re

import pytest

from streammine.engine.loop_ends import Ends
from streammine.engine.loop_head import Carry, Decision, HeadPhase, LoopHead, Standing
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.stamps import FINAL_ROUND, LOWEST_EPOCH, epoch_of, final, round_of, stamp
from tests.unit.transcripts import played, tidy


def at_text(at: int) -> str:
    if at == INFINITY:
        return "everything"
    round_ = "final" if round_of(at) == FINAL_ROUND else round_of(at)
    return f"({epoch_of(at)}, {round_})"


class HeadPlayer:
    """Plays a head with two back-edge channels, 0 and 1.

    ``outer 5``: the outer channels have ended epoch 5, or everything with ``inf``. ``0 (5, 1) says 3``: a
    back-edge channel has ended that stamp. ``processed (5, 0)``: the slice has. ``barrier 5``, ``frozen``.
    """

    def __init__(self, max_rounds: int = 10, epoch: int = LOWEST_EPOCH) -> None:
        self.head = LoopHead(max_rounds, epoch, epoch - 1)
        self.ends = Ends({0: "back", 1: "back"})
        self.back = {0: BEGINNING, 1: BEGINNING}
        self.outer = BEGINNING
        self.processed = BEGINNING
        self.barrier: int | None = None

    def __call__(self, line: str) -> list[str]:
        word, *rest = line.split(" ", 1)
        if word == "outer":
            self.outer = INFINITY if rest == ["inf"] else int(rest[0]) + 1
        elif word == "processed":
            self.processed = self._stamp(line) + 1
        elif word == "barrier":
            self.barrier = int(rest[0])
        elif word == "frozen":
            self.barrier = None
        else:
            said = line.split()[-1]
            at = self._stamp(line)
            self.back[int(word)] = at + 1
            self.ends.heard(int(word), at, INFINITY if said == "inf" else int(said))
        standing = Standing(self.outer, min(self.back.values()), self.processed, self.barrier)
        decisions: list[Decision] = []
        while decided := self.head.advance(standing, self.ends):
            decisions += decided
        return [self._text(each) for each in decisions]

    @staticmethod
    def _stamp(line: str) -> int:
        found = re.search(r"\((-?\d+|lowest), (\d+|final)\)", line)
        assert found is not None, line
        epoch = LOWEST_EPOCH if found[1] == "lowest" else int(found[1])
        return final(epoch) if found[2] == "final" else stamp(epoch, int(found[2]))

    @staticmethod
    def _text(decision: Decision) -> str:
        if isinstance(decision, Carry):
            return f"carry {at_text(decision.at)} to {at_text(decision.to)}"
        return f"close {at_text(decision.at)}"


def check(player: HeadPlayer, script: str) -> None:
    text, expected = played(script, player), tidy(script)
    assert text == expected, f"the head did\n{text}\nand not\n{expected}"


def test_rounds_go_on_until_nothing_is_sent_back() -> None:
    check(
        HeadPlayer(epoch=5),
        """
        > outer 4
        > outer 5
          close (5, 0)
        > processed (5, 0)
        > 0 (5, 1) says 2
        > 1 (5, 1) says 0
          close (5, 1)
        > processed (5, 1)
        > 1 (5, 2) says 0
        > 0 (5, 2) says 0
          close (5, final)
        > processed (5, final)
        > 0 (6, 0) says 6
        > 1 (6, 0) says 8
        > outer 6
          close (6, 0)
        """,
    )


def test_what_is_left_after_the_last_round_is_carried() -> None:
    check(
        HeadPlayer(max_rounds=1, epoch=5),
        """
        > outer 9
          close (5, 0)
        > processed (5, 0)
        > 0 (5, 1) says 0
        > 1 (5, 1) says 4
          carry (5, 1) to (6, 0)
          close (5, final)
        """,
    )


def test_an_epoch_that_ends_by_itself_in_the_last_round_carries_nothing() -> None:
    check(
        HeadPlayer(max_rounds=1, epoch=5),
        """
        > outer 9
          close (5, 0)
        > processed (5, 0)
        > 0 (5, 1) says 0
        > 1 (5, 1) says 0
          close (5, final)
        """,
    )


def test_gaps_are_jumped_to_the_lowest_epoch_that_any_member_names() -> None:
    player = HeadPlayer(epoch=5)
    check(
        player,
        """
        > outer 900
          close (5, 0)
        > processed (5, 0)
        > 0 (5, 1) says 0
        > 1 (5, 1) says 0
          close (5, final)
        > processed (5, final)
        > 0 (6, 0) says 700
        > 1 (6, 0) says 300
          close (299, final)
          close (300, 0)
        """,
    )
    assert player.head.epoch == 300


def test_the_first_epoch_is_found_like_any_other() -> None:
    check(
        HeadPlayer(),
        """
        > outer 41
          close (-4398046511104, 0)
        > processed (lowest, 0)
        > 0 (lowest, 1) says 0
        > 1 (lowest, 1) says 0
          close (-4398046511104, final)
        > processed (lowest, final)
        > 0 (-4398046511103, 0) says 40
        > 1 (-4398046511103, 0) says 42
          close (39, final)
          close (40, 0)
        """,
    )


def test_the_end_is_awaited_from_outside_though_others_have_heard_it_before() -> None:
    player = HeadPlayer(epoch=5)
    check(
        player,
        """
        > outer 5
          close (5, 0)
        > processed (5, 0)
        > 0 (5, 1) says 0
        > 1 (5, 1) says 0
          close (5, final)
        > processed (5, final)
        > 0 (6, 0) says inf
        > 1 (6, 0) says inf
        > outer inf
          close everything
        """,
    )


def test_the_loop_is_over_when_nobody_will_have_anything() -> None:
    player = HeadPlayer(epoch=5)
    check(
        player,
        """
        > outer inf
          close (5, 0)
        > processed (5, 0)
        > 0 (5, 1) says 0
        > 1 (5, 1) says 0
          close (5, final)
        > processed (5, final)
        > 0 (6, 0) says inf
        > 1 (6, 0) says inf
          close everything
        > outer inf
        """,
    )
    assert player.head.phase is HeadPhase.OVER


def test_nothing_is_closed_above_a_barrier_before_it_is_frozen() -> None:
    player = HeadPlayer(epoch=5)
    check(
        player,
        """
        > barrier 5
        > outer 9
          close (5, 0)
        > processed (5, 0)
        > 0 (5, 1) says 0
        > 1 (5, 1) says 0
          close (5, final)
        > processed (5, final)
        > 0 (6, 0) says 6
        """,
    )
    assert player.head.phase is HeadPhase.CARRYING
    check(player, "> 1 (6, 0) says 6")
    assert player.head.may_freeze
    check(
        player,
        """
        > frozen
          close (6, 0)
        """,
    )


def test_one_that_catches_up_takes_ends_of_later_stamps_for_those_that_never_came() -> None:
    # it begins with epoch 6; the others, who live, went from 5 to 8 at once
    player = HeadPlayer(epoch=6)
    check(
        player,
        """
        > outer 9
          close (6, 0)
        > 0 (8, 1) says 3
        > 1 (8, 1) says 0
        > processed (6, 0)
          close (6, final)
        > processed (6, final)
          close (7, final)
          close (8, 0)
        > processed (8, 0)
          close (8, 1)
        """,
    )


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_no_more_rounds_than_are_allowed(rounds: int) -> None:
    player = HeadPlayer(max_rounds=rounds, epoch=0)
    closed = player("outer 5")
    for round_ in range(rounds):
        assert closed == [f"close (0, {round_})"]
        player(f"processed (0, {round_})")
        player(f"0 (0, {round_ + 1}) says 1")
        closed = player(f"1 (0, {round_ + 1}) says 1")
    assert closed == [f"carry (0, {rounds}) to (1, 0)", "close (0, final)"]
