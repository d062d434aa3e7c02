"""Draws the outliers of all houses: ``python -m apps.smartgrid.outliers_draw [--output FOLDER] …``.

A strip for each house and length of windows is the darker, the more of its plugs have a median load above
that of all plugs; it is white where none has told a load. Needs output that the topology has committed.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from apps import drawing, reading
from apps.smartgrid import outliers_check as check
from apps.smartgrid.check import FOLDER

PICTURE = drawing.DOCS / "outliers.png"

Strips = dict[int, dict[int, list[tuple[int, float | None]]]]
"""By length of windows in seconds and by house, what was told: (ts_stop, percentage), ascending."""


def strips(rows: check.Rows) -> Strips:
    found: Strips = {}
    for _, of_epoch in sorted(rows.items()):
        for start, stop, house, percentage in of_epoch:
            of_house = found.setdefault(stop - start, {}).setdefault(house, [])
            of_house.append((stop, percentage))
    return found


def grid(houses: dict[int, list[tuple[int, float | None]]]) -> tuple[list[int], list[list[float]]]:
    """All times at which something changes and the second behind, and for each house what holds between
    them; NaN is nothing."""
    times = sorted({time for told in houses.values() for time, _ in told})
    times.append(times[-1] + 1)
    lines = []
    for _, told in sorted(houses.items()):
        changes = dict(told)
        percentage: float | None = None
        line = []
        for time in times[:-1]:
            percentage = changes.get(time, percentage)
            line.append(math.nan if percentage is None else percentage)
        lines.append(line)
    return times, lines


def draw(found: Strips, path: Path) -> None:
    """Windows of one length below those of another."""
    plt = drawing.pyplot()
    first = min(stop for houses in found.values() for told in houses.values() for stop, _ in told)
    figure, all_axes = plt.subplots(
        len(found), sharex=True, squeeze=False, figsize=(9, 1.7 * len(found)), layout="constrained"
    )
    for axes, (seconds, houses) in zip(all_axes.flat, sorted(found.items()), strict=True):
        times, lines = grid(houses)
        hours = [(time - first) / 3600 for time in times]
        edges = [place - 0.5 for place in range(len(houses) + 1)]
        mesh = axes.pcolormesh(hours, edges, lines, cmap="YlOrRd", vmin=0, vmax=100)
        axes.set_yticks(range(len(houses)), [f"house {house}" for house in sorted(houses)])
        axes.set_title(f"windows of {seconds / 3600:g} h", loc="left", fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
    all_axes.flat[-1].set_xlabel("hours since the first reading, at the end of the window")
    figure.colorbar(mesh, ax=all_axes, label="% of plugs above")
    drawing.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the outliers of all houses.")
    parser.add_argument("--output", type=Path, default=FOLDER / "out", metavar="FOLDER")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE")
    arguments = parser.parse_args()
    found = check.committed(arguments.output)
    drawing.require_rows(found, arguments.output)
    draw(strips(found), arguments.picture)
    return 0


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
