"""How a replica that agrees with others goes on: what is still, what is a pause, who is behind."""

from __future__ import annotations

from streammine.engine.pace import LONGEST_PAUSE_TICKS, Pace

PATIENCE = 2


def deciding_every(ticks: int, decisions: int = 40) -> Pace:
    pace = Pace(PATIENCE)
    for tick in range(decisions * ticks + 1):
        pace.tick(tick // ticks, busy=False)
    assert pace.still_ticks == 0
    return pace


def ticks_until_it_pauses(pace: Pace) -> int:
    decided, ticks = 1000, 0
    pace.tick(decided, busy=False)
    while not pace.pauses:
        pace.tick(decided, busy=False)
        ticks += 1
    return ticks


def test_where_decisions_come_fast_a_pause_is_as_short_as_patience_allows() -> None:
    assert ticks_until_it_pauses(Pace(PATIENCE)) == PATIENCE
    assert ticks_until_it_pauses(deciding_every(1)) == PATIENCE


def test_where_decisions_take_long_a_pause_is_longer_than_they_take() -> None:
    assert ticks_until_it_pauses(deciding_every(2)) == 3
    assert ticks_until_it_pauses(deciding_every(3)) == 5


def test_a_pause_begins_in_time_whatever_is_usual() -> None:
    assert ticks_until_it_pauses(deciding_every(100)) == LONGEST_PAUSE_TICKS
    pace = deciding_every(2)
    for _ in range(1000):
        pace.tick(2000, busy=False)
    pace.tick(3000, busy=False)
    assert ticks_until_it_pauses(pace) <= 4, "one long gap is not usual"


def test_it_is_still_after_some_ticks_without_a_decision_and_behind_after_some_busy_ones() -> None:
    pace = Pace(PATIENCE)
    assert not pace.is_still
    for expected in (False, True, True):
        pace.tick(-(2**63), busy=True)
        assert pace.is_behind == expected
    assert pace.is_still
    pace.tick(7, busy=False)
    assert not pace.is_still
    assert not pace.is_behind
