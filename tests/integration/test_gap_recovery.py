"""Gap recovery with real nodes: what a kill -9 loses is named wherever output is told of, and nothing else
is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streammine.model.epoch_ranges import EpochRanges
from streammine.model.ids import SliceId
from streammine.model.job import Placement, Plan
from streammine.model.schemes import Scheme
from streammine.runtime.output import CommittedOutput
from streammine.runtime.stores import open_store
from tests.integration.disturbed import Watched
from tests.integration.workplace import WORDCOUNT, Workplace, eventually, standing, wait_for_output

pytestmark = pytest.mark.slow

CHANGE_SECONDS = 60.0
COUNTS = (SliceId("counts", 0), SliceId("counts", 1))
EPOCHS = 240
EPOCH_LINES = 100
"""Twenty epochs a second."""
BEHIND_EPOCHS = 12
"""More than the sources' last word may be behind them: one heartbeat's epochs, twice over."""

Rows = list[tuple[str, int]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with standing(tmp_path, "--nodes", 3) as made:
        yield made


def word_count(place: Workplace, file: str, **changes: Any) -> Path:
    """Word counts of every epoch; sources keep a second replica, so that they live on."""
    topology = {
        **WORDCOUNT,
        "snapshot": {"every": "400ms"},
        "recovery": {"max_time": "10m", "cool_down": "10m", "semantics": "gap"},
    }
    sizes = {"sources__lines__rows": EPOCHS * EPOCH_LINES, "epoch__count": EPOCH_LINES}
    return place.topology(topology, file, **sizes, sinks__result__path=f"{file}-out", **changes)


def counted(output: CommittedOutput) -> dict[int, Rows]:
    return {
        epoch: sorted((row["word"], row["count"]) for row in table.to_pylist())
        for epoch, table in output.epochs()
    }


def committed(place: Workplace, file: str) -> CommittedOutput:
    return CommittedOutput(open_store(str(place.folder / f"{file}-out")))


def test_only_what_is_named_is_missing_after_a_kill(place: Workplace) -> None:
    undisturbed = place.result("submit", word_count(place, "known"))
    assert undisturbed["epochs_lost"] == 0
    assert undisturbed["lost"] == {}
    topology = word_count(place, "killed", sources__lines__rate="2000/s")
    before = checkpoints(place)
    with place.start("submit", topology, "--json") as process:
        watched = Watched(place)
        try:
            wait_for_output(place.folder / "killed-out")
            job = watched.job()
            watched.client.change_scheme(
                job, COUNTS, "counts", Scheme.PASSIVE_REPLICATION, CHANGE_SECONDS
            )
            eventually(
                lambda: bool(checkpoints(place) - before), lambda: "no checkpoint is complete"
            )
            lost, alone = elsewhere(watched.plan(job), next(iter(watched.members())))
            kill_when_behind(watched, job, lost, alone)
            watched.wait_for_plan(job, lambda plan: plan.placements[lost][0] != alone)
            restore = watched.plan(job).placements[lost][0].restore
            assert restore is not None
            assert restore.left_out_until > restore.epoch
            eventually(lambda: status(place, job) > 0, lambda: "status tells of no losses")
        finally:
            watched.close()
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    summary = json.loads(output.splitlines()[-1])
    check_named(place, topology, summary)
    assert status(place, job) == summary["epochs_lost"], "it is forgotten when the job is over"
    told = place.run("status").stdout
    assert f"job {job} words: finished, {summary['epochs_lost']:,} epochs lost" in told


def elsewhere(plan: Plan, node: str) -> tuple[SliceId, Placement]:
    """A slice that stands alone, and not on that node."""
    groups = [(slice_id, plan.placements[slice_id]) for slice_id in COUNTS]
    return next((slice_id, alone) for slice_id, (alone,) in groups if alone.node != node)


def kill_when_behind(watched: Watched, job: int, lost: SliceId, alone: Placement) -> None:
    """Kill a slice's node once its sources are known to be epochs ahead of it: of a slice that has sent
    all that it was given, nothing is lost. So it is frozen first.
    """
    process = watched.process(alone.node)
    process.suspend()

    def behind() -> bool:
        if watched.plan(job).placements[lost][0] != alone:
            return True
        slices = watched.client.status(job)["jobs"][str(job)]["slices"]
        return bool(slices["lines/0"]["frontier"] - slices[str(lost)]["frontier"] >= BEHIND_EPOCHS)

    eventually(behind, lambda: f"{lost} keeps up")
    process.kill()


def checkpoints(place: Workplace) -> set[Path]:
    """Manifests of complete ones."""
    return set(place.folder.rglob("checkpoints/*.json"))


def status(place: Workplace, job: int) -> int:
    (told,) = [each for each in place.result("status", job)["jobs"] if each["job"] == job]
    lost: int = told["epochs_lost"]
    return lost


def check_named(place: Workplace, topology: Path, summary: dict[str, Any]) -> None:
    found = committed(place, "killed")
    lost = found.lost
    assert lost
    assert summary["epochs_lost"] == lost.count
    assert EpochRanges(tuple(each) for each in summary["lost"]["result"]) == lost
    known, rows = counted(committed(place, "known")), counted(found)
    assert len(known) == EPOCHS
    assert {epoch for epoch in known if rows.get(epoch) != known[epoch]} <= {
        epoch for epoch in known if epoch in lost
    }
    assert rows.keys() <= known.keys()
    assert any(rows.get(epoch) != known[epoch] for epoch in known), "nothing was lost after all"
    told = place.run("digest", topology)
    assert told.stdout.split() == [summary["output_digest"]]
    assert f"result: {lost.count} epoch" in told.stderr
