"""Stateless operators that keep a row's columns: enrich adds some, unnest makes rows of a list's elements."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from streammine.model.topology.parts import MOST_ENTRIES, Column, Columns, Part
from streammine.model.topology.problems import wrong_value
from streammine.model.topology.stateless import (
    ON_ERROR_ELSEWHERE,
    STATELESS_ELSEWHERE,
    Expression,
    ExpressionOperator,
    OneInput,
)


class EnrichOperator(ExpressionOperator):
    """Adds computed columns to each row."""

    label: ClassVar[str] = "an enrich"
    kind: ClassVar[str] = "enrich"

    enrich: dict[Column, Expression] = Field(
        max_length=MOST_ENTRIES,
        description="Columns to add and the expressions they are computed by, from the columns that come "
        "in. All columns of the input leave, too, in front of them.",
        examples=[{"watts": "value * 1000"}],
    )
    replace: Columns = Field(
        default=(),
        description="Columns of `enrich` that the input has already: they are computed anew and keep their "
        "place.",
        examples=["value"],
    )
    drop: Columns = Field(
        default=(),
        description="Columns of the input that don't leave. Expressions may read them.",
        examples=[["value"]],
    )

    @model_validator(mode="after")
    def _clear(self) -> EnrichOperator:
        if not self.enrich and not self.drop:
            raise wrong_value("changes nothing; give enrich a column, or name columns to drop")
        for column in self.replace:
            if column not in self.enrich:
                raise wrong_value(
                    f"replace names '{column}', and enrich does not compute it; write enrich: "
                    f"{{{column}: EXPRESSION}}"
                )
            if column in self.drop:
                raise wrong_value(f"'{column}' is both in replace and in drop")
        return self


class Unnesting(Part):
    """Which list is taken apart, and what its elements are called."""

    label: ClassVar[str] = "unnest"

    column: Column = Field(description="The list column.", examples=["words"])
    into: Column | None = Field(
        default=None,
        description="The output column of the elements, in the list's place. Default: the list's name.",
        examples=["word"],
    )
    position: Column | None = Field(
        default=None,
        description="An output column with the place of the element in its list, from 0 (int64), behind "
        "the elements. Default: none.",
        examples=["place"],
    )
    empty: Literal["drop", "keep"] = Field(
        default="drop",
        description="What becomes of a row whose list is empty or null. drop: no row leaves. keep: one "
        "leaves, with a null for the element and its position.",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Unnesting:
        if self.position is not None and self.position == (self.into or self.column):
            raise wrong_value(
                f"'{self.position}' is the name of both the elements and their positions"
            )
        return self


def _unnesting(value: object) -> object:
    return {"column": value} if isinstance(value, str) else value


class UnnestOperator(OneInput):
    """Makes one row per element of a list."""

    label: ClassVar[str] = "an unnest"
    elsewhere: ClassVar[dict[str, str]] = {
        **STATELESS_ELSEWHERE,
        **ON_ERROR_ELSEWHERE,
        "into": "it stands inside of unnest: {column: words, into: word}",
        "position": "it stands inside of unnest: {column: words, position: place}",
    }
    kind: ClassVar[str] = "unnest"
    stateless: ClassVar[bool] = True

    unnest: Annotated[Unnesting, BeforeValidator(_unnesting)] = Field(
        description="Takes a list column apart: one row per element, with the row's other columns.",
        examples=[{"column": "words", "into": "word", "position": "place"}],
    )
