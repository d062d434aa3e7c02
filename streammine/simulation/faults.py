"""Faults: what is done to a virtual cluster, and when; drawn from a seed, told as text, shrunk by omission.

A plan is a plain list, so that a failing run can be repeated with some of its faults left out. Nodes are
named by number and looked up among those that live when the fault comes; so a fault stays meaningful when
others are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    """All that is under way from and to a node is lost."""
    LOSS = "loss"
    """For `seconds` a share `amount` of all messages is lost."""
    DUPLICATES = "duplicates"
    """For `seconds` a share `amount` of all frames comes twice, the second time late."""
    DELAY = "delay"
    """For `seconds` everything that a node sends takes `amount` times as long."""
    SLOW = "slow"
    """For `seconds` a node's work takes `amount` times as long."""
    DISK_FAILED = "disk-failed"
    """For `seconds` a node can't write to the snapshot store."""
    DISK_SLOW = "disk-slow"
    """For `seconds` a node's snapshots take `amount` times as long."""
    DISK_TORN = "disk-torn"
    """A node's next write to the snapshot store fails halfway."""
    CORRUPT = "corrupt"
    """One bit of the next blob that is written to the snapshot store is wrong there."""
    JOIN = "join"
    """One more node joins."""
    MOVE = "move"
    """A user asks for a slice to be moved to another node."""


GROUPS: dict[str, tuple[FaultKind, ...]] = {
    "all": tuple(FaultKind),
    "none": (),
    "node": (FaultKind.CRASH, FaultKind.MANAGER, FaultKind.PAUSE, FaultKind.SLOW, FaultKind.JOIN),
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
}
"""Names for several kinds at once."""

ONCE = frozenset({FaultKind.CORRUPT})
"""At most one of these in a plan: two complete checkpoints are kept, so one damaged blob is survived."""

_DURATIONS_SECONDS = (0.01, 0.05, 0.2, 0.6, 1.5)
_STRETCHES = (0.4, 0.7, 1.0, 1.5)
"""Faults make runs longer, and slow seeds are long anyway: so some come late."""

_FACTORS = (2.0, 5.0, 20.0)
_SHARES = (0.05, 0.3, 0.7)


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong `at_seconds`. `node` and `other` choose nodes, modulo those that live."""

    kind: FaultKind
    at_seconds: float
    seconds: float = 0.0
    node: int = 0
    other: int = 0
    amount: float = 1.0

    def __str__(self) -> str:
        text = f"{self.at_seconds:.3f} s: {self.kind} of node {self.node}"
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
    """Faults by time, then `quiet_from_seconds`: everything is healed, and the job must get to its end."""

    faults: tuple[Fault, ...] = ()
    quiet_from_seconds: float = 0.0

    def only(self, numbers: Iterable[int]) -> FaultPlan:
        """The plan with these of its faults; it heals when it would have healed."""
        kept = set(numbers)
        faults = tuple(each for number, each in enumerate(self.faults) if number in kept)
        return FaultPlan(faults, self.quiet_from_seconds)

    def __str__(self) -> str:
        lines = [f"  {number}: {fault}" for number, fault in enumerate(self.faults)]
        return "\n".join([*lines, f"  healed at {self.quiet_from_seconds:.3f} s"])


def draw_plan(
    seed: int, kinds: Sequence[FaultKind], span_seconds: float, most: int = 10
) -> FaultPlan:
    """A plan for a run that takes `span_seconds` where nothing goes wrong.

    Each seed draws the kinds that it uses first: runs that mix all kinds alike would never meet long
    stretches of one of them (swarm testing: Groce et al., ISSTA 2012).
    """
    if not kinds:
        return FaultPlan()
    random = Random(f"{seed}/faults")
    used = [kind for kind in kinds if random.random() < 0.5] or [random.choice(list(kinds))]
    faults: list[Fault] = []
    for _ in range(random.randint(1, most)):
        kind = random.choice(used)
        if kind in ONCE and any(fault.kind is kind for fault in faults):
            continue
        faults.append(_draw(random, kind, span_seconds))
    faults.sort(key=lambda fault: fault.at_seconds)
    end = max((fault.at_seconds + fault.seconds for fault in faults), default=0.0)
    return FaultPlan(tuple(faults), end)


def _draw(random: Random, kind: FaultKind, span_seconds: float) -> Fault:
    at_seconds = random.uniform(0.0, span_seconds) * random.choice(_STRETCHES)
    seconds = random.choice(_DURATIONS_SECONDS) * random.uniform(0.5, 1.5)
    node, other = random.randrange(64), random.randrange(64)
    amount = 1.0
    if kind in _SHARED:
        amount = random.choice(_SHARES)
    elif kind in _SCALED:
        amount = random.choice(_FACTORS)
    return Fault(kind, round(at_seconds, 4), round(seconds, 4), node, other, amount)


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
