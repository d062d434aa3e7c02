"""`scripts/seeds`: thousands of seeds over all kinds of jobs, and what it says of one that fails."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from seed_runs.command import seeds
from seed_runs.jobs import JOBS

from streammine.engine.output_channel import OutputChannel
from streammine.model.schemes import Scheme


def told(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(seeds, arguments)
    assert result.exit_code == code, result.output
    return result.output


def test_every_scheme_has_jobs_with_and_without_receivers() -> None:
    names = told("--list").splitlines()
    assert names == list(JOBS)
    for scheme in Scheme:
        assert {f"words, {scheme.value}", f"receivers, {scheme.value}"} <= set(names)


def test_every_job_is_one() -> None:
    for name, make in JOBS.items():
        assert make().compiled.graph.slices, name


def test_seeds_take_turns_and_their_faults_are_counted() -> None:
    output = told("--seeds", "4", "--only", "words, deployed", "--only", "join, deployed")
    lines = [line.split() for line in output.splitlines()]
    assert [line[2] for line in lines[1:3]] == ["2", "2"], "seeds of each"
    assert sum(int(line[3]) for line in lines[1:3]) > 0, "faults"
    assert output.endswith("no violation\n")


def test_a_failing_seed_is_shown_with_the_faults_that_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # replicas that stood by silently never speak
    monkeypatch.setattr(OutputChannel, "speak", lambda self: None)
    output = told("--seeds", "6", "--only", "words, active-standby", code=1)
    assert "words, active-standby, seed" in output
    assert " of its faults:" in output
    assert output.endswith("failed\n")


def test_a_name_of_no_job_is_refused() -> None:
    output = told("--only", "words", "--only", "wrods", code=2)
    assert "no job begins with 'wrods'; --list shows them" in output
