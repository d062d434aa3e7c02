"""Proves the load forecasts right: makes them again in plain Python, and compares every row of every epoch.

``python -m apps.smartgrid.check [--input GLOB] [--delimiter CHARACTER] [--output FOLDER] [--start SECONDS]``,
for the readings and the output that the topology was run with. Nothing here is the engine's but the reading
of its committed output. Decisions are those of the package and of `operators`, in words; averages are made of
fractions.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import median

from apps import reading

FOLDER = Path(__file__).parent
START = 1_377_986_401
LENGTHS_MINUTES = (1, 5, 15, 60, 120)
EPOCH_SECONDS = 30
DAY_SECONDS = 86_400
DAYS = 30
"""As in the topology and its operators."""

LOAD = 1
LARGEST_WATTS = 1_000_000
LARGEST_ID = 1_048_575
LAST_MINUTE = 2_147_483_647

Plug = tuple[int, int, int]
"""House, household, plug."""

Row = tuple[float, ...]
Stream = tuple[str, int]
"""Level (house or plug) and length of slices in minutes."""

Forecasts = dict[Stream, dict[int, set[Row]]]
"""The rows of each stream by epoch."""


@dataclass(frozen=True)
class Reading:
    """A load at a time in seconds."""

    ts: int
    plug: Plug
    milliwatts: int


def readings_of(pattern: str | Path, delimiter: str = ",", start: int = START) -> Iterator[Reading]:
    """The loads of all files that count, in either of the challenge's layouts: with ids and commas, or
    without and with blanks."""
    columns = 7 if delimiter == "," else 6
    for path in reading.paths(pattern):
        for record in reading.records(path, columns, delimiter):
            found = None if record is None else _reading(record[-6:], start)
            if found is not None:
                yield found


def _reading(record: list[reading.Value], start: int) -> Reading | None:
    """What a record says, None if it does not count."""
    ts, value, *others = record
    try:
        second, watts = reading.whole_number(ts), reading.number(value)
        kind, plug, household, house = (reading.whole_number(each, 32) for each in others)
    except ValueError:
        return None
    if second is None or watts is None or kind is None:
        return None
    if plug is None or household is None or house is None:
        return None
    if kind != LOAD or not abs(watts) <= LARGEST_WATTS:
        return None
    if not 0 <= (second - start) // 60 <= LAST_MINUTE:
        return None
    if not all(0 <= each <= LARGEST_ID for each in (plug, household, house)):
        return None
    return Reading(second, (house, household, plug), round(watts * 1000))


class Loads:
    """All loads, by plug and by slice."""

    def __init__(self, start: int) -> None:
        self._start = start
        # sum in milliwatts and number, by length, plug and slice
        self._loads: dict[tuple[int, Plug, int], tuple[int, int]] = {}
        self._plugs: dict[int, set[Plug]] = defaultdict(set)

    def add(self, reading: Reading) -> None:
        self._plugs[reading.plug[0]].add(reading.plug)
        for minutes in LENGTHS_MINUTES:
            place = minutes, reading.plug, self.slice_at(reading.ts, minutes)
            total, count = self._loads.get(place, (0, 0))
            self._loads[place] = total + reading.milliwatts, count + 1

    def slice_at(self, ts: int, minutes: int) -> int:
        return (ts - self._start) // (60 * minutes)

    def plugs(self, house: int) -> list[Plug]:
        return sorted(self._plugs[house])

    def of_plug(self, minutes: int, plug: Plug, index: int) -> float | None:
        """Its average load in watts in a slice, None without any reading."""
        total, count = self._loads.get((minutes, plug, index), (0, 0))
        return float(Fraction(total, 1000 * count)) if count else None

    def of_house(self, minutes: int, house: int, index: int) -> float | None:
        """The sum of its plugs' averages."""
        averages = [self.of_plug(minutes, plug, index) for plug in self._plugs[house]]
        known = [Fraction(average) for average in averages if average is not None]
        return float(sum(known)) if known else None


def forecasts(
    readings: Iterable[Reading], start: int = START, epoch_seconds: int = EPOCH_SECONDS
) -> Forecasts:
    """What leaves at the end of each epoch, from the loads that were told up to then."""
    loads = Loads(start)
    # a slice of an earlier day is over, so its average stays
    of_plug, of_house = cache(loads.of_plug), cache(loads.of_house)
    by_epoch: dict[int, list[Reading]] = defaultdict(list)
    for each in readings:
        by_epoch[each.ts // epoch_seconds].append(each)
    found: Forecasts = {
        (level, minutes): defaultdict(set)
        for level in ("house", "plug")
        for minutes in LENGTHS_MINUTES
    }
    for epoch in sorted(by_epoch):
        for each in by_epoch[epoch]:
            loads.add(each)
        last_second = (epoch + 1) * epoch_seconds - 1
        for minutes in LENGTHS_MINUTES:
            current = loads.slice_at(last_second, minutes)
            wanted = current + 2
            ts = start + wanted * minutes * 60
            per_day = DAY_SECONDS // (60 * minutes)
            earlier = (wanted - days * per_day for days in range(1, DAYS + 1))
            days_before = [index for index in earlier if index >= 0]
            for house in {each.plug[0] for each in by_epoch[epoch]}:
                now = loads.of_house(minutes, house, current)
                if now is not None:
                    before = [of_house(minutes, house, index) for index in days_before]
                    found["house", minutes][epoch].add((ts, house, predicted(now, before)))
                for plug in loads.plugs(house):
                    now = loads.of_plug(minutes, plug, current)
                    if now is not None:
                        before = [of_plug(minutes, plug, index) for index in days_before]
                        found["plug", minutes][epoch].add((ts, *plug, predicted(now, before)))
    return found


def predicted(now: float, before: Iterable[float | None]) -> float:
    """The mean of the average now and of what is usual, if anything is."""
    known = [average for average in before if average is not None]
    return (now + median(known)) / 2 if known else now


def committed(folder: Path) -> Forecasts:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    keys = {"house": ("house_id",), "plug": ("house_id", "household_id", "plug_id")}
    return {
        (level, minutes): reading.committed_sets(
            folder / f"{level}s-{minutes}-minutes", ("ts", *keys[level], "predicted_load")
        )
        for level in keys
        for minutes in LENGTHS_MINUTES
    }


def first_difference(found: Forecasts, expected: Forecasts) -> str | None:
    """Where both differ first; None: they are equal."""
    for stream, epochs in expected.items():
        for epoch in sorted({*epochs, *found[stream]}):
            ours, theirs = found[stream].get(epoch, set()), epochs.get(epoch, set())
            if ours != theirs:
                level, minutes = stream
                row = min(ours ^ theirs)
                whose = "should not be there" if row in ours else "is missing"
                return f"{level}s, {minutes} minutes, epoch {epoch}: {row} {whose}"
    return None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those that tell which readings and which output."""
    parser.add_argument("--input", default=str(FOLDER / "data" / "readings.csv"), metavar="GLOB")
    parser.add_argument("--delimiter", default=",", choices=(",", " "), metavar="CHARACTER")
    parser.add_argument("--output", type=Path, default=FOLDER / "out", metavar="FOLDER")
    parser.add_argument("--start", type=int, default=START, metavar="SECONDS")


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(
        description="Compare load forecasts with those of plain Python."
    )
    add_arguments(parser)
    arguments = parser.parse_args()
    found = committed(arguments.output)
    readings = readings_of(arguments.input, arguments.delimiter, arguments.start)
    expected = forecasts(readings, arguments.start)
    rows = sum(len(epoch) for stream in found.values() for epoch in stream.values())
    print(f"epochs   {len(set().union(*found.values())):,}")
    print(f"rows     {rows:,}")
    difference = first_difference(found, expected)
    if difference is None:
        print("equal    yes: every row of every epoch and stream is that of plain Python")
        return 0
    print(f"equal    NO: {difference}")
    return 1


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
