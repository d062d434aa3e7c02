"""Draws how the components grew: ``python -m apps.components.draw [--output FOLDER] [--picture FILE]``.

Needs output that the topology has committed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from apps import drawing, reading
from apps.components import check

PICTURE = drawing.DOCS / "components.png"
ALL, LARGEST, OTHERS = "#8aa4c8", "#c0392b", "#7f8c8d"


def sizes(changes: check.Changes) -> list[list[int]]:
    """The sizes of all components after each epoch up to the last, the largest first."""
    after = []
    components: dict[int, int] = {}
    for epoch in range(max(changes) + 1):
        components |= changes.get(epoch, {})
        after.append(sorted(Counter(components.values()).values(), reverse=True))
    return after


def draw(after: list[list[int]], path: Path) -> None:
    """The nodes in all, in the largest component and in the second, and how many components."""
    epochs = range(len(after))
    figure, axes = drawing.pyplot().subplots(figsize=(7.5, 3.4), layout="constrained")
    axes.fill_between(epochs, [sum(each) for each in after], color=ALL, alpha=0.3, label="nodes")
    axes.plot(
        epochs, [each[0] if each else 0 for each in after], color=LARGEST, label="largest component"
    )
    second = [each[1] if len(each) > 1 else 0 for each in after]
    axes.plot(epochs, second, color=LARGEST, linestyle=":", label="second largest")
    axes.plot(epochs, [len(each) for each in after], color=OTHERS, label="components")
    axes.set_xlabel("epoch")
    axes.set_ylabel("number")
    axes.set_xlim(0, len(after) - 1 or 1)
    axes.set_ylim(0)
    axes.legend(frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    drawing.save(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw how the components grew.")
    parser.add_argument("--output", type=Path, default=check.FOLDER / "out", metavar="FOLDER")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="FILE")
    arguments = parser.parse_args()
    changes = check.committed(str(arguments.output))
    drawing.require_rows(changes, arguments.output)
    draw(sizes(changes), arguments.picture)
    return 0


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
