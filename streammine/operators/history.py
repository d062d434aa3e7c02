"""The content of a `History` cell: a record that is added to and never changed.

What was appended once stays as it is, so a snapshot holds what was appended since the one before and no more,
however long the record is: a key may remember a month of averages, and saves a second of them each second.
Wu & Tan (2015), section 4, save what has changed by parts of a state likewise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from streammine.operators.frozen import PIECE_BYTES

_ENTRY_BYTES = 64
"""About what a place in the list takes, and the object in it besides what it holds."""


class Stretch(NamedTuple):
    """Entries as a snapshot holds them: `entries` have the numbers from `number` on.

    Those before `first` have been dropped.
    """

    first: int
    number: int
    entries: list[Any]

    def parts(self) -> list[Stretch]:
        """The same entries, in order, in one stretch or more that are not too large to be saved at once."""
        parts = []
        start = nbytes = 0
        for place, entry in enumerate(self.entries):
            nbytes += size_of(entry)
            if nbytes >= PIECE_BYTES:
                parts.append(self._part(start, place + 1))
                start, nbytes = place + 1, 0
        if nbytes or not parts:
            parts.append(self._part(start, len(self.entries)))
        return parts

    def _part(self, start: int, end: int) -> Stretch:
        return Stretch(self.first, self.number + start, self.entries[start:end])


class Entries:
    """Entries with numbers 0, 1, … in the order in which they were appended.

    ``entries[number]`` is one of them, `len` how many there are but for those that were dropped; they have
    the numbers from `first` up to, not including, `end`.
    """

    __slots__ = ("_entries", "_nbytes", "_saved", "first")

    def __init__(self) -> None:
        self.first = 0
        self._entries: list[Any] = []
        self._nbytes = 0
        # a snapshot has the entries up to this number
        self._saved = 0

    @property
    def end(self) -> int:
        """The number that the next entry will have."""
        return self.first + len(self._entries)

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        return self._nbytes

    def append(self, entry: Any) -> int:
        """Add an entry, plain data that nobody changes any more; returns its number."""
        self._entries.append(entry)
        self._nbytes += size_of(entry)
        return self.end - 1

    def drop_before(self, number: int) -> None:
        """Drop the entries with smaller numbers; the others keep theirs."""
        dropped = min(number, self.end) - self.first
        if dropped > 0:
            self._nbytes -= sum(map(size_of, self._entries[:dropped]))
            del self._entries[:dropped]
            self.first += dropped

    def frozen(self, full: bool) -> Stretch:
        """What a snapshot must hold; not `full`: what the one before lacks. Called by the engine."""
        number = self.first if full else max(self.first, self._saved)
        self._saved = self.end
        return Stretch(self.first, number, self._entries[number - self.first :])

    def take_in(self, stretch: Stretch) -> None:
        """The entries of a snapshot, oldest first. Called by the engine."""
        if stretch.number == stretch.first:
            # all that are kept: those before have been dropped, or belong to a record that was begun anew
            self._entries, self._nbytes, self.first = [], 0, stretch.number
        place = stretch.number - self.first
        assert 0 <= place <= len(self._entries), (
            f"entries before number {stretch.number} are not there"
        )
        self._nbytes += sum(map(size_of, stretch.entries)) - sum(
            map(size_of, self._entries[place:])
        )
        self._entries[place:] = stretch.entries
        self.drop_before(stretch.first)

    def __getitem__(self, number: int) -> Any:
        if not self.first <= number < self.end:
            there = f"the entries {self.first} to {self.end - 1}" if self._entries else "no entries"
            raise IndexError(f"there are {there}, not {number}")
        return self._entries[number - self.first]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Entries)
            and self.first == other.first
            and self._entries == other._entries
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Entries({self.first}, {self._entries!r})"


@dataclass(frozen=True)
class History:
    """A cell that holds a record, which is added to and never changed: `Entries`.

    ``state.record.append(entry)`` gives the entry a number, ``state.record[number]`` is it again, and
    ``state.record.drop_before(number)`` forgets old ones. A snapshot holds only what was appended since the
    one before, so a long record costs no more than a short one; a List or Map is saved as a whole.
    """

    def fresh(self) -> Entries:
        return Entries()

    def plain(self, content: Entries) -> Any:
        return list(content.frozen(full=True))

    def restored(self, plain: Any, before: Entries | None = None) -> Entries:
        """What a snapshot holds, added to what the ones `before` it held."""
        entries = Entries() if before is None else before
        entries.take_in(Stretch(*plain))
        return entries


def size_of(entry: Any) -> int:
    """About how much memory an entry takes."""
    if isinstance(entry, tuple | list):
        return _ENTRY_BYTES + sum(map(size_of, entry))
    return _ENTRY_BYTES + (sys.getsizeof(entry) if isinstance(entry, str | bytes) else 0)
