"""Programs in processes of their own, whose strings hash otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def printed_by_others(program: str) -> list[list[str]]:
    """The words that a program prints, under two values of PYTHONHASHSEED."""
    found = []
    for hash_seed in ("0", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    return found
