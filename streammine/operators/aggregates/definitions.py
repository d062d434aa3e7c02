"""What an aggregate function is to the state that keeps its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.aggregates.parts import Part


class PartKey(NamedTuple):
    """Which part: "nulls", "sum", "squares", "min" and the like, of which column.

    `by`: the column that orders the rows, for a part of pairs. `where`: the condition on the rows
    that count.
    """

    kind: str
    column: str
    by: str | None = None
    where: str | None = None

    def __str__(self) -> str:
        by = "" if self.by is None else f" by {self.by}"
        where = "" if self.where is None else f" where {self.where}"
        of = f" of {self.column}" if self.column else ""
        return f"{self.kind}{of}{by}{where}"


Parts = Mapping[PartKey, Part]
Finish = Callable[[Parts, IntArray], pa.Array]
"""The values for all groups, of their parts and int64[groups] numbers of rows."""


@dataclass(frozen=True)
class Aggregate:
    """One output column, and the parts that its values are made of."""

    name: str
    type: pa.DataType
    parts: tuple[PartKey, ...]
    finish: Finish


class BeyondRangeError(ArithmeticError):
    """The result of `group` is one that can't be given; the text says why and what would be right."""

    def __init__(self, group: int, text: str) -> None:
        super().__init__(text)
        self.group = group
