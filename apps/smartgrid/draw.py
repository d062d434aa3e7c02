"""Draws predicted against real load of a house: ``python -m apps.smartgrid.draw [--output FOLDER] …``.

Needs the readings, and what the topology has committed for them. A slice's prediction is the last one that
was made before it began.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from apps import drawing, reading
from apps.smartgrid import check

PICTURE = drawing.DOCS / "smartgrid.png"
MINUTES = 60
REAL, PREDICTED = "#8aa4c8", "#c0392b"

Curve = dict[int, float]
"""Watts by the start of a slice."""


def predicted(forecasts: check.Forecasts, house: int, minutes: int) -> Curve:
    """What was predicted last for each slice."""
    curve: Curve = {}
    for _, rows in sorted(forecasts["house", minutes].items()):
        curve |= {int(ts): watts for ts, of_house, watts in rows if of_house == house}
    return curve


def real(readings: Iterable[check.Reading], house: int, minutes: int, start: int) -> Curve:
    """The average load in each slice."""
    loads = check.Loads(start)
    slices = set()
    for each in readings:
        if each.plug[0] == house:
            loads.add(each)
            slices.add(loads.slice_at(each.ts, minutes))
    averages = {index: loads.of_house(minutes, house, index) for index in sorted(slices)}
    return {
        start + index * minutes * 60: watts
        for index, watts in averages.items()
        if watts is not None
    }


def draw(real_load: Curve, predicted_load: Curve, title: str, path: Path) -> None:
    first = min(real_load)
    plt = drawing.pyplot()
    figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
    for curve, color, label, width, strength in (
        (real_load, REAL, "real", 4.0, 0.6),
        (predicted_load, PREDICTED, "predicted two slices before", 1.3, 1.0),
    ):
        hours = [(ts - first) / 3600 for ts in sorted(curve)]
        watts = [curve[ts] for ts in sorted(curve)]
        axes.plot(hours, watts, color=color, label=label, linewidth=width, alpha=strength)
    axes.set_xlabel("hours since the first reading; from the second day on, earlier days are known")
    axes.xaxis.set_major_locator(plt.MultipleLocator(12))
    axes.set_xlim(0)
    axes.set_ylabel("W")
    axes.set_ylim(0)
    axes.set_title(title, loc="left", fontsize="medium")
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    drawing.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw predicted against real load of a house.")
    check.add_arguments(parser)
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE")
    parser.add_argument("--house", type=int, default=0)
    parser.add_argument("--minutes", type=int, default=MINUTES, choices=check.LENGTHS_MINUTES)
    arguments = parser.parse_args()
    house, minutes, start = arguments.house, arguments.minutes, arguments.start
    predicted_load = predicted(check.committed(arguments.output), house, minutes)
    readings = check.readings_of(arguments.input, arguments.delimiter, start)
    real_load = real(readings, house, minutes, start)
    drawing.require_rows(predicted_load, f"{arguments.output}, house {house}")
    drawing.require_rows(real_load, f"{arguments.input}, house {house}")
    title = f"Average load of house {house} in slices of {minutes} minutes"
    draw(real_load, predicted_load, title, arguments.picture)
    return 0


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
