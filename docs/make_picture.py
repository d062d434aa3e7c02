"""Draws README's picture: the first two commands, run now, as they look on a terminal.

``.venv/bin/python docs/make_picture.py`` writes docs/wordcount.png (needs the extra `bench`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
SHOWN_AS = {
    "run": "$ scripts/run apps/wordcount/topology.yaml",
    "check": "$ .venv/bin/python -m apps.wordcount.check",
}
BACKGROUND, TEXT, PROMPT, NOTE = "#16181d", "#d7dae0", "#7fd18b", "#8aa4c8"
LINE_INCHES, COLUMN_INCHES, FONT_POINTS = 0.185, 0.0865, 10


def printed(*arguments: str) -> list[str]:
    """What a command of this environment prints, progress first."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return (done.stderr + done.stdout).strip().splitlines()


def terminal_lines() -> list[tuple[str, str]]:
    """(color, line) of both commands."""
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/out"
        run = printed(
            *("streammine.cli.main", "run", "apps/wordcount/topology.yaml"),
            *("--set", f"output={output}"),
        )
        check = printed("apps.wordcount.check", "--output", output)
    lines = [(PROMPT, SHOWN_AS["run"])]
    for line in run:
        color = NOTE if line.startswith("wordcount:") else TEXT
        lines.append((color, line.replace(output, "apps/wordcount/out")))
    lines += [(TEXT, ""), (PROMPT, SHOWN_AS["check"])]
    return lines + [(TEXT, line) for line in check]


def draw(lines: list[tuple[str, str]], path: Path) -> None:
    """The lines as a picture of a terminal."""
    width = (max(len(line) for _, line in lines) + 4) * COLUMN_INCHES
    height = (len(lines) + 2) * LINE_INCHES
    figure = plt.figure(figsize=(width, height), facecolor=BACKGROUND)
    for number, (color, line) in enumerate(lines):
        figure.text(
            2 * COLUMN_INCHES / width,
            1 - (number + 1.5) * LINE_INCHES / height,
            line.replace("$", r"\$"),
            color=color,
            family="monospace",
            size=FONT_POINTS,
            verticalalignment="center",
        )
    figure.savefig(path, dpi=120, facecolor=BACKGROUND)


if __name__ == "__main__":
    draw(terminal_lines(), ROOT / "docs" / "wordcount.png")
