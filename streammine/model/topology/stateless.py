"""Stateless operators: map, filter and flat map by expression. They run in their input's slices."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from streammine.model.topology.parts import (
    MOST_ENTRIES,
    Column,
    Columns,
    Part,
    StreamName,
    StrictBoolean,
    Text,
)
from streammine.model.topology.problems import Path, wrong_value


def _expression(value: object) -> object:
    """A constant is an expression, too: YAML has made a number of it already."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


OnError = Literal["fail", "dead_letter"]

Expression = Annotated[Text, BeforeValidator(_expression)]


class OperatorBase(Part):
    """What all operators have in common for those who plan and wire them."""

    kind: ClassVar[str] = ""
    stateless: ClassVar[bool] = False
    """Stateless operators run inside their upstream's slices."""
    stateless_kind: ClassVar[Literal["stateless", "either", "union"]] = "stateless"
    """How a stateless operator's inputs are read: its one input, one of them, or all of them."""

    @property
    def sets_aside(self) -> bool:
        """Whether rows that it can't use go to the dead letters."""
        return False

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs: port i reads the i-th."""
        raise NotImplementedError

    def input_place(self, port: int) -> Path:
        """Where a topology names the input of a port, from the operator's own place on."""
        assert port == 0, port
        return ("input",)

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        """Per port, the columns by which its rows are partitioned; () has all rows in one slice."""
        return ((),) * len(self.input_names)


class OneInput(OperatorBase):
    input: StreamName = Field(
        description="Name of the source or operator whose rows come in.", examples=["lines"]
    )

    @property
    def input_names(self) -> tuple[str, ...]:
        return (self.input,)


STATELESS_ELSEWHERE = {
    **dict.fromkeys(
        ("slices", "replicas", "scheme", "partition", "discipline", "combine"),
        "it is stateless and runs in the slices of its input",
    ),
    "max_rounds": "it belongs to the operator that a loop begins at",
    "key": "it is stateless and works row by row",
    "window": "it is stateless and works row by row",
    "with": "it belongs to code of your own (operator:)",
    "inputs": "it has one input; write input: NAME",
}


ON_ERROR_ELSEWHERE = {
    "on_error": "it belongs to map, filter, enrich, split and code of your own (operator:); let one of these "
    "compute before what may fail on a row"
}


class ExpressionOperator(OneInput):
    """What an expression computes from each row alone."""

    elsewhere: ClassVar[dict[str, str]] = STATELESS_ELSEWHERE
    stateless: ClassVar[bool] = True

    on_error: OnError = Field(
        default="fail",
        description="When a row has no value, as of a cast of a text that is no number: fail stops the job "
        "and names operator and row; dead_letter sets the row aside with the reason and goes on.",
    )

    @property
    def sets_aside(self) -> bool:
        return self.on_error == "dead_letter"


class MapOperator(ExpressionOperator):
    """Computes the columns of each row anew."""

    label: ClassVar[str] = "a map"
    kind: ClassVar[str] = "map"

    map: dict[Column, Expression] = Field(
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Output columns and the expressions they are computed by; exactly these "
        "columns leave.",
        examples=[{"plug": "plug_id", "watts": "value * 1000"}],
    )


class FilterOperator(ExpressionOperator):
    """Lets the rows pass for which an expression is true."""

    label: ClassVar[str] = "a filter"
    kind: ClassVar[str] = "filter"

    filter: Expression = Field(
        description="Expression; rows pass where it is true, not where it is false or null.",
        examples=["length(word) > 3", "value >= 0 and property = 1"],
    )


class Splitting(Part):
    """How a flat map splits a text column."""

    label: ClassVar[str] = "flat_map"

    split: Column = Field(description="The text column to split.", examples=["line"])
    into: Column = Field(description="The output column, one row per word.", examples=["word"])
    on: Literal["whitespace", "letters"] = Field(
        default="whitespace",
        description="whitespace: words are what stands between white space. letters: words are "
        "runs of letters.",
    )
    lower: StrictBoolean = Field(default=False, description="Turn words to lower case.")
    keep: Columns = Field(
        default=(),
        description="Columns of the row that each of its words keeps.",
        examples=[["ts"]],
    )

    @model_validator(mode="after")
    def _distinct_output(self) -> Splitting:
        if self.into in self.keep:
            raise wrong_value(f"'{self.into}' is both in keep and the name of the words (into)")
        return self


class FlatMapOperator(OneInput):
    """Makes several rows of one: the words of a text."""

    label: ClassVar[str] = "a flat_map"
    elsewhere: ClassVar[dict[str, str]] = {**STATELESS_ELSEWHERE, **ON_ERROR_ELSEWHERE}
    kind: ClassVar[str] = "flat_map"
    stateless: ClassVar[bool] = True

    flat_map: Splitting = Field(
        description="Splits a text column into one row per word.",
        examples=[{"split": "line", "into": "word", "on": "whitespace", "lower": True}],
    )
