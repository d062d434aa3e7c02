"""Where trips start and end, in cells, which trips don't count, and rows in the columns of the challenge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine import Mapper

MILLIONTHS = 1_000_000
CENTRE_EAST, CENTRE_NORTH = -74_913_585, 41_474_937
"""The centre of cell 1.1, in millionths of a degree."""
EAST_STEP, SOUTH_STEP = 5_986, 4_491_556
"""Of cells of 500 m: in millionths of a degree, and in thousandths of these."""
MOST = 300
"""Cells in a row or column."""

POINTS = (
    "pickup_longitude",
    "pickup_latitude",
    "dropoff_longitude",
    "dropoff_latitude",
)
TIMES = ("pickup_datetime", "dropoff_datetime")
TIME_FIELDS = [(name, pa.timestamp("s")) for name in TIMES]
NO_CELL = 0

Whole = npt.NDArray[np.int64]


def cells(trips: pa.RecordBatch, parts: int) -> tuple[Whole, Whole]:
    """The cells that trips start and end in, x * 1000 + y; NO_CELL where that is not in the grid.

    `parts`: into how many the sides of a cell of 500 m are cut.
    """
    points = _scaled([trips.column(name) for name in POINTS], MILLIONTHS)
    start, end = _cell(points[::2], points[1::2], parts)
    return start, end


def _cell(longitude: Whole, latitude: Whole, parts: int) -> Whole:
    """The cell of each point: whole steps from the western and the northern border of cell 1.1."""
    x = (2 * parts * (longitude - CENTRE_EAST) + EAST_STEP) // (2 * EAST_STEP)
    y = (2_000 * parts * (CENTRE_NORTH - latitude) + SOUTH_STEP) // (2 * SOUTH_STEP)
    most = MOST * parts
    inside = (x >= 0) & (x < most) & (y >= 0) & (y < most)
    return np.where(inside, (x + 1) * 1000 + y + 1, NO_CELL)


def _scaled(columns: Sequence[pa.Array], scale: int) -> Whole:
    """Columns of decimals as whole numbers (int64[columns, rows]). What is no number, or no sensible one, is
    far outside of everything."""
    values = np.stack([column.to_numpy(zero_copy_only=False) for column in columns]) * scale
    strange = ~(np.abs(values) < 2**40)
    if strange.any():
        values = np.where(strange, -(2.0**40), values)
    whole: Whole = np.rint(values).astype(np.int64)
    return whole


def cents(trips: pa.RecordBatch) -> tuple[Whole, npt.NDArray[np.bool_]]:
    """What each trip brought, and where that can be: neither fare nor tip is negative or missing."""
    amounts = [trips.column(name) for name in ("fare_amount", "tip_amount")]
    fare, tip = _scaled(amounts, 100)
    # what is less than half a cent below zero is negative, though it is rounded to zero
    right = np.minimum(*(amount.to_numpy(zero_copy_only=False) for amount in amounts)) >= 0
    return fare + tip, right & (fare >= 0) & (tip >= 0)


def begun(trips: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Of which trips it is known when they began."""
    times = trips.column("pickup_datetime")
    if not times.null_count:
        return np.ones(len(times), np.bool_)
    known: npt.NDArray[np.bool_] = times.is_valid().to_numpy(zero_copy_only=False)
    return known


class Routes(Mapper):
    """The trips from cell to cell, 500 m wide."""

    output: ClassVar = pa.schema(
        [("start_cell", pa.int64()), ("end_cell", pa.int64()), *TIME_FIELDS]
    )
    needs: ClassVar = (*TIMES, *POINTS)

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        start, end = cells(batch, 1)
        rows = np.flatnonzero((start != NO_CELL) & (end != NO_CELL) & begun(batch))
        places = pa.array(rows)
        times = (batch.column(name).take(places) for name in TIMES)
        return pa.record_batch([start[rows], end[rows], *times], schema=self.output), rows


class Areas(Mapper):
    """The trips of taxis between cells, 250 m wide, and what they brought."""

    output: ClassVar = pa.schema(
        [
            ("taxi", pa.string()),
            ("start_cell", pa.int64()),
            ("end_cell", pa.int64()),
            ("cents", pa.int64()),
            *TIME_FIELDS,
        ]
    )
    needs: ClassVar = ("medallion", *TIMES, *POINTS, "fare_amount", "tip_amount")

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        start, end = cells(batch, 2)
        amounts, right = cents(batch)
        taxi = batch.column("medallion")
        known = taxi.is_valid().to_numpy(zero_copy_only=False)
        inside = (start != NO_CELL) & (end != NO_CELL)
        rows = np.flatnonzero(inside & begun(batch) & right & known)
        places = pa.array(rows)
        columns = [taxi.take(places), start[rows], end[rows], amounts[rows]]
        times = (batch.column(name).take(places) for name in TIMES)
        return pa.record_batch([*columns, *times], schema=self.output), rows


class Outliers(Mapper):
    """Why a trip does not count, in either query or in query 2."""

    output: ClassVar = pa.schema([("reason", pa.string())])
    needs: ClassVar = Areas.needs

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        far, near = (
            (start == NO_CELL) | (end == NO_CELL)
            for start, end in (cells(batch, 1), cells(batch, 2))
        )
        _, right = cents(batch)
        unknown = batch.column("medallion").is_null().to_numpy(zero_copy_only=False)
        # the first that holds is told
        reasons = {
            "outside of the grid of 500 m": far,
            "no time of pick-up": ~begun(batch),
            "outside of the grid of 250 m": near,
            "negative fare or tip, or none": ~right,
            "no taxi": unknown,
        }
        held = np.stack(list(reasons.values()))
        rows = np.flatnonzero(held.any(axis=0))
        texts = pa.array(list(reasons)).take(pa.array(held[:, rows].argmax(axis=0)))
        return pa.record_batch([texts], schema=self.output), rows


PLACES = range(1, 11)


class RouteRows(Mapper):
    """The frequent routes in the columns of the challenge: cells as texts."""

    output: ClassVar = pa.schema(
        [
            *TIME_FIELDS,
            *((f"{end}_cell_id_{n}", pa.string()) for n in PLACES for end in ("start", "end")),
        ]
    )

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        numbers = [batch.column(f"{end}_cell_{n}") for n in PLACES for end in ("start", "end")]
        times = [batch.column(name) for name in TIMES]
        return pa.record_batch([*times, *_texts(numbers)], schema=self.output)


class AreaRows(Mapper):
    """The profitable areas in the columns of the challenge: cells as texts, money in dollars."""

    output: ClassVar = pa.schema(
        [
            *TIME_FIELDS,
            *(
                field
                for n in PLACES
                for field in (
                    (f"profitable_cell_id_{n}", pa.string()),
                    (f"empty_taxies_in_cell_id_{n}", pa.int64()),
                    (f"median_profit_in_cell_id_{n}", pa.float64()),
                    (f"profitability_of_cell_{n}", pa.float64()),
                )
            ),
        ]
    )

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        columns = [batch.column(name) for name in TIMES]
        texts = _texts([batch.column(f"cell_{n}") for n in PLACES])
        # all places together: there are many batches of few rows
        taxis, money = (
            pa.concat_arrays([batch.column(f"{name}_{n}") for n in PLACES])
            for name in ("taxis", "cents")
        )
        whole = pc.multiply(taxis, 100).cast(pa.float64())
        numbers = (taxis, pc.divide(money, 100.0), pc.divide(money, whole))
        rows = batch.num_rows
        for place, text in enumerate(texts):
            columns += [text, *(each.slice(place * rows, rows) for each in numbers)]
        return pa.record_batch(columns, schema=self.output)


def _texts(columns: list[pa.Array]) -> list[pa.Array]:
    """Cells as ``x.y``; each that occurs is written once."""
    encoded = pa.concat_arrays(columns).dictionary_encode()
    texts = [f"{cell // 1000}.{cell % 1000}" for cell in encoded.dictionary.to_pylist()]
    found = pa.array(texts, pa.string()).take(encoded.indices)
    rows = len(columns[0])
    return [found.slice(place * rows, rows) for place in range(len(columns))]
