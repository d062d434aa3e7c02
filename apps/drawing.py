"""What the pictures of the applications share. They need matplotlib, which is in the extra `bench`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import streammine

DOCS = Path(__file__).parents[1] / "docs"
DOTS_PER_INCH = 110


def pyplot() -> Any:
    """matplotlib's interface for plots, drawing to files. Raises OutputError where there is no matplotlib."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise streammine.OutputError(
            "pictures need matplotlib; install it: .venv/bin/python -m pip install matplotlib"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def require_rows(found: Collection[Any], where: str | Path) -> None:
    """Raises OutputError where there is nothing to draw."""
    if not found:
        raise streammine.OutputError(f"{where}: there are no rows to draw")


def save(figure: Any, path: Path) -> None:
    """Write the picture, in the format that the path ends with, and tell. Raises OutputError."""
    try:
        figure.savefig(path, dpi=DOTS_PER_INCH)
    except (OSError, ValueError) as error:
        raise streammine.OutputError(f"{path}: the picture can't be written: {error}") from None
    print(f"{path}: {path.stat().st_size:,} bytes")
