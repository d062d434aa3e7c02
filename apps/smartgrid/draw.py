"""Draws predicted against real load of a house: ``python -m apps.smartgrid.draw [--output FOLDER] …``.

Needs matplotlib (the extra `bench`), the readings, and what the topology has committed for them. A slice's
prediction is the last one that was made before it began.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import MultipleLocator

from apps.smartgrid import check

PICTURE = Path(__file__).parents[2] / "docs" / "smartgrid.png"
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


def real(readings: Path, house: int, minutes: int, start: int) -> Curve:
    """The average load in each slice."""
    loads = check.Loads(start)
    slices = set()
    for reading in check.readings_of(readings):
        if reading.plug[0] == house:
            loads.add(reading)
            slices.add(loads.slice_at(reading.ts, minutes))
    averages = {index: loads.of_house(minutes, house, index) for index in sorted(slices)}
    return {
        start + index * minutes * 60: watts
        for index, watts in averages.items()
        if watts is not None
    }


def draw(real_load: Curve, predicted_load: Curve, title: str, path: Path) -> None:
    first = min(real_load)
    figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
    for curve, color, label, width, strength in (
        (real_load, REAL, "real", 4.0, 0.6),
        (predicted_load, PREDICTED, "predicted two slices before", 1.3, 1.0),
    ):
        hours = [(ts - first) / 3600 for ts in sorted(curve)]
        watts = [curve[ts] for ts in sorted(curve)]
        axes.plot(hours, watts, color=color, label=label, linewidth=width, alpha=strength)
    axes.set_xlabel("hours since the first reading; from the second day on, earlier days are known")
    axes.xaxis.set_major_locator(MultipleLocator(12))
    axes.set_xlim(0)
    axes.set_ylabel("W")
    axes.set_ylim(0)
    axes.set_title(title, loc="left", fontsize="medium")
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw predicted against real load of a house.")
    parser.add_argument(
        "--input", type=Path, default=check.FOLDER / "data" / "readings.csv", metavar="FILE"
    )
    parser.add_argument("--output", type=Path, default=check.FOLDER / "out", metavar="FOLDER")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE")
    parser.add_argument("--house", type=int, default=0)
    parser.add_argument("--minutes", type=int, default=MINUTES, choices=check.LENGTHS_MINUTES)
    parser.add_argument("--start", type=int, default=check.START, metavar="SECONDS")
    arguments = parser.parse_args()
    house, minutes = arguments.house, arguments.minutes
    real_load = real(arguments.input, house, minutes, arguments.start)
    predicted_load = predicted(check.committed(arguments.output), house, minutes)
    title = f"Average load of house {house} in slices of {minutes} minutes"
    draw(real_load, predicted_load, title, arguments.picture)
    print(f"{arguments.picture}: {arguments.picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
