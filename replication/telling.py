"""When a replica tells the others of itself, and whether all of it (used by `consensus`)."""

from __future__ import annotations

from streammine.model.agreement import Pulse

MOST_PULSES = 16
"""Between two reports, whatever has changed: who lacks one may be heard by nobody."""


class Telling:
    """`has_news`: this replica has something to say that others could not see; `changes` counts what changed
    in its part in ballots. Where there is neither, a pulse will do, but not for ever."""

    def __init__(self) -> None:
        self.has_news = False
        self._is_due = False
        self._sequence = 0
        self._report = 0
        self._told_changes = 0
        self._pulses = 0
        self._told_at = 0.0

    def look(self, now_seconds: float, every_seconds: float) -> None:
        """Time has passed; nobody is to wait for longer than that."""
        if now_seconds - self._told_at >= every_seconds:
            self._is_due = True

    def is_wanted(self, changes: int) -> bool:
        """Something is to be told."""
        return self._is_due or self.must_report(changes)

    def must_report(self, changes: int) -> bool:
        return self.has_news or changes != self._told_changes

    @property
    def is_old(self) -> bool:
        """What is told next is to be a report."""
        return self._pulses >= MOST_PULSES

    def number(self) -> int:
        """Of what is told next."""
        self._sequence += 1
        return self._sequence

    def told(self, now_seconds: float) -> None:
        self._is_due = False
        self._told_at = now_seconds

    def reported(self, changes: int) -> None:
        """All others were sent the report that was numbered last."""
        self.has_news = False
        self._told_changes = changes
        self._pulses = 0
        self._report = self._sequence

    def pulse(self, generation: int, decided: int) -> Pulse:
        """Also to who has got another report since: it said the same."""
        self._pulses += 1
        return Pulse(generation, self.number(), self._report, decided)
