"""Draws how words come and go: ``python -m apps.wordcount.draw_top [--output FOLDER] [--picture FILE]``.

A line for each word is its count in the window, as long as it is among the ten most frequent. The words that
reach the highest counts, but are not there all the time, have colours. Needs output that the topology has
committed.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from apps import drawing, reading
from apps.wordcount import check_top as check
from apps.wordcount.check import FOLDER

PICTURE = drawing.DOCS / "topwords.png"
COLOURS = ("#c0392b", "#2c6fbb", "#3c8d40", "#d68910", "#7d3c98", "#138d90")
OTHERS = "#c8ced6"


def counts_of(ranks: check.Ranks) -> dict[str, list[float]]:
    """For each word that was ever among the first its count in every window; NaN where it was not."""
    windows = range(max(ranks) + 1)
    words = {word for first in ranks.values() for word, _ in first}
    found = {word: [math.nan for _ in windows] for word in sorted(words)}
    for epoch, first in ranks.items():
        for word, count in first:
            found[word][epoch] = count
    return found


def telling(counts: dict[str, list[float]]) -> list[str]:
    """The words that have colours, the highest count first."""
    rising = {
        word: max(count for count in found if not math.isnan(count))
        for word, found in counts.items()
        if any(map(math.isnan, found))
    }
    return sorted(rising, key=lambda word: (-rising[word], word))[: len(COLOURS)]


def draw(counts: dict[str, list[float]], path: Path) -> None:
    """A line for each word."""
    figure, axes = drawing.pyplot().subplots(figsize=(9, 3.4), layout="constrained")
    coloured = dict(zip(telling(counts), COLOURS, strict=False))
    ends = range(1, 1 + max(map(len, counts.values())))
    for word, found in counts.items():
        if word not in coloured:
            axes.plot(ends, found, color=OTHERS, linewidth=1)
    for word, colour in coloured.items():
        axes.plot(ends, counts[word], color=colour, linewidth=1.8, label=word)
    axes.set_xlabel(f"lines, in {check.EPOCH_LINES}s, at the end of the window")
    axes.set_ylabel(f"in the last {check.EPOCH_LINES * check.WINDOW_EPOCHS:,} lines")
    axes.set_xlim(0)
    axes.set_ylim(0)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    drawing.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw how words come and go.")
    parser.add_argument("--output", type=Path, default=FOLDER / "out-top", metavar="FOLDER")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE")
    arguments = parser.parse_args()
    ranks = check.committed(str(arguments.output))
    drawing.require_rows(ranks, arguments.output)
    draw(counts_of(ranks), arguments.picture)
    return 0


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
