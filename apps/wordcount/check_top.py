"""Proves the most frequent words right: counts each window anew in plain Python, and compares row by row.

``python -m apps.wordcount.check_top [--input GLOB] [--output FOLDER]``, for the input and output that
``top.yaml`` was run with: the first of the two applications that Wu & Tan (2015), section V, measure by.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import streammine
from apps.wordcount.check import FOLDER, lines_of

EPOCH_LINES = 100
WINDOW_EPOCHS = 10
FIRST = 10
"""As in the topology."""

_WORD = re.compile(rb"[A-Za-z]{4,}")

Ranks = dict[int, list[tuple[str, int]]]
"""By epoch, the words and their counts in the order of their ranks."""


def most_frequent(lines: Iterable[bytes]) -> Ranks:
    """Of every window that holds words, the most frequent ones; the last windows begin in the text and end
    behind it."""
    words: dict[int, list[str]] = {}
    for number, line in enumerate(lines):
        found = [word.decode() for word in _WORD.findall(line.lower())]
        words.setdefault(number // EPOCH_LINES, []).extend(found)
    ranks: Ranks = {}
    for epoch in range(max(words) + WINDOW_EPOCHS):
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
    for epoch, table in streammine.read_output(folder):
        rows = sorted(table.to_pylist(), key=lambda row: int(row["rank"]))
        assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1)), f"epoch {epoch}"
        if rows:
            ranks[epoch] = [(row["word"], row["count"]) for row in rows]
    return ranks


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare frequent words with plain Python's.")
    parser.add_argument("--input", default=str(FOLDER / "text" / "*.txt"), metavar="GLOB")
    parser.add_argument("--output", default=str(Path(FOLDER) / "out-top"), metavar="FOLDER")
    arguments = parser.parse_args()
    expected = most_frequent(lines_of(arguments.input))
    try:
        found = committed(arguments.output)
    except streammine.OutputError as error:
        print(error, file=sys.stderr)
        return 1
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
    sys.exit(main())
