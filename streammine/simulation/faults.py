"""Faults: what is done to a virtual cluster, and when; drawn from a seed, told as text, shrunk by omission.

A plan is a plain list, so that a failing run can be repeated with some of its faults left out. Nodes are
named by number and looked up among those that live when the fault comes; so a fault stays meaningful when
others are dropped. A fault waits for the job to have come so far, not for a time: so it comes while there is
something to break, however long earlier faults have held the job up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random


class FaultKind(StrEnum):
    """What can go wrong. The comment says what `seconds` and `amount` mean where they mean anything."""

    CRASH = "crash"
    """A node's process is gone at once; another one starts in its place after `seconds`."""
    MANAGER = "manager"
    """The same to whichever node is the manager."""
    PAUSE = "pause"
    """A node stands still for `seconds`, then goes on as if nothing had happened."""
    EXPIRE = "expire"
    """A node's session with the coordination service ends; it hears of it after `seconds`."""
    SUSPEND = "suspend"
    """A node can't reach the coordination service for `seconds`."""
    COORDINATOR = "coordinator"
    """Nobody can reach the coordination service for `seconds`; sessions outlive it."""
    SPLIT = "split"
    """Two groups of nodes can't reach each other for `seconds`."""
    ONE_WAY = "one-way"
    """One group can't reach the other for `seconds`, but is reached."""
    RECONNECT = "reconnect"
    """The next time that something is under way from or to a node within `seconds`, it is lost."""
    LOSS = "loss"
    """For `seconds` a share `amount` of all messages is lost."""
    DUPLICATES = "duplicates"
    """For `seconds` a share `amount` of all frames comes twice, the second time late."""
    DELAY = "delay"
    """For `seconds` everything that a node sends takes `amount` times as long."""
    SLOW = "slow"
    """For `seconds` a node's work takes `amount` times as long."""
    CROWDED = "crowded"
    """For `seconds` a node says that it has no time left for replicas that stand behind others."""
    DISK_FAILED = "disk-failed"
    """For `seconds` a node can't write to the snapshot store, nor read there what replicas agreed on."""
    DISK_SLOW = "disk-slow"
    """For `seconds` a node's snapshots take `amount` times as long."""
    DISK_TORN = "disk-torn"
    """A node's next write to the snapshot store within `seconds` fails halfway."""
    CORRUPT = "corrupt"
    """One bit of the next blob that goes to the snapshot store within `seconds` is wrong there. What was
    written is needed once a node is gone, so a crash follows in the plan."""
    JOIN = "join"
    """One more node joins."""
    MOVE = "move"
    """A user asks for a slice to be moved to another node."""
    DRAIN = "drain"
    """A user asks for all slices to be moved away from a node."""
    SCHEME = "scheme"
    """A user asks for another fault-tolerance scheme, of a slice or of all of a vertex."""


GROUPS: dict[str, tuple[FaultKind, ...]] = {
    "all": tuple(FaultKind),
    "none": (),
    "node": (
        FaultKind.CRASH,
        FaultKind.MANAGER,
        FaultKind.PAUSE,
        FaultKind.SLOW,
        FaultKind.CROWDED,
        FaultKind.JOIN,
    ),
    "session": (FaultKind.EXPIRE, FaultKind.SUSPEND, FaultKind.COORDINATOR),
    "network": (
        FaultKind.SPLIT,
        FaultKind.ONE_WAY,
        FaultKind.RECONNECT,
        FaultKind.LOSS,
        FaultKind.DUPLICATES,
        FaultKind.DELAY,
    ),
    "disk": (
        FaultKind.DISK_FAILED,
        FaultKind.DISK_SLOW,
        FaultKind.DISK_TORN,
        FaultKind.CORRUPT,
    ),
    "user": (FaultKind.MOVE, FaultKind.DRAIN, FaultKind.SCHEME),
}
"""Names for several kinds at once."""

LIMITS: tuple[tuple[frozenset[FaultKind], int], ...] = (
    (frozenset({FaultKind.CORRUPT}), 1),
    (frozenset({FaultKind.DRAIN}), 1),
)
"""At most so many of these in a plan. Two complete checkpoints are kept, so one damaged blob is survived."""

_DURATIONS_SECONDS = (0.02, 0.1, 0.3, 0.6, 1.2)
_LONG = frozenset(
    {
        FaultKind.RECONNECT,
        FaultKind.DISK_FAILED,
        FaultKind.DISK_TORN,
        FaultKind.DISK_SLOW,
        FaultKind.CORRUPT,
        FaultKind.SUSPEND,
        FaultKind.DUPLICATES,
        FaultKind.LOSS,
    }
)
"""What waits for something to happen gets the time that it takes."""

_EARLY = 0.1
"""Share of the faults that come while the cluster forms and the job is placed."""

_EARLY_SECONDS = 0.4
_TOGETHER = 0.3
"""Share of the faults that come soon after another one: while the job is still busy with that."""

_TOGETHER_SECONDS = 0.2
_LATEST = 0.9

_FACTORS = (2.0, 5.0, 20.0)
_SHARES = (0.05, 0.3, 0.7)


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong `at_seconds` after the job's slices have closed `after_closes` epochs, all
    slices counted. `node` and `other` choose nodes, modulo those that live."""

    kind: FaultKind
    at_seconds: float
    seconds: float = 0.0
    node: int = 0
    other: int = 0
    amount: float = 1.0
    after_closes: int = 0

    def __str__(self) -> str:
        begin = f"{self.at_seconds:.3f} s"
        if self.after_closes:
            begin += f" after {self.after_closes} closed epochs"
        text = f"{begin}: {self.kind} of node {self.node}"
        if self.kind in _TWO_SIDED:
            text += f" (other side {self.other})"
        if self.seconds:
            text += f" for {self.seconds:.3f} s"
        return text if self.amount == 1.0 else f"{text}, {self.amount:g}"


_TWO_SIDED = frozenset({FaultKind.SPLIT, FaultKind.ONE_WAY, FaultKind.MOVE})
_SHARED = frozenset({FaultKind.LOSS, FaultKind.DUPLICATES})
_SCALED = frozenset({FaultKind.DELAY, FaultKind.SLOW, FaultKind.DISK_SLOW})


@dataclass(frozen=True)
class FaultPlan:
    """Faults in the order in which they come. Once the last is over, the job must get to its end."""

    faults: tuple[Fault, ...] = ()

    def only(self, numbers: Iterable[int]) -> FaultPlan:
        """The plan with these of its faults."""
        kept = set(numbers)
        return FaultPlan(tuple(each for number, each in enumerate(self.faults) if number in kept))

    def __str__(self) -> str:
        return "\n".join(f"  {number}: {fault}" for number, fault in enumerate(self.faults))


def draw_plan(seed: int, kinds: Sequence[FaultKind], closes: int, most: int = 16) -> FaultPlan:
    """A plan for a run whose slices close `closes` epochs, all slices counted.

    Each seed draws the kinds that it uses first: runs that mix all kinds alike would never meet long
    stretches of one of them (swarm testing: Groce et al., ISSTA 2012).
    """
    if not kinds:
        return FaultPlan()
    random = Random(f"{seed}/faults")
    used = [kind for kind in kinds if random.random() < 0.5] or [random.choice(list(kinds))]
    faults: list[Fault] = []
    for _ in range(random.randint(min(7, most), most)):
        if len(faults) == most:
            break
        kind = random.choice(used)
        if not _allowed(kind, faults):
            continue
        fault = _draw(random, kind, closes, faults)
        faults.append(fault)
        if kind is FaultKind.CORRUPT and FaultKind.CRASH in kinds and len(faults) < most:
            later = fault.after_closes + random.randint(1, max(1, closes // 4))
            faults.append(replace(_draw(random, FaultKind.CRASH, closes, ()), after_closes=later))
    faults.sort(key=lambda fault: (fault.after_closes, fault.at_seconds))
    return FaultPlan(tuple(faults))


def _allowed(kind: FaultKind, faults: Sequence[Fault]) -> bool:
    return all(
        kind not in limited or sum(fault.kind in limited for fault in faults) < most
        for limited, most in LIMITS
    )


def _draw(random: Random, kind: FaultKind, closes: int, before: Sequence[Fault]) -> Fault:
    after_closes, at_seconds = _moment(random, closes, before)
    durations = _DURATIONS_SECONDS[2:] if kind in _LONG else _DURATIONS_SECONDS
    seconds = random.choice(durations) * random.uniform(0.5, 1.5)
    node, other = random.randrange(64), random.randrange(64)
    amount = 1.0
    if kind in _SHARED:
        amount = random.choice(_SHARES)
    elif kind in _SCALED:
        amount = random.choice(_FACTORS)
    return Fault(kind, round(at_seconds, 4), round(seconds, 4), node, other, amount, after_closes)


def _moment(random: Random, closes: int, before: Sequence[Fault]) -> tuple[int, float]:
    chance = random.random()
    if chance < _EARLY:
        return 0, random.uniform(0.0, _EARLY_SECONDS)
    if chance < _EARLY + _TOGETHER and before:
        last = before[-1]
        return last.after_closes, last.at_seconds + random.uniform(0.0, _TOGETHER_SECONDS)
    return random.randint(0, int(_LATEST * closes)), random.uniform(0.0, 0.01)


def parse_kinds(text: str) -> tuple[FaultKind, ...]:
    """The kinds that a list like "crash,pause,network" names. Raises ValueError, naming what is allowed."""
    kinds: dict[FaultKind, None] = {}
    for name in (part.strip() for part in text.split(",")):
        if name in GROUPS:
            kinds.update(dict.fromkeys(GROUPS[name]))
        elif name in FaultKind.__members__.values():
            kinds[FaultKind(name)] = None
        else:
            known = ", ".join([*GROUPS, *FaultKind])
            raise ValueError(f"there is no fault {name!r}; there are {known}")
    return tuple(kinds)
