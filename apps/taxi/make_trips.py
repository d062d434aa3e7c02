"""Makes taxi trips in the shape of the challenge, any number of them, and writes the few that the app ships.

The same call writes the same bytes everywhere: ``python -m apps.taxi.make_trips [FILE] [--trips N]``.

Most trips begin and end near few places, hot spots of different weight and width, and more lead from the
heaviest to the next ones than anywhere else; the others are spread over the city. Trips end in whole minutes,
as the first hours of the real data have it, or in whole seconds; so many end at the same time. Some have no
coordinates, and a few a negative fare or tip, as in the real data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

FILE = Path(__file__).parent / "data" / "trips.csv"
TRIPS = 2_000
SEED = 2015
START_SECONDS = 1_357_000_200
"""2013-01-01 00:30, a whole minute."""

COLUMNS = (
    "medallion",
    "hack_license",
    "pickup_datetime",
    "dropoff_datetime",
    "trip_time_in_secs",
    "trip_distance",
    "pickup_longitude",
    "pickup_latitude",
    "dropoff_longitude",
    "dropoff_latitude",
    "payment_type",
    "fare_amount",
    "surcharge",
    "mta_tax",
    "tip_amount",
    "tolls_amount",
    "total_amount",
)

SPOTS = np.array(
    [
        # longitude, latitude (millionths of a degree), width, weight
        (-73_985_000, 40_758_000, 4_000, 24),
        (-73_992_000, 40_750_000, 3_000, 18),
        (-73_977_000, 40_752_000, 3_000, 14),
        (-73_989_000, 40_741_000, 6_000, 12),
        (-74_003_000, 40_733_000, 6_000, 10),
        (-73_962_000, 40_773_000, 8_000, 9),
        (-73_981_000, 40_778_000, 7_000, 8),
        (-74_009_000, 40_709_000, 5_000, 6),
        (-73_872_000, 40_774_000, 1_500, 4),
        (-73_784_000, 40_645_000, 1_500, 3),
        (-73_960_000, 40_715_000, 12_000, 3),
        (-73_950_000, 40_800_000, 30_000, 6),
    ],
    dtype=np.int64,
)
"""Where trips begin and end: Midtown, the railway stations, downtown, the airports, and all around."""

Whole = npt.NDArray[np.int64]


class Trips:
    """Trips by number. A generator for streammine, too: the columns that the queries read.

    Any stretch of trips can be made apart from the others; only whole numbers are computed with, so that the
    bytes are the same on every machine.
    """

    def __init__(
        self, per_minute: int = 350, taxis: int = 8_000, whole_minutes: bool = False
    ) -> None:
        """`per_minute`: how many trips end in a minute; about 350 did in the year 2013."""
        for name, value in (("per_minute", per_minute), ("taxis", taxis)):
            if type(value) is not int or not 1 <= value <= 10**9:
                raise ValueError(f"{name} must be a whole number from 1 to 10**9, not {value!r}")
        self._per_minute = per_minute
        self._taxis = taxis
        self._whole_minutes = whole_minutes

    @property
    def schema(self) -> pa.Schema:
        """The columns that the queries read."""
        times = [(name, pa.timestamp("s")) for name in ("pickup_datetime", "dropoff_datetime")]
        numbers = [
            *(
                f"{end}_{axis}"
                for end in ("pickup", "dropoff")
                for axis in ("longitude", "latitude")
            ),
            "fare_amount",
            "tip_amount",
        ]
        return pa.schema(
            [("medallion", pa.string()), *times, *((name, pa.float64()) for name in numbers)]
        )

    def rows(self, first: int, count: int, seed: int = SEED) -> pa.RecordBatch:
        """Trips [first, first + count), the same for the same seed however they are asked for."""
        number = np.arange(first, first + count, dtype=np.int64)
        dropoff = number * 60 // self._per_minute
        if self._whole_minutes:
            dropoff = dropoff // 60 * 60
        dropoff += START_SECONDS
        seconds = 120 + _below(_words(number, seed, 0), 30) * _below(_words(number, seed, 1), 60)
        if self._whole_minutes:
            seconds = seconds // 60 * 60
        start = _spots(_words(number, seed, 2))
        end = _spots(_words(number, seed, 3))
        lost = _below(_words(number, seed, 4), 10_000)
        ends = [
            *_points(start, _words(number, seed, 5), lost < 150),
            *_points(end, _words(number, seed, 6), (lost >= 100) & (lost < 176)),
        ]
        fare = 300 + seconds * 5 // 6 // 50 * 50
        tip = np.where(
            _below(_words(number, seed, 7), 100) < 45, fare * (10 + number % 3 * 5) // 100, 0
        )
        fare = np.where(lost >= 9_995, -fare, fare)
        tip = np.where(lost == 9_990, -100, tip)
        columns = [
            _names(_below(_words(number, seed, 8), self._taxis)),
            pa.array(dropoff - seconds, pa.timestamp("s")),
            pa.array(dropoff, pa.timestamp("s")),
            *(pa.array(end / 1_000_000) for end in ends),
            pa.array(fare / 100),
            pa.array(tip / 100),
        ]
        return pa.record_batch(columns, schema=self.schema)


def _words(number: Whole, seed: int, column: int) -> npt.NDArray[np.uint64]:
    """Evenly distributed 64 bits by trip, seed and column: SplitMix64 (Steele, Lea and Flood, 2014)."""
    offset = (seed * 0x9E3779B97F4A7C15 + column * 0xD1B54A32D192ED03 + 1) % 2**64
    state = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(offset)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))


def _below(words: npt.NDArray[np.uint64], bound: int) -> Whole:
    """Whole numbers in [0, bound), evenly."""
    return ((words >> np.uint64(32)) * np.uint64(bound) >> np.uint64(32)).astype(np.int64)


def _spots(words: npt.NDArray[np.uint64]) -> Whole:
    """Hot spots by their weights."""
    bounds = np.cumsum(SPOTS[:, 3])
    return np.searchsorted(bounds, _below(words, int(bounds[-1])), "right")


def _points(spot: Whole, words: npt.NDArray[np.uint64], lost: npt.NDArray[np.bool_]) -> list[Whole]:
    """Longitude and latitude near the hot spots, in millionths; 0 where they are lost.

    Of the sum of four even chances, the middle is likelier than the ends.
    """
    points = []
    for axis, shift in ((0, 0), (1, 32)):
        chances = [((words >> np.uint64(shift + 8 * part)) & np.uint64(255)) for part in range(4)]
        offset = sum(chance.astype(np.int64) for chance in chances) - 510
        # the low bits of another multiple fill in what lies between the steps of 1/255
        fine = _below(words * np.uint64(0x9E3779B97F4A7C15 + 2 * axis), 4)
        point = SPOTS[spot, axis] + (offset * 4 + fine) * SPOTS[spot, 2] // 1_000
        points.append(np.where(lost, 0, point))
    return points


def _names(number: Whole) -> pa.Array:
    """Text of 32 hexadecimal digits, as the taxis' licences are in the data."""
    words = [_words(number, 7, column) for column in range(2)]
    data = np.stack([word.byteswap() for word in words], axis=1).tobytes()
    return pa.array([data[at : at + 16].hex().upper() for at in range(0, len(data), 16)])


def as_lines(trips: pa.RecordBatch) -> pa.Table:
    """All 17 columns, those that no query reads in one value for all."""
    rows = trips.num_rows
    given = dict(zip(trips.schema.names, trips.columns, strict=True))
    seconds = pc.subtract(
        given["dropoff_datetime"].cast(pa.int64()), given["pickup_datetime"].cast(pa.int64())
    )
    text = pa.array(["CRD"] * rows)
    money = {name: pc.round(given[name], 2) for name in ("fare_amount", "tip_amount")}
    others = {
        "hack_license": given["medallion"],
        "trip_time_in_secs": seconds,
        "payment_type": text,
        **dict.fromkeys(
            ("trip_distance", "surcharge", "mta_tax", "tolls_amount"), pa.array(np.zeros(rows))
        ),
        "total_amount": pc.round(pc.add(*money.values()), 2),
    }
    return pa.table({name: given.get(name, others.get(name)) for name in COLUMNS})


def write_trips(path: Path, trips: int = TRIPS) -> Path:
    """Write lines as the challenge has them, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = as_lines(Trips(per_minute=20, taxis=300, whole_minutes=True).rows(0, trips))
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(table, path, options)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Make taxi trips.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    parser.add_argument("--trips", type=int, default=TRIPS, metavar="N")
    arguments = parser.parse_args()
    written = write_trips(arguments.file, arguments.trips)
    print(f"{written}: {written.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
