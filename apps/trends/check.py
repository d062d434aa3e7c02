"""Proves the trends right: finds them again in plain Python, and compares every epoch.

``python -m apps.trends.check [--edits FILE] [--output FOLDER] [--epoch SECONDS]``, for the edits, the output
and the length of an epoch that the topology was run with. Nothing here is the engine's but the reading of its
committed output.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import streammine

FOLDER = Path(__file__).parent
EPOCH_SECONDS = 60
WINDOW_SECONDS = 1200
"""As in the topology, and its operator."""

Row = tuple[str, int, int, int]
"""Channel, edits, users, added."""

Trends = dict[int, set[Row]]
"""By epoch."""


@dataclass(frozen=True)
class Edit:
    """`milliseconds` count from the beginning of 1970."""

    milliseconds: int
    channel: str
    user: str
    added: int


def edits_of(path: Path) -> Iterator[Edit]:
    """The edits of a file, one JSON object a line."""
    origin = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        for line in file:
            edit = json.loads(line)
            passed = datetime.datetime.fromisoformat(edit["time"]) - origin
            milliseconds = passed // datetime.timedelta(milliseconds=1)
            yield Edit(milliseconds, edit["channel"], edit["user"], edit["added"])


def trends_by_epoch(edits: Iterable[Edit], epoch_seconds: int, window_seconds: int) -> Trends:
    """What leaves in each epoch: of every channel that has edits in it, those of the last while up to its
    end. Each is looked for among all edits of the channel, without keeping anything."""
    by_channel: dict[str, list[Edit]] = defaultdict(list)
    for edit in edits:
        by_channel[edit.channel].append(edit)
    trends: Trends = defaultdict(set)
    for channel, all_of_it in by_channel.items():
        for epoch in {edit.milliseconds // (epoch_seconds * 1000) for edit in all_of_it}:
            end = (epoch + 1) * epoch_seconds * 1000
            first = end - window_seconds * 1000
            lately = [edit for edit in all_of_it if first <= edit.milliseconds < end]
            users = {edit.user for edit in lately}
            added = sum(edit.added for edit in lately)
            trends[epoch].add((channel, len(lately), len(users), added))
    return dict(trends)


def committed(folder: str) -> Trends:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    trends: Trends = {}
    for epoch, table in streammine.read_output(folder):
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert len(set(rows)) == len(rows), f"a channel is twice in epoch {epoch}"
        if rows:
            trends[epoch] = {(str(row[0]), *map(int, row[1:])) for row in rows}  # type: ignore[misc]
    return trends


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare trends with those of plain Python.")
    parser.add_argument("--edits", default=str(FOLDER / "data" / "edits.jsonl"), metavar="FILE")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    parser.add_argument("--epoch", type=int, default=EPOCH_SECONDS, metavar="SECONDS")
    arguments = parser.parse_args()
    edits = edits_of(Path(arguments.edits))
    expected = trends_by_epoch(edits, arguments.epoch, WINDOW_SECONDS)
    try:
        found = committed(arguments.output)
    except streammine.OutputError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"epochs      {len(found):,}")
    print(f"rows        {sum(map(len, found.values())):,}")
    if found == expected:
        print("equal       yes: every row of every epoch is that of plain Python")
        return 0
    epoch = min(each for each in {*found, *expected} if found.get(each) != expected.get(each))
    wrong = found.get(epoch, set()) ^ expected.get(epoch, set())
    print(f"equal       NO: epoch {epoch} is the first that differs, in {sorted(wrong)[0]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
