"""Where results are kept: JSON, and a picture beside it; and how they are told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.report import print_json

RESULTS = "results"


def partial_name(name: str, parts: Iterable[object]) -> str:
    """Of the results of a run that measured some `parts` only: those of a whole run stay as they are."""
    return "-".join([name, *map(str, parts)])


def tell_results(
    folder: Path,
    figures: dict[str, Any],
    as_json: bool,
    draw: Callable[[Any], None],
    say: Callable[[dict[str, Any]], None],
) -> None:
    """Keep the figures under `folder`, and print them: as one line of JSON, or as `say` does, and where they
    are kept. `draw` fills a matplotlib figure.
    """
    paths = _keep(folder, figures, draw)
    if as_json:
        print_json(figures)
    else:
        say(figures)
        print(f"kept: {paths[0]}, {paths[1]}")


def _keep(folder: Path, figures: dict[str, Any], draw: Callable[[Any], None]) -> tuple[Path, Path]:
    """Write ``results/NAME.json`` and ``results/NAME.png``; gives both paths."""
    target = folder / RESULTS
    target.mkdir(parents=True, exist_ok=True)
    document, picture = target / f"{figures['name']}.json", target / f"{figures['name']}.png"
    document.write_text(json.dumps(figures, indent=2) + "\n")
    _draw(picture, draw)
    return document, picture


def _draw(path: Path, draw: Callable[[Any], None]) -> None:
    """Fill a figure and write it."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(9, 4.5), layout="constrained")
    draw(figure)
    figure.savefig(path, dpi=120)
    plt.close(figure)
