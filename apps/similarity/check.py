"""Proves the search right: compares each message with all recent ones in plain Python.

``python -m apps.similarity.check [--input GLOB] [--output FOLDER]``, for the messages and the output that the
topology was run with. Nothing here is the engine's but the reading of its committed output. Decisions are
those of the package.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import streammine
from apps import reading

FOLDER = Path(__file__).parent
EPOCH_SECONDS = 60
WINDOW_SECONDS = 600
FEWEST_SHARED = 2
"""As in the topology."""

_WORD = re.compile(r"[A-Za-z]{4,}")

Pairs = dict[int, tuple[int, int]]
"""By message, the most similar one before it and how many words they share."""


@dataclass(frozen=True)
class Message:
    number: int | None
    second: int
    area: str | None
    words: frozenset[str]


def messages_of(pattern: str | Path) -> Iterator[Message]:
    """The messages of all files that count, without late ones."""
    for path in reading.paths(pattern):
        records = reading.named_records(path, ("message", "ts", "area", "text"))
        parsed = filter(None, map(_message, records))
        yield from reading.in_time(parsed, lambda message: message.second, EPOCH_SECONDS)


def _message(record: list[reading.Value] | None) -> Message | None:
    """None for a dead letter."""
    if record is None:
        return None
    try:
        number, second = map(reading.whole_number, record[:2])
        area, text = map(reading.text, record[2:])
    except ValueError:
        return None
    words = frozenset(word.lower() for word in _WORD.findall(text or ""))
    return None if second is None else Message(number, second, area, words)


def most_similar(messages: Iterable[Message]) -> Pairs:
    """Every message against every other one."""
    everything = [(each, each.number) for each in messages if each.area is not None]
    pairs: Pairs = {}
    for message, number in everything:
        if number is None:
            continue
        shared = [
            (len(message.words & other.words), earlier)
            for other, earlier in everything
            if other.area == message.area
            and earlier is not None
            and earlier < number
            and message.second - WINDOW_SECONDS <= other.second <= message.second
        ]
        count, similar = max(shared, default=(0, -1))
        if count >= FEWEST_SHARED:
            pairs[number] = similar, count
    return pairs


def committed(folder: str) -> Pairs:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    pairs: Pairs = {}
    for _, rows in reading.committed(folder, ("message", "similar", "shared")):
        for message, similar, shared in rows:
            if message in pairs:
                raise streammine.OutputError(f"{folder}: message {message} is there twice")
            pairs[message] = similar, shared
    return pairs


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare similar messages with plain Python's.")
    parser.add_argument("--input", default=str(FOLDER / "data" / "messages.csv"), metavar="GLOB")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    arguments = parser.parse_args()
    found = committed(arguments.output)
    expected = most_similar(messages_of(arguments.input))
    print(f"messages with a similar one  {len(found):,}")
    if found == expected:
        print("equal                        yes: every pair is that of plain Python")
        return 0
    number = min(each for each in {*found, *expected} if found.get(each) != expected.get(each))
    print(
        f"equal                        NO: message {number} is the first that differs: "
        f"{found.get(number)} instead of {expected.get(number)}"
    )
    return 1


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
