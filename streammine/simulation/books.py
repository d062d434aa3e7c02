"""What the monitor knows of each replica by itself, from the work it was given and what came of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from streammine.engine.kept import loaded
from streammine.engine.processor import OperatorProcessor, Processor
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import EPOCHS_PER_RUN
from streammine.engine.stimuli import (
    Accumulate,
    CloseEpoch,
    Discard,
    Finish,
    Freeze,
    Read,
    Work,
    WorkResult,
)
from streammine.model.disciplines import Discipline
from streammine.model.epoch_ranges import EpochRanges
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.simulation.contents import BagContents
from streammine.simulation.losses import watch_losses

Replica = tuple[SliceId, int]
"""A slice and the generation of one of its replicas."""

Contents = dict[int, dict[int, int]]
"""By channel and epoch."""


@dataclass
class ReplicaBook:
    """One replica. `sources`: the sender by input channel. `made` and `taken` hold the contents of bags
    that are not complete yet; `rows_in` counts the rows that it has taken and not given back, by channel and
    epoch; `lost` are the epochs that it says it has lost, `unwanted` those that a source
    was told to pass over, of which it may have made a part before. `asked`: the epochs that it was asked to
    close last."""

    machine: SliceMachine
    processor: Processor
    node: str
    sources: dict[int, SliceId]
    restored_after: int = BEGINNING
    working: bool = False
    asked: list[int] = field(default_factory=list)
    finished: bool = False
    closed_up_to: int = BEGINNING
    frozen_up_to: int = BEGINNING
    processed_below: int = BEGINNING
    made: Contents = field(default_factory=dict)
    taken: Contents = field(default_factory=dict)
    rows_in: Counter[tuple[int, int]] = field(default_factory=Counter)
    open_epochs: dict[int, int] = field(default_factory=dict)
    unwanted: EpochRanges = field(default_factory=EpochRanges)
    lost: EpochRanges = field(init=False)

    def __post_init__(self) -> None:
        self.lost = watch_losses(self.machine)

    @property
    def name(self) -> str:
        return f"{self.machine.slice_id} generation {self.machine.generation} on {self.node}"

    def ended(self, channel: int) -> int:
        """The last epoch that is over on an output channel."""
        return self.machine.outputs[channel].ended

    def begins_after(self, epoch: int, finished: bool) -> None:
        """The replica is restored to what stood after an epoch."""
        self.finished = finished
        self.restored_after = INFINITY if finished else epoch
        self.closed_up_to = self.frozen_up_to = self.restored_after

    def needed_from(self, channel: int) -> int:
        """The first time that the replica may still need on that channel."""
        return self.machine.inputs[channel].open_epoch

    def forgettable(self, channel: int, epoch: int) -> int:
        """The time up to which an output channel may be forgotten, if epochs up to `epoch` may be."""
        return epoch

    def must_have_ended(self, channel: int, epoch: int) -> int:
        """The time that an input channel's sender has ended before the slice closes an epoch."""
        return epoch

    def must_be_over(self, channel: int) -> bool:
        """Whether an input channel ends before the slice does."""
        return True

    # --- work -------------------------------------------------------------------------------------

    def begins(self, work: tuple[Work, ...], contents: BagContents) -> None:
        assert not self.working, f"{self.name}: two runs of work at a time"
        assert not self.finished, f"{self.name}: work after its end"
        self.working = True
        closing = self.closed_up_to
        self.asked = [item.epoch for item in work if isinstance(item, CloseEpoch)]
        for item in work:
            match item:
                case Accumulate(channel, _, epoch, _, body):
                    assert epoch > closing, f"{self.name}: data of epoch {epoch}, which is closed"
                    self._accumulates(channel, epoch, body, contents)
                case Discard(channel, epoch):
                    assert epoch > closing, f"{self.name}: data of epoch {epoch} taken back"
                    self.taken.get(channel, {}).pop(epoch, None)
                    self.rows_in.pop((channel, epoch), None)
                case CloseEpoch(epoch):
                    assert epoch > closing, f"{self.name}: {epoch} closed after {closing}"
                    closing = epoch
                case Finish():
                    self._closes(INFINITY, contents)
                case Freeze(epoch):
                    self._freezes(epoch)
                case Read(unwanted=(first, below)):
                    self.unwanted.add(first, below - 1)
                case _:
                    continue

    def _accumulates(self, channel: int, epoch: int, body: object, contents: BagContents) -> None:
        batch = loaded(body)
        assert batch is not None
        taken = self.taken.setdefault(channel, {})
        taken[epoch] = contents.more(channel, taken.get(epoch, 0), batch)
        self.rows_in[channel, epoch] += batch.num_rows

    def _closes(self, epoch: int, contents: BagContents) -> None:
        """All channels have ended the epoch, and everything sent in it was accumulated."""
        assert epoch > self.closed_up_to, f"{self.name}: {epoch} closed after {self.closed_up_to}"
        for number in self.machine.inputs:
            taken = self.taken.get(number, {})
            if epoch != INFINITY:
                bag = taken.pop(epoch, None)
                if epoch not in self.lost:
                    contents.taken(number, epoch, bag, self.name)
            left = [each for each in taken if each <= epoch]
            assert not left, f"{self.name} closes epoch {epoch}, but holds rows of {min(left)}"
            between = contents.between(number, self.closed_up_to, epoch)
            skipped = [each for each in between if each not in self.lost]
            assert not skipped, (
                f"{self.name} closes epoch {epoch} without the rows of epoch {skipped[0]} on "
                f"channel {number}"
            )

    def _freezes(self, epoch: int) -> None:
        assert epoch > self.frozen_up_to, (
            f"{self.name}: frozen at {epoch} after {self.frozen_up_to}"
        )
        self.frozen_up_to = epoch
        if not self.machine.is_source:
            self._check_frozen(epoch)

    def _check_frozen(self, epoch: int) -> None:
        assert self.closed_up_to <= epoch, (
            f"{self.name}: a snapshot at {epoch}, but {self.closed_up_to} is closed"
        )

    def finishes(self, result: WorkResult, contents: BagContents) -> None:
        """A run of work has come to its end."""
        assert self.working, f"{self.name}: work was done that nobody asked for"
        self.working = False
        for output in result.outputs:
            batch = loaded(output.body)
            assert batch is not None
            made = self.made.setdefault(output.channel, {})
            before = made.get(output.epoch, 0)
            made[output.epoch] = contents.more(output.channel, before, batch)
        if result.taken is not None:
            self._takes_state(result.taken.epoch)
        for epoch in result.closed:
            self._closes(epoch, contents)
            self.closed_up_to = epoch
        self._check_closed(result)
        self._check_counted()
        self.finished = self.finished or result.finished
        self._complete(result, contents)

    def _check_closed(self, result: WorkResult) -> None:
        """The first epochs that it was asked for, and of those in between some."""
        closed = [epoch for epoch in result.closed if epoch in self.asked]
        assert closed == self.asked[: len(closed)], f"{self.name}: {closed} closed of {self.asked}"
        if self.asked:
            assert result.closed[0] == self.asked[0], f"{self.name}: {result.closed} are closed"
            assert result.closed[-1] <= self.asked[-1], f"{self.name}: {result.closed} are closed"
            assert len(result.closed) <= EPOCHS_PER_RUN, f"{self.name}: a run without an end"
        else:
            assert not result.closed, f"{self.name}: {result.closed} are closed unasked"
        last = result.closed[-1] if result.closed else BEGINNING
        left = [epoch for epoch in self.asked if epoch not in closed]
        assert not left or left[0] > last, f"{self.name}: {left[0]} is left open before {last}"

    def _check_counted(self) -> None:
        """With what the bags must have had when they were closed: each row counts once."""
        processor = self.processor
        # without order nothing is given back
        if isinstance(processor, OperatorProcessor) and processor.discipline is not Discipline.NONE:
            counted, taken = processor.counters.rows_in, self.rows_in.total()
            assert counted == taken, f"{self.name} has taken {taken} rows, and counts {counted}"

    def _takes_state(self, epoch: int) -> None:
        assert epoch >= self.closed_up_to, f"{self.name} went back to {epoch}"
        self.closed_up_to = self.frozen_up_to = self.restored_after = epoch
        for held in (*self.taken.values(), *self.made.values()):
            for each in [each for each in held if each <= epoch]:
                del held[each]
        for key in [key for key in self.rows_in if key[1] <= epoch]:
            del self.rows_in[key]

    def _complete(self, result: WorkResult, contents: BagContents) -> None:
        """The bags that nothing can be added to any more."""
        for channel, made in self.made.items():
            below = self._complete_below(channel, result)
            for epoch in [each for each in made if each < below]:
                bag = made.pop(epoch)
                passed_over = (
                    channel in self.machine.settings.chosen_among and epoch in self.unwanted
                )
                if epoch not in self.lost and not passed_over:
                    contents.made(channel, epoch, bag, self.name)

    def _complete_below(self, channel: int, result: WorkResult) -> int:
        if result.finished:
            return INFINITY
        if result.open_epoch is not None:
            return result.open_epoch
        return result.closed[-1] + 1 if result.closed else BEGINNING
