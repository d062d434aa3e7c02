"""Proves the search right: compares each message with all recent ones in plain Python.

``python -m apps.similarity.check [--input FILE] [--output FOLDER]``, for the messages and the output that the
topology was run with. Nothing here is the engine's but the reading of its committed output.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import streammine

FOLDER = Path(__file__).parent
WINDOW_SECONDS = 600
FEWEST_SHARED = 2
"""As in the topology."""

_WORD = re.compile(r"[A-Za-z]{4,}")

Pairs = dict[int, tuple[int, int]]
"""By message, the most similar one before it and how many words they share."""


@dataclass(frozen=True)
class Message:
    number: int
    second: int
    area: str
    words: frozenset[str]


def messages_of(path: Path) -> Iterator[Message]:
    """The messages of a CSV file."""
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            words = frozenset(_WORD.findall(row["text"].lower()))
            yield Message(int(row["message"]), int(row["ts"]), row["area"], words)


def most_similar(messages: Iterable[Message]) -> Pairs:
    """Every message against every other one."""
    everything = list(messages)
    pairs: Pairs = {}
    for message in everything:
        shared = [
            (len(message.words & other.words), other.number)
            for other in everything
            if other.area == message.area
            and other.number < message.number
            and message.second - WINDOW_SECONDS <= other.second <= message.second
        ]
        count, number = max(shared, default=(0, -1))
        if count >= FEWEST_SHARED:
            pairs[message.number] = number, count
    return pairs


def committed(folder: str) -> Pairs:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    pairs: Pairs = {}
    for _, table in streammine.read_output(folder):
        for row in table.to_pylist():
            assert row["message"] not in pairs, f"{row} is there twice"
            pairs[row["message"]] = row["similar"], row["shared"]
    return pairs


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare similar messages with plain Python's.")
    parser.add_argument("--input", default=str(FOLDER / "data" / "messages.csv"), metavar="FILE")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    arguments = parser.parse_args()
    expected = most_similar(messages_of(Path(arguments.input)))
    try:
        found = committed(arguments.output)
    except streammine.OutputError as error:
        print(error, file=sys.stderr)
        return 1
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
    sys.exit(main())
