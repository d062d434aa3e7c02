"""Proves the load forecasts right: makes them again in plain Python, and compares every row of every epoch.

``python -m apps.smartgrid.check [--input FILE] [--output FOLDER] [--start SECONDS]``, for the readings and
the output that the topology was run with. Nothing here is the engine's but the reading of its committed
output. Decisions are those of `operators`, in words; averages are made of fractions.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import median

import streammine

FOLDER = Path(__file__).parent
START = 1_377_986_401
LENGTHS_MINUTES = (1, 5, 15, 60, 120)
EPOCH_SECONDS = 30
DAY_SECONDS = 86_400
"""As in the topology and its operators."""

Plug = tuple[int, int, int]
"""House, household, plug."""

Row = tuple[float, ...]
Stream = tuple[str, int]
"""Level (house or plug) and length of slices in minutes."""

Forecasts = dict[Stream, dict[int, set[Row]]]
"""The rows of each stream by epoch."""


@dataclass(frozen=True)
class Reading:
    """A load in watts at a time in seconds."""

    ts: int
    plug: Plug
    watts: Fraction


def readings_of(path: Path) -> Iterator[Reading]:
    """The loads of a file in either of the challenge's layouts, without malformed lines."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        for line in file:
            with_id = "," in line
            fields = line.rstrip("\n").split(",") if with_id else line.split()
            if with_id:
                fields = fields[1:]
            try:
                ts, value, kind, plug, household, house = fields
                load = Fraction(value)
                if int(kind) == 1:
                    yield Reading(int(ts), (int(house), int(household), int(plug)), load)
            except ValueError:
                continue


class Loads:
    """All loads, by plug and by slice."""

    def __init__(self, start: int) -> None:
        self._start = start
        # sum and number, by length, plug and slice
        self._loads: dict[tuple[int, Plug, int], tuple[Fraction, int]] = {}
        self._plugs: dict[int, set[Plug]] = defaultdict(set)

    def add(self, reading: Reading) -> None:
        self._plugs[reading.plug[0]].add(reading.plug)
        for minutes in LENGTHS_MINUTES:
            place = minutes, reading.plug, self.slice_at(reading.ts, minutes)
            total, count = self._loads.get(place, (Fraction(0), 0))
            self._loads[place] = total + reading.watts, count + 1

    def slice_at(self, ts: int, minutes: int) -> int:
        return (ts - self._start) // (60 * minutes)

    def plugs(self, house: int) -> list[Plug]:
        return sorted(self._plugs[house])

    def of_plug(self, minutes: int, plug: Plug, index: int) -> float | None:
        """Its average load in a slice, None without any reading."""
        total, count = self._loads.get((minutes, plug, index), (Fraction(0), 0))
        return float(total / count) if count else None

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
    for reading in readings:
        if reading.ts >= start:
            by_epoch[reading.ts // epoch_seconds].append(reading)
    found: Forecasts = {
        (level, minutes): defaultdict(set)
        for level in ("house", "plug")
        for minutes in LENGTHS_MINUTES
    }
    for epoch in sorted(by_epoch):
        for reading in by_epoch[epoch]:
            loads.add(reading)
        last_second = (epoch + 1) * epoch_seconds - 1
        for minutes in LENGTHS_MINUTES:
            current = loads.slice_at(last_second, minutes)
            wanted = current + 2
            ts = start + wanted * minutes * 60
            days_before = range(
                wanted - DAY_SECONDS // (60 * minutes), -1, -DAY_SECONDS // (60 * minutes)
            )
            for house in {reading.plug[0] for reading in by_epoch[epoch]}:
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
    found: Forecasts = {}
    for level in ("house", "plug"):
        for minutes in LENGTHS_MINUTES:
            stream = found[level, minutes] = {}
            for epoch, table in streammine.read_output(folder / f"{level}s-{minutes}-minutes"):
                rows = [tuple(row.values()) for row in table.to_pylist()]
                assert len(set(rows)) == len(rows), f"a row is twice in epoch {epoch}"
                if rows:
                    stream[epoch] = set(rows)
    return found


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


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(
        description="Compare load forecasts with those of plain Python."
    )
    parser.add_argument("--input", default=str(FOLDER / "data" / "readings.csv"), metavar="FILE")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    parser.add_argument("--start", type=int, default=START, metavar="SECONDS")
    arguments = parser.parse_args()
    try:
        found = committed(Path(arguments.output))
    except streammine.OutputError as error:
        print(error, file=sys.stderr)
        return 1
    expected = forecasts(readings_of(Path(arguments.input)), arguments.start)
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
    sys.exit(main())
