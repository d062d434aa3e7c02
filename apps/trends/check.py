"""Proves the trends right: finds them again in plain Python, and compares every epoch.

``python -m apps.trends.check [--edits GLOB] [--output FOLDER] [--epoch SECONDS]``, for the edits, the output
and the length of an epoch that the topology was run with. Nothing here is the engine's but the reading of its
committed output. Decisions are those of the package.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from apps import reading

FOLDER = Path(__file__).parent
SECOND = 1_000_000
"""In microseconds."""

EPOCH_SECONDS = 60
WINDOW_SECONDS = 1200
"""As in the topology, and its operator."""

Row = tuple[str, int, int, int]
"""Channel, edits, users, added."""

Trends = dict[int, set[Row]]
"""By epoch."""


@dataclass(frozen=True)
class Edit:
    """`microseconds` count from the beginning of 1970."""

    microseconds: int
    channel: str
    user: str
    added: int


def edits_of(pattern: str | Path, epoch_seconds: int = EPOCH_SECONDS) -> Iterator[Edit]:
    """The edits of all files that count, without late ones."""
    for path in reading.paths(pattern):
        edits = filter(None, map(_edit, reading.lines(path)))
        yield from reading.in_time(edits, lambda edit: edit.microseconds, epoch_seconds * SECOND)


def _edit(line: bytes) -> Edit | None:
    """None for a dead letter."""
    try:
        found = json.loads(line)
        time, channel, user, added = (found[name] for name in ("time", "channel", "user", "added"))
        microseconds = reading.time(time, 6)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if microseconds is None or not (isinstance(channel, str) and isinstance(user, str)):
        return None
    return Edit(microseconds, channel, user, added) if type(added) is int else None


def trends_by_epoch(edits: Iterable[Edit], epoch_seconds: int, window_seconds: int) -> Trends:
    """What leaves in each epoch: of every channel that has edits in it, those of the last while up to its
    end. Each is looked for among all edits of the channel, without keeping anything."""
    by_channel: dict[str, list[Edit]] = defaultdict(list)
    for edit in edits:
        by_channel[edit.channel].append(edit)
    trends: Trends = defaultdict(set)
    for channel, all_of_it in by_channel.items():
        for epoch in {edit.microseconds // (epoch_seconds * SECOND) for edit in all_of_it}:
            end = (epoch + 1) * epoch_seconds * SECOND
            first = end - window_seconds * SECOND
            lately = [edit for edit in all_of_it if first <= edit.microseconds < end]
            users = {edit.user for edit in lately}
            added = sum(edit.added for edit in lately)
            trends[epoch].add((channel, len(lately), len(users), added))
    return dict(trends)


def committed(folder: str) -> Trends:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    found = reading.committed_sets(folder, ("channel", "edits", "users", "added"))
    return {
        epoch: {(row[0], row[1], row[2], row[3]) for row in rows} for epoch, rows in found.items()
    }


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare trends with those of plain Python.")
    parser.add_argument("--edits", default=str(FOLDER / "data" / "edits.jsonl"), metavar="GLOB")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    parser.add_argument("--epoch", type=int, default=EPOCH_SECONDS, metavar="SECONDS")
    arguments = parser.parse_args()
    found = committed(arguments.output)
    edits = edits_of(arguments.edits, arguments.epoch)
    expected = trends_by_epoch(edits, arguments.epoch, WINDOW_SECONDS)
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
    sys.exit(reading.exit_status(main))
