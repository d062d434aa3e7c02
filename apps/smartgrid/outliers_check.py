"""Proves the outliers right: finds them again with sorted lists in plain Python, and compares every row.

``python -m apps.smartgrid.outliers_check [--input GLOB] [--delimiter CHARACTER] [--output FOLDER] [--start
SECONDS] [--windows SECONDS SECONDS]``, for the readings, the output and the windows that the topology was run
with. Nothing here is the engine's but the reading of its committed output. Decisions are those of the package
and of `outliers`, in words; medians are doubled, so that they are whole numbers of milliwatts.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from apps import reading
from apps.smartgrid.check import Plug, Reading, add_arguments, readings_of

WINDOWS_SECONDS = (3_600, 86_400)
"""As in the topology."""

Row = tuple[int, int, int, float | None]
"""ts_start, ts_stop, house, percentage."""

Rows = dict[int, set[Row]]
"""By epoch, which is the second before ts_stop."""


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
    for each in readings:
        by_second[each.ts].append(each)
    for seconds in windows_seconds:
        window = Window(seconds)
        for second in sorted({*by_second, *(second + seconds for second in by_second)}):
            for each in by_second.get(second, ()):
                window.add(each)
            for each in by_second.get(second - seconds, ()):
                window.remove(each)
            found[second].update(window.changes(second))
    return {second: rows for second, rows in found.items() if rows}


def committed(folder: Path) -> Rows:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    columns = ("ts_start", "ts_stop", "house_id", "percentage")
    found = reading.committed_sets(folder / "outliers", columns)
    return {
        epoch: {(row[0], row[1], row[2], row[3]) for row in rows} for epoch, rows in found.items()
    }


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare outliers with those of plain Python.")
    add_arguments(parser)
    parser.add_argument("--windows", type=int, nargs=2, default=WINDOWS_SECONDS, metavar="SECONDS")
    arguments = parser.parse_args()
    found = committed(arguments.output)
    readings = readings_of(arguments.input, arguments.delimiter, arguments.start)
    expected = outliers(readings, arguments.windows)
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
    sys.exit(reading.exit_status(main))
