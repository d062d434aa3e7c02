"""Proves the outliers right: finds them again with sorted lists in plain Python, and compares every row.

``python -m apps.smartgrid.outliers_check [--input FILE] [--output FOLDER] [--start SECONDS] [--windows
SECONDS SECONDS]``, for the readings, the output and the windows that the topology was run with. Nothing here
is the engine's but the reading of its committed output. Decisions are those of `outliers`, in words; medians
are doubled, so that they are whole numbers of milliwatts.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import streammine

FOLDER = Path(__file__).parent
START = 1_377_986_401
WINDOWS_SECONDS = (3_600, 86_400)
"""As in the topology."""

Plug = tuple[int, int, int]
"""House, household, plug."""

Row = tuple[int, int, int, float | None]
"""ts_start, ts_stop, house, percentage."""

Rows = dict[int, set[Row]]
"""By epoch, which is the second before ts_stop."""


@dataclass(frozen=True)
class Reading:
    """A load at a time in seconds."""

    ts: int
    plug: Plug
    milliwatts: int


def readings_of(path: Path, start: int = START) -> Iterator[Reading]:
    """The loads of a file in either of the challenge's layouts, without what can't be used."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        for line in file:
            fields = line.rstrip("\n").split(",")[1:] if "," in line else line.split()
            try:
                ts, value, kind, plug, household, house = fields
                load = round(Fraction(value) * 1000)
                if int(kind) == 1 and int(ts) >= start:
                    yield Reading(int(ts), (int(house), int(household), int(plug)), load)
            except ValueError:
                continue


class SortedLoads:
    """Loads in ascending order."""

    def __init__(self) -> None:
        self._loads: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._loads)

    def add(self, load: int) -> None:
        insort(self._loads, load)

    def remove(self, load: int) -> None:
        del self._loads[bisect_left(self._loads, load)]

    def median_twice(self) -> int:
        """Of an even number, the sum of the middle two."""
        count = len(self._loads)
        return self._loads[(count - 1) // 2] + self._loads[count // 2]


class Window:
    """The loads of one length of windows, and what was told of each house last."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self._all = SortedLoads()
        self._plugs: dict[Plug, SortedLoads] = defaultdict(SortedLoads)
        self._told: dict[int, float] = {}

    def add(self, reading: Reading) -> None:
        self._all.add(reading.milliwatts)
        self._plugs[reading.plug].add(reading.milliwatts)

    def remove(self, reading: Reading) -> None:
        self._all.remove(reading.milliwatts)
        self._plugs[reading.plug].remove(reading.milliwatts)
        if not self._plugs[reading.plug]:
            del self._plugs[reading.plug]

    def changes(self, second: int) -> Iterator[Row]:
        """The rows that leave with the window that ends behind this second."""
        above: dict[int, list[bool]] = defaultdict(list)
        overall = self._all.median_twice() if self._all else 0
        for (house, *_), loads in self._plugs.items():
            above[house].append(loads.median_twice() > overall)
        percentages = {house: 100 * sum(each) / len(each) for house, each in above.items()}
        for house in sorted({*percentages, *self._told}):
            percentage = percentages.get(house)
            if percentage != self._told.get(house):
                yield second + 1 - self.seconds, second + 1, house, percentage
        self._told = percentages


def outliers(readings: Iterable[Reading], windows_seconds: Iterable[int] = WINDOWS_SECONDS) -> Rows:
    """What leaves in each second, of all in which readings come to a window or leave one."""
    found: Rows = defaultdict(set)
    by_second: dict[int, list[Reading]] = defaultdict(list)
    for reading in readings:
        by_second[reading.ts].append(reading)
    for seconds in windows_seconds:
        window = Window(seconds)
        for second in sorted({*by_second, *(second + seconds for second in by_second)}):
            for reading in by_second.get(second, ()):
                window.add(reading)
            for reading in by_second.get(second - seconds, ()):
                window.remove(reading)
            found[second].update(window.changes(second))
    return {second: rows for second, rows in found.items() if rows}


def committed(folder: Path) -> Rows:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    found: Rows = {}
    for epoch, table in streammine.read_output(folder):
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert len(set(rows)) == len(rows), f"a row is twice in epoch {epoch}"
        if rows:
            found[epoch] = {(row[0], row[1], row[2], row[3]) for row in rows}
    return found


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare outliers with those of plain Python.")
    parser.add_argument("--input", default=str(FOLDER / "data" / "readings.csv"), metavar="FILE")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    parser.add_argument("--start", type=int, default=START, metavar="SECONDS")
    parser.add_argument("--windows", type=int, nargs=2, default=WINDOWS_SECONDS, metavar="SECONDS")
    arguments = parser.parse_args()
    try:
        found = committed(Path(arguments.output) / "outliers")
    except streammine.OutputError as error:
        print(error, file=sys.stderr)
        return 1
    expected = outliers(readings_of(Path(arguments.input), arguments.start), arguments.windows)
    print(f"epochs   {len(found):,}")
    print(f"rows     {sum(map(len, found.values())):,}")
    if found == expected:
        print("equal    yes: every row of every epoch is that of plain Python")
        return 0
    epoch = min(each for each in {*found, *expected} if found.get(each) != expected.get(each))
    ours, theirs = found.get(epoch, set()), expected.get(epoch, set())
    row = min(ours ^ theirs, key=repr)
    whose = "should not be there" if row in ours else "is missing"
    print(f"equal    NO: epoch {epoch}: {row} {whose}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
