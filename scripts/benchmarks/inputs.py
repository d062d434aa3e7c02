"""The inputs of the benchmarks: Parquet files, made once from a seed and kept.

Row groups have 122,880 rows, which is what DuckDB writes by default (Polars writes about twice as many,
Spark and pyarrow up to a million); epochs do not end where they end. Everything else is as pyarrow
writes it by default: snappy, dictionaries until they grow too large.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_GROUP = 122_880
SEED = 20_150_415
BASE_TIME = 1_377_986_400
"""The first second of all event times: 2013-08-31 22:00 UTC, where whole minutes and hours begin."""

WORDS_PER_LINE = 10
VOCABULARY = 50_000
PLUGS_PER_HOUSEHOLD = 5
HOUSEHOLDS_PER_HOUSE = 10
HOUSES = 40
PLUGS = PLUGS_PER_HOUSEHOLD * HOUSEHOLDS_PER_HOUSE * HOUSES
READINGS_PER_SECOND = 2_000
JOIN_EVENTS_PER_SECOND = 1_000
JOIN_KEYS = 60_000
"""As many keys as one stream has events in a window of 60 s: on average each event has one partner."""

STEPS_PER_SECOND = 2_000
MACHINES = 2_000
STEP_KINDS = 20

Chunk = Callable[[int, int, np.random.Generator], pa.RecordBatch]


def lines_file(folder: Path, lines: int) -> Path:
    """`lines` lines (string) of ten words each, Zipf-distributed over 50,000 words."""
    shares = 1.0 / np.arange(1, VOCABULARY + 1)
    bounds = np.cumsum(shares / shares.sum())
    words = [_word(rank) + " " for rank in range(VOCABULARY)]
    texts = pa.array(words + [word[:-1] for word in words])

    def chunk(first: int, count: int, random: np.random.Generator) -> pa.RecordBatch:
        ranks = np.searchsorted(bounds, random.random(count * WORDS_PER_LINE))
        ranks = np.minimum(ranks, VOCABULARY - 1)
        # the last word of a line has no blank behind it
        ranks[WORDS_PER_LINE - 1 :: WORDS_PER_LINE] += VOCABULARY
        _, offsets, text = texts.take(pa.array(ranks)).buffers()
        ends = np.frombuffer(offsets, np.int32, len(ranks) + 1)[::WORDS_PER_LINE].copy()
        column = pa.StringArray.from_buffers(count, pa.py_buffer(ends), text)
        return pa.record_batch([column], names=["line"])

    return _made(folder / f"lines-{lines}.parquet", lines, chunk)


def readings_file(folder: Path, readings: int) -> Path:
    """Plug readings in the columns of the DEBS 2014 grand challenge, 2,000 per second from 2,000
    plugs in random order: ts (int64, s), value (float64, three decimals), property, plug_id,
    household_id, house_id (int32)."""

    def chunk(first: int, count: int, random: np.random.Generator) -> pa.RecordBatch:
        seconds = pa.array(_seconds(first, count, READINGS_PER_SECOND))
        return _readings(seconds, random.integers(0, PLUGS, count), random)

    return _made(folder / f"readings-{readings}.parquet", readings, chunk)


def uneven_readings_file(path: Path, counts: Sequence[int]) -> Path:
    """Readings in the same columns, but that ts is a timestamp in milliseconds: `counts[s]` of them, evenly,
    in second s of event time, from 0 on. All plugs tell one after the other."""
    ends = np.cumsum(counts)

    def chunk(first: int, count: int, random: np.random.Generator) -> pa.RecordBatch:
        numbers = np.arange(first, first + count, dtype=np.int64)
        seconds = np.searchsorted(ends, numbers, "right")
        passed = 1.0 - (ends[seconds] - numbers) / np.asarray(counts)[seconds]
        times = pa.array((1000 * (seconds + passed)).astype(np.int64)).cast(pa.timestamp("ms"))
        return _readings(times, numbers % PLUGS, random)

    return _made(path, int(ends[-1]), chunk)


def _readings(
    times: pa.Array, plugs: npt.NDArray[np.int64], random: np.random.Generator
) -> pa.RecordBatch:
    base = np.random.default_rng(SEED).uniform(0.0, 300.0, PLUGS)
    noise = random.exponential(12.0, len(plugs))
    household = plugs // PLUGS_PER_HOUSEHOLD
    columns = [
        times,
        pa.array(np.round(base[plugs] + noise, 3)),
        *(
            pa.array(column.astype(np.int32))
            for column in (
                np.ones(len(plugs)),
                plugs % PLUGS_PER_HOUSEHOLD,
                household % HOUSEHOLDS_PER_HOUSE,
                household // HOUSEHOLDS_PER_HOUSE,
            )
        ),
    ]
    names = ["ts", "value", "property", "plug_id", "household_id", "house_id"]
    return pa.record_batch(columns, names=names)


def orders_file(folder: Path, events: int) -> Path:
    """Orders: ts (int64, s), id (int64), amount (float64, two decimals)."""
    return _stream_file(folder, "orders", events, "amount", SEED + 1)


def payments_file(folder: Path, events: int) -> Path:
    """Payments: ts (int64, s), id (int64), paid (float64, two decimals)."""
    return _stream_file(folder, "payments", events, "paid", SEED + 2)


def steps_file(folder: Path, steps: int) -> Path:
    """Steps of machines, 2,000 per second of 2,000 machines in random order: ts (int64, s), machine (int64),
    kind (int32, 0 to 19), value (float64, one decimal)."""

    def chunk(first: int, count: int, random: np.random.Generator) -> pa.RecordBatch:
        columns = [
            pa.array(_seconds(first, count, STEPS_PER_SECOND)),
            pa.array(random.integers(0, MACHINES, count)),
            pa.array(random.integers(0, STEP_KINDS, count).astype(np.int32)),
            pa.array(random.integers(0, 1_000, count) / 10.0),
        ]
        return pa.record_batch(columns, names=["ts", "machine", "kind", "value"])

    return _made(folder / f"steps-{steps}.parquet", steps, chunk, SEED + 3)


def _stream_file(folder: Path, name: str, events: int, value: str, seed: int) -> Path:
    def chunk(first: int, count: int, random: np.random.Generator) -> pa.RecordBatch:
        columns = [
            pa.array(_seconds(first, count, JOIN_EVENTS_PER_SECOND)),
            pa.array(random.integers(0, JOIN_KEYS, count)),
            pa.array(random.integers(0, 100_000, count) / 100.0),
        ]
        return pa.record_batch(columns, names=["ts", "id", value])

    return _made(folder / f"{name}-{events}.parquet", events, chunk, seed)


def _seconds(first: int, count: int, per_second: int) -> npt.NDArray[np.int64]:
    return BASE_TIME + np.arange(first, first + count, dtype=np.int64) // per_second


def _word(rank: int) -> str:
    """Letters only; frequent words are shorter, as in languages."""
    consonants, vowels = "bdfgklmnprstvz", "aeiou"
    text = ""
    rank += 1
    while rank:
        rank, place = divmod(rank - 1, len(consonants) * len(vowels))
        text += consonants[place % len(consonants)] + vowels[place // len(consonants)]
    return text


def _made(path: Path, rows: int, chunk: Chunk, seed: int = SEED) -> Path:
    """The file, written now unless it is there. A half-written one never has its name."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    try:
        batches = _batches(rows, chunk, np.random.default_rng(seed))
        first = next(batches)
        with pq.ParquetWriter(unfinished, first.schema) as writer:
            writer.write_batch(first, row_group_size=ROWS_PER_GROUP)
            for batch in batches:
                writer.write_batch(batch, row_group_size=ROWS_PER_GROUP)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _batches(rows: int, chunk: Chunk, random: np.random.Generator) -> Iterator[pa.RecordBatch]:
    for first in range(0, rows, ROWS_PER_GROUP):
        yield chunk(first, min(ROWS_PER_GROUP, rows - first), random)
