"""Draws how alike messages are: ``python -m apps.similarity.draw [--output FOLDER] [--picture FILE]``.

Needs output that the topology has committed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from apps import drawing, reading
from apps.similarity import check

PICTURE = drawing.DOCS / "similarity.png"
MOST = 5
COLOURS = ("#d6e0ee", "#a9bfdc", "#6f8fbf", "#c0392b")


def minutes(folder: str | Path) -> list[Counter[int]]:
    """For each minute from the first to the last, how many messages share so many words with their most
    similar one; `MOST` stands for as many or more."""
    found = {
        epoch: Counter(min(MOST, count) for (count,) in rows)
        for epoch, rows in reading.committed(folder, ("shared",))
        if rows
    }
    drawing.require_rows(found, folder)
    first, last = min(found), max(found)
    return [found.get(epoch, Counter()) for epoch in range(first, last + 1)]


def draw(counts: list[Counter[int]], path: Path) -> None:
    """A bar for each minute, parted by how many words are shared."""
    figure, axes = drawing.pyplot().subplots(figsize=(7.5, 3.0), layout="constrained")
    below = [0] * len(counts)
    for shared, colour in zip(range(check.FEWEST_SHARED, MOST + 1), COLOURS, strict=True):
        heights = [each[shared] for each in counts]
        label = f"{shared} words" + (" or more" if shared == MOST else "")
        axes.bar(range(len(counts)), heights, 0.9, below, color=colour, label=label)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set_xlabel("minute")
    axes.set_ylabel("messages that share")
    axes.set_xlim(-0.5, len(counts) - 0.5)
    axes.set_ylim(0, max(below) * 1.3)
    axes.legend(frameon=False, loc="upper left", ncols=4)
    axes.spines[["top", "right"]].set_visible(False)
    drawing.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw how alike messages are.")
    parser.add_argument("--output", type=Path, default=check.FOLDER / "out", metavar="FOLDER")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE")
    arguments = parser.parse_args()
    draw(minutes(arguments.output), arguments.picture)
    return 0


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
