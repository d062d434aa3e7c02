"""Operators of a user's, for the benchmarks of fault tolerance."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from apps.trends.operators import Trends
from streammine import Operator, Value

SHOWN_HOUSES = 10
"""Results of so many houses leave at the end; more would be a benchmark of the sink."""


class PlugTotals(Operator):
    """Per plug: number of readings and their sum in thousandths, least and greatest, as Python objects."""

    output: ClassVar = {
        "house_id": "int32",
        "household_id": "int32",
        "plug_id": "int32",
        "count": "int64",
        "sum": "int64",
        "min": "float64",
        "max": "float64",
    }
    needs = ("value",)
    commutative = True
    state: ClassVar = {
        "count": Value(0),
        "sum": Value(0),
        "least": Value(1e300),
        "most": Value(-1e300),
    }

    def process(self, key: Any, event: Any, state: Any) -> None:
        value = event.value
        state.count += 1
        state.sum += round(value * 1000)
        if value < state.least:
            state.least = value
        if value > state.most:
            state.most = value

    def end_input(self, key: Any, state: Any) -> Any:
        if key[0] < SHOWN_HOUSES:
            return *key, state.count, state.sum, state.least, state.most
        return None


class Pulse(Operator):
    """One row for every epoch, once all slices of two inputs have ended it.

    The first input counts the epoch's events; the second holds much and says little.
    """

    output: ClassVar = {"count": "int64"}
    commutative = True
    ports = ("beats", "held")

    def process_beats(self, key: Any, event: Any, state: Any) -> Any:
        return event.count

    def process_held(self, key: Any, event: Any, state: Any) -> None:
        return None


class Stalls(Operator):
    """Counts events per key. Once in its life, when event time passes `from_second`, the slice of key 0
    does nothing for `seconds`."""

    output: ClassVar = {"key": "int64", "count": "int64"}
    needs = ("ts",)
    commutative = True
    state: ClassVar = {"count": Value(0)}

    def __init__(self, from_second: int, seconds: float) -> None:
        self._from_second = from_second
        self._seconds = seconds
        self._stalled = False

    def process(self, key: Any, event: Any, state: Any) -> None:
        state.count += 1
        if key == 0 and not self._stalled and event.ts >= self._from_second:
            self._stalled = True
            threading.Event().wait(self._seconds)

    def end_epoch(self, key: Any, state: Any) -> Any:
        return key, state.count


TEXT_POOL_BYTES = 1 << 22
"""Of text that is no shorter when compressed; edits have pieces of it."""


class KeptTexts(Trends):
    """Trends that keeps, beside each edit of its window, `text_bytes` of text, as if it had looked it up.
    So the state is as large as that of an application that keeps events whole."""

    def __init__(self, text_bytes: int) -> None:
        letters = np.random.default_rng(1).integers(97, 123, TEXT_POOL_BYTES, dtype=np.uint8)
        self._pool = letters.tobytes().decode()
        self._text_bytes = text_bytes

    def process_batch(self, channel: str, edits: pa.RecordBatch, state: Any) -> None:
        times = edits.column("time").cast(pa.int64()).to_pylist()
        users, added = (edits.column(name).to_pylist() for name in ("user", "added"))
        for time, *edit in zip(times, users, added, strict=True):
            state.edits.append(time, (*edit, self._text(time)))

    def _text(self, time: int) -> str:
        first = time * 7919 % (TEXT_POOL_BYTES - self._text_bytes)
        return self._pool[first : first + self._text_bytes]

    def end_epoch(self, channel: str, state: Any) -> Any:
        edits = state.edits.values()
        users = {user for user, _, _ in edits}
        return channel, len(edits), len(users), sum(added for _, added, _ in edits)
