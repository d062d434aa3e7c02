"""What replicas count of their input: each row of an epoch once, whichever upstream replica it came from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.engine import slice as slice_module
from streammine.engine.stimuli import Accumulate, Discard
from streammine.simulation.books import ReplicaBook
from streammine.simulation.run import run_workload
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.workload import Workload
from tests.simulation import workloads

SEEDS = (0, 1)
LINES = workloads.text(160)


def words() -> Workload:
    topology = (
        Topology(
            name="words",
            epoch={"count": workloads.EPOCH_LINES},
            replicas=2,
            scheme="active-replication",
        )
        .source("lines", files="lines.txt", slices=2)
        .operator("words", input="lines", flat_map={"split": "line", "into": "word"})
        .sink("result", input="words", format="console")
    )
    return Workload(topology, {"lines": pa.table({"line": LINES})})


def test_rows_in_are_the_rows_of_the_output_where_feeds_change_in_mid_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # what has come of an open epoch is handed over at once, and so is in the operator when it is discarded
    monkeypatch.setattr(slice_module, "BYTES_WORTH_A_RUN", 0)
    given: set[tuple[str, int, int]] = set()
    taken_back: set[tuple[str, int, int]] = set()
    begins = ReplicaBook.begins

    def noted(self: ReplicaBook, work: Any, contents: Any) -> None:
        for item in work:
            if isinstance(item, Accumulate):
                given.add((self.name, item.channel, item.epoch))
            elif (
                isinstance(item, Discard)
                and (key := (self.name, item.channel, item.epoch)) in given
            ):
                taken_back.add(key)
        begins(self, work, contents)

    monkeypatch.setattr(ReplicaBook, "begins", noted)
    for seed in SEEDS:
        run = run_workload(words(), seed=seed, nodes=3, settings=SimulationSettings(read_rows=2))
        sinks = [each for name, each in run.counters.items() if name.startswith("result/")]
        rows = run.table("result").num_rows
        assert (
            sum(each["rows_in"] for each in sinks) == rows == sum(map(len, map(str.split, LINES)))
        )
    assert any(name.startswith("result/") for name, _, _ in taken_back)
