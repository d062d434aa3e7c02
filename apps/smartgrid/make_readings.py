"""Makes readings of smart plugs in the shape of the DEBS 2014 Grand Challenge, in any number.

``python -m apps.smartgrid.make_readings`` writes the small file that the app starts with, and
``python -m apps.smartgrid.make_readings --houses 40 --plugs 2125 --interval 1 --hours 24 day.csv.gz`` a day
of the challenge's shape (367 million rows). The suffix says what is written: `.csv` is the challenge's
layout, with a column of ids, `.txt` its other one, lined up with blanks and without ids, both also with `.gz`
behind; `.parquet` has the columns of `SCHEMA`. The same call writes the same rows everywhere.

Every plug tells its work (property 0, kWh since it was new) and its load (property 1, W) once per interval.
Loads follow the hours of the day, each house at its own time: a plug is switched on for some quarters of
an hour, more often in the evening, and has a standby load or none. As in the challenge's data some readings
are missing, some plugs are silent for ten minutes, some readings are doubled, and some rows are malformed.
"""

from __future__ import annotations

import argparse
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

FOLDER = Path(__file__).parent / "data"
START = 1_377_986_401
"""The challenge's first second."""
SEED = 2014
DAY_SECONDS = 86_400
HOUSES, PLUGS = 40, 2_125
"""As many as the challenge has."""

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("value", pa.float64()),
        ("property", pa.int32()),
        ("plug_id", pa.int32()),
        ("household_id", pa.int32()),
        ("house_id", pa.int32()),
    ]
)

HOURLY = (
    30,
    20,
    15,
    12,
    12,
    15,
    30,
    55,
    60,
    50,
    45,
    45,
    55,
    55,
    45,
    45,
    50,
    65,
    90,
    100,
    95,
    85,
    65,
    45,
)
"""How much is switched on at the hours of a day, in per cent of what there is."""

BITS = 16_384
MISSING, DOUBLED = 80, 280
"""Of 16,384 readings, those below the first are missing, others below the second are doubled."""
MALFORMED = 40
"""Of 65,536 loads, so many are malformed."""
SILENT_SECONDS, SILENT_OF = 600, 256
"""Of as many stretches of that length a plug is silent in one."""

CHUNK_ROWS = 1 << 19

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def mixed(state: Words) -> Words:
    """Evenly distributed bits: the output function of SplitMix64 (Steele, Lea and Flood 2014). All chance
    comes from it and from integers, so that the rows do not depend on a machine or a library."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def bits(words: Words, first: int, count: int) -> Integers:
    """`count` bits from the `first` lowest on, as numbers."""
    return ((words >> np.uint64(first)) & np.uint64((1 << count) - 1)).astype(np.int64)


class Plugs(NamedTuple):
    """One entry per plug, in the order of house, household and plug. Powers are in mW."""

    house: Integers
    household: Integers
    plug: Integers
    standby: Integers
    power: Integers
    habit: Integers
    """How often it is switched on, in per cent of the hour's."""
    shift: Integers
    """How many seconds later than others the house gets up."""
    words: Words


class Rows(NamedTuple):
    """Rows of SCHEMA in the order of time, and which of them are malformed."""

    batch: pa.RecordBatch
    malformed: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """Houses with plugs that are read every `interval` seconds, from `start` on."""

    houses: int = HOUSES
    plugs: int = PLUGS
    interval: int = 1
    seed: int = SEED
    start: int = START

    def __post_init__(self) -> None:
        if not 1 <= self.houses <= self.plugs or self.interval < 1:
            raise ValueError(
                "a grid has houses, a plug or more in each, and an interval of a second or more"
            )

    @cached_property
    def sockets(self) -> Plugs:
        """The plugs: houses differ in their numbers, and so do households."""
        houses = np.arange(self.houses)
        weights = 30 + bits(self._words(1, houses), 0, 6)
        # every house has one; the others are shared out by weight, the last house takes what is left
        ends = np.cumsum(weights) * (self.plugs - self.houses) // weights.sum() + houses + 1
        counts = np.diff(ends, prepend=0)
        house = np.repeat(houses, counts)
        number = np.arange(self.plugs) - np.repeat(ends - counts, counts)
        largest = 2 + bits(self._words(2, house), 0, 2)
        household, place = divmod(number, largest)
        words = self._words(3, np.arange(self.plugs))
        # two of three plugs take nothing where they are switched off; few take much
        standby = np.where(bits(words, 0, 8) % 3 > 0, 0, 200 + bits(words, 8, 12))
        power = 5_000 + bits(words, 20, 16) * (1 << bits(words, 36, 2) * 2) // 2
        # ids have gaps, as those of the challenge
        plug = 2 * place + bits(words, 40, 1)
        habit = 20 + bits(words, 41, 6)
        shift = bits(self._words(4, house), 0, 13)
        return Plugs(house, household, plug, standby, power, habit, shift, words)

    def readings(self, first: int, rounds: int) -> Rows:
        """What the plugs tell in rounds [first, first + rounds), of one interval each.

        Any cut of the rounds into calls gives the same rows.
        """
        plugs = self.sockets
        times = self.start + self.interval * np.arange(first, first + rounds, dtype=np.int64)
        chance = mixed(plugs.words ^ self._words(5, times)[:, None])
        load = self._loads(times, chance)
        work = plugs.power * plugs.habit // 200 * ((times - self.start)[:, None] + 40 * DAY_SECONDS)
        work = work // 3_600_000 + (plugs.standby > 0)
        fates = np.stack((bits(chance, 16, 14), bits(chance, 30, 14)), axis=2)
        told = 1 + (fates < DOUBLED) - 2 * (fates < MISSING)
        told *= self._speaking(times)[:, :, None]
        told = told.ravel()
        malformed = np.zeros((rounds, len(plugs.house), 2), np.bool_)
        malformed[:, :, 1] = bits(chance, 44, 16) < MALFORMED
        values = np.stack((work, load), axis=2).ravel().repeat(told) / 1000.0
        columns: list[npt.NDArray[Any]] = [
            np.repeat(times, 2 * len(plugs.house)).repeat(told),
            values,
        ]
        for column in (None, plugs.plug, plugs.household, plugs.house):
            pair = np.tile([0, 1], len(plugs.house)) if column is None else np.repeat(column, 2)
            columns.append(np.tile(pair.astype(np.int32), rounds).repeat(told))
        return Rows(
            pa.record_batch(list(map(pa.array, columns)), SCHEMA), malformed.ravel().repeat(told)
        )

    def chunks(self, rounds: int, rows: int = CHUNK_ROWS) -> Iterator[Rows]:
        """All readings of so many rounds, in pieces of about so many rows."""
        step = max(1, rows // (2 * self.plugs))
        for first in range(0, rounds, step):
            yield self.readings(first, min(step, rounds - first))

    def _loads(self, times: Integers, chance: Words) -> Integers:
        """In mW, one line per time."""
        plugs = self.sockets
        # what holds for a quarter of an hour is worked out once for each
        quarters, of_times = np.unique(times // 900, return_inverse=True)
        second = (quarters[:, None] * 900 - plugs.shift) % DAY_SECONDS
        hour, past = divmod(second, 3600)
        curve = np.array((*HOURLY, HOURLY[0]), np.int64)
        share = curve[hour] * (3600 - past) + curve[hour + 1] * past
        lot = bits(mixed(plugs.words ^ self._words(6, quarters)[:, None]), 0, 16)
        is_on = lot * (3600 * 100 * 100) < share * plugs.habit * 65_536
        power = np.where(is_on, plugs.power, 0)[of_times]
        wavering = power * (bits(chance, 0, 12) - 2048) // 32_768
        return np.asarray(plugs.standby + power + wavering)

    def _speaking(self, times: Integers) -> npt.NDArray[np.bool_]:
        """Which plugs are not silent at which times."""
        stretches, of_times = np.unique(times // SILENT_SECONDS, return_inverse=True)
        lots = mixed(self.sockets.words ^ self._words(7, stretches)[:, None])
        return np.asarray(bits(lots, 0, 32) % SILENT_OF > 0)[of_times]

    def _words(self, purpose: int, numbers: Integers) -> Words:
        seed = (self.seed * 0x9E3779B97F4A7C15 + purpose * 0xD1B54A32D192ED03) % 2**64
        return mixed(numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed))


def malformed_line(line: bytes, kind: int) -> bytes:
    """A line that was cut, lost its value, or has a text for one."""
    fields = line.split(b",")
    value = len(fields) - 5
    if kind % 3 == 0:
        return b",".join(fields[: value + 1])
    fields[value] = b"n/a" if kind % 3 == 1 else b"-"
    return b",".join(fields)


def lines(rows: Rows, first_id: int | None) -> bytes:
    """Rows as lines, with ids from `first_id` on or without any."""
    batch = rows.batch
    if first_id is not None:
        ids = pa.array(np.arange(first_id, first_id + batch.num_rows))
        batch = pa.record_batch([ids, *batch.columns], names=["id", *batch.schema.names])
    out = io.BytesIO()
    settings = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    pa.csv.write_csv(batch, out, settings)
    written = out.getvalue()
    if rows.malformed.any():
        each = written.split(b"\n")
        for place in np.flatnonzero(rows.malformed).tolist():
            each[place] = malformed_line(each[place], place)
        written = b"\n".join(each)
    # lined up with blanks, as the challenge's data is that has no ids
    return written if first_id is not None else written.replace(b",", b"     ")


def write_lines(path: Path, grid: Grid, rounds: int) -> int:
    """Write a text file in the layout that its suffix says; return the number of rows."""
    with_ids = ".csv" in path.suffixes
    count = 0
    with _opened(path) as file:
        for rows in grid.chunks(rounds):
            file.write(lines(rows, count + 1 if with_ids else None))
            count += rows.batch.num_rows
    return count


def write_parquet(path: Path, grid: Grid, rounds: int) -> int:
    """Write a Parquet file, in which a malformed row has no time; return the number of rows."""
    count = 0
    with pq.ParquetWriter(path, SCHEMA) as writer:
        for rows in grid.chunks(rounds):
            batch = rows.batch
            times = pa.array(batch.column("ts").to_numpy(), mask=rows.malformed)
            writer.write_batch(batch.set_column(0, SCHEMA.field("ts"), times))
            count += batch.num_rows
    return count


def write_readings(path: Path, grid: Grid, rounds: int) -> int:
    """Write a file, as its suffix says; return the number of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write = write_parquet if path.suffix == ".parquet" else write_lines
    return write(path, grid, rounds)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    with path.open("wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        # neither its name nor the clock's time is in the file
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
            yield packed


SMALL = Grid(houses=3, plugs=9, interval=240)
SMALL_HOURS = 50
"""What the app starts with: two days and a little, so that there is a day before to learn from."""


def write_small(folder: Path) -> Path:
    """Write the app's own file, and return its path."""
    path = folder / "readings.csv"
    write_readings(path, SMALL, SMALL_HOURS * 3600 // SMALL.interval)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Write readings of smart plugs.")
    parser.add_argument("file", nargs="?", type=Path, help=".csv, .txt (both also .gz) or .parquet")
    parser.add_argument("--houses", type=int, default=SMALL.houses)
    parser.add_argument("--plugs", type=int, default=SMALL.plugs)
    parser.add_argument("--interval", type=int, default=SMALL.interval, metavar="SECONDS")
    parser.add_argument("--hours", type=float, default=SMALL_HOURS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--start", type=int, default=START, metavar="SECONDS")
    arguments = parser.parse_args()
    grid = Grid(
        arguments.houses, arguments.plugs, arguments.interval, arguments.seed, arguments.start
    )
    path = arguments.file or FOLDER / "readings.csv"
    rows = write_readings(path, grid, int(arguments.hours * 3600) // grid.interval)
    print(f"{path}: {rows:,} rows, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
