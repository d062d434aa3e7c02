"""What operators with slices and keys of their own have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from streammine.model.disciplines import Discipline
from streammine.model.suggestions import hint, listed
from streammine.model.topology.aggregate_windows import RowWindowField, TumblingField
from streammine.model.topology.loops import DEFAULT_MAX_ROUNDS, MOST_ROUNDS
from streammine.model.topology.partitions import (
    BroadcastPartition,
    HashPartition,
    KeyRangePartition,
    Partition,
    PartitionField,
)
from streammine.model.topology.parts import (
    NO_BOOLEAN,
    Column,
    Part,
    Replicas,
    SchemeField,
    Slices,
    StrictBoolean,
)
from streammine.model.topology.problems import wrong_value
from streammine.model.topology.stateless import ON_ERROR_ELSEWHERE

EPOCH_COLUMN = "epoch"
"""The output of operators that close epochs or windows starts with this int64 column: the epoch in which it
leaves."""

SPAN_COLUMNS = ("window_start", "window_end")
"""Behind it, where a window of event time was asked for: the window is [start, end), as timestamps."""

MOST_KEY_COLUMNS = 63
"""As many as standard operators can tell keys by."""

_DISCIPLINES = tuple(map(str, Discipline))


def _discipline(value: object) -> object:
    if isinstance(value, str) and value not in _DISCIPLINES:
        suggestion = hint(value, _DISCIPLINES)
        raise wrong_value(
            f"there is no discipline '{value}'{suggestion} Allowed: {listed(_DISCIPLINES)}"
        )
    return value


DisciplineField = Annotated[
    Discipline,
    BeforeValidator(_discipline),
    WithJsonSchema({"enum": list(_DISCIPLINES)}),
]

KEYED_ELSEWHERE = {
    "with": "it belongs to code of your own (operator:)",
    **ON_ERROR_ELSEWHERE,
}


class KeyedFields(Part):
    """What operators with slices of their own have."""

    may_broadcast: ClassVar[bool] = False
    """Whether it still gives each result once where every slice gets every row."""

    slices: Slices = Field(
        default=2,
        description="Number of slices that share the keys; fixed for the job's life. It never "
        "changes the result of a standard operator.",
    )
    replicas: Replicas | None = Field(
        default=None,
        description="Identical copies of each slice, on different nodes, whose output is taken "
        "from whoever is first. Default: that of the topology.",
        examples=[2],
    )
    scheme: SchemeField | None = Field(
        default=None,
        description="How ready a second replica of each slice stands, from passive-replication (not at "
        "all) to active-replication. Default: that of the topology.",
        examples=["active-standby"],
    )
    partition: PartitionField = Field(
        default_factory=HashPartition,
        description="How keys are shared among slices: hash; {key_range: {boundaries: [...]}}, "
        "one boundary fewer than slices; broadcast (every slice gets every row); or a "
        "partitioner of your own as module:Class. Default: hash.",
        examples=["hash", {"key_range": {"boundaries": ["h", "p"]}}],
    )
    discipline: DisciplineField | None = Field(
        default=None,
        description="How much order the operator gets. none: no guarantee, exactly-once is "
        "refused; epoch: epochs in order, any order inside; merge: inside an epoch channel after "
        "channel, the same for fixed numbers of slices, but behind an `either`, where each replica takes "
        "the rows that it has first; consensus: merge, where replicas agree on whose rows count; strict: "
        "every event in order. Default: the cheapest that keeps the promise (see `streammine explain`).",
        examples=["strict"],
    )
    max_rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS), NO_BOOLEAN] | None = Field(
        default=None,
        description="For the operator that a loop begins at: how often rows go round in one epoch. "
        f"What still goes round then waits for the next epoch. Default: {DEFAULT_MAX_ROUNDS}.",
        examples=[100],
    )

    @model_validator(mode="before")
    @classmethod
    def _one_slice_per_range(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or "slices" in data:
            return data
        partition = data.get("partition")
        if isinstance(partition, KeyRangePartition):
            return {**data, "slices": len(partition.boundaries) + 1}
        if isinstance(partition, Mapping) and isinstance(partition.get("key_range"), Mapping):
            boundaries = partition["key_range"].get("boundaries")
            if isinstance(boundaries, list | tuple):
                return {**data, "slices": len(boundaries) + 1}
        return data

    @field_validator("partition", mode="after")
    @classmethod
    def _slices_fit(cls, partition: Partition, info: ValidationInfo) -> Partition:
        slices = info.data.get("slices")
        if isinstance(partition, KeyRangePartition) and slices is not None:
            ranges = len(partition.boundaries) + 1
            if ranges != slices:
                raise wrong_value(
                    f"{ranges - 1} boundaries make {ranges} ranges, but slices is {slices}; "
                    f"write slices: {ranges} or leave it out"
                )
        if isinstance(partition, BroadcastPartition) and slices != 1 and not cls.may_broadcast:
            raise wrong_value(
                f"broadcast gives every slice every row, so this would come out {slices} times; "
                "use hash, or slices: 1"
            )
        return partition


class Windowed(Part):
    """An operator whose results are of tumbling windows."""

    window: TumblingField | None = Field(
        default=None,
        description="Length of the tumbling window, like 5m or 10 epochs; a whole multiple of a time epoch. "
        "Default: one epoch.",
        examples=["5m"],
    )


class RowWindowed(Part):
    """An operator whose results are of windows that tumble or slide."""

    window: RowWindowField | None = Field(
        default=None,
        description="Of which rows each result is. A length like 5m or 10 epochs: tumbling windows; {length: "
        "10m, slide: 1m}: windows that overlap. Lengths and slides are whole multiples of a time epoch. "
        "Default: one epoch.",
        examples=["5m", {"length": "10m", "slide": "1m"}],
    )


class Timed(Part):
    """An operator that looks at the event time of each row."""

    time: Column | None = Field(
        default=None,
        description="Column of the event time: an integer in the unit of the epoch's column, a timestamp or "
        "a date. Default: the column of the epochs.",
        examples=["ts"],
    )


CombineField = Annotated[
    StrictBoolean | None,
    Field(
        description="Whether rows are combined before they are sent to their slice. Default: "
        "wherever that is possible; false turns it off.",
    ),
]
