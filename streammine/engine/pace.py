"""How a replica that agrees with others goes on, in wake-ups (used by `agreeing_slice`)."""

from __future__ import annotations

from dataclasses import dataclass

from streammine.model.epochs import BEGINNING


@dataclass
class Pace:
    """`still_ticks`: since when nothing was decided; `busy_ticks`: since when there is always something to
    process. Each counts after `patience` ticks."""

    patience: int
    still_ticks: int = 0
    busy_ticks: int = 0
    _decided: int = BEGINNING

    def tick(self, decided: int, busy: bool) -> None:
        self.still_ticks = self.still_ticks + 1 if decided == self._decided else 0
        self.busy_ticks = self.busy_ticks + 1 if busy else 0
        self._decided = decided

    @property
    def is_still(self) -> bool:
        return self.still_ticks >= self.patience

    @property
    def is_behind(self) -> bool:
        """What others name comes here only after what is still to be processed."""
        return self.busy_ticks >= self.patience
