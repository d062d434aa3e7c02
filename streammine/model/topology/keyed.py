"""Operators with slices and keys of their own: aggregate, join, and code of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from streammine.model.contracts import Discipline
from streammine.model.suggestions import hint, listed
from streammine.model.topology.aggregates import AggregateField
from streammine.model.topology.loops import DEFAULT_MAX_ROUNDS, MOST_ROUNDS
from streammine.model.topology.partitions import (
    BroadcastPartition,
    HashPartition,
    KeyRangePartition,
    Partition,
    PartitionField,
)
from streammine.model.topology.parts import (
    BY_VALUE_PREFIX,
    LONGEST_TEXT,
    MOST_ENTRIES,
    NO_BOOLEAN,
    Column,
    Columns,
    DurationField,
    Name,
    Part,
    PlainSettings,
    Replicas,
    SchemeField,
    Slices,
    StrictBoolean,
    code_path,
)
from streammine.model.topology.problems import wrong_value
from streammine.model.topology.stateless import OneInput, OperatorBase

EPOCH_COLUMN = "epoch"
"""Every aggregate's and join's output starts with this int64 column: the epoch that closed it."""

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

_KEYED_ELSEWHERE = {
    "with": "it belongs to code of your own (operator:)",
    "on_error": "it belongs to code of your own (operator:)",
}


class KeyedFields(Part):
    """What operators with slices of their own have."""

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
        "channel, the same for fixed numbers of slices; consensus: merge, of the bags that replicas agree "
        "on; strict: every event in order. "
        "Default: the cheapest that keeps the promise (see `streammine explain`).",
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
        if isinstance(partition, BroadcastPartition) and slices != 1 and cls is not UserOperator:
            raise wrong_value(
                f"broadcast gives every slice every row, so this would come out {slices} times; "
                "use hash, or slices: 1"
            )
        return partition


_WINDOW = Field(
    default=None,
    description="Length of the tumbling window, a whole multiple of a time epoch. Default: one "
    "epoch.",
    examples=["5m"],
)
_COMBINE = Field(
    default=None,
    description="Whether rows are combined before they are sent to their slice. Default: "
    "wherever that is possible; false turns it off.",
)


class AggregateOperator(OneInput, KeyedFields):
    """Sums, counts and the like per key and window. Exact: any order gives the same bytes."""

    label: ClassVar[str] = "an aggregate"
    elsewhere: ClassVar[dict[str, str]] = {
        **_KEYED_ELSEWHERE,
        "inputs": "it has one input; write input: NAME",
    }
    kind: ClassVar[str] = "aggregate"

    aggregate: dict[Column, AggregateField] = Field(
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Output columns and what they hold: count(), sum(c), mean(c), min(c), max(c), "
        "variance(c), variance_population(c). The output has the column epoch, the key columns, "
        "then these.",
        examples=[{"count": "count()", "mean": "mean(value)"}],
    )
    key: Columns = Field(
        default=(),
        description="Column or columns to group by. Default: one group of all rows.",
        examples=["word", ["house_id", "plug_id"]],
    )
    window: DurationField | None = _WINDOW
    combine: StrictBoolean | None = _COMBINE

    @model_validator(mode="after")
    def _distinct_output(self) -> AggregateOperator:
        for column in self.aggregate:
            if column in self.key:
                raise wrong_value(f"output column '{column}' is a key column, too; rename it")
        if EPOCH_COLUMN in self.aggregate or EPOCH_COLUMN in self.key:
            raise wrong_value(
                f"the output has a column '{EPOCH_COLUMN}' already, the number of the window's "
                "last epoch; use another name"
            )
        return self

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)


class JoinColumns(Part):
    """The columns that must be equal, pairwise."""

    label: ClassVar[str] = "on"

    left: Columns = Field(min_length=1, description="Columns of the left input.")
    right: Columns = Field(min_length=1, description="Columns of the right input, as many.")

    @model_validator(mode="after")
    def _pairs(self) -> JoinColumns:
        if len(self.left) != len(self.right):
            raise wrong_value(
                f"left has {len(self.left)} columns and right {len(self.right)}; "
                "they are compared in pairs"
            )
        return self


def _join_columns(value: object) -> object:
    return {"left": value, "right": value} if isinstance(value, str | list | tuple) else value


class Joining(Part):
    """Which two streams are joined, and how."""

    label: ClassVar[str] = "join"
    elsewhere: ClassVar[dict[str, str]] = {
        "window": "it stands beside join, not in it",
        "input": "write left: NAME and right: NAME",
        "inputs": "write left: NAME and right: NAME",
        "key": "write on: [columns]",
    }

    left: Name = Field(description="Name of the left input.", examples=["orders"])
    right: Name = Field(description="Name of the right input.", examples=["payments"])
    on: Annotated[
        JoinColumns,
        BeforeValidator(_join_columns),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "string"}, "minItems": 1},
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["left", "right"],
                        "properties": {
                            side: {"type": ["array", "string"], "items": {"type": "string"}}
                            for side in ("left", "right")
                        },
                    },
                ]
            }
        ),
    ] = Field(
        description="Columns that must be equal: names that both inputs have, or "
        "{left: [...], right: [...]}.",
        examples=[["id"], {"left": ["id"], "right": ["order_id"]}],
    )
    kind: Literal["inner"] = Field(
        default="inner", description="inner: rows leave that have a partner."
    )
    suffix: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)] = Field(
        default="_right",
        description="Put behind a column of the right input whose name the left one has, too.",
    )


class JoinOperator(OperatorBase, KeyedFields):
    """Pairs rows of two streams that have equal keys in the same window."""

    label: ClassVar[str] = "a join"
    elsewhere: ClassVar[dict[str, str]] = {
        **_KEYED_ELSEWHERE,
        "input": "its inputs are join: {left: NAME, right: NAME}",
        "inputs": "its inputs are join: {left: NAME, right: NAME}",
        "key": "its key is join: {on: [columns]}",
        "on": "it stands inside of join: {on: [columns]}",
        "left": "it stands inside of join: {left: NAME}",
        "right": "it stands inside of join: {right: NAME}",
        "combine": "a join's rows can't be combined",
    }
    kind: ClassVar[str] = "join"

    join: Joining = Field(
        description="The two inputs and the columns that must be equal. The output has the column "
        "epoch, then the columns of both.",
        examples=[{"left": "orders", "right": "payments", "on": ["id"]}],
    )
    window: DurationField | None = _WINDOW

    @property
    def input_names(self) -> tuple[str, ...]:
        return (self.join.left, self.join.right)

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.join.on.left, self.join.on.right)


def _user_code(text: str) -> str:
    return text if text.startswith(BY_VALUE_PREFIX) else code_path(text)


class UserOperator(OperatorBase, KeyedFields):
    """Code of the user's own: a Mapper, Reducer or Operator class."""

    label: ClassVar[str] = "an operator of your own"
    elsewhere: ClassVar[dict[str, str]] = {
        "window": "it is given each epoch by itself; what lasts longer, keep in its state",
        "on": "write key: [columns]",
    }
    kind: ClassVar[str] = "operator"

    input: Name | None = Field(
        default=None,
        description="Name of the source or operator whose rows come in.",
        examples=["readings"],
    )
    inputs: tuple[Name, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Names of several inputs, for an Operator with as many ports. One that gets its "
        "own rows from here makes a loop. Give this or input.",
        examples=[["readings", "limits"]],
    )
    operator: Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_user_code)] = Field(
        description="The class as module:Class; modules are found from the topology's folder. In "
        "Python also the class itself, or an instance of it.",
        examples=["my_operators:Threshold"],
    )
    with_: PlainSettings = Field(
        default_factory=dict,
        alias="with",
        max_length=MOST_ENTRIES,
        description="Keyword arguments for the class.",
        examples=[{"threshold": 3}],
    )
    key: Columns = Field(
        default=(),
        description="Column or columns of the key, for a Reducer or an Operator.",
        examples=["plug"],
    )
    combine: StrictBoolean | None = _COMBINE
    on_error: Literal["fail", "dead_letter"] = Field(
        default="fail",
        description="When the code raises: fail stops the job and names operator, epoch and event; "
        "dead_letter sets the row aside with the reason and goes on.",
    )

    @model_validator(mode="after")
    def _inputs_once(self) -> UserOperator:
        if (self.input is None) == (self.inputs is None):
            both = "has both input and inputs; keep one" if self.input else "has no input"
            raise wrong_value(f"{both}: input: NAME, or inputs: [NAME, NAME] for several ports")
        return self

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.inputs if self.inputs is not None else (self.input or "",)

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,) * len(self.input_names)

    @property
    def by_value(self) -> str | None:
        """The name of the code that travels beside the topology, if it is not found by path."""
        if not self.operator.startswith(BY_VALUE_PREFIX):
            return None
        return self.operator.removeprefix(BY_VALUE_PREFIX)
