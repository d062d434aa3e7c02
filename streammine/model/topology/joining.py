"""The join: pairs of rows of two streams."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from streammine.model.topology.keyed import KEYED_ELSEWHERE, KeyedFields, Windowed
from streammine.model.topology.parts import LONGEST_TEXT, Columns, Part, StreamName
from streammine.model.topology.problems import Path, wrong_value
from streammine.model.topology.stateless import OperatorBase


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

    left: StreamName = Field(description="Name of the left input.", examples=["orders"])
    right: StreamName = Field(description="Name of the right input.", examples=["payments"])
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


class JoinOperator(OperatorBase, KeyedFields, Windowed):
    """Pairs rows of two streams that have equal keys in the same window."""

    label: ClassVar[str] = "a join"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
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

    @property
    def input_names(self) -> tuple[str, ...]:
        return (self.join.left, self.join.right)

    def input_place(self, port: int) -> Path:
        return ("join", ("left", "right")[port])

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.join.on.left, self.join.on.right)
