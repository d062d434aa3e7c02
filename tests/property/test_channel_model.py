"""One channel among replicas that crash, over a network that loses, doubles and reorders.

A source and an operator, both real machines, each with one or two live replicas::

    source@1 source@2 ...  --- channel 0 --->  operator@1 operator@2 ...

Replicas are lost and built again from older states, as the recovery line allows it. Whatever happens,
every living operator must end with exactly the source's bags, and close each epoch once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.engine import stimuli
from streammine.engine.input_channel import InputChannel
from streammine.engine.output_channel import OutputChannel
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import Phase, RestoredTo, SliceSettings
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.ids import SliceId

SETTINGS = SliceSettings(EpochDefinition("count", 10), 1, "asynchronous")
ROW_BYTES = 10
Bags = dict[int, list[int]]


@dataclass
class Replica:
    """A machine and what its work has come to. `told` is what it still has to hear of the plan; as a node
    does, it reaches nobody whom the plan that it knows doesn't list."""

    machine: SliceMachine
    after: int = BEGINNING
    known: set[int] = field(default_factory=lambda: {1})
    next_row: int = 0
    open_bags: Bags = field(default_factory=dict)
    closed: Bags = field(default_factory=dict)
    work: tuple[stimuli.Work, ...] | None = None
    told: deque[tuple[int, ...]] = field(default_factory=deque)


class World:
    """`epochs[n]` is the epoch of the source's row n, in the order in which they are read."""

    def __init__(self, epochs: list[int], budget: int) -> None:
        self.epochs = epochs
        self.budget = budget
        self.pruned = BEGINNING
        self.generation = 1
        self.senders: dict[int, Replica] = {}
        self.receivers: dict[int, Replica] = {}
        self.network: list[tuple[bool, int, stimuli.Stimulus]] = []
        self.senders[1] = Replica(self._machine(True, 1, BEGINNING, first=True))
        self.receivers[1] = Replica(self._machine(False, 1, BEGINNING, first=True))
        self._start(self.senders[1])
        self._start(self.receivers[1])

    def _machine(self, sends: bool, generation: int, after: int, first: bool) -> SliceMachine:
        peers = (1,) if first else ()
        return SliceMachine(
            SliceId("source" if sends else "operator", 0),
            generation,
            () if sends else (InputChannel(0, 0, generation, peers, after),),
            (OutputChannel(1, 0, generation, self.budget, peers, after, True),) if sends else (),
            SETTINGS,
            None if after == BEGINNING else RestoredTo(after, after),
        )

    def _start(self, replica: Replica) -> None:
        self.feed(replica, stimuli.Start())

    # --- the shell ------------------------------------------------------------------------------

    def feed(self, replica: Replica, stimulus: stimuli.Stimulus) -> None:
        for effect in replica.machine.handle(stimulus):
            match effect:
                case stimuli.Run(work, _):
                    replica.work = work
                case stimuli.SendFrame(frame):
                    header = frame.header
                    arrived = stimuli.FrameArrived(header, frame.body, frame.nbytes)
                    self.send(replica, header.receiver, arrived)
                case stimuli.GrantCredit(channel, sender, receiver, frontier):
                    credit = stimuli.CreditArrived(channel, sender, receiver, frontier)
                    self.send(replica, sender, credit)
                case stimuli.AskSubscription(channel, sender, receiver, epoch, frontier):
                    wish = stimuli.Subscribed(channel, sender, receiver, epoch, frontier)
                    self.send(replica, sender, wish)
                case stimuli.AskResend(channel, sender, receiver, sequence):
                    asked = stimuli.ResendAsked(channel, sender, receiver, sequence)
                    self.send(replica, sender, asked)
                case stimuli.Announce(channel, sender, receiver, reached):
                    announced = stimuli.Announced(channel, sender, receiver, reached)
                    self.send(replica, receiver, announced)

    def send(self, replica: Replica, to: int, stimulus: stimuli.Stimulus) -> None:
        if to in replica.known:
            self.network.append((not replica.machine.is_source, to, stimulus))

    def perform(self, replica: Replica) -> None:
        work, replica.work = replica.work, None
        if work is not None:
            sends = replica.machine.is_source
            result = self._read(replica, work) if sends else self._fold(replica, work)
            self.feed(replica, stimuli.WorkDone(result))

    def _read(self, replica: Replica, work: tuple[stimuli.Work, ...]) -> stimuli.WorkResult:
        if isinstance(work[0], stimuli.Finish):
            return stimuli.WorkResult(finished=True)
        # batches differ from replica to replica; bags don't
        at = replica.next_row
        replica.next_row = min(len(self.epochs), at + 1 + replica.machine.generation % 3)
        rows = [row for row in range(at, replica.next_row) if self.epochs[row] > replica.after]
        over = replica.next_row == len(self.epochs)
        open_epoch = INFINITY if over else min(self.epochs[replica.next_row :])
        highest = max(self.epochs[: replica.next_row], default=BEGINNING)
        bags: Bags = {}
        for row in rows:
            bags.setdefault(self.epochs[row], []).append(row)
        outputs = tuple(
            stimuli.Output(0, epoch, len(bag), ROW_BYTES * len(bag), bag)
            for epoch, bag in sorted(bags.items())
        )
        if replica.after != BEGINNING:
            open_epoch = max(open_epoch, replica.after + 1)
        return stimuli.WorkResult(
            outputs, open_epoch=open_epoch, exhausted=over, last_epoch=highest
        )

    def _fold(self, replica: Replica, work: tuple[stimuli.Work, ...]) -> stimuli.WorkResult:
        closed: list[int] = []
        for item in work:
            match item:
                case stimuli.Accumulate(_, _, epoch, _, body):
                    assert isinstance(body, list)
                    replica.open_bags.setdefault(epoch, []).extend(body)
                case stimuli.Discard(_, epoch):
                    replica.open_bags.pop(epoch, None)
                case stimuli.CloseEpoch(epoch):
                    assert epoch not in replica.closed, f"epoch {epoch} closed twice"
                    replica.closed[epoch] = sorted(replica.open_bags.pop(epoch))
                    closed.append(epoch)
                case stimuli.Finish():
                    return stimuli.WorkResult(finished=True)
        return stimuli.WorkResult(closed=tuple(closed))

    # --- what can happen ------------------------------------------------------------------------

    def deliver(self, place: int, keep: bool = False) -> None:
        if self.network:
            place %= len(self.network)
            sends, generation, stimulus = self.network[place]
            if not keep:
                del self.network[place]
            replica = (self.senders if sends else self.receivers).get(generation)
            if replica is not None:
                self.feed(replica, stimulus)

    def lose(self, place: int) -> None:
        if self.network:
            del self.network[place % len(self.network)]

    def lacks_from(self) -> int:
        """What the plan's operators may still ask for."""
        return min(each.machine.processed_below for each in self.receivers.values())

    def add_sender(self, choice: int) -> None:
        if len(self.senders) < 2:
            possible = [epoch for epoch in sorted(set(self.epochs)) if epoch < self.lacks_from()]
            self._join(self.senders, True, self._chosen([BEGINNING, *possible], choice))

    def add_receiver(self, choice: int, like: Replica | None = None) -> None:
        if len(self.receivers) < 2:
            like = like or next(iter(self.receivers.values()))
            retained = max(each.machine.retained_after for each in self.senders.values())
            lowest = max(self.pruned, retained)
            standing = sorted(each for each in like.closed if each >= lowest)
            after = self._chosen([lowest, *standing] if lowest != BEGINNING else [lowest], choice)
            if after == BEGINNING or after < like.machine.processed_below:
                joined = self._join(self.receivers, False, after)
                joined.closed = {
                    epoch: list(bag) for epoch, bag in like.closed.items() if epoch <= after
                }

    @staticmethod
    def _chosen(possible: list[int], choice: int) -> int:
        return possible[choice % len(possible)]

    def _join(self, group: dict[int, Replica], sends: bool, after: int) -> Replica:
        self.generation += 1
        replica = Replica(self._machine(sends, self.generation, after, first=False), after)
        group[self.generation] = replica
        self._start(replica)
        directed = stimuli.Directed(BEGINNING, BEGINNING, self.pruned)
        self.feed(replica, directed)
        self._plan(replica)
        return replica

    def drop(self, group: dict[int, Replica], choice: int) -> Replica:
        return group.pop(sorted(group)[choice % len(group)])

    def _plan(self, new: Replica | None = None) -> None:
        """Everybody is told of the generations that live, sooner or later."""
        for replica in self.receivers.values():
            replica.told.append(tuple(sorted(self.senders)))
        for replica in self.senders.values():
            replica.told.append(tuple(sorted(self.receivers)))
        if new is not None:
            # who is new was built by the newest plan
            self.hear(new)

    def hear(self, replica: Replica) -> None:
        while replica.told:
            others = replica.told.popleft()
            replica.known = set(others)
            sends = replica.machine.is_source
            self.feed(
                replica,
                stimuli.Rewired({}, {0: others}) if sends else stimuli.Rewired({0: others}, {}),
            )

    def crash_sender(self, choice: int) -> None:
        lost = self.drop(self.senders, choice)
        del lost
        if not self.senders:
            self.add_sender(choice // 2)
        self._plan()

    def crash_receiver(self, choice: int) -> None:
        lost = self.drop(self.receivers, choice)
        if not self.receivers:
            self.add_receiver(choice // 2, lost)
            if not self.receivers:
                self.receivers[lost.machine.generation] = lost
        self._plan()

    def prune(self, choice: int) -> None:
        covered = [each for each in sorted(set(self.epochs)) if each < self.lacks_from()]
        if covered:
            self.pruned = max(self.pruned, self._chosen(covered, choice))
            for replica in self.senders.values():
                self.feed(replica, stimuli.Directed(BEGINNING, BEGINNING, self.pruned))

    @property
    def replicas(self) -> list[Replica]:
        return [*self.senders.values(), *self.receivers.values()]

    def step(self, kind: str, choice: int) -> None:
        replicas = self.replicas
        one = replicas[choice % len(replicas)]
        match kind:
            case "work":
                self.perform(one)
            case "deliver":
                self.deliver(choice)
            case "in order":
                self.deliver(0)
            case "double":
                self.deliver(choice, keep=True)
            case "lose":
                self.lose(choice)
            case "beat":
                self.feed(one, stimuli.Beat())
            case "hear":
                self.hear(one)
            case "crash sender":
                self.crash_sender(choice)
            case "crash receiver":
                self.crash_receiver(choice)
            case "add sender":
                self.add_sender(choice)
            case "add receiver":
                self.add_receiver(choice)
            case "prune":
                self.prune(choice)

    def heal(self) -> None:
        """Nothing is lost any more: it must come to its end."""
        for _ in range(200):
            for replica in self.replicas:
                self.hear(replica)
                self.feed(replica, stimuli.Beat())
            for _ in range(5000):
                if not self.network and not any(each.work for each in self.replicas):
                    break
                self.deliver(0)
                for replica in self.replicas:
                    self.perform(replica)
            if all(each.machine.phase is Phase.FINISHED for each in self.replicas):
                return
        raise AssertionError("it does not come to its end")


KINDS = (
    ["work"] * 6
    + ["in order"] * 6
    + ["deliver", "deliver", "double", "lose", "beat", "hear", "hear", "prune"]
    + ["crash sender", "crash receiver", "add sender", "add receiver"]
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 1000)), max_size=120),
)
def test_whatever_crashes_every_operator_ends_with_the_sources_bags_each_once(
    jitter: list[int], budget_rows: int, steps: list[tuple[str, int]]
) -> None:
    # rows come in the order of their epochs but for some that stand up to three too early
    epochs = [place // 2 + early for place, early in enumerate(jitter)]
    world = World(epochs, ROW_BYTES * budget_rows)
    for kind, choice in steps:
        world.step(kind, choice)
    world.heal()
    expected: Bags = {}
    for row, epoch in enumerate(epochs):
        expected.setdefault(epoch, []).append(row)
    for generation, replica in world.receivers.items():
        assert replica.closed == expected, f"operator@{generation}"
