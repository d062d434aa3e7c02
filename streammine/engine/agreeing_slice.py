"""A slice whose input comes from several receivers of a feed, and whose replicas agree on whose bag counts.

Theory (DESIGN §5, "Agreement"): what two receivers got of one feed may differ, by loss, order and lateness.
So for each epoch the replicas choose one bag per input, and only that one is processed; from here on nothing
differs any more. What a receiver delivers is a replayable source's output: whichever of its generations
sends a bag, it is the same one. So a bag is known by its channel's number, needs no digest, and is never
passed from replica to replica: who lacks it gets it from the receiver, or from the one that replaces it.

House rules
-----------
* What a channel gives of an epoch waits in a bag of its own; the operator gets it when it was chosen.
* A replica names what the receiver has that was chosen last, and waits `PATIENCE_TICKS` for it where another
  one was faster. So replicas name the same as long as nothing goes wrong, and the fastest receiver leads.
* While what was named is not decided nothing else is: what has come meanwhile is named, told and stored
  together. But not for long, for others may wait for just that.
* Every epoch that a checkpoint was named for is named, whatever is in it. So the chain of decisions has it,
  and who is restored there goes on where the others are.
* Where nothing was named that is not decided, the last ended epoch is named: processing, and with it credit,
  goes on though nothing comes.
* A decision is followed once each input has ended its epoch here: then the barriers up to it are known.
* Time is counted in wake-ups: one that comes late makes this replica more patient, no more.

Invariants (checked by the simulation)
--------------------------------------
* All replicas of the slice, of whatever generation, process the same bags after the same epochs. Not so with
  an `Agreement` that binds its own replica only: what its topology promises is less.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Sequence

from streammine.engine.feed_bags import FeedBags, Feeds
from streammine.engine.input_channel import InputChannel
from streammine.engine.kept import Kept
from streammine.engine.output_channel import OutputChannel
from streammine.engine.pace import Pace
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import RestoredTo, SliceSettings
from streammine.engine.stimuli import (
    Accumulate,
    Agreeing,
    Beat,
    Directed,
    Effect,
    FrameArrived,
    MakeSure,
    Start,
    Stimulus,
    TellReplicas,
    ToDisk,
    WakeAfter,
    Woken,
    WorkDone,
)
from streammine.engine.unwanted import UnwantedFeeds
from streammine.model import agreement as words
from streammine.model.agreement import Agreement, Decision
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.frames import CHECKPOINT, FrameKind
from streammine.model.ids import SliceId

Told = words.BagHeld | words.EpochEnded

PATIENCE_TICKS = 2

MOST_DECIDED = 1
"""Epochs that were decided and wait to be processed while more are named."""


class AgreeingSlice(SliceMachine):
    """`feeds`: the input channels by input; `agreement` is at the replica's disposal alone."""

    def __init__(
        self,
        slice_id: SliceId,
        generation: int,
        feeds: Sequence[tuple[InputChannel, ...]],
        outputs: tuple[OutputChannel, ...],
        settings: SliceSettings,
        agreement: Agreement,
        tick_seconds: float,
        restored: RestoredTo | None = None,
    ) -> None:
        self.agreement = agreement
        self.feeds = tuple(Feeds(channels) for channels in feeds)
        self.bags = FeedBags()
        self.chain = [BEGINNING if restored is None else restored.epoch]
        """The epochs that were decided and followed, as far back as others may ask for what came after."""
        self._pace = Pace(PATIENCE_TICKS)
        self._tick_seconds = tick_seconds
        self._now_seconds = 0.0
        self._flagged: list[int] = []
        self._named = BEGINNING if restored is None else restored.epoch
        self._told = dict.fromkeys(
            (each.number for feeds in self.feeds for each in feeds.channels), BEGINNING
        )
        self._reports: dict[tuple[int, ...], words.Report] = {}
        self._decisions: deque[Decision] = deque()
        self._unwanted_feeds = UnwantedFeeds(
            generation, self.feeds, self._named, agreement.binds_all
        )
        inputs = tuple(each for channels in feeds for each in channels)
        super().__init__(slice_id, generation, inputs, outputs, settings, restored)

    def handle(self, stimulus: Stimulus) -> list[Effect]:
        effects = super().handle(stimulus)
        # of a step's reports the last one says all
        effects += [TellReplicas(*each) for each in self._reports.items()]
        self._reports.clear()
        return effects

    @property
    def spent_plan(self) -> int:
        return self.agreement.spent_plan

    # --- stimuli --------------------------------------------------------------------------------

    def _start(self, stimulus: Start) -> list[Effect]:
        effects = [*super()._start(stimulus), WakeAfter(self._tick_seconds, ticks=True)]
        return effects + self._unwanted_feeds.news()

    def _woken(self, _: Woken) -> list[Effect]:
        self._now_seconds += self._tick_seconds
        for feeds in self.feeds:
            feeds.tick()
        effects: list[Effect] = [WakeAfter(self._tick_seconds, ticks=True)]
        effects += self._note_pace()
        effects += self._agree(words.Tick(self._now_seconds))
        effects += self._name()
        return effects + self._unwanted_feeds.news()

    def _note_pace(self) -> list[Effect]:
        pace, was_behind = self._pace, self._pace.is_behind
        decided = self.agreement.decided
        pace.tick(decided, bool(self.frontier.backlog))
        self._unwanted_feeds.goes_on = not pace.pauses or self.processed_below <= decided
        if pace.is_behind == was_behind:
            return []
        return self._agree(words.Behind(pace.is_behind))

    def _beat(self, stimulus: Beat) -> list[Effect]:
        return [*super()._beat(stimulus), *self._unwanted_feeds.again()]

    def _directed(self, stimulus: Directed) -> list[Effect]:
        effects = super()._directed(stimulus)
        covered = bisect_right(self.chain, stimulus.retain_after) - 1
        if covered > 0:
            del self.chain[:covered]
            effects += self._agree(words.Covered(self.chain[0]))
        return effects

    def _work_done(self, stimulus: WorkDone) -> list[Effect]:
        return super()._work_done(stimulus) + self._name()

    def _agreeing(self, stimulus: Agreeing) -> list[Effect]:
        effects = self._agree(stimulus.stimulus)
        match stimulus.stimulus:
            case words.Heard(words.Pulse()):
                return effects
        return effects + self._name() + self._unwanted_feeds.news()

    # --- what comes in ----------------------------------------------------------------------------

    def _use(self, channel: InputChannel, frame: FrameArrived) -> list[Effect]:
        header = frame.header
        effects: list[Effect] = []
        if header.kind is FrameKind.DATA:
            body = frame.body
            if self.bags.nbytes + self.waiting.nbytes > self.settings.waiting_bytes:
                body = Kept(body, frame.nbytes)
                effects.append(ToDisk((body,)))
            work = Accumulate(channel.number, channel.port, header.epoch, header.round, body)
            self.bags.add(work, frame.nbytes)
        if not header.ends:
            return effects
        if header.flags & CHECKPOINT and header.epoch > self._named:
            if header.epoch not in self._flagged:
                insort(self._flagged, header.epoch)
            if self._is_barrier(header.epoch):
                insort(self.barriers, header.epoch)
        effects += self._agree_together([*self._held(channel), *self._ended()])
        return effects + self._name() + self._follow()

    def _discard(self, channel: InputChannel, epochs: list[int]) -> None:
        for epoch in epochs:
            self.bags.take(channel.number, epoch)

    # --- naming -----------------------------------------------------------------------------------

    def _name(self) -> list[Effect]:
        """Tell what there is of the epochs that are over."""
        return self._agree_together(self._ended())

    def _ended(self) -> list[Told]:
        """Epochs that are over, and before each what there is of it."""
        below = min(feeds.named_below(PATIENCE_TICKS) for feeds in self.feeds)
        if below <= self._named + 1 or self._has_enough:
            return []
        told: list[Told] = []
        epochs = {each for each in self._flagged if each < below}
        for channel in self.inputs.values():
            whole = min(below, channel.open_epoch)
            epochs.update(self.bags.between(channel.number, self._named, whole))
        if below == INFINITY:
            epochs.add(INFINITY)
        elif not epochs and self._named <= self.agreement.decided:
            epochs.add(below - 1)
        for epoch in sorted(epochs):
            self._named = epoch
            for feeds in self.feeds:
                for channel in feeds.best_first:
                    told += self._held(channel)
            told.append(words.EpochEnded(epoch))
        self._flagged = [each for each in self._flagged if each > self._named]
        return told

    @property
    def _has_enough(self) -> bool:
        """What was named is not decided yet, or what was decided is still to be processed."""
        open_here = self._named > self.agreement.decided and not self._pace.is_still
        return open_here or self.frontier.backlog > MOST_DECIDED

    def _held(self, channel: InputChannel) -> list[Told]:
        """Bags of named epochs that are complete, and were not told of."""
        number, told = channel.number, list[Told]()
        whole = min(channel.open_epoch, self._named + 1)
        for epoch in self.bags.between(number, self._told[number], whole):
            self._told[number] = epoch
            found = words.Bag(str(number), self.bags.size(number, epoch))
            told.append(words.BagHeld(self._input_of(channel), epoch, found))
        return told

    def _input_of(self, channel: InputChannel) -> int:
        return next(feeds.number for feeds in self.feeds if channel in feeds.channels)

    # --- deciding ---------------------------------------------------------------------------------

    def _agree_together(self, told: list[Told]) -> list[Effect]:
        return self._agree(words.Together(tuple(told))) if told else []

    def _agree(self, stimulus: words.AgreementStimulus) -> list[Effect]:
        effects: list[Effect] = []
        for effect in self.agreement.handle(stimulus):
            match effect:
                case words.Tell(receivers, words.Report() as report):
                    before = self._reports.get(receivers, report)
                    self._reports[receivers] = words.newest(before, report)
                case words.Tell(receivers, message):
                    effects.append(TellReplicas(receivers, message))
                case words.Decided(decision):
                    self._prefer(decision)
                case words.Process(decision):
                    self._decisions.append(decision)
                case words.AskWitness() | words.SealStore() | words.MakeDurable():
                    effects.append(MakeSure(effect))
                case words.Outrun():
                    self.outrun = True
                case words.FetchBag():
                    # bags come from their receivers
                    continue
        return effects + self._follow()

    def _prefer(self, decision: Decision) -> None:
        """The receivers that were chosen are named first from now on, and the others not waited for."""
        for number, bag in decision.chosen.bags:
            feeds = self._feeds_of(number)
            feeds.prefer(int(bag.digest))
            feeds.waited = 0
        self._unwanted_feeds.decided(decision)

    def _feeds_of(self, number: int) -> Feeds:
        return next(each for each in self.feeds if each.number == number)

    def _follow(self) -> list[Effect]:
        """Hand over what was decided."""
        ended = min(feeds.open_epoch for feeds in self.feeds)
        followed = False
        while self._decisions and (self._decisions[0].chosen.epoch < ended or ended == INFINITY):
            self._take(self._decisions.popleft())
            followed = True
        return self._settle() if followed else []

    def _take(self, decision: Decision) -> None:
        chosen = decision.chosen
        epoch = chosen.epoch
        self.chain.append(epoch)
        if epoch == INFINITY:
            # all are over here, and no epoch that was named lies behind the last one of them all
            self.last_epoch = max(
                self.last_epoch, *(one.last_epoch for one in self.inputs.values())
            )
            self.frontier.advance([INFINITY])
            return
        for _, bag in chosen.bags:
            for work, nbytes in self.bags.take(int(bag.digest), epoch):
                self.waiting.add(work, nbytes)
            self.frontier.touch(epoch)
            self.last_epoch = max(self.last_epoch, epoch)
        self._pass_over(decision.after, epoch)
        self.frontier.advance([epoch + 1])

    def _pass_over(self, before: int, epoch: int) -> None:
        """Nothing else of epochs up to this one is wanted."""
        self.bags.forget(epoch)
        for channel in self.inputs.values():
            channel.pass_over(epoch)
        self.barriers = [each for each in self.barriers if not before < each < epoch]


AgreeingSlice.handlers = {
    **SliceMachine.handlers,
    Start: AgreeingSlice._start,
    Woken: AgreeingSlice._woken,
    Directed: AgreeingSlice._directed,
    Agreeing: AgreeingSlice._agreeing,
    Beat: AgreeingSlice._beat,
    WorkDone: AgreeingSlice._work_done,
}
