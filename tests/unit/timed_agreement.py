"""Two replicas that agree on one epoch after the other, on one clock, with a manager that lists them anew.

Everything takes as long as is said: messages, plans, the seal of a store by replica; a frozen replica takes
nothing in, and all of it when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, pairwise

from replication.consensus import Consensus
from streammine.model import agreement as words

EPOCH_SECONDS = 0.02
TICK_SECONDS = 0.01
HEARTBEAT_SECONDS = 0.25
FAST_SECONDS = 0.005
SETTINGS = words.AgreementSettings(every_decision_stored=True, bags_come=True)

Between = tuple[float, float]


@dataclass
class TimedAgreement:
    """`seal_seconds` by replica; `frozen`: when each replica is, in seconds; `cut`: since when neither hears
    the other. `processed`: by replica when it processed an epoch."""

    seal_seconds: dict[int, float] = field(default_factory=dict)
    message_seconds: float = 0.001
    frozen: dict[int, list[Between]] = field(default_factory=dict)
    cut: float = float("inf")
    seconds: float = 15.0

    def __post_init__(self) -> None:
        self.machines = {each: Consensus(each, SETTINGS, 0, 0) for each in (1, 2)}
        self.plans: list[float] = []
        self.processed: dict[int, list[float]] = {each: [] for each in self.machines}
        self._chosen: dict[int, words.BagSet] = {}
        self._records: list[words.StoredDecision] = []
        self._seal = 0
        self._witnesses: dict[int, int] = {}
        self._waiting: dict[int, list[words.AgreementStimulus]] = {1: [], 2: []}
        self._ticks = dict.fromkeys(self.machines, 0)
        self._epoch = 0
        self._now = 0.0
        self._numbers = count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._declare()
        self._every(TICK_SECONDS, self._tick)
        self._every(EPOCH_SECONDS, self._feed)
        self._every(HEARTBEAT_SECONDS, self._look)
        while self._now < self.seconds:
            self._now, _, what = heappop(self._due)
            what()

    @property
    def longest_gap(self) -> float:
        """Between epochs that anybody has processed first, in seconds."""
        times = sorted(at for each in self.processed.values() for at in each)
        return max(later - before for before, later in pairwise(times))

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        heappush(self._due, (self._now + seconds, next(self._numbers), what))

    def _every(self, seconds: float, what: Callable[[], None]) -> None:
        def again() -> None:
            what()
            self._later(seconds, again)

        self._later(seconds, again)

    def _declare(self) -> None:
        self.plans.append(self._now)
        plan = words.ReplicaPlan(len(self.plans), tuple(self.machines))
        for each in self.machines:
            self._give_later(FAST_SECONDS, each, words.PlanChanged(plan))

    def _tick(self) -> None:
        for each in self.machines:
            if not self._is_frozen(each):
                self._ticks[each] += 1
                self._give(each, words.Tick(self._ticks[each] * TICK_SECONDS))

    def _feed(self) -> None:
        self._epoch += 1
        bag = words.BagHeld(0, self._epoch, words.Bag("0", 1))
        for each in self.machines:
            self._give(each, words.Together((bag, words.EpochEnded(self._epoch))))

    def _look(self) -> None:
        """What nodes that are not frozen report to the manager."""
        heard = [self.machines[each] for each in self.machines if not self._is_frozen(each)]
        if any(machine.spent_plan == len(self.plans) for machine in heard):
            self._declare()

    def _is_frozen(self, replica: int) -> bool:
        return any(begin <= self._now < end for begin, end in self.frozen.get(replica, []))

    def _give_later(self, seconds: float, replica: int, stimulus: words.AgreementStimulus) -> None:
        self._later(seconds, lambda: self._give(replica, stimulus))

    def _give(self, replica: int, stimulus: words.AgreementStimulus) -> None:
        waiting = self._waiting[replica]
        waiting.append(stimulus)
        if self._is_frozen(replica):
            return
        self._waiting[replica] = []
        for each in waiting:
            for effect in self.machines[replica].handle(each):
                self._perform(replica, effect)

    def _perform(self, replica: int, effect: words.AgreementEffect) -> None:
        match effect:
            case words.Tell(receivers, message):
                if self._now < self.cut:
                    for each in receivers:
                        self._give_later(self.message_seconds, each, words.Heard(message))
            case words.AskWitness(version):
                holder = self._witnesses.setdefault(version, replica)
                self._give_later(FAST_SECONDS, replica, words.WitnessAnswered(version, holder))
            case words.SealStore(version, _):
                seconds = self.seal_seconds.get(replica, FAST_SECONDS)
                self._later(seconds, lambda: self._sealed(replica, version))
            case words.MakeDurable(stored):
                self._later(FAST_SECONDS, lambda: self._written(replica, stored))
            case words.Process(decision):
                known = self._chosen.setdefault(decision.after, decision.chosen)
                assert known == decision.chosen, "replicas process the same"
                self.processed[replica].append(self._now)

    def _sealed(self, replica: int, version: int) -> None:
        self._seal = max(self._seal, version)
        self._give(replica, words.StoreRead(version, tuple(self._records)))

    def _written(self, replica: int, stored: tuple[words.StoredDecision, ...]) -> None:
        self._records += stored
        self._give(replica, words.DecisionDurable(stored, self._seal))
