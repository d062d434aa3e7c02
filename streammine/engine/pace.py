"""How a replica that agrees with others goes on, in wake-ups (used by `agreeing_slice`)."""

from __future__ import annotations

from dataclasses import dataclass

from streammine.model.epochs import BEGINNING

LONGEST_PAUSE_TICKS = 5
"""After which it is one, whatever is usual."""

UNUSUAL = 1.5
"""So many times as long as usual between two decisions is a pause."""

REMEMBERED = 7 / 8
"""Of what is usual, with each decision."""


@dataclass
class Pace:
    """`still_ticks`: since when nothing was decided; `busy_ticks`: since when there is always something to
    process. Each counts after `patience` ticks. `usual_ticks`: between two decisions."""

    patience: int
    still_ticks: int = 0
    busy_ticks: int = 0
    usual_ticks: float = 0.0
    _decided: int = BEGINNING

    def tick(self, decided: int, busy: bool) -> None:
        self.still_ticks += 1
        self.busy_ticks = self.busy_ticks + 1 if busy else 0
        if decided != self._decided:
            took = min(self.still_ticks, LONGEST_PAUSE_TICKS)
            self.usual_ticks = REMEMBERED * self.usual_ticks + (1 - REMEMBERED) * took
            self.still_ticks = 0
            self._decided = decided

    @property
    def is_still(self) -> bool:
        return self.still_ticks >= self.patience

    @property
    def pauses(self) -> bool:
        """Nothing was decided for longer than is usual here: on a busy machine every decision takes long."""
        longest = min(LONGEST_PAUSE_TICKS, UNUSUAL * self.usual_ticks)
        return self.still_ticks >= max(self.patience, longest)

    @property
    def is_behind(self) -> bool:
        """What others name comes here only after what is still to be processed."""
        return self.busy_ticks >= self.patience
