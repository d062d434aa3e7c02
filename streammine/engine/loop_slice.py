"""Slices inside a loop: their time is the stamp (see model.stamps); heads besides decide the rounds.

Invariants (checked by the simulation after every step)
-------------------------------------------------------
* Stamps are closed in ascending order, each at most once, by every replica; the work of a stamp is handed
  over before its close, and what a head holds of a round is handed over only once the round is decided.
* Of each stamp that a head closes every member sends the end on every channel inside the loop, with the
  total of what it sent on back-edges; so a member has nothing of two rounds to close at a time, unless it
  catches up behind the others.
* An end of the final round names the sender's next epoch: neither it nor anybody upstream of it in the loop
  will have anything in the epochs between. A head says so by the end of the last one of these, as well,
  before it waits for the input of its next epoch: whoever was rebuilt, and goes through them one by one,
  needs its word for each.
* A barrier lies behind the final stamp of its epoch. A member freezes there and passes the flagged end on. A
  head sends it on at once, and freezes when all back-edges have ended stamp (e + 1, 0), before it closes
  anything more: then it holds all that is on its way inside the loop.
* Where all that feeds it from outside is over, a head itself flags the end of the epoch of the checkpoint in
  the making: others may still feed the loop's middle, and from the back-edges it would hear of that too late.
  It goes to no epoch for it: behind the last one with data lies what is left at the end of the input.
* What a loop's slices tell the world outside (credit on entries, reports) are epochs, and an epoch counts as
  processed at a head only when what is carried out of it is complete.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import replace

from streammine.engine.input_channel import InputChannel, after
from streammine.engine.kept import Kept
from streammine.engine.loop_ends import Ends
from streammine.engine.loop_head import Carry, CloseStamp, LoopHead, Standing
from streammine.engine.output_channel import OutputChannel
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import (
    BYTES_WORTH_A_RUN,
    LoopPlace,
    RestoredTo,
    SliceSettings,
)
from streammine.engine.stimuli import (
    Accumulate,
    CloseEpoch,
    Effect,
    Finish,
    FrameArrived,
    Freeze,
    GrantCredit,
    ToDisk,
    Work,
    WorkResult,
)
from streammine.engine.waiting import WaitingWork
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.frames import CHECKPOINT, FrameKind
from streammine.model.ids import SliceId
from streammine.model.job import EdgeKind
from streammine.model.stamps import (
    LOWEST_EPOCH,
    arriving,
    covered,
    epoch_of,
    epochs_below,
    final,
    is_final,
    leaving,
    made_in,
    stamp,
)

_INTO: tuple[EdgeKind, ...] = ("entry", "inside", "back")


class LoopSlice(SliceMachine):
    """A member of a loop. Barriers and what is frozen are epochs, the frontier holds stamps."""

    def __init__(
        self,
        slice_id: SliceId,
        generation: int,
        inputs: tuple[InputChannel, ...],
        outputs: tuple[OutputChannel, ...],
        settings: SliceSettings,
        place: LoopPlace,
        restored: RestoredTo | None = None,
    ) -> None:
        self.place = place
        self.kinds = place.kinds
        around = {each.number: self.kinds[each.number] for each in inputs}
        self.outer = tuple(each for each in inputs if around[each.number] == "entry")
        self.ends = Ends({number: kind for number, kind in around.items() if kind != "entry"})
        self.stepped = BEGINNING
        """The last stamp whose end was sent."""
        self._steps: list[int] = []
        self._sent_back: dict[int, int] = {}
        self._told = (BEGINNING, BEGINNING)
        super().__init__(slice_id, generation, inputs, outputs, settings, restored)

    def _restore(self, restored: RestoredTo) -> None:
        super()._restore(restored)
        if restored.finished:
            return
        self.stepped = final(restored.epoch)
        self.processed_below = self.stepped + 1
        due = None if restored.due is None else final(restored.due)
        self.frontier.begin(self.processed_below, due)

    # --- what the world outside is told -----------------------------------------------------------

    @property
    def processed_epoch(self) -> int:
        return epochs_below(self.processed_below)

    @property
    def retained_after(self) -> int:
        return max(
            (
                made_in(self.kinds[number], each.retained_after)
                for number, each in self.outputs.items()
            ),
            default=BEGINNING,
        )

    def _prune(self, retain_after: int) -> None:
        for number, channel in self.outputs.items():
            channel.prune(covered(self.kinds[number], retain_after))

    def _credit_on(self, channel: InputChannel) -> int:
        outer = self.kinds[channel.number] == "entry"
        return self.processed_epoch if outer else self.processed_below

    # --- frames ---------------------------------------------------------------------------------

    def _use(self, channel: InputChannel, frame: FrameArrived) -> list[Effect]:
        header = frame.header
        kind = self.kinds[channel.number]
        effects: list[Effect] = []
        if header.kind is FrameKind.DATA:
            at = arriving(kind, header.epoch)
            self.last_epoch = max(self.last_epoch, epoch_of(at))
            body = frame.body
            if self._waiting_bytes > self.settings.waiting_bytes:
                body = Kept(body, frame.nbytes)
                effects.append(ToDisk((body,)))
            self._take_in(Accumulate(channel.number, channel.port, at, 0, body), frame.nbytes)
        if not header.ends:
            return effects
        if kind in ("inside", "back"):
            self._hear(channel, header.epoch, header.watermark)
        if header.flags & CHECKPOINT:
            barrier = header.epoch if kind == "entry" else made_in(kind, header.epoch)
            if self._is_barrier(barrier) and not self._is_past(barrier):
                insort(self.barriers, barrier)
        self.last_epoch = max(self.last_epoch, channel.last_epoch)
        self._align()
        return effects + self._settle()

    def _is_past(self, barrier: int) -> bool:
        """Too late to freeze there."""
        return barrier <= self.frozen

    @property
    def _waiting_bytes(self) -> int:
        return self.waiting.nbytes

    def _take_in(self, work: Accumulate, nbytes: int) -> None:
        """Rows that may be handed over as they come."""
        self.frontier.touch(final(epoch_of(work.epoch)))
        if not self.place.fires_once:
            self.frontier.touch(work.epoch)
        self.waiting.add(work, nbytes)

    def _hear(self, channel: InputChannel, at: int, said: int) -> None:
        self.ends.heard(channel.number, at, said)
        if at not in self._steps:
            insort(self._steps, at)

    def _align(self) -> None:
        self.frontier.advance(
            arriving(self.kinds[number], each.open_epoch) for number, each in self.inputs.items()
        )

    def _discard(self, channel: InputChannel, epochs: list[int]) -> None:
        for epoch in epochs:
            self.waiting.discard(channel.number, arriving(self.kinds[channel.number], epoch))

    # --- steps ------------------------------------------------------------------------------------

    def _emit(self, result: WorkResult, open_epoch: int) -> None:
        for output in result.outputs:
            kind = self.kinds[output.channel]
            self.last_epoch = max(
                self.last_epoch, output.epoch if kind == "exit" else epoch_of(output.epoch)
            )
            if kind == "back":
                made = output.epoch - 1
                self._sent_back[made] = self._sent_back.get(made, 0) + output.rows
            self.outputs[output.channel].data(output.epoch, output.rows, output.body, output.nbytes)

    def _settle(self) -> list[Effect]:
        processed = self.frontier.processed_below()
        if self.barriers:
            processed = min(processed, final(self.barriers[0]))
        if processed <= self.processed_below:
            return []
        self._step(processed)
        self.processed_below = processed
        return self._new_credits()

    def _new_credits(self) -> list[Effect]:
        """To those outside a credit is news once per epoch only."""
        told, self._told = self._told, (self.processed_below, self.processed_epoch)
        changed = {kind: told[kind == "entry"] != self._told[kind == "entry"] for kind in _INTO}
        return [
            GrantCredit(channel.number, sender, self.generation, self._credit_on(channel))
            for channel in self.inputs.values()
            if changed[self.kinds[channel.number]]
            for sender in channel.feeds
        ]

    def _step(self, below: int) -> None:
        """Send the ends of the stamps that are processed."""
        while self._steps and self._steps[0] < below:
            self._end_stamp(self._steps.pop(0), checkpoint=False)

    def _end_stamp(self, at: int, checkpoint: bool) -> None:
        epoch, last = epoch_of(at), is_final(at)
        sent_back = self._sent_back.pop(at, 0)
        said = self._next_epoch(at, sent_back) if last else sent_back
        for number, channel in self.outputs.items():
            kind = self.kinds[number]
            if kind != "exit":
                channel.close(leaving(kind, at), said, checkpoint)
            elif last and epoch > LOWEST_EPOCH:
                channel.close(epoch, self.epoch.watermark(epoch), checkpoint)
        self.stepped = at

    def _close_outputs(self, epoch: int, checkpoint: bool = False) -> None:
        """What was processed up to a barrier is frozen: its end goes on, even where the head has jumped over
        that epoch and told of none. A step that comes to it afterwards adds nothing."""
        self._end_stamp(final(epoch), checkpoint)

    def _next_epoch(self, at: int, sent_back: int) -> int:
        """The lowest epoch behind final stamp `at` in which there is or may come anything."""
        candidates = [*self._upstream_next(at), *(each.open_epoch for each in self.outer)]
        waiting = self.frontier.waiting()
        if waiting is not None:
            candidates.append(epoch_of(waiting))
        candidates += [barrier for barrier in self.barriers if barrier > epoch_of(at)]
        if sent_back:
            candidates.append(epoch_of(at) + 1)
        return min(candidates)

    def _upstream_next(self, at: int) -> Iterable[int]:
        return [self.ends.next_epoch(at)]

    # --- work -------------------------------------------------------------------------------------

    @property
    def _due_barrier(self) -> int | None:
        reached = self.barriers and self.frontier.processed_below() > final(self.barriers[0])
        return self.barriers[0] if reached else None

    def _freeze(self, epoch: int) -> tuple[Work, ...]:
        (freeze,) = super()._freeze(epoch)
        assert isinstance(freeze, Freeze)
        return (replace(freeze, due=None if freeze.due is None else epoch_of(freeze.due)),)

    def _next_work(self) -> tuple[Work, ...]:
        barrier = self._due_barrier
        if barrier is not None:
            return () if self.snapshots.writing else self._freeze(barrier)
        if self.frontier.finished:
            return () if self.blocked else (Finish(self._final_epoch()),)
        closing = self.frontier.next_to_close()
        if closing is None and self.waiting.nbytes < BYTES_WORTH_A_RUN:
            return ()
        work = self._take_waiting(closing)
        if closing is not None and not self.blocked and not self.waiting.reaches(closing):
            # the epoch's time has come with its last round
            epoch = epoch_of(closing) if is_final(closing) else epoch_of(closing) - 1
            work.append(CloseEpoch(closing, self.epoch.watermark(epoch)))
        return tuple(work)


class LoopHeadSlice(LoopSlice):
    """A slice of a loop's head. What comes on back-edges is `held` until its round is decided."""

    def __init__(
        self,
        slice_id: SliceId,
        generation: int,
        inputs: tuple[InputChannel, ...],
        outputs: tuple[OutputChannel, ...],
        settings: SliceSettings,
        place: LoopPlace,
        restored: RestoredTo | None = None,
    ) -> None:
        self.held = WaitingWork()
        self.head = LoopHead(place.max_rounds)
        super().__init__(slice_id, generation, inputs, outputs, settings, place, restored)
        self._back = tuple(each for each in inputs if self.kinds[each.number] == "back")

    def _restore(self, restored: RestoredTo) -> None:
        super()._restore(restored)
        if restored.finished:
            self.head = LoopHead(self.place.max_rounds, INFINITY, INFINITY)
            return
        carried = restored.carried
        assert carried is not None, f"{self.slice_id}: a head's snapshot tells its next epoch"
        self.head = LoopHead(self.place.max_rounds, carried.next_epoch, restored.epoch)
        number = min(each for each, kind in self.kinds.items() if kind == "back")
        for port, rows in carried.rows:
            work = Accumulate(carried_from(number), port, self.stepped + 1, 0, rows)
            self.held.add(work, rows.nbytes)

    @property
    def processed_epoch(self) -> int:
        epoch = self.head.epoch
        if self.barriers:
            epoch = min(epoch, self.barriers[0])
        return BEGINNING if epoch == LOWEST_EPOCH else epoch

    def _is_past(self, barrier: int) -> bool:
        """A rebuilt slice may stop at an epoch that this one has jumped over, and pass the flag on here."""
        begun = epoch_of(self.stepped) if self.head.may_freeze else self.head.epoch
        return barrier < begun or super()._is_past(barrier)

    @property
    def _waiting_bytes(self) -> int:
        return self.waiting.nbytes + self.held.nbytes

    def _take_in(self, work: Accumulate, nbytes: int) -> None:
        if self.kinds[work.channel] == "back":
            self.held.add(work, nbytes)
        else:
            super()._take_in(work, nbytes)

    def _hear(self, channel: InputChannel, at: int, said: int) -> None:
        self.ends.heard(channel.number, at, said)

    def _align(self) -> None:
        """The head's protocol alone says what is complete."""

    def _discard(self, channel: InputChannel, epochs: list[int]) -> None:
        if self.kinds[channel.number] == "back":
            for epoch in epochs:
                self.held.discard(channel.number, epoch)
        else:
            super()._discard(channel, epochs)

    def _settle(self) -> list[Effect]:
        while True:
            self.processed_below = max(self.processed_below, self.frontier.processed_below())
            self._step(self.processed_below)
            decisions = self.head.advance(self._standing(), self.ends)
            for decision in decisions:
                match decision:
                    case Carry(at, to):
                        self._carry(at, to)
                    case CloseStamp(at):
                        self._close(at)
            if not decisions:
                break
        return self._new_credits()

    def _standing(self) -> Standing:
        return Standing(
            min(each.open_epoch for each in self.outer),
            min(each.open_epoch for each in self._back),
            self.processed_below,
            self.barriers[0] if self.barriers else None,
        )

    def _carry(self, at: int, to: int) -> None:
        """Under another channel's number, so that it stays when a sender's frames of `to` are discarded."""
        for work, nbytes in self.held.give(at):
            carried = replace(work, channel=carried_from(work.channel), epoch=to)
            self.held.add(carried, nbytes)

    def _close(self, at: int) -> None:
        self._steps.append(at)
        for held in sorted(each for each in self.held.epochs if each <= at):
            for work, nbytes in self.held.give(held):
                super()._take_in(work, nbytes)
        self.frontier.advance([after(at)])

    def _end_stamp(self, at: int, checkpoint: bool) -> None:
        epoch, last = epoch_of(at), is_final(at)
        if last and epoch not in self.barriers and self._begins_barrier(epoch):
            insort(self.barriers, epoch)
        super()._end_stamp(at, last and epoch in self.barriers)

    def _begins_barrier(self, epoch: int) -> bool:
        """A checkpoint is made there, and nobody who feeds the head is left to say so."""
        over = all(each.open_epoch == INFINITY for each in self.outer)
        return over and epoch == self.directed.making

    def _close_outputs(self, epoch: int, checkpoint: bool = False) -> None:
        """Its end has gone on already."""

    def _upstream_next(self, at: int) -> Iterable[int]:
        """What is carried already is in the next epoch; who jumps over some says where to."""
        if self.head.epoch > epoch_of(at):
            return [self.head.epoch]
        return [epoch_of(at) + 1] if self.held.of(at + 1) else []

    @property
    def _due_barrier(self) -> int | None:
        reached = self.barriers and self.head.may_freeze and self.head.epoch > self.barriers[0]
        return self.barriers[0] if reached else None

    def _freeze(self, epoch: int) -> tuple[Work, ...]:
        (freeze,) = super()._freeze(epoch)
        assert isinstance(freeze, Freeze)
        carried = tuple((work.port, work.body) for work in self.held.of(stamp(epoch + 1)))
        return (replace(freeze, next_epoch=self.head.epoch, carried=carried),)


def carried_from(channel: int) -> int:
    """The number under which rows are known that were carried from a channel."""
    return ~channel
