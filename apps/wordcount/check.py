"""Proves a word count right: counts again in plain Python, and compares row by row.

``python -m apps.wordcount.check [--input GLOB] [--output FOLDER]``, for the input and output that
the topology was run with. Nothing here is the engine's but the reading of its committed output. Decisions are
those of the package.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import streammine
from apps import reading

FOLDER = Path(__file__).parent
EPOCH_LINES = 1_000
"""As in the topology."""

_WORD = re.compile(r"[A-Za-z]+")

Counts = dict[tuple[int, str], int]
"""Occurrences by (epoch, word)."""


def words_of(line: str | None) -> list[str]:
    """The words of a line; a dead letter has none."""
    return [word.lower() for word in _WORD.findall(line or "")]


def counted(lines: Iterable[str | None]) -> Counts:
    """The word count, as a reader would do it."""
    counts: Counter[tuple[int, str]] = Counter()
    for number, line in enumerate(lines):
        counts.update((number // EPOCH_LINES, word) for word in words_of(line))
    return dict(counts)


def committed(folder: str) -> Counts:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    counts: Counts = {}
    for epoch, rows in reading.committed(folder, ("epoch", "word", "count")):
        for of_epoch, word, count in rows:
            if of_epoch != epoch or (epoch, word) in counts:
                raise streammine.OutputError(
                    f"{folder}: {word!r} of epoch {of_epoch} is twice, or in epoch {epoch}"
                )
            counts[epoch, word] = count
    return counts


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare a word count with plain Python's.")
    parser.add_argument("--input", default=str(FOLDER / "text" / "*.txt"), metavar="GLOB")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    arguments = parser.parse_args()
    found = committed(arguments.output)
    expected = counted(reading.texts(arguments.input))
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
    sys.exit(reading.exit_status(main))
