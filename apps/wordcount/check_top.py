"""Proves the most frequent words right: counts each window anew in plain Python, and compares row by row.

``python -m apps.wordcount.check_top [--input GLOB] [--output FOLDER]``, for the input and output that
``top.yaml`` was run with. Nothing here is the engine's but the reading of its committed output. Decisions are
those of the package.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import streammine
from apps import reading
from apps.wordcount.check import FOLDER, words_of

EPOCH_LINES = 100
WINDOW_EPOCHS = 10
FIRST = 10
FEWEST_LETTERS = 4
"""As in the topology."""

Ranks = dict[int, list[tuple[str, int]]]
"""By epoch, the words and their counts in the order of their ranks."""


def most_frequent(lines: Iterable[str | None]) -> Ranks:
    """Of every window that holds words, the most frequent ones; the last windows begin in the text and end
    behind it."""
    words: dict[int, list[str]] = {}
    for number, line in enumerate(lines):
        found = [word for word in words_of(line) if len(word) >= FEWEST_LETTERS]
        words.setdefault(number // EPOCH_LINES, []).extend(found)
    ranks: Ranks = {}
    for epoch in range(len(words) + WINDOW_EPOCHS - 1 if words else 0):
        counts: Counter[str] = Counter()
        for each in range(epoch - WINDOW_EPOCHS + 1, epoch + 1):
            counts.update(words.get(each, []))
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if ordered:
            ranks[epoch] = ordered[:FIRST]
    return ranks


def committed(folder: str) -> Ranks:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    ranks: Ranks = {}
    for epoch, rows in reading.committed(folder, ("rank", "word", "count")):
        if sorted(rank for rank, _, _ in rows) != list(range(1, len(rows) + 1)):
            raise streammine.OutputError(f"{folder}: epoch {epoch} does not have each rank once")
        if rows:
            ranks[epoch] = [(word, count) for _, word, count in sorted(rows)]
    return ranks


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare frequent words with plain Python's.")
    parser.add_argument("--input", default=str(FOLDER / "text" / "*.txt"), metavar="GLOB")
    parser.add_argument("--output", default=str(Path(FOLDER) / "out-top"), metavar="FOLDER")
    arguments = parser.parse_args()
    found = committed(arguments.output)
    expected = most_frequent(reading.texts(arguments.input))
    print(f"windows   {len(found):,}")
    last = found.get(max(found, default=0), [])
    print("last      " + ", ".join(f"{word} {count:,}" for word, count in last[:5]))
    if found == expected:
        print("equal     yes: every rank of every window is that of plain Python")
        return 0
    epoch = min(each for each in {*found, *expected} if found.get(each) != expected.get(each))
    print(f"equal     NO: epoch {epoch} is the first that differs")
    return 1


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
