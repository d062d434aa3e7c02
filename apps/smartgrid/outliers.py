"""Query 2 of the DEBS 2014 Grand Challenge: houses whose plugs take more than plugs usually do.

For each house, the percentage of its plugs whose median load in a window is greater than the median load of
all plugs' readings in that window, for windows of 1 h and 24 h that slide by 1 s; a row of
`ts_start,ts_stop,house_id,percentage` whenever it has changed.

Which readings count is in the package's docstring. Other decisions where the challenge is silent:

Windows
    They end with every second of Unix time: [ts_start, ts_stop), where ts_stop is a second later than the
    newest reading that may be in it. The first ones are longer than the stream, and hold what there is.
Medians
    Loads are whole milliwatts, so that medians are exact: of an even number, the mean of the middle two.
Which plugs there are
    Those with a reading in the window. A plug without any has no median, and counts neither among the
    outliers nor among the plugs of its house.
Seconds without readings
    Windows move on through them, and behind the last reading until nothing is left: a result changes when
    readings leave, too.
On change
    A row leaves for a house and length of window when the percentage is another number than that of the row
    before; 50 % of two plugs is 50 % of four. When no plug of the house has readings any more, the last row
    has a null. A house in which no plug is an outlier is told once with 0.
Equal medians
    Are no outliers: greater means greater.

The medians are the engine's (`quantile` operators); a house is in one slice with all others, as only medians
that have changed come here. Each window's plugs are kept in ascending order, so that those of a house lie
behind each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine import Map, Operator

ID_BITS = 20
SECOND = 1_000_000
"""In microseconds."""

NO_HOUSE = -1
"""The house of rows that are of all readings."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass
class Window:
    """What is known of one length of windows. A NaN is no median, or no percentage.

    `plugs` are ascending codes, `medians` theirs, `overall` that of all readings; `houses` are those
    with plugs, ascending, `told` what was told of each last.
    """

    plugs: Integers
    medians: Floats
    overall: float
    houses: Integers
    told: Floats

    @classmethod
    def read(cls, kept: tuple[bytes, bytes, float, bytes, bytes] | None) -> Window:
        """What `kept` gave, or a window of which nothing is known."""
        plugs, medians, overall, houses, told = kept or (b"", b"", np.nan, b"", b"")
        return cls(
            np.frombuffer(plugs, np.int64),
            np.frombuffer(medians).copy(),
            overall,
            np.frombuffer(houses, np.int64),
            np.frombuffer(told),
        )

    def kept(self) -> tuple[bytes, bytes, float, bytes, bytes]:
        """All of it as plain data."""
        return (
            self.plugs.tobytes(),
            self.medians.tobytes(),
            self.overall,
            self.houses.tobytes(),
            self.told.tobytes(),
        )

    def take(self, plugs: Integers, medians: Floats) -> None:
        """New medians of plugs, each of which is named once, in any order."""
        places = np.searchsorted(self.plugs, plugs)
        known = places < self.plugs.size
        known[known] = self.plugs[places[known]] == plugs[known]
        if not known.all():
            new = np.sort(plugs[~known])
            behind = np.searchsorted(self.plugs, new)
            self.plugs = np.insert(self.plugs, behind, new)
            self.medians = np.insert(self.medians, behind, np.nan)
            places = np.searchsorted(self.plugs, plugs)
        self.medians[places] = medians

    def changes(self) -> tuple[Integers, Floats]:
        """Houses with another percentage than was told before. Plugs without a median are given up."""
        house = self.plugs >> 2 * ID_BITS
        first = np.flatnonzero(np.diff(house, prepend=-1))
        houses = house[first]
        told = np.full(houses.size, np.nan)
        told[np.searchsorted(houses, self.houses)] = self.told
        there = ~np.isnan(self.medians)
        # a comparison with NaN is false
        outliers = np.add.reduceat(self.medians > self.overall, first, dtype=np.int64)
        plugs = np.add.reduceat(there, first, dtype=np.int64)
        with np.errstate(invalid="ignore"):
            percentages = 100.0 * outliers / plugs
        changed = np.flatnonzero(~np.equal(told, percentages) & ~(np.isnan(told) & (plugs == 0)))
        if not there.all():
            self.plugs, self.medians = self.plugs[there], self.medians[there]
        self.houses, self.told = houses[plugs > 0], percentages[plugs > 0]
        return houses[changed], percentages[changed]


class Outliers(Operator):
    """Keeps the medians of all plugs and of all readings, and tells each house's percentage as it changes.

    Rows without a house are of all readings.
    """

    needs: ClassVar = (
        "window_start",
        "window_end",
        "house_id",
        "household_id",
        "plug_id",
        "median",
    )
    output: ClassVar = {
        "ts_start": "int64",
        "ts_stop": "int64",
        "house_id": "int32",
        "percentage": "float64",
    }
    state: ClassVar = {"windows": Map()}
    commutative: ClassVar = True

    def process_slice(self, batch: pa.RecordBatch, state: Any) -> Any:
        starts, ends = (batch.column(name).to_numpy().astype(np.int64) for name in self.needs[:2])
        house, household, plug = (
            batch.column(name).fill_null(NO_HOUSE).to_numpy().astype(np.int64)
            for name in self.needs[2:5]
        )
        # nulls become NaNs
        medians = batch.column("median").to_numpy(zero_copy_only=False)
        codes = (house << ID_BITS | household) << ID_BITS | plug
        columns: list[tuple[Any, ...]] = []
        # all rows of an epoch are of windows that end with it
        stop = int(ends[0])
        for start in sorted(set(starts.tolist())):
            length = stop - start
            window = Window.read(state.windows.get(length))
            of_plugs = (starts == start) & (house >= 0)
            of_all = (starts == start) & (house < 0)
            if of_all.any():
                (window.overall,) = map(float, medians[of_all])
            window.take(codes[of_plugs], medians[of_plugs])
            houses, percentages = window.changes()
            state.windows[length] = window.kept()
            times = np.full((2, houses.size), [[stop - length], [stop]]) // SECOND
            columns.append((*times, houses, percentages))
        joined = [np.concatenate(each) for each in zip(*columns, strict=True)]
        joined[2] = joined[2].astype(np.int32)
        arrays = [*map(pa.array, joined[:3]), pa.array(joined[3], from_pandas=True)]
        return pa.record_batch(arrays, names=[*self.output])
