"""Writes the small day of edits that the trends start with, and knows how edits rise and fall over a day.

The same call writes the same bytes everywhere: ``python -m apps.trends.make_edits [FOLDER]``.

People edit least before dawn and most in the evening; machines edit in bursts of some minutes, at any hour.
Few channels and few users have most of the edits.
"""

from __future__ import annotations

import datetime
import json
import random
import sys
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data"
EDITS = 1_000
CHANNELS = 12
USERS = 300
SEED = 2015
DAY = datetime.datetime(2015, 6, 1)
DAY_MINUTES = 1440

HOURLY = (
    11,
    9,
    8,
    8,
    9,
    12,
    17,
    21,
    23,
    25,
    26,
    26,
    27,
    29,
    31,
    32,
    33,
    35,
    36,
    34,
    31,
    26,
    20,
    14,
)
"""People's edits in the hours of a day, as parts of a whole."""

BURSTS = ((95, 25), (430, 12), (700, 45), (905, 8), (1130, 20))
"""(first minute, minutes) in which machines edit, too."""

BURST_PART = 45


def rhythm() -> list[int]:
    """How many edits the minutes of a day have, as parts of a whole."""
    minutes = []
    for minute in range(DAY_MINUTES):
        hour, past = divmod(minute, 60)
        people = HOURLY[hour] * (60 - past) + HOURLY[(hour + 1) % 24] * past
        bursts = sum(first <= minute < first + length for first, length in BURSTS)
        minutes.append(people + 60 * BURST_PART * bursts)
    return minutes


def edits(seed: int = SEED) -> Iterator[dict[str, Any]]:
    """A day of them, in the order of their times."""
    chance = random.Random(seed)
    # random() gives the same numbers in every Python; other methods do not promise it.
    parts = list(accumulate(rhythm()))
    times = []
    for _ in range(EDITS):
        minute = bisect_right(parts, int(chance.random() * parts[-1]))
        times.append(minute * 60_000 + int(chance.random() * 60_000))
    for milliseconds in sorted(times):
        time = DAY + datetime.timedelta(milliseconds=milliseconds)
        # the product of two even chances lies near 0 more often than not
        channel = int(CHANNELS * chance.random() * chance.random())
        user = int(USERS * chance.random() * chance.random())
        yield {
            "time": f"{time.isoformat(timespec='milliseconds')}Z",
            "channel": f"#{chr(ord('a') + channel) * 2}.wikipedia",
            "user": f"user-{user}",
            "added": int(1000 * chance.random() * chance.random()),
        }


def write_edits(folder: Path) -> Path:
    """Write the file, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "edits.jsonl"
    path.write_bytes("".join(json.dumps(each) + "\n" for each in edits()).encode())
    return path


if __name__ == "__main__":
    written = write_edits(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    print(f"{written}: {written.stat().st_size:,} bytes")
