"""The recovery settings of a topology: how long a recovery may take, and what saving on it is worth."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from streammine.model.durations import Duration
from streammine.model.recovery_policy import (
    COOL_DOWN_SECONDS,
    CostWeights,
    RecoveryGoal,
    RecoverySemantics,
)
from streammine.model.topology.parts import DurationField, Part
from streammine.model.topology.problems import shown, wrong_value

DEFAULT_COOL_DOWN = Duration(int(COOL_DOWN_SECONDS * 1_000_000))

HEAVIEST = 1e6

Weight = Annotated[float, Field(ge=0, le=HEAVIEST, allow_inf_nan=False, strict=True)]


def _takes_time(duration: Duration) -> Duration:
    if duration.microseconds == 0:
        raise wrong_value(
            "a recovery takes some time; write 2s, or replicas: 2 instead of recovery so that a "
            "loss is not noticed"
        )
    return duration


class Weights(Part):
    """What a unit of each resource costs, in any currency: ``{cpu: 1, memory: 1, network: 1, nodes: 1}``."""

    label: ClassVar[str] = "weights"
    elsewhere: ClassVar[dict[str, str]] = {
        "cores": "write cpu: 1, the weight of one core",
        "bandwidth": "write network: 1, the weight of 1 Gbit/s",
        "node": "write nodes: 1, the weight of one more node",
    }

    cpu: Weight = Field(default=1.0, description="Of one core.", examples=[1])
    memory: Weight = Field(default=1.0, description="Of 1 GB of memory.", examples=[0.5])
    network: Weight = Field(default=1.0, description="Of 1 Gbit/s.", examples=[2])
    nodes: Weight = Field(
        default=1.0, description="Of one more node that has a part in a slice.", examples=[1]
    )


class Recovery(Part):
    """What a recovery may take: ``{max_time: 2s, semantics: precise, cool_down: 5s, weights: {...}}``."""

    label: ClassVar[str] = "recovery"
    elsewhere: ClassVar[dict[str, str]] = {
        "time": "write max_time: 2s",
        "threshold": "write max_time: 2s",
        "cost": "write weights: {cpu: 1, memory: 1, network: 1, nodes: 1}",
        "replicas": "it stands beside recovery, not in it",
        "every": "how often the state is saved stands in snapshot: {every: 1s}",
    }

    max_time: Annotated[DurationField, AfterValidator(_takes_time)] = Field(
        description="How long it may take from a crash until a slice is where it would have been "
        "without. Each slice has the cheapest of the six schemes that keeps to it, chosen again and "
        "again.",
        examples=["2s"],
    )
    semantics: RecoverySemantics = Field(
        default="precise",
        description="precise: a recovery loses nothing; gap: where an operator forgets them in the "
        "end, it leaves out the epochs that it would have to make up for, and says which.",
    )
    cool_down: DurationField = Field(
        default=DEFAULT_COOL_DOWN,
        description="How long a slice keeps a scheme at least before it takes a cheaper one. Default: 5s.",
        examples=["5s"],
    )
    weights: Weights = Field(
        default_factory=Weights,
        description="What a core, 1 GB of memory, 1 Gbit/s and a node cost, for choosing the cheapest.",
        examples=[{"cpu": 1, "memory": 1, "network": 1, "nodes": 1}],
    )

    @property
    def goal(self) -> RecoveryGoal:
        weights = self.weights
        return RecoveryGoal(
            self.max_time.seconds,
            self.semantics,
            self.cool_down.seconds,
            CostWeights(weights.cpu, weights.memory, weights.network, weights.nodes),
        )


def _mapping(value: object) -> object:
    if value is None or isinstance(value, Recovery | dict):
        return value
    raise wrong_value(
        f"must be a mapping like {{max_time: 2s, semantics: precise}}, not {shown(value)}"
    )


RecoveryField = Annotated[Recovery | None, BeforeValidator(_mapping)]
