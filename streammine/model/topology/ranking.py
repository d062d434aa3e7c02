"""Order among the rows of a key: the first ones, and everybody's rank."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from streammine.model.topology.keyed import (
    EPOCH_COLUMN,
    KEYED_ELSEWHERE,
    CombineField,
    KeyedFields,
    RowWindowed,
)
from streammine.model.topology.ordering import OrderTerms
from streammine.model.topology.parts import NO_BOOLEAN, Column, Columns, Part
from streammine.model.topology.problems import wrong_value
from streammine.model.topology.stateless import OneInput

MOST_TOP_ROWS = 1_000_000

_ELSEWHERE = {
    "window": "it stands beside, not in it",
    "key": "it stands beside, not in it",
    "input": "it stands beside, not in it",
    "desc": "write by: COLUMN desc",
    "descending": "write by: COLUMN desc",
    "order": "write by: COLUMN desc",
    "order_by": "write by: COLUMN desc",
}


class _Ordering(Part):
    by: OrderTerms = Field(
        description="Columns that order the rows, each with asc or desc, the one that decides first. Null "
        "comes last either way, NaN is greater than every number. Rows that are equal in all of them stand "
        "in the canonical order of whole rows.",
        examples=["count desc", ["count desc", "word asc"]],
    )
    into: Column = Field(
        default="rank",
        description="The output column that holds the rank, from 1.",
        examples=["place"],
    )

    @model_validator(mode="after")
    def _no_epoch(self) -> _Ordering:
        if self.into == EPOCH_COLUMN:
            raise wrong_value(
                f"the output has a column '{EPOCH_COLUMN}' already; use another name for the rank"
            )
        return self


class Topping(_Ordering):
    """How many rows, and which come first."""

    label: ClassVar[str] = "top"
    elsewhere: ClassVar[dict[str, str]] = {**_ELSEWHERE, "k": "write count", "limit": "write count"}

    count: Annotated[int, Field(ge=1, le=MOST_TOP_ROWS), NO_BOOLEAN] = Field(
        description="How many rows leave for each key and window.", examples=[10]
    )


class Ranking(_Ordering):
    """What decides a row's rank."""

    label: ClassVar[str] = "rank"
    elsewhere: ClassVar[dict[str, str]] = {**_ELSEWHERE, "count": "write top for the first ones"}

    method: Literal["row_number", "rank", "dense_rank"] = Field(
        default="row_number",
        description="row_number: 1, 2, 3, ..., rows that are equal in `by` in canonical order. rank: equal "
        "rows share the lowest number, and as many are left out after it. dense_rank: they share it, and "
        "none is left out.",
    )


class _Ranked(OneInput, KeyedFields, RowWindowed):
    key: Columns = Field(
        default=(),
        description="Column or columns of the groups that have an order each. Default: one order of all "
        "rows.",
        examples=["house_id"],
    )


class TopOperator(_Ranked):
    """The first rows of each key and window, with their rank."""

    label: ClassVar[str] = "a top"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
        "inputs": "it has one input; write input: NAME",
        "by": "it stands inside of top: {by: COLUMN desc}",
        "count": "it stands inside of top: {count: 10}",
    }
    kind: ClassVar[str] = "top"

    top: Topping = Field(
        description="How many rows leave for each key and window, and which: {count: 10, by: count desc}. "
        "The output has the column epoch, the key columns, rank, then the input's others.",
        examples=[{"count": 10, "by": "count desc"}],
    )
    combine: CombineField = None

    @model_validator(mode="after")
    def _apart(self) -> TopOperator:
        _check_rank(self.top.into, self.key)
        return self

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)


class RankOperator(_Ranked):
    """Every row with its rank in its key and window."""

    label: ClassVar[str] = "a rank"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
        "inputs": "it has one input; write input: NAME",
        "by": "it stands inside of rank: {by: COLUMN desc}",
        "method": "it stands inside of rank: {by: COLUMN desc, method: dense_rank}",
        "combine": "all rows leave, so nothing can be combined before they are sent",
    }
    kind: ClassVar[str] = "rank"

    rank: Ranking = Field(
        description="What decides a row's rank: {by: count desc, method: row_number}. The output has the "
        "column epoch, the key columns, rank, then the input's others.",
        examples=[{"by": "count desc"}],
    )

    @model_validator(mode="after")
    def _apart(self) -> RankOperator:
        _check_rank(self.rank.into, self.key)
        return self

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)


def _check_rank(into: str, key: tuple[str, ...]) -> None:
    if into in key:
        raise wrong_value(f"'{into}' is a key column, too; give the rank another name with into")
    if EPOCH_COLUMN in key:
        raise wrong_value(
            f"the output has a column '{EPOCH_COLUMN}' already, the number of the window's last epoch; "
            "rows of other epochs are not ranked together, so leave it out of the key"
        )
