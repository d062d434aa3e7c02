"""Proves a word count right: counts again in plain Python, and compares row by row.

``python -m apps.wordcount.check [--input GLOB] [--output FOLDER]``, for the input and output that
the topology was run with. Nothing here is the engine's but the reading of its committed output.
"""

from __future__ import annotations

import argparse
import glob
import gzip
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import streammine

FOLDER = Path(__file__).parent
EPOCH_LINES = 1_000
"""As in the topology."""

_WORD = re.compile(rb"[A-Za-z]+")

Counts = dict[tuple[int, str], int]
"""Occurrences by (epoch, word)."""


def lines_of(pattern: str) -> Iterator[bytes]:
    """The lines of all files, one file after the other in path order."""
    for path in sorted(glob.glob(pattern, recursive=True)):
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            yield from file


def counted(lines: Iterator[bytes]) -> Counts:
    """The word count, as a reader would do it."""
    counts: Counter[tuple[int, str]] = Counter()
    for number, line in enumerate(lines):
        words = _WORD.findall(line.lower())
        counts.update((number // EPOCH_LINES, word.decode()) for word in words)
    return dict(counts)


def committed(folder: str) -> Counts:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    counts: Counts = {}
    for epoch, table in streammine.read_output(folder):
        for row in table.to_pylist():
            assert row["epoch"] == epoch
            assert (epoch, row["word"]) not in counts, f"{row} is there twice"
            counts[epoch, row["word"]] = row["count"]
    return counts


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare a word count with plain Python's.")
    parser.add_argument("--input", default=str(FOLDER / "text" / "*.txt"), metavar="GLOB")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    arguments = parser.parse_args()
    expected = counted(lines_of(arguments.input))
    try:
        found = committed(arguments.output)
    except streammine.OutputError as error:
        print(error, file=sys.stderr)
        return 1
    total: Counter[str] = Counter()
    for (_, word), count in found.items():
        total[word] += count
    print(f"words     {sum(total.values()):,}")
    print(f"distinct  {len(total):,}")
    print("top       " + ", ".join(f"{word} {count:,}" for word, count in total.most_common(5)))
    if found == expected:
        print("equal     yes: every count of every epoch is that of plain Python")
        return 0
    wrong = sorted(set(found.items()) ^ set(expected.items()))
    (epoch, word), _ = wrong[0]
    print(
        f"equal     NO: {len(wrong):,} differences; the first is {word!r} in epoch {epoch}: "
        f"{found.get((epoch, word), 0)} instead of {expected.get((epoch, word), 0)}"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
