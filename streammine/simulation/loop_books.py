"""What the monitor knows of a replica inside a loop: as elsewhere, by (epoch, round)."""

from __future__ import annotations

from collections import Counter

from streammine.engine.loop_slice import LoopHeadSlice, LoopSlice
from streammine.engine.slice_settings import Phase
from streammine.engine.stimuli import WorkResult
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.job import EdgeKind
from streammine.model.stamps import (
    arriving,
    covered,
    epoch_of,
    final,
    is_final,
    leaving,
    round_of,
    stamp,
)
from streammine.simulation.books import ReplicaBook
from streammine.simulation.contents import MASK, BagContents


class LoopBook(ReplicaBook):
    """`closed_up_to` and the times of `taken` are stamps, those of `made` the channels' own times."""

    @property
    def _loop(self) -> LoopSlice:
        assert isinstance(self.machine, LoopSlice)
        return self.machine

    def begins_after(self, epoch: int, finished: bool) -> None:
        super().begins_after(epoch, finished)
        if not finished:
            self.closed_up_to = final(epoch)

    def needed_from(self, channel: int) -> int:
        """A head's snapshot says which epoch is next: it goes there without the back-edges' ends between."""
        needed = super().needed_from(channel)
        jumps = isinstance(self.machine, LoopHeadSlice) and self._loop.kinds[channel] == "back"
        return max(needed, self.machine.processed_below) if jumps else needed

    def forgettable(self, channel: int, epoch: int) -> int:
        return covered(self._loop.kinds[channel], epoch)

    def must_have_ended(self, channel: int, at: int) -> int:
        kind = self._loop.kinds[channel]
        if kind == "back":
            counted = at < INFINITY and round_of(at) > 0 and not is_final(at)
            return at if counted else BEGINNING
        return epoch_of(at) if kind == "entry" else at

    def must_be_over(self, channel: int) -> bool:
        """A head decides that the loop is over; the others' ends say so afterwards, to nobody."""
        return self._loop.kinds[channel] != "back"

    def _accumulates(self, channel: int, epoch: int, body: object, contents: BagContents) -> None:
        number = channel if channel >= 0 else ~channel
        super()._accumulates(number, epoch, body, contents)

    def _closes(self, epoch: int, contents: BagContents) -> None:
        """Every row made for the stamps up to this one is taken, each once, what was carried where it
        was carried to."""
        assert epoch > self.closed_up_to, f"{self.name}: {epoch} closed after {self.closed_up_to}"
        taken: Counter[tuple[EdgeKind, int]] = Counter()
        made: Counter[tuple[EdgeKind, int]] = Counter()
        for number in self.machine.inputs:
            kind = self._loop.kinds[number]
            for at in [each for each in self.taken.get(number, {}) if each <= epoch]:
                taken[kind, at] += self.taken[number].pop(at)
            for at, content in contents.of(number):
                used_at = self._used_at(kind, at)
                if self.closed_up_to < used_at <= epoch:
                    made[kind, used_at] += content
        for kind, at in taken.keys() | made.keys():
            assert (taken[kind, at] - made[kind, at]) & MASK == 0, (
                f"{self.name} closes ({epoch_of(epoch)}, {round_of(epoch)}) with other rows of "
                f"({epoch_of(at)}, {round_of(at)}), {kind}, than were made"
            )

    def _used_at(self, kind: EdgeKind, at: int) -> int:
        """The stamp at which what travels by the time `at` on a channel into the slice is used."""
        if kind == "back" and round_of(at) == self._loop.place.max_rounds:
            return stamp(epoch_of(at) + 1)
        return arriving(kind, at)

    def _check_frozen(self, epoch: int) -> None:
        assert self.closed_up_to <= final(epoch), (
            f"{self.name}: a snapshot at {epoch}, but {self.closed_up_to} is closed"
        )

    def _complete_below(self, channel: int, result: WorkResult) -> int:
        if result.finished:
            return INFINITY
        if not result.closed:
            return BEGINNING
        return leaving(self._loop.kinds[channel], result.closed[-1] + 1)


def check_loop(book: LoopBook) -> None:
    """What must hold inside the machine of a loop's member between two steps. Raises AssertionError."""
    machine = book._loop
    if machine.phase is not Phase.FINISHED:
        for number, output in machine.outputs.items():
            assert output.ended <= leaving(machine.kinds[number], machine.stepped), (
                f"{book.name}: channel {number} has ended {output.ended}, the slice {machine.stepped}"
            )
    if isinstance(machine, LoopHeadSlice):
        for at in machine.held.epochs:
            assert at > book.closed_up_to, f"{book.name}: rows of a closed stamp, {at}, are held"
    _check_totals(book)


def _check_totals(book: LoopBook) -> None:
    """The end of a stamp tells the rows that the slice sent on all back-edges."""
    machine = book._loop
    back = [each for number, each in machine.outputs.items() if machine.kinds[number] == "back"]
    rows: Counter[int] = Counter()
    said: dict[int, int] = {}
    for output in back:
        for entry in output.entries:
            rows[entry.epoch] += entry.rows
            if entry.ends and entry.epoch < INFINITY:
                assert said.setdefault(entry.epoch, entry.watermark) == entry.watermark, (
                    f"{book.name}: channels were told different totals of {entry.epoch}"
                )
    forgotten = max((each.retained_after for each in back), default=BEGINNING)
    for at, total in said.items():
        if at > forgotten and round_of(at) > 0:
            assert total == rows[at], f"{book.name}: sent {rows[at]} rows by {at}, said {total}"
