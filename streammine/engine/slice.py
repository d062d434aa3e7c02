"""The slice: aligns epochs over its input channels, drives one operator, and feeds its output channels.

Theory (Martin 2015, chapter 3): events of one epoch may be processed in any order as long as epochs are
closed in order. So a slice lets every batch of an open epoch be accumulated at once, apart from
committed state, and changes committed state only in CloseEpoch, when all channels have ended the epoch.

House rules
-----------
* One run of work is in flight at a time. The machine never looks into a batch.
* An epoch is closed only after every batch of it was handed to the operator.
* Output of an epoch leaves before its end does; the end of an epoch is sent once all epochs up to it are
  processed; credit is granted by the same number. So "processed", "ended" and "credited" never differ.
* While a frame waits for credit, the slice neither reads nor closes: what is held stays bounded by the
  output of one run of work. But a source whose rows are out of order reads on until it has ended the
  epoch that the receiver waits for; nobody else could end it.

Phases::

    DEPLOYED --Start--> RUNNING --(input over, all closed, Finish done)--> FINISHED

Until Start a slice takes frames and credit, but a source does not read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum

from streammine.engine.channel import InputChannel, OutputChannel, Verdict
from streammine.engine.frontier import Frontier
from streammine.engine.stimuli import (
    Accumulate,
    Announce,
    Announced,
    AskResend,
    Beat,
    CloseEpoch,
    CreditArrived,
    Effect,
    Finish,
    FrameArrived,
    GrantCredit,
    Read,
    ResendAsked,
    Run,
    SendFrame,
    SliceFinished,
    Start,
    Stimulus,
    WakeAfter,
    Woken,
    Work,
    WorkDone,
    WorkResult,
)
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.frames import FrameKind
from streammine.model.ids import SliceId

ACCUMULATIONS_PER_RUN = 64
READS_PER_RUN = 4
BYTES_WORTH_A_RUN = 1 << 17
"""Fewer wait until their epoch can be closed: handing them over at once would cost more than it gains."""

HISTORY_LENGTH = 32


class Phase(StrEnum):
    DEPLOYED = "deployed"
    RUNNING = "running"
    FINISHED = "finished"


class SliceMachine:
    """Protocol of one slice's replica. `handle` is the only mutator."""

    def __init__(
        self,
        slice_id: SliceId,
        inputs: tuple[InputChannel, ...],
        outputs: tuple[OutputChannel, ...],
        epoch: EpochDefinition,
        read_rows: int,
    ) -> None:
        self.slice_id = slice_id
        self.inputs = {channel.number: channel for channel in inputs}
        self.outputs = {channel.number: channel for channel in outputs}
        self.epoch = epoch
        self.read_rows = read_rows
        self.phase = Phase.DEPLOYED
        self.frontier = Frontier()
        self.processed_below = BEGINNING
        self.busy = False
        self.sleeping = False
        self.exhausted = False
        self.last_epoch = BEGINNING
        self.waiting_bytes = 0
        self._waiting: dict[int, deque[tuple[Accumulate, int]]] = {}
        self._history: deque[Stimulus] = deque(maxlen=HISTORY_LENGTH)
        self._handlers: dict[type, Callable[..., list[Effect]]] = {
            Start: self._start,
            FrameArrived: self._frame,
            WorkDone: self._work_done,
            CreditArrived: self._credit,
            ResendAsked: self._resend,
            Announced: self._announced,
            Woken: self._woken,
            Beat: self._beat,
        }

    @property
    def is_source(self) -> bool:
        return not self.inputs

    def handle(self, stimulus: Stimulus) -> list[Effect]:
        """Take one stimulus, return the effects in the order in which they must happen."""
        self._history.append(stimulus)
        effects = self._handlers[type(stimulus)](stimulus)
        effects.extend(self._released())
        effects.extend(self._schedule())
        return effects

    def story(self) -> str:
        """The last stimuli, for the message of a failed assertion."""
        return "\n".join(repr(stimulus) for stimulus in self._history)

    # --- stimuli ------------------------------------------------------------------------------

    def _start(self, _: Start) -> list[Effect]:
        assert self.phase is Phase.DEPLOYED, f"{self.slice_id} started twice\n{self.story()}"
        self.phase = Phase.RUNNING
        return []

    def _frame(self, stimulus: FrameArrived) -> list[Effect]:
        header = stimulus.header
        channel = self.inputs[header.channel]
        verdict = channel.receive(header)
        if verdict is Verdict.REPEATED:
            return []
        if verdict is Verdict.EARLY:
            return self._ask(channel)
        if header.kind is FrameKind.DATA:
            self.frontier.touch(header.epoch)
            self.last_epoch = max(self.last_epoch, header.epoch)
            work = Accumulate(
                channel.number, channel.port, header.epoch, header.round, stimulus.body
            )
            self._waiting.setdefault(header.epoch, deque()).append((work, stimulus.nbytes))
            self.waiting_bytes += stimulus.nbytes
        if not header.ends:
            return []
        self.last_epoch = max(self.last_epoch, channel.last_epoch)
        self.frontier.advance(each.open_epoch for each in self.inputs.values())
        return self._settle()

    def _ask(self, channel: InputChannel) -> list[Effect]:
        if channel.asked_for == channel.expected:
            return []
        channel.asked_for = channel.expected
        return [AskResend(channel.number, channel.generation, channel.expected)]

    def _work_done(self, stimulus: WorkDone) -> list[Effect]:
        assert self.busy, f"{self.slice_id}: work done that was not under way\n{self.story()}"
        self.busy = False
        result = stimulus.result
        if self.is_source:
            return self._read_done(result)
        self._emit(result, INFINITY)
        for epoch in result.closed:
            self.frontier.closed(epoch, result.due)
        if result.finished:
            return self._finished()
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

    def _credit(self, stimulus: CreditArrived) -> list[Effect]:
        channel = self.outputs[stimulus.channel]
        if stimulus.generation == channel.generation:
            channel.credit(stimulus.frontier)
        return []

    def _resend(self, stimulus: ResendAsked) -> list[Effect]:
        channel = self.outputs[stimulus.channel]
        if stimulus.generation != channel.generation:
            return []
        return [SendFrame(frame) for frame in channel.resend(stimulus.sequence)]

    def _announced(self, stimulus: Announced) -> list[Effect]:
        channel = self.inputs[stimulus.channel]
        if stimulus.generation != channel.generation:
            return []
        missing = channel.missing(stimulus.next_sequence)
        if missing is None:
            return []
        return [AskResend(channel.number, channel.generation, missing)]

    def _woken(self, _: Woken) -> list[Effect]:
        self.sleeping = False
        return []

    def _beat(self, _: Beat) -> list[Effect]:
        effects: list[Effect] = [
            Announce(channel.number, channel.generation, channel.announced())
            for channel in self.outputs.values()
            if channel.retained
        ]
        if self.processed_below > BEGINNING:
            # a credit that was lost can't be missed by anyone else
            effects += self._credits()
        return effects

    # --- consequences -------------------------------------------------------------------------

    def _emit(self, result: WorkResult, open_epoch: int) -> None:
        """Queue outputs; between two epochs the lower one's end, so that it can be closed early.

        Epochs from `open_epoch` on are not over yet.
        """
        last = None
        for output in result.outputs:
            if last is not None and output.epoch > last:
                self._end(min(output.epoch, open_epoch))
            last = output.epoch
            if not self.is_source:
                # a source has said which epochs hold rows; where its dead rows leave says nothing
                self.last_epoch = max(self.last_epoch, last)
            self.outputs[output.channel].data(output.epoch, output.rows, output.body, output.nbytes)

    def _end(self, open_epoch: int) -> None:
        if open_epoch == BEGINNING:
            return
        if open_epoch == INFINITY:
            epoch, watermark = INFINITY, self.last_epoch
            if self.phase is not Phase.FINISHED:
                # what the operator flushes comes first, in one more epoch
                epoch, watermark = self.last_epoch, self.epoch.watermark(self.last_epoch)
                if epoch == BEGINNING:
                    return
        else:
            epoch, watermark = open_epoch - 1, self.epoch.watermark(open_epoch - 1)
        for channel in self.outputs.values():
            channel.end(epoch, watermark)

    def _settle(self) -> list[Effect]:
        """Pass on how far processing has got: ends downstream, credit upstream."""
        processed = self.frontier.processed_below()
        if processed <= self.processed_below:
            return []
        self.processed_below = processed
        self._end(processed)
        return self._credits()

    def _credits(self) -> list[Effect]:
        return [
            GrantCredit(channel.number, channel.generation, self.processed_below)
            for channel in self.inputs.values()
        ]

    def _released(self) -> list[Effect]:
        return [
            SendFrame(frame)
            for channel in self.outputs.values()
            if channel.held
            for frame in channel.sendable()
        ]

    @property
    def blocked(self) -> bool:
        """Output waits for credit, and not the credit for this slice."""
        return any(channel.held and not channel.awaited for channel in self.outputs.values())

    def _schedule(self) -> list[Effect]:
        if self.busy or self.phase is not Phase.RUNNING:
            return []
        work = self._next_read() if self.is_source else self._next_work()
        if not work:
            return []
        self.busy = True
        return [Run(work)]

    def _next_read(self) -> tuple[Work, ...]:
        if self.exhausted:
            return (Finish(self._final_epoch()),)
        if self.sleeping or self.blocked:
            return ()
        return (Read(self.read_rows, READS_PER_RUN),)

    def _final_epoch(self) -> int:
        return 0 if self.last_epoch == BEGINNING else self.last_epoch + 1

    def _next_work(self) -> tuple[Work, ...]:
        if self.frontier.finished:
            return () if self.blocked else (Finish(self._final_epoch()),)
        if self.frontier.next_to_close() is None and self.waiting_bytes < BYTES_WORTH_A_RUN:
            return ()
        work: list[Work] = []
        while self._waiting and len(work) < ACCUMULATIONS_PER_RUN:
            lowest = min(self._waiting)
            waiting = self._waiting[lowest]
            while waiting and len(work) < ACCUMULATIONS_PER_RUN:
                accumulate, nbytes = waiting.popleft()
                self.waiting_bytes -= nbytes
                work.append(accumulate)
            if not waiting:
                del self._waiting[lowest]
                if self.frontier.next_to_close() == lowest:
                    break
        closing = self.frontier.next_to_close()
        if closing is not None and closing not in self._waiting and not self.blocked:
            work.append(CloseEpoch(closing, self.epoch.watermark(closing)))
        return tuple(work)
