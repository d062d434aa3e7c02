"""Times of commits and what they tell: gaps between them, and how a recovery went. Pure.

All times are seconds of one clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


def longest_gap(times: Sequence[float], first: float, last: float) -> float:
    """The longest time between two commits one after the other, of which some lies in [first, last].

    Raises ValueError where there are none.
    """
    ordered = sorted(times)
    gaps = [later - early for early, later in pairwise(ordered) if later > first and early < last]
    if not gaps:
        raise ValueError(f"no two commits around {first:.3f} to {last:.3f}")
    return max(gaps)


@dataclass(frozen=True)
class RecoveryTimes:
    """Seconds from a kill until output goes on.

    `detection` ends with the plan that gives the lost slices new places, `total` with the first commit
    after that; `rest` lies between.
    """

    detection: float
    total: float

    @property
    def rest(self) -> float:
        return self.total - self.detection


def recovery_times(killed: float, planned: float, commits: Sequence[float]) -> RecoveryTimes:
    """What was on its way when the node died may be committed before the plan, and does not count.

    Raises ValueError where nothing was committed after the plan.
    """
    if planned < killed:
        raise ValueError("the plan is older than the kill")
    after = [each for each in commits if each > planned]
    if not after:
        raise ValueError("nothing was committed after the new plan")
    return RecoveryTimes(planned - killed, min(after) - killed)


def caught_up_after(
    killed: float, delays: Sequence[tuple[float, float]], usual: float
) -> float | None:
    """Seconds from the kill to the first commit after the outage whose delay is at most `usual` again.

    `delays`: (time of the commit, delay of its last event), by time. None where that never came, or
    where no delay rose above `usual`.
    """
    late = False
    for at, delay in delays:
        if at < killed:
            continue
        if delay > usual:
            late = True
        elif late:
            return at - killed
    return None


@dataclass(frozen=True)
class Recovered:
    """Seconds from a kill until output goes on, and until it is in time again; 0 where it went on anyway. An
    outage that is shorter than `told_from` can't be told from what is usual."""

    outage: float
    caught_up: float
    told_from: float


def recovered(
    killed: float, delays: Sequence[tuple[float, float]], first: float, epoch_seconds: float
) -> Recovered:
    """`delays`: (time of the commit, delay of its last event), by time; from `first` to the kill they are as
    usual. There was an outage where the longest gap after the kill is longer than all of these by an epoch,
    less of which can't be told from nothing, and delays were longer, too. What never came in time again has
    not until the last commit.

    Raises ValueError where there are no commits before or after the kill.
    """
    usual = max((late for at, late in delays if first <= at <= killed), default=None)
    times = [at for at, _ in delays]
    if usual is None:
        raise ValueError(f"nothing was committed from {first:.3f} to the kill")
    after = [each for each in pairwise(times) if each[1] > killed]
    if not after:
        raise ValueError("nothing was committed after the kill")
    begin, end = max(after, key=lambda each: each[1] - each[0])
    late = [(at, each) for at, each in delays if at >= end]
    longest = longest_gap([at for at in times if at <= killed], first, killed)
    told_from = longest + epoch_seconds
    if end - begin < told_from or late[0][1] <= usual:
        return Recovered(0.0, 0.0, told_from)
    again = next((at for at, each in late if each <= usual), late[-1][0])
    return Recovered(end - killed, again - killed, told_from)


def delay(epoch: int, committed: float, began: float, epoch_seconds: float) -> float:
    """Seconds from the last event of an epoch to its commit; epoch 0 began at `began`."""
    return committed - (began + (epoch + 1) * epoch_seconds)


def recovered_after(killed: float, delays: Sequence[tuple[float, float]], usual: float) -> float:
    """As `caught_up_after`; 0 where no delay rose above `usual`, infinity where one did and stayed there."""
    after = caught_up_after(killed, delays, usual)
    if after is not None:
        return after
    late = any(delay > usual for at, delay in delays if at >= killed)
    return math.inf if late else 0.0


def behind(
    commits: Sequence[tuple[int, float]], began: float, epoch_seconds: float, moment: float
) -> float:
    """Seconds from the last event of the last epoch committed up to `moment` to its commit.

    `commits`: (epoch, time); epoch 0 began at `began`. Raises ValueError where there is none.
    """
    known = [each for each in commits if each[1] <= moment]
    if not known:
        raise ValueError(f"nothing was committed up to {moment:.3f}")
    epoch, at = max(known)
    return delay(epoch, at, began, epoch_seconds)


@dataclass(frozen=True)
class SliceBudgets:
    """The most that a slice may hold in memory, in bytes, by what holds it (see `memory_bound`)."""

    waiting: int
    retained: int
    bag: int
    channels: int


def memory_bound(baseline: int, kinds: Sequence[str], budgets: SliceBudgets) -> int:
    """The most memory in bytes of a node that had `baseline` in use before it was given any input.

    `kinds` are those of the vertices of its slices. Sources have no input; a committer has no output.
    """
    total = baseline
    for kind in kinds:
        if kind != "source":
            total += budgets.waiting + budgets.bag + budgets.channels
        if kind != "committer":
            total += budgets.retained
    return total
