"""Draws where it paid to be: ``python -m apps.taxi.draw [--output FOLDER] [--picture FILE]``.

Each cell that was ever among the ten most profitable is as dark as it was profitable, on average over the
rows that name it. Needs output that the topology has committed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from apps import drawing, reading
from apps.taxi import check

PICTURE = drawing.DOCS / "taxi.png"
MARGIN_CELLS = 8


def means(rows: Iterable[check.Row]) -> dict[check.Cell, float]:
    """Mean profitability by cell, in dollars for each empty taxi."""
    found: dict[check.Cell, list[float]] = defaultdict(list)
    for row in rows:
        for place in range(2, len(row), 4):
            if row[place] is not None:
                x, y = row[place].split(".")
                found[int(x), int(y)].append(row[place + 3])
    return {cell: sum(values) / len(values) for cell, values in found.items()}


def draw(profits: dict[check.Cell, float], path: Path) -> None:
    """A heat map of the part of the grid in which the cells lie."""
    xs, ys = zip(*profits, strict=True)
    west, east = min(xs) - MARGIN_CELLS, max(xs) + MARGIN_CELLS
    north, south = min(ys) - MARGIN_CELLS, max(ys) + MARGIN_CELLS
    grid = np.full((south - north + 1, east - west + 1), np.nan)
    for (x, y), value in profits.items():
        grid[y - north, x - west] = value
    plt = drawing.pyplot()
    figure, axes = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
    image = axes.imshow(
        grid,
        cmap="YlOrRd",
        norm="log",
        extent=(west - 0.5, east + 0.5, south + 0.5, north - 0.5),
    )
    figure.colorbar(image, label="median of fare and tip for each empty taxi, dollars")
    axes.set_xlabel("cells of 250 m, eastward")
    axes.set_ylabel("southward")
    axes.set_title("The ten most profitable areas, over the whole time", fontsize=10)
    drawing.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw where it paid to be.")
    parser.add_argument("--output", type=Path, default=check.FOLDER / "out", metavar="FOLDER")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE")
    arguments = parser.parse_args()
    profits = means(check.committed(str(arguments.output / "areas")))
    drawing.require_rows(profits, arguments.output)
    draw(profits, arguments.picture)
    return 0


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
