"""The rows that coverage counts are those of the machines' tables, and a run goes through them."""

from __future__ import annotations

from typing import get_args

import pytest

from replication import checkpointing
from streammine.engine import slice as slice_machine
from streammine.engine import stimuli
from streammine.engine.agreeing_slice import AgreeingSlice
from streammine.engine.input_channel import Verdict
from streammine.simulation.coverage import Coverage
from streammine.simulation.rows import CHECKPOINTING, ROWS, UNREACHED
from streammine.simulation.run import run_workload
from streammine.simulation.summary import coverage_lines
from streammine.simulation.trials import Trial
from streammine.simulation.watching import _TAKEN
from tests.simulation.test_survival import workload


def test_every_handler_of_a_slice_has_a_row() -> None:
    assert slice_machine._HANDLERS.keys() < AgreeingSlice.handlers.keys()
    assert set(AgreeingSlice.handlers) == set(get_args(stimuli.Stimulus))
    rows = {what for machine, what in ROWS if machine == "slice"}
    for kind in AgreeingSlice.handlers:
        assert any(what.endswith(f": {kind.__name__}") for what in rows), kind


def test_every_transition_of_a_checkpoint_has_a_row() -> None:
    table = {(phase.value, event.value) for phase, event in checkpointing._TRANSITIONS}
    assert set(CHECKPOINTING) == table


def test_every_verdict_on_a_frame_has_a_row() -> None:
    assert {*_TAKEN, Verdict.DROPPED} == set(Verdict)
    assert {("input", what) for what in _TAKEN.values()} <= set(ROWS)


def test_a_row_stands_once_and_is_gone_through_or_left_out_with_a_reason() -> None:
    assert len(ROWS) == len(set(ROWS))
    assert not UNREACHED.keys() & set(ROWS)
    assert all(UNREACHED.values())


def test_what_is_in_no_table_is_found_out() -> None:
    with pytest.raises(AssertionError, match="slice: finished: Start: there is no such row"):
        Coverage().note("slice", "finished: Start")


def test_rows_are_counted_without_changing_the_run() -> None:
    run = run_workload(workload("word count"), seed=3)
    single, several = (
        run.rows["slice", f"running: WorkDone, {closed} closed"]
        for closed in ("an epoch", "epochs")
    )
    assert single > 0 < several
    assert run.closes >= single + 2 * several
    assert run.rows["job", "submitted: first plan declared"] == 1
    assert run.rows["job", "running: ended, finished"] == 1
    assert run.rows["recovery", "replica withdrawn"] == 0
    assert run.rows["node effects", "Perform"] == run.rows["slice effects", "Run"]


def test_the_histogram_names_what_was_never_met() -> None:
    trial = Trial(1, None, None, rows=run_workload(workload("join")).rows)  # type: ignore[arg-type]
    lines = list(coverage_lines([trial, trial]))
    assert len(lines) == len(ROWS) + 1 + len(UNREACHED)
    assert any(" 2 times in 2 seeds" in line and "first plan" in line for line in lines)
    assert any(" 0 times in 0 seeds" in line and "withdrawn" in line for line in lines)
