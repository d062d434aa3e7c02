"""Words for the controller's numbers: what a crash would find, how long each scheme would take, and what it
costs (Martin 2015, chapter 6). Each decision carries the numbers it was made with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum

import numpy as np

from streammine.model.ids import SliceId
from streammine.model.schemes import Scheme

SIZE_FACTOR = 4.0
"""From one size of snapshots to the next."""


def size_class(nbytes: float) -> int:
    """Snapshots of one are taken to be about as large."""
    return math.floor(math.log(max(1.0, nbytes), SIZE_FACTOR))


@dataclass(frozen=True)
class StepTimes:
    """How long the steps of a recovery take, as measured.

    `loads`: bytes of a snapshot and the seconds to load it, both ascending; the first, of no bytes, is what
    it takes however small it is. Sizes between are on the straight line, and beyond the largest the seconds
    grow as the bytes do.
    """

    detect_seconds: float
    switch_seconds: float
    deploy_seconds: float
    loads: tuple[tuple[float, float], ...]

    def loading_seconds(self, nbytes: float, snapshots: float = 1.0) -> float:
        """So many snapshots of one size with so many bytes together; nothing where there are none.
        `snapshots` is above 0, and may be a share of one."""
        if nbytes == 0:
            return 0.0
        each_bytes = nbytes / snapshots
        sizes, seconds = zip(*self.loads, strict=True)
        each_seconds = float(np.interp(each_bytes, sizes, seconds))
        largest_bytes, _ = self.loads[-1]
        return snapshots * each_seconds * max(1.0, each_bytes / largest_bytes)


@dataclass(frozen=True)
class SharedLoss:
    """What is lost with a node: all slices that it leads. The nodes left share them evenly, and this is the
    share of one, which builds and loads one slice after the other and has to catch up with all of them.

    `snapshots`: how many of them there are of each size, and the bytes of these together; those of the
    states where these have grown beyond. `replay_share` of one core that they need on each of the node's
    workers when they catch up, as if these shared the work.
    """

    slices: float = 1.0
    snapshots: tuple[tuple[float, float], ...] = ()
    replay_share: float = 0.0


NO_OTHERS = SharedLoss()


@dataclass(frozen=True)
class SliceOutlook:
    """What a crash would find at its worst moment, which is just before the next checkpoint is complete.

    `further_replicas` beside the one that leads, in schemes that have any. `load_bytes`: the snapshot's, or
    the state's if that has grown beyond. `checkpoint_seconds`: how old the newest complete checkpoint gets.
    `input_bytes_per_second`: the highest in that time. The rest as in `SliceObservation`.
    """

    further_replicas: int
    state_bytes: float
    load_bytes: float
    increment_bytes: float
    checkpoint_seconds: float
    input_bytes_per_second: float
    output_bytes_per_second: float
    processing_bytes_per_second: float
    busy_share: float
    queued_bytes: float
    standby_queued_bytes: float = 0.0
    replay_share: float = 0.0
    input_waits: bool = False
    shared: SharedLoss = NO_OTHERS

    @property
    def replay_bytes(self) -> float:
        """Input of all epochs after the newest complete checkpoint: what came since, and what waited then."""
        return self.input_bytes_per_second * self.checkpoint_seconds + self.queued_bytes


@dataclass(frozen=True)
class RecoveryEstimate:
    """How long it would take from a crash until the slice is where it would have been without; by steps."""

    detect_seconds: float = 0.0
    switch_seconds: float = 0.0
    deploy_seconds: float = 0.0
    load_seconds: float = 0.0
    catch_up_seconds: float = 0.0

    @property
    def outage_seconds(self) -> float:
        """Before it processes again."""
        return self.detect_seconds + self.switch_seconds + self.deploy_seconds + self.load_seconds

    @property
    def seconds(self) -> float:
        return self.outage_seconds + self.catch_up_seconds


@dataclass(frozen=True)
class ResourceUse:
    """What the further replicas of a slice use, beyond what it would without them."""

    cores: float = 0.0
    memory_bytes: float = 0.0
    network_bytes_per_second: float = 0.0
    nodes: int = 0


@dataclass(frozen=True)
class Assessment:
    """All schemes of a slice compared. Where something is `missing`, there is nothing to compare."""

    missing: tuple[str, ...] = ()
    outlook: SliceOutlook | None = None
    estimates: Mapping[Scheme, RecoveryEstimate] = field(default_factory=dict)
    uses: Mapping[Scheme, ResourceUse] = field(default_factory=dict)
    costs: Mapping[Scheme, float] = field(default_factory=dict)

    def figures(self) -> dict[str, object]:
        """As plain data, for status and plots; None for what takes for ever."""
        return {
            "missing": list(self.missing),
            "outlook": None if self.outlook is None else asdict(self.outlook),
            "schemes": {
                scheme.value: {
                    **{name: _finite(value) for name, value in asdict(estimate).items()},
                    "seconds": _finite(estimate.seconds),
                    **asdict(self.uses[scheme]),
                    "cost": self.costs[scheme],
                }
                for scheme, estimate in self.estimates.items()
            },
        }

    def __str__(self) -> str:
        return ", ".join(
            f"{scheme} {estimate.seconds:.3g} s cost {self.costs[scheme]:.3g}"
            for scheme, estimate in self.estimates.items()
        )


@dataclass(frozen=True)
class Decision:
    """From now on, the slice's scheme is another one. `at_seconds`: by the system clock, so that whoever is
    the manager later knows when it was."""

    slice: SliceId
    previous: Scheme
    chosen: Scheme
    at_seconds: float
    reason: str
    assessment: Assessment

    def figures(self) -> dict[str, object]:
        """As plain data, for status and plots."""
        return {
            "slice": str(self.slice),
            "previous": self.previous.value,
            "chosen": self.chosen.value,
            "at_seconds": self.at_seconds,
            "reason": self.reason,
            **self.assessment.figures(),
        }

    def __str__(self) -> str:
        """As a line of a log."""
        text = f"{self.slice}: {self.previous} -> {self.chosen}: {self.reason}"
        return f"{text} ({self.assessment})" if self.assessment.estimates else text


@dataclass(frozen=True)
class ControlMemory:
    """What outlives a manager of what its controller knows: how long it took to notice each of the newest
    losses, and the newest decisions, both oldest first. Nodes repeat all else that was measured."""

    detection_seconds: tuple[float, ...] = ()
    decisions: tuple[Decision, ...] = ()


class ControlPhase(Enum):
    """MEASURING: something is still missing. SETTLED: free to take a cheaper scheme. COOLING: too soon."""

    MEASURING = "measuring"
    SETTLED = "settled"
    COOLING = "cooling"


@dataclass(frozen=True)
class SliceStance:
    """Where the controller stands with a slice: the scheme it is to have, and why."""

    phase: ControlPhase
    scheme: Scheme
    reason: str
    assessment: Assessment


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
