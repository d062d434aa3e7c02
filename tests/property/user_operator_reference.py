"""What a user's Operator does, said again in plain Python: cells by key, one row after another.

The events of the test say what their key is to do. `Cells` does it to lists and dictionaries without any of
the engine's classes; `played` plays epoch by epoch, one after the other, also those without events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from streammine.operators.plain_data import encode_canonical

MINUTE = 60_000_000
JOB, OPERATOR = "a job", "o"
QUEUE_LENGTH, LATE_MICROSECONDS, RECENT_EPOCHS = 2, 75_000_000, 2
AGAIN_MICROSECONDS = 45_000_000

FAILS, IS_WRONG = "fail", "wrong"


class Event(NamedTuple):
    ts: int
    key: str | None
    id: int
    do: str
    x: int


def dead_text(event: Event) -> str:
    named = zip(Event._fields, event, strict=True)
    return ", ".join(f"{name}={value!r}" for name, value in named)


class SlowDraws:
    """SplitMix64 as the paper has it: a counter, whose numbers are mixed."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = defaultdict(int)

    def word(self, epoch: int, *names: Any) -> int:
        seed = encode_canonical((JOB, OPERATOR, epoch, *names))
        self._counts[seed] += 1
        first = int.from_bytes(sha256(seed).digest()[:8], "big")
        word = (first + self._counts[seed] * 0x9E3779B97F4A7C15) % 2**64
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
        return word ^ word >> 31

    def up_to_99(self, epoch: int, *names: Any) -> int:
        while (word := self.word(epoch, *names)) >= 2**64 // 100 * 100:
            pass
        return word % 100

    def uniform(self, epoch: int, *names: Any) -> float:
        return (self.word(epoch, *names) >> 11) / 2**53


@dataclass
class Cells:
    """What is kept for one key."""

    value: int = 0
    items: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    late: list[tuple[int, int]] = field(default_factory=list)
    recent: list[tuple[int, int]] = field(default_factory=list)
    history: list[int] = field(default_factory=list)
    timers: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.value} {self.items} {self.queue} {self.places} {self.late} {self.recent} "
            f"{self.history} {sorted(self.timers)}"
        )

    def expire(self, epoch: int) -> None:
        """The epoch is over."""
        end = (epoch + 1) * MINUTE
        self.late = [entry for entry in self.late if entry[0] >= end - LATE_MICROSECONDS]
        self.recent = [entry for entry in self.recent if entry[0] > epoch - RECENT_EPOCHS]

    def act(self, key: Any, event: Event, epoch: int, draws: SlowDraws) -> list[str] | None:
        """The texts that leave; None where the event fails."""
        do, x = event.do, event.x
        start = epoch * MINUTE
        if do in (FAILS, IS_WRONG):
            # what it changed before stays
            self.value += 1
            return None
        if do == "add":
            self.value += x
        elif do == "append":
            self.items.append(x)
        elif do == "pop":
            if not self.items:
                return None
            self.items.pop()
        elif do == "queue":
            self.queue = [*self.queue, x][-QUEUE_LENGTH:]
        elif do == "put":
            self.places[x % 3] = event.id
        elif do == "forget":
            if x % 3 not in self.places:
                return None
            del self.places[x % 3]
        elif do == "late":
            self.late.append((start + 20_000_000 * x, x))
        elif do == "recent":
            self.recent.append((epoch, x))
        elif do == "history":
            self.history.append(event.id)
        elif do == "set":
            self.timers = sorted({*self.timers, start + 30_000_000 * x})
        elif do == "cancel":
            self.timers = [time for time in self.timers if time != start + 30_000_000 * x]
        elif do == "draw":
            return [f"draw {draws.up_to_99(epoch, key)}"] * 2
        elif do == "own draw":
            return [f"own draw {draws.uniform(epoch, key, event.id)!r}"]
        elif do == "clear":
            self.__init__()  # type: ignore[misc]
        elif do == "nothing":
            return []
        return [f"{do} {self}"]

    def fire(self, time: int) -> str:
        self.items.append(time)
        if self.queue:
            del self.queue[0]
            self.timers = sorted({*self.timers, time + AGAIN_MICROSECONDS})
        return f"timer {time} {self}"


Row = tuple[int | None, str]


@dataclass
class World:
    """All keys, what has left, and what was set aside."""

    cells: dict[Any, Cells] = field(default_factory=lambda: defaultdict(Cells))
    rows: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    dead: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    draws: SlowDraws = field(default_factory=SlowDraws)

    def act(self, epoch: int, event: Event) -> list[str] | None:
        return self.cells[event.key].act(event.key, event, epoch, self.draws)

    def events(self, epoch: int, events: Sequence[Event]) -> None:
        """What comes in an epoch, in its order."""
        for event in events:
            texts = self.act(epoch, event)
            if texts is None:
                self.dead[epoch].append(dead_text(event))
            self.rows[epoch] += [(event.id, text) for text in texts or ()]

    def fire(self, epoch: int) -> None:
        """The timers up to the end of the epoch."""
        for key in ordered_keys(self.cells):
            cells = self.cells[key]
            while cells.timers and cells.timers[0] <= (epoch + 1) * MINUTE:
                self.rows[epoch].append((None, cells.fire(cells.timers.pop(0))))

    def close(self, epoch: int, events: Sequence[Event]) -> None:
        """The epoch is over, in which these events came."""

    def end(self, epoch: int) -> None:
        """The input is over."""

    def forget(self, but: Collection[Any] = ()) -> None:
        """A key of which nothing is left is as one that never came."""
        for key in [key for key, cells in self.cells.items() if cells == Cells()]:
            if key not in but:
                del self.cells[key]


class ClosingEpochs(World):
    """The keys that had events tell what they hold."""

    def close(self, epoch: int, events: Sequence[Event]) -> None:
        for key in ordered_keys({event.key for event in events}):
            self.rows[epoch].append((None, f"epoch {key} {self.cells[key]}"))


class ClosingEveryKey(World):
    """All keys tell what they hold."""

    def close(self, epoch: int, events: Sequence[Event]) -> None:
        for key in ordered_keys(self.cells):
            self.rows[epoch].append((None, f"epoch {key} {self.cells[key]}"))


class ClosingInput(World):
    def end(self, epoch: int) -> None:
        for key in ordered_keys(self.cells):
            self.rows[epoch].append((None, f"input {key} {self.cells[key]}"))


class Gathering(World):
    """Events that do not fail are played when the epoch is over, in the order of their numbers."""

    def events(self, epoch: int, events: Sequence[Event]) -> None:
        super().events(epoch, [event for event in events if event.do in (FAILS, IS_WRONG)])
        for event in events:
            if event.do not in (FAILS, IS_WRONG):
                draw = self.draws.uniform(epoch, event.key, event.id)
                self.rows[epoch].append((event.id, f"came {draw!r}"))

    def close(self, epoch: int, events: Sequence[Event]) -> None:
        for event in sorted(events, key=lambda event: event.id):
            if event.do not in (FAILS, IS_WRONG):
                texts = self.act(epoch, event)
                shown = ["could not"] if texts is None else texts
                self.rows[epoch] += [(event.id, text) for text in shown]


def ordered_keys(keys: Iterable[Any]) -> list[Any]:
    return sorted(keys, key=lambda key: (key is None, (key or "").encode()))


def played(world: World, epochs: Mapping[int, Sequence[Event]]) -> World:
    """The world after these epochs, and those in which the last timers fire."""
    epoch = min(epochs)
    while epoch <= max(epochs) or any(cells.timers for cells in world.cells.values()):
        events = epochs.get(epoch, ())
        world.events(epoch, events)
        for cells in world.cells.values():
            cells.expire(epoch)
        world.forget(but={event.key for event in events})
        fired = len(world.rows[epoch])
        world.fire(epoch)
        if events or len(world.rows[epoch]) > fired:
            world.close(epoch, events)
        world.forget()
        epoch += 1
    world.end(max(epochs) + 1)
    return world
