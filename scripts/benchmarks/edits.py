"""Days of edits for the benchmarks, in the columns of `apps/trends`: made once, from a rhythm, and kept.

A rhythm says how many edits each minute of a day has; that of a real day is at hand, without its edits. The
day is shortened to the seconds that it is played in, and has as many edits as the rate asks for.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

ROOT = Path(__file__).resolve().parents[2]
REAL_MINUTES = ROOT / "apps" / "trends" / "wikiticker-minutes.json"
START_MILLISECONDS = 1_433_116_800_000
"""2015-06-01, midnight."""

CHANNELS = 50
USERS = 10_000
SEED = 20_150_912
COLUMNS = {"time": "timestamp[us]", "channel": "string", "user": "string", "added": "int64"}
CHUNK_ROWS = 200_000


@dataclass(frozen=True)
class Rhythm:
    """How many edits each minute has, and whose they are."""

    name: str
    minutes: Sequence[int]


def real_rhythm() -> Rhythm:
    """That of the edits of Wikipedia of a day."""
    told = json.loads(REAL_MINUTES.read_text())
    return Rhythm(told["name"], told["edits_per_minute"])


def rhythm_of(path: Path) -> Rhythm:
    """How many edits a file of JSON lines, compressed or not, has in each minute from the first on that it
    tells of to the last; `time` is text like ``2015-09-12T00:46:58.771Z``. Raises ValueError if there are
    fewer than two.
    """
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        times = [str(json.loads(line)["time"]).removesuffix("Z") for line in file]
    minutes = np.array(times, dtype="datetime64[m]").astype(np.int64)
    if len(set(minutes.tolist())) < 2:
        raise ValueError(f"{path} has no rhythm: its edits are of one minute")
    counts = Counter((minutes - minutes.min()).tolist())
    return Rhythm(path.name, [counts[minute] for minute in range(int(np.ptp(minutes)) + 1)])


def edit_times(
    rhythm: Sequence[int], seconds: float, speed: float, count: int
) -> npt.NDArray[np.int64]:
    """`count` event times (int64 milliseconds, ascending) that rise and fall as the rhythm does, within as
    much event time as `seconds` have at that speed.
    """
    parts = np.concatenate([np.zeros(1), np.cumsum(np.asarray(rhythm, np.float64))])
    even = (np.arange(count) + 0.5) / count * parts[-1]
    minutes = np.interp(even, parts, np.arange(len(parts)))
    passed = minutes / len(rhythm) * seconds * speed * 1000
    times: npt.NDArray[np.int64] = START_MILLISECONDS + passed.astype(np.int64)
    return times


def write_edits(
    folder: Path, rhythm: Sequence[int], seconds: int, speed: float, rate: int, files: int
) -> str:
    """The pattern of `files` files of JSON lines, which share the edits of a day in turn; they are made
    unless they are there. `rate` is the mean of edits per second played.
    """
    key = xxhash.xxh64_hexdigest(json.dumps([list(rhythm), seconds, speed, rate, SEED]).encode())
    name = f"edits-{seconds}-{rate}-{key[:8]}"
    paths = [folder / f"{name}-{number}-of-{files}.jsonl" for number in range(files)]
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        _write(paths, edit_times(rhythm, seconds, speed, seconds * rate))
    return str(folder / f"{name}-*-of-{files}.jsonl")


def _write(paths: Sequence[Path], times: npt.NDArray[np.int64]) -> None:
    parts = [path.with_suffix(".part") for path in paths]
    random = np.random.default_rng(SEED)
    with ExitStack() as opened:
        streams = [opened.enter_context(part.open("wb")) for part in parts]
        for first in range(0, len(times), CHUNK_ROWS):
            lines = _lines(times[first : first + CHUNK_ROWS], random)
            for number, stream in enumerate(streams):
                stream.write("".join(lines[number :: len(streams)]).encode())
    for part, path in zip(parts, paths, strict=True):
        os.replace(part, path)


def _lines(milliseconds: npt.NDArray[np.int64], random: np.random.Generator) -> list[str]:
    count = len(milliseconds)
    texts = np.datetime_as_string(milliseconds.astype("datetime64[ms]"), unit="ms")
    # the product of two even chances lies near 0 more often than not
    channels = (CHANNELS * random.random(count) * random.random(count)).astype(np.int64)
    users = (USERS * random.random(count) * random.random(count)).astype(np.int64)
    added = (1000 * random.random(count) * random.random(count)).astype(np.int64)
    columns = [
        '{"time": "',
        pa.array(texts),
        'Z", "channel": "#',
        _text(channels),
        '.wikipedia", "user": "user-',
        _text(users),
        '", "added": ',
        _text(added),
        "}\n",
        "",
    ]
    lines: list[str] = pc.binary_join_element_wise(*columns).to_pylist()
    return lines


def _text(numbers: npt.NDArray[np.int64]) -> pa.Array:
    return pc.cast(pa.array(numbers), pa.string())
