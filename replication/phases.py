"""What a replica is doing about the newest plan; the table in words is in `consensus`."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    OUTSIDE = "outside"
    LEARNING = "learning"
    VOTING = "voting"
    OUTRUN = "outrun"


class Event(StrEnum):
    LISTED = "listed"
    LEFT_OUT = "left out"
    OUTDATED = "outdated"
    LEARNT = "learnt"
    LEFT_BEHIND = "left behind"
    PASSED = "passed"


TRANSITIONS = {
    (Phase.OUTSIDE, Event.LISTED): Phase.LEARNING,
    (Phase.OUTSIDE, Event.LEFT_OUT): Phase.OUTSIDE,
    (Phase.OUTSIDE, Event.OUTDATED): Phase.OUTSIDE,
    (Phase.OUTSIDE, Event.PASSED): Phase.OUTRUN,
    (Phase.LEARNING, Event.LISTED): Phase.LEARNING,
    (Phase.LEARNING, Event.LEFT_OUT): Phase.OUTSIDE,
    (Phase.LEARNING, Event.OUTDATED): Phase.OUTSIDE,
    (Phase.LEARNING, Event.LEARNT): Phase.VOTING,
    (Phase.LEARNING, Event.LEFT_BEHIND): Phase.OUTRUN,
    (Phase.LEARNING, Event.PASSED): Phase.OUTRUN,
    (Phase.VOTING, Event.LISTED): Phase.LEARNING,
    (Phase.VOTING, Event.LEFT_OUT): Phase.OUTSIDE,
    (Phase.VOTING, Event.OUTDATED): Phase.OUTSIDE,
    (Phase.VOTING, Event.LEFT_BEHIND): Phase.OUTRUN,
    (Phase.VOTING, Event.PASSED): Phase.OUTRUN,
    (Phase.OUTRUN, Event.LISTED): Phase.OUTRUN,
    (Phase.OUTRUN, Event.LEFT_OUT): Phase.OUTRUN,
    (Phase.OUTRUN, Event.OUTDATED): Phase.OUTRUN,
    (Phase.OUTRUN, Event.PASSED): Phase.OUTRUN,
}
