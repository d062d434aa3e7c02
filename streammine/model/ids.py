"""Names of things: slices, channels, positions.

A *position* says where a row came from (DESIGN §2). A source row's position is (source, file in path
order, row in file); a row derived from it by a stateless operator adds its index among the rows that
its parent became; a row that an aggregate or join emits is known by its canonical key. Positions are the
last word in every order, so they never contain a counter that depends on slices or arrival.

Where an operator downstream needs them, positions travel as hidden columns whose names start with two
underscores; the planner decides on which edges (`Edge.carries_order`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

HIDDEN_PREFIX = "__"
"""Columns with this prefix belong to the engine; users may not name columns so."""

TIME_COLUMN = "__time"
"""Hidden event time: int64 microseconds since the Unix epoch."""

FILE_COLUMN = "__file"
"""Hidden number of the row's file in its source, in path order: int32."""

ROW_COLUMN = "__row"
"""Hidden number of the row in its file, from 0, bad rows counted: int64."""


KEY_COLUMN_PREFIX = "__key"
"""Hidden copies of the columns that order the output of a stateful operator: `__key0`, `__key1`, …"""


def index_column(depth: int) -> str:
    """Name of the hidden output-index column (int32) that the `depth`-th one-to-many stage adds."""
    return f"__index{depth}"


class SliceId(NamedTuple):
    """One share of a vertex: `vertex` is the operator's (or source's, sink's) name.

    A tuple, because slices are looked up by it many times in every step, and a tuple is hashed and
    compared without a line of Python.
    """

    vertex: str
    index: int  # type: ignore[assignment]  # stands in the place of tuple.index, which nobody calls

    def __str__(self) -> str:
        return f"{self.vertex}/{self.index}"

    @classmethod
    def parse(cls, text: str) -> SliceId:
        vertex, _, index = text.rpartition("/")
        return cls(vertex, int(index))


def next_index_column(hidden: Iterable[str]) -> str:
    """The index column that a one-to-many stage adds behind these hidden columns."""
    stem = index_column(0)[:-1]
    return index_column(sum(name.startswith(stem) for name in hidden))
