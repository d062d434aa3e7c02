"""Proves both queries right: answers them again in plain Python, over sorted lists, and compares every row.

``python -m apps.taxi.check [--trips GLOB] [--prepared] [--output FOLDER]``, for the trips and the output that
the topology was run with; ``--prepared`` where it was run with ``prepare=spark``. Nothing here is the
engine's but the reading of its committed output. Decisions are those of the package.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import streammine
from apps import reading

FOLDER = Path(__file__).parent
LINE_WIDTH = 17
PLACES = 10
MINUTE = 60
EPOCH_SECONDS = 60
"""As in the topology."""

WEST, NORTH = Decimal("-74.913585"), Decimal("41.474937")
"""The centre of cell 1.1."""
EAST_STEP, SOUTH_STEP = Fraction("0.005986"), Fraction("0.004491556")
"""Of cells of 500 m, in degrees."""
SENSIBLE = 2**40
"""Millionths of degrees, and cents, are less."""

Cell = tuple[int, int]
Point = tuple[Decimal, Decimal]
"""Longitude and latitude in degrees, to a millionth."""

Row = tuple[Any, ...]
"""The trigger's times, then what is told of the first, the second, … None where there is nobody."""


@dataclass(frozen=True)
class Trip:
    """Times in seconds from 1970 on, fare and tip together in cents. None where there is none, or none that
    can be."""

    taxi: str | None
    pickup: int
    dropoff: int
    start: Point | None
    end: Point | None
    cents: int | None


def trips_of(pattern: str | Path, prepared: bool = False) -> Iterator[Trip]:
    """The trips of all files, in the order of their drop-offs."""
    trips: list[Trip] = []
    for path in reading.paths(pattern):
        lines: Iterator[_Line] = filter(None, map(_parsed, reading.records(path, LINE_WIDTH)))
        if not prepared:
            lines = reading.in_time(lines, lambda line: line.dropoff, EPOCH_SECONDS)
        trips += (trip for line in lines if (trip := _trip(line)) is not None)
    return iter(sorted(trips, key=lambda trip: trip.dropoff))


@dataclass(frozen=True)
class _Line:
    """What a line says, None where it says nothing."""

    taxi: str | None
    pickup: int | None
    dropoff: int
    degrees: list[float | None]
    dollars: list[float | None]


def _parsed(record: list[reading.Value] | None) -> _Line | None:
    """None for a dead letter."""
    if record is None:
        return None
    try:
        taxi, pickup, dropoff = reading.text(record[0]), *map(reading.time, record[2:4])
        degrees = [reading.number(value) for value in record[6:10]]
        dollars = [reading.number(record[place]) for place in (11, 14)]
    except ValueError:
        return None
    return None if dropoff is None else _Line(taxi, pickup, dropoff, degrees, dollars)


def _trip(line: _Line) -> Trip | None:
    """None where it is not known when the trip began."""
    if line.pickup is None:
        return None
    west, north, east, south = (_scaled(value, 1_000_000) for value in line.degrees)
    amounts = [_scaled(value, 100) for value in line.dollars if value is not None and value >= 0]
    known = [amount for amount in amounts if amount is not None]
    cents = sum(known) if len(known) == 2 else None
    return Trip(
        line.taxi, line.pickup, line.dropoff, _point(west, north), _point(east, south), cents
    )


def _scaled(value: float | None, scale: int) -> int | None:
    """A multiple, rounded to the nearest whole number and halves to the even one."""
    if value is None or not abs(value * scale) < SENSIBLE:
        return None
    return round(value * scale)


def _point(east: int | None, north: int | None) -> Point | None:
    if east is None or north is None:
        return None
    return Decimal(east).scaleb(-6), Decimal(north).scaleb(-6)


def cell_of(point: Point | None, parts: int) -> Cell | None:
    """The cell that a point lies in, where the sides of one of 500 m are cut into so many parts."""
    if point is None:
        return None
    east, south = Fraction(point[0] - WEST), Fraction(NORTH - point[1])
    x = floor(east / (EAST_STEP / parts) + Fraction(1, 2)) + 1
    y = floor(south / (SOUTH_STEP / parts) + Fraction(1, 2)) + 1
    most = 300 * parts
    return (x, y) if 1 <= x <= most and 1 <= y <= most else None


class Ranking:
    """Everything that is ranked, in a sorted list: the highest value first, then who changed last."""

    def __init__(self) -> None:
        self._sorted: list[tuple[Fraction | int, int, Any]] = []
        self._entries: dict[Any, tuple[Fraction | int, int, Any]] = {}
        self._changed: dict[Any, int] = defaultdict(int)
        self._changes = 0

    def put(self, key: Any, value: Fraction | int | None, by_trip: bool) -> None:
        """The value of a key is this now; None takes it out."""
        if by_trip:
            self._changes += 1
            self._changed[key] = self._changes
        if key in self._entries:
            del self._sorted[bisect_left(self._sorted, self._entries.pop(key))]
        if value is not None:
            self._entries[key] = (-value, -self._changed[key], key)
            insort(self._sorted, self._entries[key])

    def first(self, count: int) -> list[Any]:
        return [key for _, _, key in self._sorted[:count]]


def frequent_routes(trips: Iterable[Trip]) -> Iterator[Row]:
    """Query 1."""
    lately: deque[tuple[int, Any]] = deque()
    numbers: dict[Any, int] = defaultdict(int)
    ranking = Ranking()
    told: list[Any] = []
    for trip in trips:
        route = (cell_of(trip.start, 1), cell_of(trip.end, 1))
        if None in route:
            continue
        while lately and trip.dropoff - lately[0][0] >= 30 * MINUTE:
            _, left = lately.popleft()
            numbers[left] -= 1
            ranking.put(left, numbers[left] or None, by_trip=False)
        lately.append((trip.dropoff, route))
        numbers[route] += 1
        ranking.put(route, numbers[route], by_trip=True)
        first = ranking.first(PLACES)
        if first != told:
            told = first
            yield _row(trip, first, 2, lambda each: (_text(each[0]), _text(each[1])))


def profitable_areas(trips: Iterable[Trip]) -> Iterator[Row]:
    """Query 2."""
    lately: deque[tuple[int, Cell, int]] = deque()
    amounts: dict[Cell, list[int]] = defaultdict(list)
    empty: dict[str, tuple[int, Cell]] = {}
    dropped_off: deque[tuple[int, str]] = deque()
    taxis: dict[Cell, int] = defaultdict(int)
    ranking = Ranking()
    told: list[Any] = []

    def shown(cell: Cell) -> Row:
        middle = _median(amounts[cell]) / 100
        return (_text(cell), taxis[cell], float(middle), float(middle / taxis[cell]))

    def rank(cell: Cell, by_trip: bool) -> None:
        listed = taxis[cell] and amounts[cell]
        ranking.put(cell, _median(amounts[cell]) / taxis[cell] if listed else None, by_trip)

    for trip in trips:
        start, end = cell_of(trip.start, 2), cell_of(trip.end, 2)
        if start is None or end is None or trip.cents is None or trip.taxi is None:
            continue
        while lately and trip.dropoff - lately[0][0] >= 15 * MINUTE:
            _, cell, amount = lately.popleft()
            amounts[cell].remove(amount)
            rank(cell, by_trip=False)
        while dropped_off and trip.dropoff - dropped_off[0][0] >= 30 * MINUTE:
            _, taxi = dropped_off.popleft()
            if taxi in empty and trip.dropoff - empty[taxi][0] >= 30 * MINUTE:
                taxis[(cell := empty.pop(taxi)[1])] -= 1
                rank(cell, by_trip=False)
        lately.append((trip.dropoff, start, trip.cents))
        insort(amounts[start], trip.cents)
        rank(start, by_trip=True)
        if trip.taxi in empty:
            taxis[(left := empty[trip.taxi][1])] -= 1
            rank(left, by_trip=True)
        empty[trip.taxi] = (trip.dropoff, end)
        dropped_off.append((trip.dropoff, trip.taxi))
        taxis[end] += 1
        rank(end, by_trip=True)
        first = [shown(cell) for cell in ranking.first(PLACES)]
        if first != told:
            told = first
            yield _row(trip, first, 4, lambda each: each)


def _median(values: list[int]) -> Fraction:
    middle = len(values) // 2
    if len(values) % 2:
        return Fraction(values[middle])
    return (Fraction(values[middle - 1]) + Fraction(values[middle])) / 2


def _row(trip: Trip, first: list[Any], width: int, told: Callable[[Any], Row]) -> Row:
    columns = [value for each in first for value in told(each)]
    return (trip.pickup, trip.dropoff, *columns, *[None] * (width * PLACES - len(columns)))


def _text(cell: Cell) -> str:
    return f"{cell[0]}.{cell[1]}"


def committed(folder: str) -> list[Row]:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    rows: list[Row] = []
    for _, table in streammine.read_output(folder):
        reading.require_columns(folder, table, ("pickup_datetime", "dropoff_datetime"))
        columns = table.to_pydict()
        columns.pop("delay", None)
        for pickup, dropoff, *others in zip(*columns.values(), strict=True):
            times = (time.replace(tzinfo=datetime.UTC).timestamp() for time in (pickup, dropoff))
            rows.append((*map(int, times), *others))
    return rows


QUERIES = {"routes": frequent_routes, "areas": profitable_areas}


def main() -> int:
    """0 when all rows are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare with plain Python.")
    parser.add_argument("--trips", default=str(FOLDER / "data" / "trips.csv"), metavar="GLOB")
    parser.add_argument("--prepared", action="store_true", help="Spark has sorted the trips")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    arguments = parser.parse_args()
    right = True
    for name, query in QUERIES.items():
        found = committed(str(Path(arguments.output) / name))
        expected = list(query(trips_of(arguments.trips, arguments.prepared)))
        equal = found == expected
        right = right and equal
        print(f"{name:10} {len(found):,} rows, equal {'yes' if equal else 'NO'}")
        if not equal:
            pairs = enumerate(zip(found, expected, strict=False))
            wrong = next((n for n, (one, other) in pairs if one != other), len(expected))
            print(f"           row {wrong} is the first that differs", *found[wrong : wrong + 1])
            print("           in plain Python it is", *expected[wrong : wrong + 1])
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
