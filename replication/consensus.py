"""The light consensus: which bags count, agreed among the replicas of one slice (DESIGN §5, "Agreement").

Theory
------
One instance of single-decree consensus per epoch (Lamport 2001, "Paxos Made Simple"; 2006, "Fast Paxos").
An instance is named by the epoch *before* it: its value is the epoch that follows, with a bag per channel. So
the decisions make a chain, and replicas whose feeds have different gaps agree on the epochs, too. Names run
ahead of decisions, up to `WINDOW` epochs.

* Round 0. Each replica names the bags that it has complete first, and tells all. Where enough have
  named the same (all of 2 or 3: see `quorums`) that decides, in one message's time.
* Led ballots. Where they can't be enough any more, or not in time, the coordinator proposes what most have
  (see `Witness.coordinator` for who it is). What it hears of round 0 is its first phase where it
  leads the plan's first ballot, (plan, 1). Who comes after it asks for promises, in a higher one.
* A replica accepts only bags that it holds; what it lacks it fetches first. One that is behind, where every
  decision is stored and bags can be had again, accepts what it hears, so that others don't wait for it; and
  who leads there proposes what another living one has.
* There is one message, the whole standing of a replica: it may be lost, doubled and overtaken. Where nothing
  but what is decided has changed since, a pulse says so.

Safety
------
1. Within a plan every two majorities share a replica, which keeps to the rules of Paxos in memory: who
   loses its memory comes back under a new generation, which the plan does not list.
2. A decision *stands*, and is told and processed, when its bags are on `bag_holders` many replicas, or are
   with it in the store. Equality on a majority of two or more therefore writes nothing; a lone replica
   (the only one, or the witness's holder) writes each decision before it counts.
3. The witness's holder counts for two from the answer on, until the next plan. It alone counts so, and all
   that it had accepted and promised counts with it; since any majority before held more than half of the
   replicas, it shares one with any majority of the holder's.
4. A replica of a new plan is silent until `learning` has shown it all that former plans may have chosen. It
   names that, and nothing else, in round 0; so by induction everything accepted in the new plan is what was
   chosen before. Whoever answers for the new plan is mute in the old ones; decisions in the store are
   fenced by the new plan's seal.
5. A replica that hears of less than a majority writes what it knows to be decided into the store. So both of
   two may die one after the other. Only the loss of so many *at the same time* that too few can answer
   loses decisions (both of 2, two of 3), unless `every_decision_stored`.

The engine always sets `every_decision_stored` and `bags_come`. What never runs then: see `AgreementSettings`.

House rules
-----------
* What does not stand is neither told nor processed. What does is kept until a checkpoint covers it.
* Paused replicas name, accept, promise and lead nothing; they learn what the others decide.
* What is kept per epoch lies between the last checkpoint and `WINDOW` epochs beyond the last decision.

::

    phase       what happens                          next phase
    outside,    a plan lists this replica             learning      SealStore
      learning,
      voting
    learning    former plans are known                voting        Tell
    learning,   the newest plan leaves it out,        outside
      voting      or it is outdated
    learning,   nobody is left who could tell it      outrun        Outrun
      voting      what was decided
    any         a checkpoint has passed it            outrun        Outrun
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from replication.ballots import WINDOW, Ballots, Chosen
from replication.chain import Bags, Chain
from replication.fetching import Fetching
from replication.learning import inherited, is_closed, to_be_told_until, untold_until
from replication.living import Living
from replication.peers import Peers
from replication.phases import TRANSITIONS, Event, Phase
from replication.quorums import bag_holders
from replication.telling import Telling
from replication.witness import Witness
from replication.writing import Writing
from streammine.model import agreement as words
from streammine.model.agreement import Decision, ReplicaPlan, Report
from streammine.model.epochs import BEGINNING


class Consensus:
    """Implements `Agreement`."""

    binds_all = True

    def __init__(
        self,
        generation: int,
        settings: words.AgreementSettings,
        covered: int = BEGINNING,
        processed: int = BEGINNING,
    ) -> None:
        self.generation = generation
        self.phase = Phase.OUTSIDE
        self.ready_in = 0
        self._settings = settings
        self._chain = Chain(covered, processed)
        self._bags = Bags(covered)
        self._peers = Peers()
        self._living = Living(generation, self._peers, settings)
        self._seemed_live: set[int] = set()
        self._paused = self._behind = False
        self._plan: ReplicaPlan | None = None
        self._newest_plan = 0
        self._ballots: Ballots | None = None
        self._witness = Witness()
        self._store: words.StoreRead | None = None
        self._writing = Writing(self._bags, settings)
        self._fetching = Fetching(self._bags, self._peers, settings)
        self._telling = Telling()
        self._repeated_at = 0.0
        # Of this step, what others could not see by themselves.
        self._to_tell: list[Decision] = []
        self._stirred = False
        self._effects: list[words.AgreementEffect] = []

    @property
    def decided(self) -> int:
        return self._chain.decided

    @property
    def spent_plan(self) -> int:
        votes = self.phase is Phase.VOTING
        return self.ready_in if votes and self._witness.is_spent(self._living.now_seconds) else 0

    def handle(self, stimulus: words.AgreementStimulus) -> list[words.AgreementEffect]:
        self._effects = []
        # time and signs of life, which are most of what comes, mostly change nothing
        self._stirred = not isinstance(stimulus, words.Tick)
        for each in stimulus.parts if isinstance(stimulus, words.Together) else (stimulus,):
            _HANDLERS[type(each)](self, each)
        if self._stirred:
            self._advance()
        else:
            self._wait()
        return self._effects

    # --- plans --------------------------------------------------------------------------------------

    def _on_plan(self, stimulus: words.PlanChanged) -> None:
        plan = stimulus.plan
        if plan.version < self._newest_plan or plan == self._plan:
            return
        assert self._plan is None or plan.version > self._plan.version, "a plan never changes"
        self._newest_plan = plan.version
        self._plan = plan
        if self.ready_in:
            self._peers.expect(set(plan.replicas) - {self.generation})
        self._writing.begin(plan.version)
        self._store = None
        self._witness.begin(self._living.now_seconds)
        self._living.begin(plan)
        self._enter(Event.LISTED if self.generation in plan.replicas else Event.LEFT_OUT)
        if self.phase is Phase.LEARNING:
            self._effects.append(words.SealStore(plan.version, self._chain.decided))
            self._telling.has_news = True

    def _outdated(self, plan_version: int) -> None:
        """A newer plan is heard of; nothing is done for older ones any more."""
        if plan_version > self._newest_plan:
            self._newest_plan = plan_version
            self._enter(Event.OUTDATED)

    def _replicas(self) -> tuple[int, ...]:
        """Those of the plan that this one takes part in, or is about to."""
        if self._plan is None or self.phase not in (Phase.LEARNING, Phase.VOTING):
            return ()
        return self._plan.replicas

    def _enter(self, event: Event) -> None:
        self.phase = TRANSITIONS[self.phase, event]

    def _on_store_read(self, stimulus: words.StoreRead) -> None:
        if self.phase is Phase.LEARNING and stimulus.plan_version == self._newest_plan:
            self._store = stimulus

    def _learn(self) -> None:
        """Take part in the plan, once all that former ones may have chosen is known and held."""
        assert self._plan is not None
        if self._store is None:
            return
        answers = self._peers.answers(self._plan.version)
        answers[self.generation] = self._report()
        stored = self._settings.every_decision_stored
        # what was never processed without the store is in the store
        former = () if stored else self._plan.former
        if not is_closed(former, answers, self._living.gone):
            return
        known = to_be_told_until(answers, self._living.others, stored)
        if max(known, self._store.removed_until) > self._chain.decided:
            return
        brought = inherited(answers.values(), self._store.decisions, self._chain.decided)
        self._effects += self._fetching.ask(brought.items())
        # bags may come only as epochs are processed; those of a former plan's memory must be safe here first
        if not stored and any(self._bags.lacking(value) for value in brought.values()):
            return
        self._enter(Event.LEARNT)
        self.ready_in = self._plan.version
        self._ballots = Ballots(
            self._plan, self.generation, brought, self._peers, self._bags, self._settings
        )
        self._ballots.behind = self._behind
        self._telling.has_news = True

    def _on_gone(self, stimulus: words.ReplicasGone) -> None:
        self._living.end(stimulus.generations)

    # --- what comes from outside --------------------------------------------------------------------

    def _on_bag(self, stimulus: words.BagHeld) -> None:
        self._bags.hold(stimulus.channel, stimulus.epoch, stimulus.bag)

    def _on_end(self, stimulus: words.EpochEnded) -> None:
        self._bags.end(stimulus.epoch)

    def _on_heard(self, stimulus: words.Heard) -> None:
        message = stimulus.message
        if message.sender == self.generation:
            return
        match message:
            case Report():
                self._hear(message)
            case words.Pulse():
                self._stirred = False
                self._feel(message)
            case words.Decisions():
                self._learn_decisions(message)

    def _learn_decisions(self, message: words.Decisions) -> None:
        for decision in message.decisions:
            if decision.after == self._chain.decided:
                self._decide(decision)
        if len(message.decisions) == WINDOW:
            # there may be more of them
            self._tell((message.sender,))

    def _hear(self, report: Report) -> None:
        if self._peers.hear(report, self._living.now_seconds):
            self._outdated(report.plan_version)
            self._tell_what_it_lacks(report.sender)
            if report.asks:
                self._tell((report.sender,))

    def _feel(self, pulse: words.Pulse) -> None:
        if self._peers.feel(pulse, self._living.now_seconds):
            self._tell_what_it_lacks(pulse.sender)
        else:
            self._tell((pulse.sender,), asks=True)

    def _tell_what_it_lacks(self, other: int) -> None:
        known = self._peers.knows(other)
        self._tell_decisions((other,), self._chain.following(known, WINDOW))

    def _on_witness(self, stimulus: words.WitnessAnswered) -> None:
        if self.phase is not Phase.VOTING or stimulus.plan_version != self.ready_in:
            return
        assert self._ballots is not None
        self._witness.holder = stimulus.holder
        self._ballots.witness = stimulus.holder == self.generation

    def _on_durable(self, stimulus: words.DecisionDurable) -> None:
        for each in stimulus.stored:
            self._writing.done(each)
            self._outdated(stimulus.seal)
            if stimulus.seal <= each.plan_version:
                self._chain.note_stored(each.decision)

    def _on_covered(self, stimulus: words.Covered) -> None:
        self._chain.cover(stimulus.epoch)
        self._bags.forget(stimulus.epoch)
        self._look_behind()

    def _on_paused(self, stimulus: words.Paused) -> None:
        self._paused = True
        self._telling.has_news = True

    def _on_resumed(self, stimulus: words.Resumed) -> None:
        self._paused = False
        self._chain.processed = max(self._chain.processed, stimulus.processed)
        self._look_behind()
        self._telling.has_news = True

    def _on_behind(self, stimulus: words.Behind) -> None:
        self._behind = stimulus.is_so and self._settings.every_decision_stored
        if self._ballots is not None:
            self._ballots.behind = self._behind

    def _look_behind(self) -> None:
        """What is to be processed next may be forgotten everywhere."""
        if self._chain.processed < self._chain.covered and not self._paused:
            self._give_up(Event.PASSED, self._chain.covered)

    def _give_up(self, event: Event, covered: int) -> None:
        if self.phase is not Phase.OUTRUN:
            self._enter(event)
            self._effects.append(words.Outrun(covered))

    def _on_tick(self, stimulus: words.Tick) -> None:
        self._living.look(stimulus.now_seconds, self._is_open)
        if self._writing.look(stimulus.now_seconds):
            self._stirred = self._telling.has_news = True
        every = self._living.repeat_seconds
        if replicas := self._replicas():
            live = self._living.live
            self._witness.look(self.generation, replicas, live, self._living.now_seconds)
            self._stirred |= live != self._seemed_live
            self._seemed_live = live
            if len(live) < bag_holders(len(replicas)):
                self._stirred = True
                self._be_lonely()
        self._telling.look(self._living.now_seconds, every)
        if self._living.now_seconds - self._repeated_at < every:
            return
        self._repeated_at = self._living.now_seconds
        self._stirred |= self._fetching.repeat() or self.phase is Phase.LEARNING
        self._peers.forget_told()
        if replicas:
            said = [self._peers.reports.get(each) for each in self._living.others]
            stored = self._settings.every_decision_stored
            removed = BEGINNING if self._store is None else self._store.removed_until
            until = untold_until(self._chain.decided, self._newest_plan, said, stored, removed)
            if until is not None:
                self._give_up(Event.LEFT_BEHIND, until)

    @property
    def _is_open(self) -> bool:
        """There is something to learn, to agree on or to write."""
        if self.phase is not Phase.VOTING or self._writing:
            return True
        assert self._ballots is not None
        return self._ballots.open(self._chain.decided)

    def _be_lonely(self) -> None:
        """Less than a majority is heard of: keep what is known safe, and try to go on.

        Who has the witness is needed until the next plan (see `witness`). So nobody takes it for nothing.
        """
        votes = self.phase is Phase.VOTING and not self._paused and self._is_open
        is_free = len(self._replicas()) % 2 == 0 and self._witness.holder is None
        if votes and is_free and not self._living.others_learn:
            self._effects.append(words.AskWitness(self.ready_in))
        unwritten = () if self._settings.every_decision_stored else self._chain.not_stored()
        for decision in unwritten:
            if self._writing.is_busy:
                return
            self._writing.put(decision)

    # --- progress -----------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Time has passed, and nothing else that matters: ballots are led, and it may be time to tell."""
        if self.phase is Phase.VOTING and not self._paused:
            assert self._ballots is not None
            before = self._ballots.changes
            self._lead()
            self._stirred = self._ballots.changes != before
        if self._stirred:
            self._advance()
        elif self._telling.is_wanted(self._progress()[1]):
            self._tell_all()

    def _advance(self) -> None:
        """Do all that has become possible."""
        if self.phase is Phase.LEARNING:
            self._learn()
        before = None
        while before != (before := self._progress()):
            if self.phase is Phase.VOTING and not self._paused:
                self._vote()
            self._settle()
        self._write_and_tell()
        self._process()
        self._fetch()
        if self._telling.is_wanted(self._progress()[1]):
            self._tell_all()

    def _progress(self) -> tuple[int, int]:
        """What is decided, and what changed in this replica's part in the rest."""
        return self._chain.decided, 0 if self._ballots is None else self._ballots.changes

    def _vote(self) -> None:
        assert self._ballots is not None
        decided = self._chain.decided
        self._ballots.name(decided)
        self._ballots.follow(decided)
        self._lead()

    def _lead(self) -> None:
        assert self._ballots is not None
        live = self._living.live
        if self._witness.coordinator(self._replicas(), live) == self.generation:
            expected = live - self._peers.unbuilt
            self._ballots.lead(self._chain.decided, expected, self._living.now_seconds)

    def _settle(self) -> None:
        """Append to the chain what stands; bring to the store what is chosen and has to stand there."""
        after, in_order = self._chain.decided, True
        for _ in range(WINDOW):
            value = self._chain.stored_ahead(after)
            chosen = self._chosen(after) if value is None else None
            if chosen is not None:
                value = chosen.value
                if not self._is_safe(chosen):
                    in_order = False
                    self._bring_to_store(Decision(after, value))
            if value is None:
                return
            if in_order:
                self._decide(Decision(after, value))
            after = value.epoch

    def _chosen(self, after: int) -> Chosen | None:
        return self._ballots.chosen(after) if self._ballots and self.phase is Phase.VOTING else None

    def _is_safe(self, chosen: Chosen) -> bool:
        """Its bags are on so many replicas that it stands without the store."""
        in_memory = not self._settings.every_decision_stored
        return in_memory and chosen.holders >= bag_holders(len(self._replicas()))

    def _bring_to_store(self, decision: Decision) -> None:
        """One of the replicas does: the coordinator, or who counts for two. One that is late with its writes
        is passed over."""
        live, late = self._living.live, self._peers.late
        if self._writing.is_late:
            late.add(self.generation)
        if self.generation in (self._witness.holder, min(live - late or live)):
            self._writing.put(decision)

    def _decide(self, decision: Decision) -> None:
        self._chain.append(decision)
        self._bags.settle(decision)
        self._writing.settled(decision)
        self._effects.append(words.Decided(decision))
        if self._chain.is_stored(decision.after):
            self._to_tell.append(decision)

    def _process(self) -> None:
        while self.phase is not Phase.OUTRUN and not self._paused:
            decision = self._chain.next_to_process()
            if decision is None or self._bags.lacking(decision.chosen):
                return
            self._chain.process(decision)
            self._effects.append(words.Process(decision))

    def _fetch(self) -> None:
        decision = self._chain.next_to_process()
        if decision is not None:
            coming = self._chain.following(decision.after, WINDOW)
            self._effects += self._fetching.ask((each.after, each.chosen) for each in coming)
        if self._ballots is not None and self.phase is Phase.VOTING:
            self._effects += self._fetching.ask(self._ballots.wanted(self._chain.decided))

    # --- messages -----------------------------------------------------------------------------------

    def _tell_all(self) -> None:
        """Tell the replicas of the plan, and while learning those of former ones, where this one stands.

        What it accepted is told once more where that was decided at the same moment, for others count it.
        """
        self._telling.told(self._living.now_seconds)
        changes = self._progress()[1]
        learning = self.phase is Phase.LEARNING
        company = self._living.company if learning else set(self._replicas())
        others = tuple(sorted(company - {self.generation}))
        is_cut = self._ballots is not None and not self._ballots.tells_all
        if learning or is_cut or self._telling.is_old or self._telling.must_report(changes):
            if others:
                self._tell(others, asks=learning)
            self._telling.reported(changes)
        elif others:
            pulse = self._telling.pulse(self.generation, self._chain.decided)
            self._effects.append(words.Tell(others, pulse))
        if self._ballots is not None:
            self._ballots.forget(self._chain.decided)

    def _write_and_tell(self) -> None:
        self._effects += self._writing.take()
        others = tuple(each for each in self._replicas() if each != self.generation)
        self._tell_decisions(others, self._to_tell)
        self._to_tell = []

    def _tell_decisions(self, receivers: tuple[int, ...], decided: Iterable[Decision]) -> None:
        message = words.Decisions(self.generation, tuple(decided))
        if message.decisions and receivers:
            self._effects.append(words.Tell(receivers, message))
            self._peers.note_told(receivers, message)

    def _tell(self, receivers: tuple[int, ...], asks: bool = False) -> None:
        self._effects.append(words.Tell(receivers, self._report(self._telling.number(), asks)))

    def _report(self, sequence: int = 0, asks: bool = False) -> Report:
        known = (self._newest_plan, self.ready_in, self._chain.decided)
        return Report(
            self.generation,
            sequence,
            *known,
            votes=not self._paused,
            asks=asks,
            writes=not self._writing.is_late,
            tells_after=self._chain.covered,
            entries=self._ballots.entries() if self._ballots is not None else (),
        )


_HANDLERS: dict[type, Callable[[Consensus, Any], None]] = {
    words.PlanChanged: Consensus._on_plan,
    words.ReplicasGone: Consensus._on_gone,
    words.BagHeld: Consensus._on_bag,
    words.EpochEnded: Consensus._on_end,
    words.Heard: Consensus._on_heard,
    words.WitnessAnswered: Consensus._on_witness,
    words.StoreRead: Consensus._on_store_read,
    words.DecisionDurable: Consensus._on_durable,
    words.Covered: Consensus._on_covered,
    words.Paused: Consensus._on_paused,
    words.Resumed: Consensus._on_resumed,
    words.Behind: Consensus._on_behind,
    words.Tick: Consensus._on_tick,
}
