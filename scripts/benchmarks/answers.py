"""Whether the engine and the references came to the same result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.workloads import PLUG, Workload
from streammine.runtime.output import read_output
from streammine.runtime.stores import open_store

TOLERANCE = 1e-9
"""Relative; the references add floats up in whatever order comes."""

SAMPLED_EPOCHS = 3
SECONDS_PER_EPOCH = 60


class WrongAnswerError(Exception):
    """Two programs that do the same work gave different results."""


def engine_answer(folder: Path) -> pa.Table:
    """The rows that the engine committed."""
    return pa.concat_tables([table for _, table in read_output(open_store(str(folder)))])


def compare(workload: Workload, engine: pa.Table, reference: pa.Table, name: str) -> None:
    """Raises WrongAnswerError unless both have the same rows: floats of `workload.floats` up to
    rounding, everything else exactly."""
    if engine.num_rows != reference.num_rows:
        raise WrongAnswerError(
            f"{workload.name}: the engine has {engine.num_rows:,} rows, {name} {reference.num_rows:,}"
        )
    if set(engine.column_names) != set(reference.column_names):
        raise WrongAnswerError(
            f"{workload.name}: the engine has columns {engine.column_names}, "
            f"{name} {reference.column_names}"
        )
    order = [column for column in engine.column_names if column not in workload.floats]
    left, right = (
        _sorted(table.select(engine.column_names), order) for table in (engine, reference)
    )
    for column in engine.column_names:
        ours, theirs = left[column], right[column].cast(engine.schema.field(column).type)
        if column in workload.floats:
            equal = bool(np.allclose(ours, theirs, rtol=TOLERANCE, atol=0.0))
        else:
            equal = bool(pc.all(pc.equal(ours, theirs)).as_py())
        if not equal:
            raise WrongAnswerError(f"{workload.name}: column {column} differs from that of {name}")


def _sorted(table: pa.Table, columns: list[str]) -> pa.Table:
    return table.combine_chunks().sort_by([(column, "ascending") for column in columns])


def check_means(engine: pa.Table, readings: Path) -> None:
    """Compare the means of some epochs, bit by bit, with exact sums. Raises WrongAnswerError."""
    epochs = pc.unique(engine["epoch"]).sort().to_pylist()
    places = np.linspace(0, len(epochs) - 1, SAMPLED_EPOCHS, dtype=int)
    for epoch in {epochs[place] for place in places.tolist()}:
        first = epoch * SECONDS_PER_EPOCH
        rows = pq.read_table(
            readings, filters=[("ts", ">=", first), ("ts", "<", first + SECONDS_PER_EPOCH)]
        )
        values: dict[tuple[int, ...], list[float]] = {}
        for *key, value in _rows(rows, "value"):
            values.setdefault(tuple(key), []).append(value)
        expected = {key: math.fsum(each) / len(each) for key, each in values.items()}
        ours = engine.filter(pc.equal(engine["epoch"], epoch))
        if {tuple(key): mean for *key, mean in _rows(ours, "mean")} != expected:
            raise WrongAnswerError(f"readings: means of epoch {epoch} are not those of exact sums")


def _rows(table: pa.Table, column: str) -> Iterator[tuple[Any, ...]]:
    """(house, household, plug, value of the column), row by row."""
    names = (*PLUG, column)
    return zip(*(table[name].to_pylist() for name in names), strict=True)
