"""The same seed gives the same run, to the last message, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from streammine.testing import SimulationSettings, simulate
from tests.simulation import workloads

ROOT = Path(__file__).resolve().parents[2]
NOISY = SimulationSettings(frame_loss=0.05, frame_duplication=0.05, read_rows=9)

PROGRAM = """
from tests.simulation.test_traces import traces
print(*traces())
"""


def traces() -> list[str]:
    tables = workloads.orders_and_payments()
    lines = {"lines": pa.table({"line": workloads.text()})}
    runs = [
        *(simulate(workloads.word_count(), lines, seed=each, settings=NOISY) for each in (1, 2)),
        simulate(workloads.equi_join(3), tables, seed=3, nodes=3, settings=NOISY),
    ]
    return [run.trace for run in runs]


def test_a_seed_gives_the_same_trace_twice_and_another_seed_another_one() -> None:
    first = traces()
    assert first == traces()
    assert len(set(first)) == 3


def test_the_trace_does_not_depend_on_the_hash_seed_of_the_process() -> None:
    found = []
    for hash_seed in ("0", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found[0] == found[1] == traces()
