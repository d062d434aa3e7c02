"""The same seed gives the same run, to the last message, in every process."""

from __future__ import annotations

import pyarrow as pa

from streammine.testing import SimulationSettings, simulate
from tests.simulation import workloads
from tests.simulation.other_processes import printed_by_others

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
    found = printed_by_others(PROGRAM)
    assert found[0] == found[1] == traces()
