"""The slice: aligns epochs over its input channels, drives one operator, and feeds its output channels.

Theory (Martin 2015, chapter 3): events of one epoch may be processed in any order as long as epochs are
closed in order. So a slice lets every batch of an open epoch be accumulated at once, apart from
committed state, and changes committed state only in CloseEpoch, when all channels have ended the epoch.
Between two epochs lie the barriers of aligned snapshots (Carbone et al. 2015, section 4.1).

House rules
-----------
* One run of work is in flight at a time. The machine never looks into a batch.
* An epoch is closed only after every batch of it was handed to the operator. A run of work may close
  several; the operator's side may leave the last of them for the next run, and says which it has closed.
* What may leave has left when a stimulus is done with. One of a single link moves that link's channel only.
* Output of an epoch leaves before its end does; the end of an epoch is sent once all epochs up to it are
  processed; credit is granted by the same number. So "processed", "ended" and "credited" never differ.
* While a frame waits for credit, the slice neither reads nor closes: what is held stays bounded by the
  output of one run of work. But a source whose rows are out of order reads on until it has ended the
  epoch that the receiver waits for; nobody else could end it.
* Nothing above a barrier is closed before the state at the barrier is frozen; the barrier goes on
  downstream with the end of its epoch. Of several replicas one leads, whose snapshots count; the others
  freeze nothing, and only pass barriers on. A source agrees to a barrier while that epoch is still open here,
  and never takes its word back.
* A replica never goes back. One that is restored begins behind its snapshot's epoch; what it makes
  above that epoch is, bag by bag, what the lost one made.

Phases::

    DEPLOYED --Start--> RUNNING --(input over, all closed, Finish done)--> FINISHED
    (restored from a finished slice) --> FINISHED

Until Start a slice takes frames and credit, but a source does not read.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping
from typing import ClassVar

from streammine.engine.frontier import Frontier
from streammine.engine.input_channel import InputChannel, Verdict
from streammine.engine.kept import Kept
from streammine.engine.output_channel import OutputChannel
from streammine.engine.slice_settings import (
    BYTES_WORTH_A_RUN,
    EPOCHS_PER_RUN,
    HISTORY_LENGTH,
    INPUT_BYTES_PER_RUN,
    READS_PER_RUN,
    Phase,
    RestoredTo,
    SliceSettings,
)
from streammine.engine.snapshot_chain import SnapshotChain
from streammine.engine.standing_replica import StandingReplica
from streammine.engine.stimuli import (
    OF_ONE_LINK,
    Accumulate,
    Announced,
    Beat,
    CloseEpoch,
    CreditArrived,
    Directed,
    Effect,
    Finish,
    FrameArrived,
    Freeze,
    Led,
    Progressed,
    Read,
    ResendAsked,
    Rewired,
    Run,
    SliceFinished,
    SnapshotDone,
    Stand,
    Start,
    StateOffered,
    Stimulus,
    Subscribed,
    ToDisk,
    UnwantedTold,
    WakeAfter,
    Woken,
    Work,
    WorkDone,
    WorkResult,
    WriteSnapshot,
)
from streammine.engine.waiting import MOST_PER_RUN
from streammine.model.contracts import FrozenSlice
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.frames import CHECKPOINT, FrameKind
from streammine.model.ids import SliceId
from streammine.model.schemes import Scheme

Handlers = Mapping[type, Callable[..., list[Effect]]]


class SliceMachine(StandingReplica):
    """Protocol of one slice's replica. `handle` is the only mutator."""

    handlers: ClassVar[Handlers]
    """Of the class, not the machine: one that refers to itself would keep all that it retains until garbage
    is collected."""

    def __init__(
        self,
        slice_id: SliceId,
        generation: int,
        inputs: tuple[InputChannel, ...],
        outputs: tuple[OutputChannel, ...],
        settings: SliceSettings,
        restored: RestoredTo | None = None,
    ) -> None:
        super().__init__(slice_id, generation, inputs, outputs, settings)
        self.epoch = settings.epoch
        self.phase = Phase.DEPLOYED
        self.frontier = Frontier()
        self.busy = False
        self.sleeping = False
        self.exhausted = False
        self.leads = True
        self.spare = False
        self.outrun = False
        self.rung = self.wanted_rung = Scheme.ACTIVE_REPLICATION
        self.taking = BEGINNING
        self.last_epoch = BEGINNING
        self.snapshots = SnapshotChain()
        self.accepted = BEGINNING
        self.frozen = BEGINNING
        self.skipped = BEGINNING
        self.directed = Directed(BEGINNING, BEGINNING, BEGINNING)
        self.barriers: list[int] = []
        self._to_freeze: deque[int] = deque()
        self._history: deque[Stimulus] = deque(maxlen=HISTORY_LENGTH)
        if restored is not None:
            self._restore(restored)

    def _restore(self, restored: RestoredTo) -> None:
        self.last_epoch = restored.last_epoch
        if restored.finished:
            self.phase = Phase.FINISHED
            self.frontier.begin(INFINITY, None)
            self.processed_below = INFINITY
            self._end(INFINITY)
            return
        self.frozen = self.skipped = restored.epoch
        self.processed_below = restored.epoch + 1
        self.frontier.begin(restored.epoch + 1, restored.due)
        self._begin_behind(restored)
        if restored.left_out_until > restored.epoch:
            self.frontier.advance(each.open_epoch for each in self.inputs.values())

    @property
    def is_source(self) -> bool:
        return not self.inputs

    @property
    def final_epoch(self) -> int | None:
        """A finished slice's last epoch with output; what is flushed is in one more than the last."""
        if self.phase is not Phase.FINISHED:
            return None
        return self.last_epoch if self.is_source else self._final_epoch()

    @property
    def processed_epoch(self) -> int:
        """Every epoch below it is processed."""
        return self.processed_below

    @property
    def retained_after(self) -> int:
        """Every epoch above it can be sent again on all channels, once what is taken in is held."""
        kept = (each.retained_after for each in self.outputs.values())
        return max(kept, default=BEGINNING) if self.taking == BEGINNING else self.taking

    def handle(self, stimulus: Stimulus) -> list[Effect]:
        """Take one stimulus, return the effects in the order in which they must happen."""
        self._history.append(stimulus)
        kind = type(stimulus)
        effects = self.handlers[kind](self, stimulus)
        if kind not in OF_ONE_LINK and (effects or kind is not FrameArrived):
            # a frame makes output only where it moves the frontier, which grants credit
            effects += self._releasing.all()
        self._schedule(effects)
        return effects

    def story(self) -> str:
        """The last stimuli, for the message of a failed assertion."""
        return "\n".join(repr(stimulus) for stimulus in self._history)

    # --- stimuli: life --------------------------------------------------------------------------

    def _start(self, _: Start) -> list[Effect]:
        assert self.phase is not Phase.RUNNING, f"{self.slice_id} started twice\n{self.story()}"
        if self.phase is Phase.DEPLOYED:
            self.phase = Phase.RUNNING
        # what it leaves out is over at once
        settled = self._settle() if self.losses and self.rung.processes else []
        return self._subscriptions() + settled

    def _woken(self, _: Woken) -> list[Effect]:
        self.sleeping = False
        return []

    def _directed(self, stimulus: Directed) -> list[Effect]:
        self.directed = stimulus
        self._prune(stimulus.retain_after)
        if not self.is_source or stimulus.proposed <= self.accepted:
            return []
        open_here = self.phase is not Phase.FINISHED and not self.exhausted
        if not open_here or stimulus.proposed < self.processed_below:
            return []
        self.accepted = stimulus.proposed
        insort(self.barriers, stimulus.proposed)
        return [Progressed()]

    def _prune(self, retain_after: int) -> None:
        self.losses.epochs.drop(min(retain_after, self.processed_below - 1))
        for channel in self.outputs.values():
            channel.prune(retain_after)

    def _snapshot_done(self, stimulus: SnapshotDone) -> list[Effect]:
        self.snapshots.done(stimulus.record)
        self.snapshots.check(self.slice_id)
        return [Progressed()]

    # --- stimuli: frames ------------------------------------------------------------------------

    def _frame(self, stimulus: FrameArrived) -> list[Effect]:
        header = stimulus.header
        channel = self.inputs[header.channel]
        verdict = channel.receive(stimulus)
        if verdict is Verdict.TAKE:
            return self._use(channel, stimulus)
        if verdict is Verdict.EARLY:
            return self._ask(channel, header.sender, channel.gap(header.sender))
        if verdict is not Verdict.TAKE_OVER:
            return []
        discarded, frames = channel.take_over(header.sender)
        self._discard(channel, discarded)
        effects: list[Effect] = []
        for frame in frames:
            if frame.header.epoch >= channel.open_epoch:
                channel.take(frame.header)
                effects += self._use(channel, frame)
        return effects

    def _use(self, channel: InputChannel, frame: FrameArrived) -> list[Effect]:
        header = frame.header
        effects: list[Effect] = []
        if header.kind is FrameKind.DATA:
            self.frontier.touch(header.epoch)
            self.last_epoch = max(self.last_epoch, header.epoch)
            body = frame.body
            if self.waiting.nbytes > self.settings.waiting_bytes:
                body = Kept(body, frame.nbytes)
                effects.append(ToDisk((body,)))
            work = Accumulate(channel.number, channel.port, header.epoch, header.round, body)
            self.waiting.add(work, frame.nbytes)
        if not header.ends:
            return effects
        if header.flags & CHECKPOINT and self._is_barrier(header.epoch):
            insort(self.barriers, header.epoch)
        if self._note_lost(channel) and not self.outputs:
            # a committer is told, be there rows or not
            self.frontier.touch(header.epoch)
        self.last_epoch = max(self.last_epoch, channel.last_epoch)
        received = self.received_below
        self.frontier.advance(each.open_epoch for each in self.inputs.values())
        if not self.rung.processes:
            return effects + (self._credits() if self.received_below > received else [])
        return effects + self._settle()

    def _is_barrier(self, epoch: int) -> bool:
        """It is a new one, and the checkpoint there is not over, as a replayed one mostly is."""
        over = epoch <= self.directed.proposed and epoch != self.directed.making
        return not over and epoch not in (self.frozen, *self.barriers)

    # --- stimuli: work --------------------------------------------------------------------------

    def _work_done(self, stimulus: WorkDone) -> list[Effect]:
        assert self.busy, f"{self.slice_id}: work done that was not under way\n{self.story()}"
        self.busy = False
        result = stimulus.result
        if result.frozen is not None:
            return self._frozen(result.frozen)
        if result.taken is not None:
            return self._taken(result.taken)
        if self.is_source:
            return self._read_done(result)
        self._emit(result, INFINITY)
        for epoch in result.closed:
            self.frontier.closed(epoch, result.due)
        if result.finished:
            return self._finished()
        return self._settle()

    def _frozen(self, frozen: FrozenSlice) -> list[Effect]:
        base = self.snapshots.write()
        partial = frozen.state is not None and not frozen.state.full
        return [WriteSnapshot(frozen, base if partial else None), *self._go_past(frozen.epoch)]

    def _go_past(self, barrier: int) -> list[Effect]:
        """What there is to be frozen at the barrier is frozen."""
        self.frozen = barrier
        if self.is_source:
            self._to_freeze.popleft()
            return []
        self.barriers.remove(barrier)
        self._close_outputs(barrier, checkpoint=True)
        return self._settle()

    def _finished(self) -> list[Effect]:
        self.phase = Phase.FINISHED
        self._end(INFINITY)
        return [SliceFinished()]

    def _read_done(self, result: WorkResult) -> list[Effect]:
        if result.finished:
            return self._finished()
        assert result.open_epoch is not None
        self.last_epoch = max(self.last_epoch, result.last_epoch)
        lowest = min((output.epoch for output in result.outputs), default=INFINITY)
        self._end(min(lowest, result.open_epoch))
        self._emit(result, result.open_epoch)
        self._end(result.open_epoch)
        self.processed_below = max(self.processed_below, result.open_epoch)
        self.exhausted = result.exhausted
        assert not self.exhausted or result.open_epoch == INFINITY
        if result.wake_after_seconds is None:
            return []
        self.sleeping = True
        return [WakeAfter(result.wake_after_seconds)]

    # --- consequences ---------------------------------------------------------------------------

    def _emit(self, result: WorkResult, open_epoch: int) -> None:
        """Queue outputs; between two epochs the lower one's end, so that it can be closed early.

        Epochs from `open_epoch` on are not over yet.
        """
        last = None
        for output in result.outputs:
            if last is not None and output.epoch > last:
                self._end(min(output.epoch, open_epoch))
            last = output.epoch
            self.last_epoch = max(self.last_epoch, last)
            self.outputs[output.channel].data(output.epoch, output.rows, output.body, output.nbytes)

    def _end(self, open_epoch: int) -> None:
        """End every epoch below `open_epoch` on all output channels, barriers where they lie."""
        if open_epoch == BEGINNING:
            return
        if self.phase is Phase.FINISHED:
            self._end_for_good(self.last_epoch)
            return
        if INFINITY in (open_epoch, self.frontier.complete_below):
            # what the operator, or one behind it, flushes comes one epoch after the last with output
            if self.last_epoch == BEGINNING:
                return
            open_epoch = min(open_epoch, self.last_epoch + 1)
        if self.is_source:
            while self.barriers and self.barriers[0] < open_epoch:
                barrier = self.barriers.pop(0)
                self._close_outputs(barrier, checkpoint=True)
                self._to_freeze.append(barrier)
        self._close_outputs(open_epoch - 1)

    def _settle(self) -> list[Effect]:
        """Pass on how far processing has got: ends downstream, credit upstream."""
        processed = self.frontier.processed_below()
        if self.barriers and processed > self.barriers[0]:
            processed = self.barriers[0]
        if processed <= self.processed_below:
            return []
        self.processed_below = processed
        self._end(processed)
        return self._credits()

    def _credit_on(self, _: InputChannel) -> int:
        """Who only queues what comes takes it all: it waits in memory or on disk."""
        return max(self.processed_below, self.received_below)

    @property
    def received_below(self) -> int:
        """Nobody needs to send an epoch below it once more."""
        return self.processed_epoch if self.rung.processes else self.frontier.complete_below

    @property
    def spent_plan(self) -> int:
        """As in `Agreement`: 0 where there is none."""
        return 0

    @property
    def halted(self) -> bool:
        """A synchronous snapshot stops the world until all of its checkpoint is complete."""
        if self.settings.mode != "synchronous" or self.frozen == BEGINNING:
            return False
        return self.directed.making == self.frozen

    def _schedule(self, effects: list[Effect]) -> None:
        if self.busy or self.phase is not Phase.RUNNING or self.halted or not self.rung.processes:
            return
        if not self.leads:
            effects += self._pass_barriers()
        waiting_bytes, late = self.waiting.nbytes, self.frontier.late
        work = self._next_read() if self.is_source else self._next_work()
        if work:
            self.busy = True
            late_bytes = waiting_bytes - self.waiting.nbytes if late else 0
            effects.append(Run(work, self._repeats, late_bytes))

    @property
    def _repeats(self) -> bool:
        """What is done now another replica has done a while ago."""
        far = self._releasing.credited > self.processed_below + 1
        return self.behind and (far or self.frontier.late)

    def _pass_barriers(self) -> list[Effect]:
        effects: list[Effect] = []
        while (barrier := self._due_barrier) is not None:
            self.skipped = barrier
            effects += self._go_past(barrier)
            effects += self._releasing.all()
        return effects

    def _freeze(self, epoch: int) -> tuple[Work, ...]:
        full = self.snapshots.begin()
        due, lost_until = self.frontier.due, self.losses.beyond(epoch)
        return (Freeze(epoch, full, self.last_epoch, due, lost_until=lost_until),)

    @property
    def _due_barrier(self) -> int | None:
        """The barrier that state stands at: nothing is closed before it is frozen."""
        if self.is_source:
            return self._to_freeze[0] if self._to_freeze else None
        reached = self.barriers and self.frontier.processed_below() > self.barriers[0]
        return self.barriers[0] if reached else None

    def _next_read(self) -> tuple[Work, ...]:
        barrier = self._due_barrier
        if barrier is not None and not self.snapshots.writing:
            return self._freeze(barrier)
        if self.exhausted:
            return () if barrier is not None else (Finish(self._final_epoch()),)
        if (self.sleeping and not self.behind) or self.blocked:
            return ()
        if self._unwanted.holds_back(self.processed_below):
            return ()
        reads = 1 if self.spare or self._unwanted.held else READS_PER_RUN
        given_below = self._releasing.credited
        return (Read(self.settings.read_rows, reads, given_below, self._unwanted.epochs),)

    def _final_epoch(self) -> int:
        return 0 if self.last_epoch == BEGINNING else self.last_epoch + 1

    def _next_work(self) -> tuple[Work, ...]:
        barrier = self._due_barrier
        if barrier is not None:
            return () if self.snapshots.writing else self._freeze(barrier)
        if self.frontier.finished:
            return () if self.blocked else (Finish(self._final_epoch()),)
        closing = self.frontier.next_to_close()
        if closing is None and self.waiting.nbytes < BYTES_WORTH_A_RUN:
            return ()
        waited_bytes = self.waiting.nbytes
        work = self._take_waiting(closing)
        if closing is not None and closing not in self.waiting and not self.blocked:
            lost = self._lost_since(self.frontier.closed_below, closing)
            work.append(CloseEpoch(closing, self.epoch.watermark(closing), lost))
            if not self.spare and not self.losses:
                self._close_more(closing, waited_bytes, work)
        return tuple(work)

    def _close_more(self, closing: int, waited_bytes: int, work: list[Work]) -> None:
        """Small epochs behind the one that is closed go with it."""
        for epoch in self.frontier.complete_behind(closing, EPOCHS_PER_RUN - 1):
            taken_bytes = waited_bytes - self.waiting.nbytes
            room = MOST_PER_RUN - len(work)
            if taken_bytes >= INPUT_BYTES_PER_RUN or room <= 0:
                return
            if self.barriers and self.barriers[0] < epoch:
                return
            if epoch in self.waiting:
                work += self.waiting.take(epoch, most=room)
            if epoch in self.waiting:
                return
            work.append(CloseEpoch(epoch, self.epoch.watermark(epoch)))

    def _take_waiting(self, closing: int | None) -> list[Work]:
        """Of who only stands behind another replica no more than is worth a run."""
        return self.waiting.take(closing, BYTES_WORTH_A_RUN if self.spare else math.inf)


_HANDLERS: Handlers = {
    Start: SliceMachine._start,
    FrameArrived: SliceMachine._frame,
    WorkDone: SliceMachine._work_done,
    CreditArrived: SliceMachine._credit,
    UnwantedTold: SliceMachine._unwanted_told,
    Subscribed: SliceMachine._subscribed,
    ResendAsked: SliceMachine._resend,
    Announced: SliceMachine._announced,
    Rewired: SliceMachine._rewired,
    Led: SliceMachine._led,
    Stand: SliceMachine._stand,
    StateOffered: SliceMachine._state_offered,
    Directed: SliceMachine._directed,
    SnapshotDone: SliceMachine._snapshot_done,
    Woken: SliceMachine._woken,
    Beat: SliceMachine._beat,
}
SliceMachine.handlers = _HANDLERS
