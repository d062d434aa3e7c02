"""A small world for the replicas of one slice: upstreams, network, store, witness, manager; from one seed.

Two upstream replicas send bags that may differ, and have gaps of their own. Replicas crash and lose their
memory, and others come under new generations; the network loses, doubles and overtakes; links are cut.
Operations of the store take two steps, between which anything may happen.

More may be lost at the same moment than a plan stands, and then the machine promises nothing. So where
decisions live in memory, `may_crash` says what a crash must leave behind.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from replication.consensus import Consensus
from replication.quorums import bag_holders, closing
from streammine.model import agreement as words
from streammine.model.agreement import (
    Bag,
    BagSet,
    Decision,
    FormerPlan,
    ReplicaPlan,
    StoredDecision,
)

CHANNELS = (0, 1)
UPSTREAMS = (10, 11)
EPOCHS = range(1, 7)
OVER = 9
"""The last epoch, which every feed has, like those of checkpoints."""
CHECKPOINTS = (3, 5)
OVERTAKING = 12
"""Messages from which the next one to arrive is taken."""
TRIES_TO_AGREE = 400
REMOVED = 0.5
"""Share of the checkpoints with which decisions are removed from the store."""

USUAL = {
    "deliver": 40.0,
    "receive": 20.0,
    "tick": 12.0,
    "fetch": 8.0,
    "operate": 12.0,
    "answer": 4.0,
    "tell": 12.0,
    "cover": 0.5,
    "crash": 0.2,
    "plan": 0.2,
    "pause": 0.15,
    "lag": 0.5,
    "cut": 0.6,
    "join": 0.3,
    "coordinate": 0.3,
}
"""How often a thing happens."""

DUEL = {
    "cut": 3.0,
    "join": 1.0,
    "tick": 25.0,
    "crash": 0.05,
    "plan": 0.05,
    "pause": 0.0,
    "cover": 0.0,
}
"""And where leaders get into each other's way."""

SUCCESSION = {"crash": 0.3, "plan": 1.0, "cover": 3.0, "pause": 0.05, "deliver": 15.0}
"""And where replicas make room for others before these know all."""


@dataclass
class Replica:
    machine: Consensus
    alive: bool = True
    now_seconds: float = 0.0
    told_plan: int = 0
    covered: int = 0
    began: int = 0
    ended: int = 0
    paused: bool = False
    outrun: bool = False
    read: dict[tuple[int, int], int] = field(default_factory=dict)
    """Epoch up to which each (upstream, channel) was received."""
    bags: set[tuple[int, int, str]] = field(default_factory=set)
    processed: list[Decision] = field(default_factory=list)


@dataclass
class Operation:
    """Something under way in the store: first `begin`, then `finish`."""

    generation: int
    effect: words.MakeDurable | words.SealStore
    begun: bool = False


class World:
    """`stored`: every decision goes to the store. `duel`: it is all about one epoch, of which replicas have
    one of two sets, with much trouble on the network, so that leaders get into each other's way.
    `succession`: replicas come and go all the time, and no checkpoint passes those that are listed."""

    def __init__(
        self, seed: int, stored: bool = False, duel: bool = False, succession: bool = False
    ) -> None:
        self.random = Random(seed)
        self.settings = words.AgreementSettings(every_decision_stored=stored)
        self.replicas: dict[int, Replica] = {}
        self.network: list[tuple[int, int, words.AgreementMessage]] = []
        self.operations: list[Operation] = []
        self.fetches: list[tuple[int, words.FetchBag]] = []
        self.records: list[StoredDecision] = []
        self.safe: set[tuple[int, BagSet]] = set()
        """What was written before a newer plan put its seal in, so that whoever reads finds it."""
        self.seal = 0
        self.witnesses: dict[int, int] = {}
        self.questions: list[tuple[int, int]] = []
        self.plans: list[tuple[int, tuple[int, ...]]] = []
        self.settled = 1
        self.cut: set[frozenset[int]] = set()
        self.coordinated = True
        self.duel = duel
        self.haste = self.random.choice((1, 3)) if duel else 5
        self.lossy = self.random.choice((0.0, 0.1, 0.3))
        self.covered = self.removed = 0
        self.followed: dict[int, BagSet] = {}
        """What was processed after each epoch, by anybody."""
        self.counts: Counter[str] = Counter()
        differing = self.random.choice((0.0, 0.5, 1.0, 1.0))
        gaps = self.random.choice((0.0, 0.3))
        self.sent = {
            upstream: {
                (channel, epoch): Bag(
                    f"{channel}:{epoch}" + "x" * (index * (self.random.random() < differing)),
                    1,
                    upstream,
                )
                for epoch in (EPOCHS[:1] if duel else EPOCHS)
                for channel in CHANNELS
                if self.random.random() >= gaps
            }
            for index, upstream in enumerate(UPSTREAMS)
        }
        # each seed has troubles of its own, for what happens seldom hides behind what happens always
        self.waits_for_all = succession or self.random.random() < 0.5
        """Nobody is told that a checkpoint covers what a listed replica has not processed yet."""
        usual = USUAL | (DUEL if duel else SUCCESSION if succession else {})
        self.weights = {
            what: often * self.random.choice((0.25, 1.0, 4.0)) for what, often in usual.items()
        }
        counts = (2, 2, 3, 4, 5, 5) if duel else (1, 2, 2, 3, 3, 4, 5)
        self.declare(tuple(self.start(0) for _ in range(self.random.choice(counts))))

    # --- the manager --------------------------------------------------------------------------------

    def start(self, processed: int) -> int:
        generation = len(self.replicas) + 1
        machine = Consensus(generation, self.settings, self.covered, processed)
        replica = Replica(machine, covered=self.covered, began=processed, ended=processed)
        replica.read = {(u, c): processed for u in UPSTREAMS for c in CHANNELS}
        self.replicas[generation] = replica
        return generation

    def declare(self, generations: tuple[int, ...]) -> None:
        version = len(self.plans) + 1
        self.plans.append((version, tuple(sorted(generations))))

    @property
    def listed(self) -> tuple[int, ...]:
        return self.plans[-1][1]

    def plan(self, version: int) -> ReplicaPlan:
        former = [each for each in self.plans if self.first_open() <= each[0] < version]
        return ReplicaPlan(
            version,
            self.plans[version - 1][1],
            tuple(FormerPlan(of, who) for of, who in former),
        )

    def first_open(self) -> int:
        """Plans before that one need not be asked any more."""
        settled = [
            version
            for version, who in self.plans
            if sum(self.replicas[each].machine.ready_in == version for each in who)
            >= bag_holders(len(who))
        ]
        self.settled = max([self.settled, *settled])
        return self.settled

    def change_plan(self) -> None:
        """Replace who is lost; add one or leave one out; or list the same ones once more."""
        if self.random.random() < 0.2:
            self.counts["listed anew"] += 1
            self.declare(self.listed)
            return
        members = [each for each in self.listed if self.usable(each)]
        wanted = self.random.choice((1, 2, 2, 3, 3, 4, 5))
        self.random.shuffle(members)
        members = members[:wanted]
        while len(members) < wanted:
            members.append(self.start(self.restorable()))
        self.declare(tuple(members))

    def usable(self, generation: int) -> bool:
        replica = self.replicas[generation]
        return replica.alive and not replica.outrun

    def restorable(self) -> int:
        """The epoch of some snapshot: the checkpoint's, or a newer one."""
        snapshots = [
            epoch
            for epoch in CHECKPOINTS
            if epoch > self.covered and any(each.epoch == epoch for each in self.followed.values())
        ]
        return self.random.choice([self.covered, *snapshots])

    # --- faults -------------------------------------------------------------------------------------

    def may_crash(self, generation: int) -> bool:
        """Whether what was processed outlives it: in the store, or in enough memories."""
        if self.settings.every_decision_stored:
            return True
        if all(
            (after, value) in self.safe
            for after, value in self.followed.items()
            if value.epoch > self.covered
        ):
            return True
        first = self.first_open()
        return all(
            len(who) > 1
            and sum(self.replicas[each].alive for each in who if each != generation)
            >= closing(len(who))
            for version, who in self.plans
            if version >= first
        )

    def crash(self, generation: int) -> None:
        if not self.may_crash(generation):
            self.counts["spared"] += 1
            return
        self.counts["crashed"] += 1
        self.replicas[generation].alive = False
        self.operations = [each for each in self.operations if each.generation != generation]

    # --- stimuli and effects ------------------------------------------------------------------------

    def give(self, generation: int, stimulus: words.AgreementStimulus) -> None:
        replica = self.replicas[generation]
        if not replica.alive:
            return
        for effect in replica.machine.handle(stimulus):
            self.counts[type(effect).__name__] += 1
            self.perform(generation, replica, effect)

    def perform(self, generation: int, replica: Replica, effect: words.AgreementEffect) -> None:
        match effect:
            case words.Tell(receivers, message):
                self.network += [(generation, each, message) for each in receivers]
            case words.FetchBag():
                self.fetches.append((generation, effect))
            case words.AskWitness(version):
                self.questions.append((generation, version))
            case words.SealStore() | words.MakeDurable():
                self.operations.append(Operation(generation, effect))
            case words.Process(decision):
                self.process(replica, decision)
            case words.Outrun(covered):
                replica.outrun = True
                self.counts["left behind"] += covered > replica.covered

    def process(self, replica: Replica, decision: Decision) -> None:
        """The property: one epoch, one bag set."""
        after, chosen = decision.after, decision.chosen
        assert not replica.paused
        for channel, bag in chosen.bags:
            assert (channel, chosen.epoch, bag.digest) in replica.bags, "processed without the bag"
        known = self.followed.setdefault(after, chosen)
        assert known == chosen, f"after {after}: {known} here, {chosen} there"
        assert self.kept(after, chosen), f"nothing keeps what follows {after}"
        assert not any(a < chosen.epoch < v.epoch for a, v in self.followed.items())
        replica.processed.append(decision)

    def kept(self, after: int, chosen: BagSet) -> bool:
        stored = any(
            each.decision.after == after and each.decision.chosen == chosen for each in self.records
        )
        return (
            stored
            or sum(
                all((c, chosen.epoch, bag.digest) in each.bags for c, bag in chosen.bags)
                for each in self.replicas.values()
            )
            >= 2
        )

    # --- one step -----------------------------------------------------------------------------------

    def receive(self, generation: int) -> None:
        """The next epoch of one channel from one upstream."""
        replica = self.replicas[generation]
        upstream, channel = self.random.choice(sorted(replica.read))
        if self.duel:
            upstream = UPSTREAMS[generation % len(UPSTREAMS)]
        epoch = replica.read[upstream, channel] + 1
        if epoch > OVER:
            return
        replica.read[upstream, channel] = epoch
        bag = self.sent[upstream].get((channel, epoch))
        if bag is not None:
            self.hold(generation, channel, epoch, bag)
        self.end_epochs(generation)

    def hold(self, generation: int, channel: int, epoch: int, bag: Bag) -> None:
        replica = self.replicas[generation]
        replica.bags.add((channel, epoch, bag.digest))
        self.give(generation, words.BagHeld(channel, epoch, bag))

    def end_epochs(self, generation: int) -> None:
        replica = self.replicas[generation]
        ended = min(max(replica.read[u, c] for u in UPSTREAMS) for c in CHANNELS)
        for epoch in range(replica.ended + 1, ended + 1):
            replica.ended = epoch
            full = any(at == epoch for _, at, _ in replica.bags)
            if full or epoch in (*CHECKPOINTS, OVER):
                self.give(generation, words.EpochEnded(epoch))

    def deliver(self, index: int) -> None:
        sender, receiver, message = self.network.pop(index)
        if frozenset((sender, receiver)) in self.cut or self.random.random() < self.lossy:
            return
        if self.random.random() < self.lossy:
            self.network.append((sender, receiver, message))
        self.give(receiver, words.Heard(message))

    def split(self, living: list[int]) -> None:
        """Some talk only among themselves, and so do the others; or one more link is cut."""
        some = set(self.random.sample(living, self.random.randint(1, len(living))))
        if self.random.random() < 0.7:
            self.cut = {frozenset((a, b)) for a in some for b in self.replicas if b not in some}
        else:
            self.cut.add(frozenset(self.random.choices(living, k=2)))

    def fetch(self, index: int) -> None:
        generation, wish = self.fetches.pop(index)
        asked = (wish.channel, wish.epoch, wish.bag.digest)
        holders = [
            each
            for each in wish.holders
            if self.replicas[each].alive
            and asked in self.replicas[each].bags
            and frozenset((each, generation)) not in self.cut
        ]
        if holders or any(b.digest == wish.bag.digest for b in self.all_bags()):
            self.hold(generation, wish.channel, wish.epoch, wish.bag)

    def all_bags(self) -> list[Bag]:
        """Upstream keeps all."""
        return [bag for sent in self.sent.values() for bag in sent.values()]

    def operate(self, index: int) -> None:
        operation = self.operations[index]
        generation, effect = operation.generation, operation.effect
        if not operation.begun:
            operation.begun = True
            if isinstance(effect, words.MakeDurable):
                self.records += effect.stored
                self.safe |= {
                    (each.decision.after, each.decision.chosen)
                    for each in effect.stored
                    if self.seal <= each.plan_version
                }
            else:
                self.seal = max(self.seal, effect.plan_version)
            return
        del self.operations[index]
        if isinstance(effect, words.MakeDurable):
            self.give(generation, words.DecisionDurable(effect.stored, self.seal))
        else:
            beyond = (each for each in self.records if each.decision.chosen.epoch > effect.decided)
            read = words.StoreRead(effect.plan_version, tuple(beyond), self.removed)
            self.give(generation, read)

    def answer(self, index: int) -> None:
        generation, version = self.questions.pop(index)
        if not self.coordinated:
            self.give(generation, words.WitnessAnswered(version, None))
            return
        holder = self.witnesses.setdefault(version, generation)
        self.give(generation, words.WitnessAnswered(version, holder))

    def tick(self, generation: int, seconds: float) -> None:
        replica = self.replicas[generation]
        replica.now_seconds += seconds
        self.give(generation, words.Tick(replica.now_seconds))

    def tell_plan(self, generation: int) -> None:
        """A replica hears of a plan that it has not heard of, or of the newest."""
        replica = self.replicas[generation]
        version = self.random.randint(replica.told_plan, len(self.plans))
        if version > replica.told_plan and self.coordinated:
            replica.told_plan = version
            self.give(generation, words.PlanChanged(self.plan(version)))

    def cover(self) -> None:
        """A checkpoint is complete: the one that every usable replica of the plan has passed, or just one."""
        reached = [
            epoch
            for epoch in CHECKPOINTS
            if any(value.epoch == epoch for value in self.followed.values())
        ]
        if reached:
            self.covered = max(self.covered, self.random.choice(reached))
            if self.settings.every_decision_stored and self.random.random() < REMOVED:
                self.remove()

    def remove(self) -> None:
        """From the store goes what the checkpoint covers, whoever is behind it."""
        self.removed = self.covered
        before = len(self.records)
        self.records = [each for each in self.records if each.decision.chosen.epoch > self.removed]
        self.counts["removed"] += before - len(self.records)

    def tell_gone(self, generation: int) -> None:
        gone = frozenset(each for each, replica in self.replicas.items() if not replica.alive)
        self.give(generation, words.ReplicasGone(gone))

    def tell_covered(self, generation: int) -> None:
        replica = self.replicas[generation]
        covered = self.covered
        if self.waits_for_all:
            covered = min(
                [covered, *(self.done(each) for each in self.listed if self.usable(each))]
            )
        if replica.covered < covered:
            replica.covered = covered
            self.give(generation, words.Covered(covered))

    def done(self, generation: int) -> int:
        replica = self.replicas[generation]
        return replica.processed[-1].chosen.epoch if replica.processed else replica.began

    def pause(self, generation: int) -> None:
        replica = self.replicas[generation]
        replica.paused = not replica.paused
        if replica.paused:
            self.give(generation, words.Paused())
            return
        pushed = max((each.machine._chain.processed for each in self.replicas.values()), default=0)
        mine = replica.machine._chain.processed
        self.give(generation, words.Resumed(self.random.choice((mine, pushed))))

    def step(self) -> None:
        living = [each for each, replica in self.replicas.items() if replica.alive]
        if not living:
            self.change_plan()
            return
        one = self.random.choice(living)
        match self.random.choices(tuple(self.weights), tuple(self.weights.values()))[0]:
            case "deliver" if self.network:
                for _ in range(min(self.haste, len(self.network))):
                    self.deliver(self.random.randrange(min(OVERTAKING, len(self.network))))
            case "receive":
                for _ in range(2):
                    self.receive(one)
            case "tick":
                self.tick(one, self.random.choice((0.005, 0.01, 0.03)))
            case "fetch" if self.fetches:
                self.fetch(self.random.randrange(len(self.fetches)))
            case "operate" if self.operations:
                for _ in range(self.random.randrange(4)):
                    if self.operations:
                        self.operate(self.random.randrange(len(self.operations)))
            case "answer" if self.questions:
                self.answer(self.random.randrange(len(self.questions)))
            case "tell":
                self.tell_plan(one)
                self.random.choice((self.tell_covered, self.tell_gone))(one)
            case "cover":
                self.cover()
            case "crash":
                self.crash(one)
            case "plan":
                self.change_plan()
            case "pause":
                self.pause(one)
            case "lag":
                self.give(one, words.Behind(self.random.random() < 0.5))
            case "cut":
                self.split(living)
            case "join":
                self.cut = set()
            case "coordinate":
                self.coordinated = not self.coordinated

    # --- and in the end -----------------------------------------------------------------------------

    def heal(self) -> None:
        """Everything works again, and who is lost is replaced; then all must come to the end."""
        self.cut, self.lossy, self.coordinated = set(), 0.0, True
        for one, replica in self.replicas.items():
            if replica.alive and replica.paused:
                self.pause(one)
        for _ in range(TRIES_TO_AGREE):
            if any(not self.usable(each) for each in self.listed):
                self.change_plan()
            self.calm_step()
            if all(self.is_over(each) for each in self.listed):
                return
        raise AssertionError(f"no end: {self.describe()}")

    def is_over(self, generation: int) -> bool:
        machine = self.replicas[generation].machine
        return machine._chain.processed == OVER and machine.ready_in == len(self.plans)

    def calm_step(self) -> None:
        for one, replica in list(self.replicas.items()):
            if replica.alive:
                for key in replica.read:
                    replica.read[key] = max(replica.read[key], OVER)
                    for (channel, epoch), bag in self.sent[key[0]].items():
                        if channel == key[1] and (channel, epoch, bag.digest) not in replica.bags:
                            self.hold(one, channel, epoch, bag)
                self.end_epochs(one)
                if replica.told_plan < len(self.plans):
                    replica.told_plan = len(self.plans)
                    self.give(one, words.PlanChanged(self.plan(len(self.plans))))
                self.tell_gone(one)
                self.tell_covered(one)
                self.tick(one, 0.01)
        for _ in range(2 * len(self.operations)):
            if self.operations:
                self.operate(0)
        for _ in range(len(self.questions)):
            self.answer(0)
        for _ in range(len(self.fetches)):
            self.fetch(0)
        for _ in range(min(len(self.network), 3000)):
            self.deliver(0)

    def describe(self) -> str:
        lines = [f"plans {self.plans}", f"covered {self.covered}", f"followed {self.followed}"]
        for one, each in self.replicas.items():
            machine = each.machine
            if each.alive:
                lines.append(
                    f"{one}: {machine.phase} ready in {machine.ready_in}, decided {machine.decided}, "
                    f"processed {machine._chain.processed}, {machine._report(False)}"
                )
        return "\n".join(lines)


def run(
    seed: int,
    stored: bool = False,
    duel: bool = False,
    succession: bool = False,
    steps: int = 800,
) -> World:
    world = World(seed, stored, duel, succession)
    for _ in range(steps // 2 if duel else steps):
        world.step()
    world.heal()
    return world
