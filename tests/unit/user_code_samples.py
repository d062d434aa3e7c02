"""Schemas, batches and small user operators that the tests of user code share."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.operators.api import Mapper, Operator, Reducer
from streammine.operators.state import Value

LINES = pa.schema([("line", pa.string())])
READINGS = pa.schema([("plug", pa.int64()), ("value", pa.float64())])
TIME = EpochDefinition("time", 60_000_000, "ts")


def closing(epoch: int) -> EpochClose:
    return EpochClose(epoch, (epoch + 1) * 60_000_000, TIME)


def lines(*texts: str | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(texts, pa.string())], schema=LINES)


def readings(*rows: tuple[int | None, float | None]) -> pa.RecordBatch:
    plugs, values = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(plugs, pa.int64()), pa.array(values, pa.float64())], schema=READINGS
    )


class Words(Mapper):
    output: ClassVar[Any] = {"word": "string"}

    def map(self, event: Any) -> Any:
        return event.line.split()


class Count(Reducer):
    output: ClassVar[Any] = {"count": "int64"}

    def create(self) -> int:
        return 0

    def add(self, accumulator: int, event: Any) -> int:
        return accumulator + 1

    def merge(self, left: int, right: int) -> int:
        return left + right

    def finish(self, key: Any, accumulator: int) -> Any:
        return accumulator


class Steps(Operator):
    output: ClassVar[Any] = {"plug": "int64", "step": "float64"}
    state: ClassVar[Any] = {"last": Value(None)}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        before, state.last = state.last, event.value
        return None if before is None else (key, event.value - before)
