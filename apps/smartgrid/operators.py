"""Query 1 of the DEBS 2014 Grand Challenge: load forecasts for plugs and houses.

The load of a plug (house, household, plug) or house in the slice of time after the next is predicted from its
average load in the current slice and from the same slice of earlier days:

    L(s_{i+2}) = (avgLoad(s_i) + median{avgLoad(s_j)}) / 2,   s_j = s_{i+2-n·k},  n = 1 … floor((i+2)/k)

for slices of 1, 5, 15, 60 and 120 minutes; k is the number of slices in 24 hours. Output is one stream per
length and level, `ts,house_id,predicted_load` and `ts,house_id,household_id,plug_id,predicted_load`; ts is
the start of the predicted slice.

Which readings count is in the package's docstring. Other decisions where the challenge is silent:

Slices
    They are counted from `start`, and so begin one second after a whole minute.
Updates
    At the end of each epoch, a whole half minute of Unix time. The current slice is that of the epoch's last
    second, of which all readings up to the epoch's end count. A house and its plugs are updated where one of
    its plugs has told a load in the epoch: then each of its plugs gets a row that has told a load in the
    current slice. So the first row in the output for a `ts` was predicted from half a minute or less.
Averages
    Sums are of whole milliwatts and there is one division, so that an average is the float64 nearest to the
    mean, whatever the order.
Slices in which a plug told nothing
    It has no average there: no row for a current slice, and an earlier one is left out of the median. So is
    that of a house in which no plug told anything.
A house
    Its average load is the sum of those of its plugs that told a load in the slice, rounded once. What is
    predicted for it is made of such sums, and is not the sum of what is predicted for its plugs.
The first day
    Where there is no earlier slice that counts, the average of the current one is what is predicted.
Medians
    Of an even number, the mean of the middle two. Of as many days as the challenge has, 30 by default: what
    is older is forgotten, so that state is bounded.
Rounding
    None in the output: a prediction is a float64, and half a sum of two of them.

The work is done on columns: readings shrink to one row per plug, minute and epoch before the shuffle, and
`Forecasts` gets all houses of its slice at once. Plugs have numbers in the order in which they were first
heard of, and so have houses: an array that was made when there were fewer is the beginning of a longer one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine import History, Mapper, Operator, Value

START = 1_377_986_401
SLICE_MINUTES = (1, 5, 15, 60, 120)
MINUTE_SECONDS = 60
DAY_MINUTES = 1_440
DAYS = 30
AHEAD = 2
"""So many slices behind the current one lies the one that is predicted."""

LOAD = 1
"""The property of readings that are loads; 0 is work."""
LAST_MINUTE = 2**31 - 1
"""Minutes are kept in 32 bits: a time in milliseconds would be beyond."""
LARGEST_WATTS = 1e6
"""So that the milliwatts of a slice, with a reading a second, are exact as a float."""

ID_BITS = 20
NONE = -1
"""In place of the household and plug of a house."""
PLUG = ("house_id", "household_id", "plug_id")
LEVELS = ("house", "plug")

Booleans = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Names = npt.NDArray[np.int32]
"""House, household and plug in each line."""


class Loads(Mapper):
    """The readings that are loads, in whole milliwatts, with the minute since `start` (s) that they are of.

    Raises ValueError for a load that can't be used.
    """

    needs: ClassVar = ("ts", "value", "property", *PLUG)
    output: ClassVar = {**dict.fromkeys(PLUG, "int32"), "minute": "int32", "milliwatts": "int64"}

    def __init__(self, start: int = START) -> None:
        self._start = start

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        if any(batch.column(name).null_count for name in self.needs):
            raise ValueError("a reading lacks a value")
        rows = np.flatnonzero(batch.column("property").to_numpy() == LOAD)
        watts = batch.column("value").to_numpy()[rows]
        usable = np.abs(watts) <= LARGEST_WATTS
        if not usable.all():
            raise ValueError(f"{watts[~usable][0]} is no load in watts")
        minutes = (batch.column("ts").to_numpy()[rows] - self._start) // MINUTE_SECONDS
        if minutes.size and minutes.min() < 0:
            raise ValueError(f"the reading is from before the first slice, {self._start}")
        if minutes.size and minutes.max() > LAST_MINUTE:
            raise ValueError(
                f"the reading is of no time in seconds: more than {LAST_MINUTE} minutes on"
            )
        columns = [batch.column(name).to_numpy()[rows] for name in PLUG]
        if any(column.size and (column.min() < 0 or column.max() >> ID_BITS) for column in columns):
            raise ValueError(f"the reading is of no plug: ids are from 0 to {(1 << ID_BITS) - 1}")
        columns += [minutes.astype(np.int32), np.rint(watts * 1000.0).astype(np.int64)]
        return pa.record_batch(list(map(pa.array, columns)), names=[*self.output]), rows


class Sums(NamedTuple):
    """Loads of plugs in minutes: each pair of a plug and a minute is there once at most."""

    plug: Integers
    minute: Integers
    milliwatts: Integers
    readings: Integers


class Averages(NamedTuple):
    """Watts by the numbers of plugs and houses; NaN: there is none."""

    plugs: Floats
    houses: Floats


class Leaving(NamedTuple):
    """Plugs and houses in the order in which rows of them leave.

    numbers: of plugs, and behind all plugs, of houses. names: house, household and plug, or of a house, NONE.
    """

    numbers: Integers
    names: Names


class Record(Protocol):
    """The slices that are over, in a `History`: (number, averages of plugs and of houses as bytes)."""

    first: int

    @property
    def end(self) -> int: ...

    def __getitem__(self, number: int) -> Any: ...

    def append(self, entry: Any) -> int: ...

    def drop_before(self, number: int) -> None: ...


class Plugs:
    """The plugs that have been heard of."""

    def __init__(self, data: bytes) -> None:
        """`data`: as in the attribute of that name."""
        self.data = data
        """The plugs' codes (int64) as bytes."""
        self._codes = np.frombuffer(data, np.int64)

    def __len__(self) -> int:
        return len(self._codes)

    def with_all_of(self, codes: Integers) -> Plugs:
        """These plugs, and behind them, in ascending order, those of `codes` that are new."""
        ascending, _ = self._ascending
        places = np.searchsorted(ascending, codes)
        known = places < len(ascending)
        known[known] = ascending[places[known]] == codes[known]
        if known.all():
            return self
        return Plugs(self.data + np.unique(codes[~known]).tobytes())

    def numbers(self, codes: Integers) -> Integers:
        """The plugs' numbers; all of them are known."""
        ascending, numbers = self._ascending
        return np.asarray(numbers[np.searchsorted(ascending, codes)])

    @cached_property
    def _ascending(self) -> tuple[Integers, Integers]:
        """All codes in ascending order, and the numbers of their plugs."""
        numbers = np.argsort(self._codes)
        return self._codes[numbers], numbers

    @cached_property
    def names(self) -> Names:
        """House, household and plug of each."""
        shifts = np.array([2 * ID_BITS, ID_BITS, 0])
        return np.asarray(self._codes[:, None] >> shifts & (1 << ID_BITS) - 1, np.int32)

    @cached_property
    def houses(self) -> Names:
        """The houses' ids by their numbers."""
        _, firsts = np.unique(self.names[:, 0], return_index=True)
        return np.asarray(self.names[np.sort(firsts), 0])

    @cached_property
    def house(self) -> Integers:
        """The number of each plug's house."""
        ascending = np.argsort(self.houses)
        return np.asarray(ascending[np.searchsorted(self.houses[ascending], self.names[:, 0])])

    @cached_property
    def leaving(self) -> Leaving:
        """Plugs and houses, a house behind its plugs."""
        of_house = np.full((len(self.houses), 2), NONE, np.int32)
        names = np.concatenate((self.names, np.column_stack((self.houses, of_house))))
        house, household, plug = names.T
        numbers = np.lexsort((plug, household, household == NONE, house))
        return Leaving(numbers, names[numbers])

    def sums(self, watts: Floats) -> Floats:
        """For each house the sum over its plugs, rounded once; NaN where no plug has any watts."""
        order, ends = self._by_house
        present = ~np.isnan(watts)
        values = np.where(present, watts, 0.0)[order].tolist()
        starts = [0, *ends[:-1]]
        sums = [fsum(values[start:end]) for start, end in zip(starts, ends, strict=True)]
        told = np.bincount(self.house[present], minlength=len(ends)) > 0
        return np.where(told, sums, np.nan)

    @cached_property
    def _by_house(self) -> tuple[Integers, list[int]]:
        """The plugs' numbers, house by house, and where each house ends."""
        return np.argsort(self.house, kind="stable"), np.cumsum(np.bincount(self.house)).tolist()


@dataclass
class Current:
    """The current slice: its number, and for each plug the milliwatts and readings so far."""

    index: int
    milliwatts: Integers
    counts: Integers

    @classmethod
    def of(cls, data: Any, plugs: int) -> Current:
        """`data`: as in the attribute of that name, or None. There are so many plugs by now."""
        if data is None:
            return cls(-1, np.zeros(plugs, np.int64), np.zeros(plugs, np.int64))
        index, *columns = data
        filled = np.zeros((2, plugs), np.int64)
        for line, column in zip(filled, columns, strict=True):
            known = np.frombuffer(column, np.int64)
            line[: known.size] = known
        return cls(index, filled[0], filled[1])

    @property
    def data(self) -> tuple[int, bytes, bytes]:
        """It as plain data."""
        return self.index, self.milliwatts.tobytes(), self.counts.tobytes()

    def averages(self, plugs: Plugs) -> Averages:
        """In watts. A quotient of whole numbers below 2 ** 53, so it is the float nearest to the mean."""
        watts = np.full(len(plugs), np.nan)
        np.divide(self.milliwatts, 1000 * self.counts, out=watts, where=self.counts > 0)
        return Averages(watts, plugs.sums(watts))

    def begin(self, index: int) -> None:
        """Another slice begins."""
        self.index = index
        self.milliwatts[:] = 0
        self.counts[:] = 0


class Lane:
    """One length of slices."""

    def __init__(self, minutes: int, days: int) -> None:
        self.minutes = minutes
        self._days = days
        self._per_day = DAY_MINUTES // minutes
        # what is usual in the slice that is predicted, and what that was found for
        self._usual: tuple[tuple[int, int, int], Averages] | None = None

    def advance(
        self, now: Current, earlier: Record, rows: Sums, last_minute: int, plugs: Plugs
    ) -> None:
        """Add rows to their slices; the current one is then that of `last_minute`."""
        indices = rows.minute // self.minutes
        for index in np.unique(indices).tolist():
            self._reach(index, now, earlier, plugs)
            chosen = np.flatnonzero(indices == index)
            np.add.at(now.milliwatts, rows.plug[chosen], rows.milliwatts[chosen])
            np.add.at(now.counts, rows.plug[chosen], rows.readings[chosen])
        self._reach(last_minute // self.minutes, now, earlier, plugs)

    def _reach(self, index: int, now: Current, earlier: Record, plugs: Plugs) -> None:
        """The current slice is this one, which is not before that of before."""
        if index == now.index:
            return
        if now.counts.any():
            averages = now.averages(plugs)
            earlier.append((now.index, averages.plugs.tobytes(), averages.houses.tobytes()))
        now.begin(index)
        oldest = index + AHEAD - self._days * self._per_day
        earlier.drop_before(_place(earlier, oldest))

    def predicted(self, now: Current, earlier: Record, plugs: Plugs) -> Averages:
        """For the slice after the next; NaN where the current one has no average."""
        found_for = (now.index, earlier.end, len(plugs))
        if self._usual is None or self._usual[0] != found_for:
            self._usual = found_for, self._medians(now.index + AHEAD, earlier, plugs)
        _, usual = self._usual
        return Averages(*map(_predicted, now.averages(plugs), usual))

    def _medians(self, index: int, earlier: Record, plugs: Plugs) -> Averages:
        """What is usual in a slice: the medians of those at the same time of earlier days."""
        days = list(self._same_time(index, earlier))
        widths = len(plugs), plugs.houses.size
        columns = np.full((2, len(days), max(widths)), np.nan)
        for day, (_, *averages) in enumerate(days):
            for column, average in zip(columns, averages, strict=True):
                watts = np.frombuffer(average)
                column[day, : watts.size] = watts
        return Averages(
            *(medians(each[:, :width]) for each, width in zip(columns, widths, strict=True))
        )

    def _same_time(self, index: int, earlier: Record) -> Iterator[Any]:
        if earlier.first == earlier.end:
            return
        oldest = max(earlier[earlier.first][0], index - self._days * self._per_day)
        for wanted in range(index - self._per_day, oldest - 1, -self._per_day):
            place = _place(earlier, wanted)
            if place < earlier.end and earlier[place][0] == wanted:
                yield earlier[place]


def medians(lines: Floats) -> Floats:
    """The median of each column, without what is NaN; NaN where all is."""
    if len(lines) == 0:
        return np.full(lines.shape[1], np.nan)
    ascending = np.sort(lines, axis=0)  # what is NaN comes last
    counts = np.count_nonzero(~np.isnan(ascending), axis=0)
    middle = np.stack((np.maximum(counts - 1, 0) // 2, np.minimum(counts // 2, len(lines) - 1)))
    low, high = np.take_along_axis(ascending, middle, axis=0)
    return np.asarray((low + high) / 2.0)


def _predicted(average: Floats, usual: Floats) -> Floats:
    return np.where(np.isnan(usual), average, (average + usual) / 2.0)


def _place(earlier: Record, index: int) -> int:
    """The number of the first entry that is of this slice or a later one."""
    return bisect_left(earlier, index, earlier.first, earlier.end, key=lambda entry: entry[0])


class Forecasts(Operator):
    """What is predicted for houses and for their plugs, for all lengths of slices of time.

    Takes exact sums of loads per plug and minute. Rows of plugs have all columns, those of houses neither a
    household nor a plug.
    """

    needs: ClassVar = (*PLUG, "minute", "milliwatts", "readings")
    output: ClassVar = {
        "minutes": "int32",
        "ts": "int64",
        **dict.fromkeys(PLUG, "int32"),
        "predicted_load": "float64",
    }
    commutative: ClassVar = True
    state: ClassVar = {
        "plugs": Value(b""),
        **{f"current_{minutes}": Value() for minutes in SLICE_MINUTES},
        **{f"earlier_{minutes}": History() for minutes in SLICE_MINUTES},
    }

    def __init__(self, start: int = START, days: int = DAYS) -> None:
        """`days`: over so many earlier days medians are taken."""
        self._start = start
        self._plugs = Plugs(b"")
        self._lanes = [Lane(minutes, days) for minutes in SLICE_MINUTES]

    def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
        house, household, plug = (batch.column(name).to_numpy().astype(np.int64) for name in PLUG)
        codes = (house << 2 * ID_BITS) + (household << ID_BITS) + plug
        if self._plugs.data != state.plugs:
            self._plugs = Plugs(state.plugs)
        if (more := self._plugs.with_all_of(codes)) is not self._plugs:
            self._plugs, state.plugs = more, more.data
        plugs = self._plugs
        loads = [batch.column(name).to_numpy() for name in ("minute", "milliwatts", "readings")]
        rows = Sums(plugs.numbers(codes), *loads)
        active = np.isin(np.arange(plugs.houses.size), plugs.house[rows.plug])
        assert self.context.window is not None
        last_second = self.context.window[1] // 1_000_000 - 1
        last_minute = (last_second - self._start) // MINUTE_SECONDS
        leaving = plugs.leaving
        leaves = np.concatenate((active[plugs.house], active))[leaving.numbers]
        found = []
        for lane in self._lanes:
            now = Current.of(getattr(state, f"current_{lane.minutes}"), len(plugs))
            earlier = getattr(state, f"earlier_{lane.minutes}")
            lane.advance(now, earlier, rows, last_minute, plugs)
            setattr(state, f"current_{lane.minutes}", now.data)
            watts = np.concatenate(lane.predicted(now, earlier, plugs))[leaving.numbers]
            chosen = np.flatnonzero(leaves & ~np.isnan(watts))
            ts = self._start + MINUTE_SECONDS * lane.minutes * (now.index + AHEAD)
            of_all = [np.full(len(chosen), lane.minutes, np.int32), np.full(len(chosen), ts)]
            found.append([*of_all, *leaving.names[chosen].T, watts[chosen]])
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        arrays = [pa.array(column, mask=column == NONE) for column in columns[:-1]]
        return pa.record_batch([*arrays, columns[-1]], names=[*self.output])


class Stream(Mapper):
    """One of the ten streams: the predictions of one length of slices (minutes), for houses or for plugs."""

    needs: ClassVar = ("minutes", "ts", *PLUG, "predicted_load")

    def __init__(self, minutes: int, level: str) -> None:
        if minutes not in SLICE_MINUTES or level not in LEVELS:
            raise ValueError(f"there are slices of {SLICE_MINUTES} minutes, and levels {LEVELS}")
        self._minutes = minutes
        self._of_plugs = level == "plug"
        self._columns = ["ts", *(PLUG if self._of_plugs else PLUG[:1]), "predicted_load"]

    def output_schema(self, *inputs: pa.Schema) -> pa.Schema:
        return pa.schema([inputs[0].field(name) for name in self._columns])

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        chosen = batch.column("minutes").to_numpy() == self._minutes
        of_plugs = batch.column("plug_id").is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(chosen & (of_plugs == self._of_plugs))
        return batch.select(self._columns).take(pa.array(rows)), rows
