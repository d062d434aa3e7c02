"""Streams put together and taken apart: union and split."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from streammine.model.topology.loops import DEFAULT_MAX_ROUNDS, MOST_ROUNDS
from streammine.model.topology.parts import (
    MOST_ENTRIES,
    NO_BOOLEAN,
    OUTPUT_MARK,
    Name,
    StreamName,
)
from streammine.model.topology.problems import Path, wrong_value
from streammine.model.topology.stateless import (
    ON_ERROR_ELSEWHERE,
    STATELESS_ELSEWHERE,
    Expression,
    ExpressionOperator,
    OneInput,
    OperatorBase,
)

MOST_STREAMS = 64

ELSE = "else"
"""Instead of a condition: the output of the rows that match none."""


def _several(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) < 2:
        raise wrong_value("union puts two streams together at least, like [cars, trucks]")
    for name in names:
        if names.count(name) > 1:
            raise wrong_value(f"'{name}' stands there twice; all of its rows would be doubled")
    return names


class UnionOperator(OperatorBase):
    """The rows of several streams with the same columns as one stream."""

    label: ClassVar[str] = "a union"
    elsewhere: ClassVar[dict[str, str]] = {
        **{name: text for name, text in STATELESS_ELSEWHERE.items() if name != "max_rounds"},
        **ON_ERROR_ELSEWHERE,
        **dict.fromkeys(
            ("input", "inputs"), "write union: [NAME, NAME], the streams to put together"
        ),
    }
    kind: ClassVar[str] = "union"
    stateless: ClassVar[bool] = True
    stateless_kind: ClassVar[Literal["stateless", "either", "union"]] = "union"

    union: Annotated[tuple[StreamName, ...], AfterValidator(_several)] = Field(
        min_length=1,
        max_length=MOST_STREAMS,
        description="Sources and operators whose rows are put together. They have the same columns, of the "
        "same types; those of the first one tell the order of the columns. Where rows are read in order, "
        "event time comes first, then the place of their stream in this list, then their own order.",
        examples=[["cars", "trucks"]],
    )
    max_rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS), NO_BOOLEAN] | None = Field(
        default=None,
        description="For a union that a loop begins at: how often rows go round in one epoch. What still "
        f"goes round then waits for the next epoch. Default: {DEFAULT_MAX_ROUNDS}.",
        examples=[100],
    )

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.union

    def input_place(self, port: int) -> Path:
        return ("union", port)


def _one_else(outputs: Any) -> Any:
    rest = [name for name, condition in outputs.items() if is_else(condition)]
    if len(rest) > 1:
        raise wrong_value(
            f"{' and '.join(rest)} are all else; the rows that match no condition have one output"
        )
    return outputs


def is_else(condition: str) -> bool:
    return condition.strip().lower() == ELSE


class SplitOperator(ExpressionOperator):
    """Shares the rows of a stream out to named outputs by conditions; each row goes to one of them."""

    label: ClassVar[str] = "a split"
    elsewhere: ClassVar[dict[str, str]] = {
        **STATELESS_ELSEWHERE,
        "else": "it is a condition: split: {NAME: else}",
    }
    kind: ClassVar[str] = "split"

    split: Annotated[dict[Name, Expression], AfterValidator(_one_else)] = Field(
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Outputs and their conditions. A row goes to the first output whose condition is true; "
        "a condition that is false or null is passed over. else takes the rows that match none; without "
        "an else they go to the dead letters. Read from NAME.OUTPUT.",
        examples=[{"inside": "x between 1 and 300", "outliers": "else"}],
    )

    @property
    def sets_aside(self) -> bool:
        return super().sets_aside or not any(map(is_else, self.split.values()))

    def outputs(self, name: str) -> dict[str, SplitOutput]:
        """By the names that readers give them, what leaves the split called `name`."""
        return {
            f"{name}{OUTPUT_MARK}{output}": SplitOutput(input=name, number=number)
            for number, output in enumerate(self.split)
        }


class SplitOutput(OneInput):
    """The rows of one output of a split: no part of a document, but an operator to those who plan."""

    label: ClassVar[str] = "an output of a split"
    kind: ClassVar[str] = "output"
    stateless: ClassVar[bool] = True

    number: int = Field(ge=0, description="Which of the split's outputs it is.")
