"""The timers of a user's Operator: which keys are called when, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators.api import Operator, overrides
from streammine.operators.state import Key, KeyState
from streammine.operators.state_store import StateStore
from streammine.operators.timers import TimerIndex, Timers, TimerSet

MOST_IDLE_EPOCHS = 1_000_000
"""So often timers may set timers with no event in between: then they would go on for ever."""


class FiringTimers:
    """All timers of one slice. Does nothing where the Operator declares none."""

    def __init__(self, code: Operator, store: StateStore, operator: str, place: str) -> None:
        """`place` is named in errors. Raises TopologyError for a declaration that can't be used."""
        names = [name for name, cell in code.state.items() if isinstance(cell, Timers)]
        if len(names) > 1:
            raise TopologyError(f"{place}: declares the timers {', '.join(names)}; one is enough")
        if bool(names) != overrides(code, "on_timer"):
            raise TopologyError(
                f"{place}: on_timer and a cell of timers belong together; write both, state = "
                '{"timers": streammine.Timers()}'
            )
        self.declared = bool(names)
        self.served: list[KeyState] = []
        """The states of the keys that were called in this epoch."""
        self._name = names[0] if names else ""
        self._operator = operator
        self._store = store
        self._index = TimerIndex(self._current)
        self._closing: tuple[int, EpochDefinition] | None = None
        self._idle_epochs = 0

    def of(self, state: KeyState) -> TimerSet:
        timers: TimerSet = getattr(state, self._name)
        return timers

    def enter(self, epoch: EpochClose) -> None:
        """An epoch is being closed. Raises TopologyError where epochs count rows."""
        if not self.declared:
            return
        if epoch.definition.kind != "time":
            raise TopologyError(
                f"operator '{self._operator}': timers need event time, but the epochs count rows; write "
                "epoch: {time: 60s, column: ts}"
            )
        self._closing = epoch.epoch, epoch.definition
        self.served = []

    def take(self, watermark: int) -> list[Key]:
        """The keys with a timer up to the watermark."""
        return self._index.take(watermark)

    def note(self, states: Iterable[KeyState]) -> None:
        """These states were handed out."""
        self._index.note(self._entries(states))

    def leave(self, states: Iterable[KeyState], fed: bool) -> None:
        """The epoch is over, in which these states were handed out; `fed`: it had events. Raises
        UserCodeError when timers go on for ever."""
        if not self.declared:
            return
        self.note(states)
        self._idle_epochs = 0 if fed or not self.served else self._idle_epochs + 1
        if self._idle_epochs > MOST_IDLE_EPOCHS:
            raise UserCodeError(
                f"operator '{self._operator}': timers have set timers through {MOST_IDLE_EPOCHS:,} epochs "
                "without any event, so the job would have no end; set the next one only where something has "
                "happened since the last"
            )

    def renew(self) -> None:
        """The states were restored."""
        if self.declared:
            self._index.renew(self._entries(self._store.states()))

    @property
    def due_epoch(self) -> int | None:
        """The epoch in which the next timer fires, one that is not closed yet."""
        first = self._index.first if self.declared else None
        if first is None or self._closing is None:
            return None
        closed, definition = self._closing
        # the watermark of epoch e is its end, and a timer fires when that has reached it
        return max(closed + 1, definition.lowest_open(first - 1))

    def _entries(self, states: Iterable[KeyState]) -> Iterator[tuple[Key, TimerSet]]:
        return ((state._key, self.of(state)) for state in states)

    def _current(self, key: Any) -> TimerSet | None:
        state = self._store.get(key)
        return None if state is None else self.of(state)
