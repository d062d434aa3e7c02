"""Draws how soon orders are paid: ``python -m apps.equijoin.draw [--output FOLDER] [--picture FILE]``.

Needs output that the topology has committed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from apps import drawing, reading
from apps.equijoin import check

PICTURE = drawing.DOCS / "equijoin.png"
LATER, CENTS = "#6f8fbf", "#c0392b"


def payments_by_second(pairs: check.Pairs) -> list[int]:
    """How many payments came so many seconds after the order, from 0 on."""
    found: Counter[int] = Counter()
    for (*_, seconds), count in pairs.items():
        assert seconds is not None, "both times are there, so their difference is"
        found[seconds] += count
    return [found[second] for second in range(check.SECONDS)]


def cents_by_minute(pairs: check.Pairs) -> dict[int, int]:
    """What was paid in each minute from the first to the last, without what is not told."""
    found: Counter[int] = Counter()
    for (minute, _, _, paid, _), count in pairs.items():
        assert minute is not None, "rows without a time are dead letters"
        found[minute] += (paid or 0) * count
    return {minute: found[minute] for minute in range(min(found), max(found) + 1)}


def draw(by_second: list[int], by_minute: dict[int, int], path: Path) -> None:
    """Payments by their delay, and money by its minute."""
    figure, (left, right) = drawing.pyplot().subplots(
        1, 2, figsize=(9, 3.0), layout="constrained", width_ratios=(2, 3)
    )
    left.bar(range(len(by_second)), by_second, 0.9, color=LATER)
    left.set_xlabel("seconds after the order, in its minute")
    left.set_ylabel("payments")
    left.set_xlim(-0.5, len(by_second) - 0.5)
    first = min(by_minute)
    minutes = [minute - first for minute in by_minute]
    right.plot(minutes, [cents / 100_000 for cents in by_minute.values()], color=CENTS)
    right.set_xlabel("minute")
    right.set_ylabel("paid in it, thousands")
    right.set_xlim(0, max(minutes) or 1)
    right.set_ylim(0)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    drawing.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw how soon orders are paid.")
    parser.add_argument("--output", type=Path, default=check.FOLDER / "out", metavar="FOLDER")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE")
    arguments = parser.parse_args()
    pairs = check.committed(arguments.output)
    drawing.require_rows(pairs, arguments.output)
    draw(payments_by_second(pairs), cents_by_minute(pairs), arguments.picture)
    return 0


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
