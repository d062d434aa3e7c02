"""Draws when most was edited: ``python -m apps.trends.draw [--output FOLDER] [--picture FILE]``.

A layer for each of the channels with most edits is as thick as it had edits in the window; the others are one
layer. A channel counts until it is twenty minutes without an edit. Needs output that the topology has
committed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from apps import drawing, reading
from apps.trends import check

PICTURE = drawing.DOCS / "trends.png"
COLOURS = ("#c0392b", "#d68910", "#3c8d40", "#138d90", "#2c6fbb", "#7d3c98")
OTHERS, OTHERS_COLOUR = "others", "#c8ced6"


def layers(trends: check.Trends, most: int) -> dict[str, list[int]]:
    """The edits in the window of every epoch, by channel for those with most edits, the others together."""
    totals: Counter[str] = Counter()
    for rows in trends.values():
        for channel, edits, _, _ in rows:
            totals[channel] += edits
    ranked = sorted(totals, key=lambda channel: (-totals[channel], channel))
    names = {channel: channel if place < most else OTHERS for place, channel in enumerate(ranked)}
    first, last = min(trends), max(trends)
    found = {name: [0] * (last - first + 1) for name in names.values()}
    known: dict[str, tuple[int, int]] = {}
    for epoch in range(first, last + 1):
        known.update({channel: (epoch, edits) for channel, edits, _, _ in trends.get(epoch, ())})
        for channel, (told, edits) in known.items():
            if (epoch - told) * check.EPOCH_SECONDS < check.WINDOW_SECONDS:
                found[names[channel]][epoch - first] += edits
    return found


def draw(found: dict[str, list[int]], path: Path) -> None:
    """One layer upon the other, over the hours from the first epoch on."""
    figure, axes = drawing.pyplot().subplots(figsize=(9, 3.4), layout="constrained")
    length = max(map(len, found.values()))
    hours = [epoch * check.EPOCH_SECONDS / 3600 for epoch in range(length)]
    colours = [*COLOURS[: len(found) - (OTHERS in found)], OTHERS_COLOUR]
    axes.stackplot(hours, *found.values(), labels=list(found), colors=colours[: len(found)])
    axes.set_xlabel("hours since the first edit")
    axes.set_ylabel("edits in the last 20 minutes")
    axes.set_xlim(0, hours[-1] or 1)
    axes.set_ylim(0)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), reverse=True)
    axes.spines[["top", "right"]].set_visible(False)
    drawing.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw when most was edited.")
    parser.add_argument("--output", type=Path, default=check.FOLDER / "out", metavar="FOLDER")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE")
    arguments = parser.parse_args()
    trends = check.committed(str(arguments.output))
    drawing.require_rows(trends, arguments.output)
    draw(layers(trends, len(COLOURS)), arguments.picture)
    return 0


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
