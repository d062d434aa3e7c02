"""Operators in plain Python, called once per event: what a user writes who thinks of rows."""

from __future__ import annotations

from typing import Any, ClassVar

from streammine import Mapper, Operator, Reducer, Value


class Words(Mapper):
    """The words of a line."""

    output: ClassVar = {"word": "string"}
    needs = ("line",)

    def map(self, event: Any) -> Any:
        return event.line.split()


class Count(Reducer):
    """How many events a key has; `add` is called once for each of them."""

    output: ClassVar = {"count": "int64"}

    def create(self) -> int:
        return 0

    def add(self, accumulator: int, event: Any) -> int:
        return accumulator + 1

    def merge(self, left: int, right: int) -> int:
        return left + right

    def finish(self, key: str, accumulator: int) -> int:
        return accumulator


class PlugLoad(Operator):
    """Per plug and epoch: number of readings, their mean, least and greatest.

    Sums are in thousandths, so that they are exact whatever the order. Apart from the figures of the
    epoch it keeps the number of all readings of the plug so far, in `total`.
    """

    output: ClassVar = {
        "house_id": "int32",
        "household_id": "int32",
        "plug_id": "int32",
        "count": "int64",
        "mean": "float64",
        "min": "float64",
        "max": "float64",
        "total": "int64",
    }
    needs = ("value",)
    commutative = True
    state: ClassVar = {
        "count": Value(0),
        "sum": Value(0),
        "least": Value(0.0),
        "most": Value(0.0),
        "total": Value(0),
    }

    def process(self, key: Any, event: Any, state: Any) -> None:
        value = event.value
        if state.count:
            if value < state.least:
                state.least = value
            elif value > state.most:
                state.most = value
        else:
            state.least = state.most = value
        state.count += 1
        state.sum += round(value * 1000)

    def end_epoch(self, key: Any, state: Any) -> Any:
        count, mean = state.count, state.sum / state.count / 1000
        state.total += count
        state.count = state.sum = 0
        return *key, count, mean, state.least, state.most, state.total
