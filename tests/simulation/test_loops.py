"""Loops on virtual nodes: the rows of plain Python whatever the slices, rounds, gaps and faults."""

from __future__ import annotations

import functools

import pyarrow as pa
import pytest

from streammine.engine import loop_head
from streammine.engine.loop_ends import Ends
from streammine.engine.loop_slice import LoopHeadSlice
from streammine.model.stamps import final
from streammine.simulation.faults import parse_kinds
from streammine.simulation.run import SimulationError, SimulationResult, run_workload
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from streammine.testing import simulate
from tests.simulation import loops

SEEDS = range(3)


def rows(result: SimulationResult, sink: str = "seen") -> list[loops.Row]:
    tables = result.outputs[sink].items()
    return sorted((epoch, *row.values()) for epoch, each in tables for row in each.to_pylist())


@pytest.mark.parametrize("max_rounds", [1, 3, 20])
def test_the_rows_are_those_of_plain_python_for_any_number_of_slices(max_rounds: int) -> None:
    table = loops.numbers(20)
    expected = loops.halved(loops.events_of(table), max_rounds)
    digests = set()
    for slices in (1, 2, 3):
        result = simulate(loops.halving(slices, max_rounds), {"numbers": table}, seed=slices)
        assert rows(result) == expected
        digests.add(result.digest)
    assert len(digests) == 1


def test_what_is_carried_goes_on_after_the_end_of_the_input() -> None:
    table = pa.table({"ts": [1000], "id": [1], "number": [200]})
    result = simulate(loops.halving(2, 1), {"numbers": table})
    assert [row[:1] + row[2:] for row in rows(result) if row[3] != loops.CLOSING] == [
        (100 + hops, 200 >> hops, hops) for hops in range(8)
    ]


def test_an_input_without_rows_ends_a_loop() -> None:
    table = loops.numbers(1).slice(0, 0)
    assert rows(simulate(loops.halving(2), {"numbers": table})) == []


def test_a_gap_costs_a_few_stamps_only() -> None:
    table = pa.table({"ts": [10, 900_000_000], "id": [1, 1], "number": [4, 8]})
    result = simulate(loops.halving(2), {"numbers": table})
    assert rows(result) == loops.halved(loops.events_of(table), 20)
    assert result.steps < 1000


def test_two_loops_one_behind_the_other() -> None:
    table = loops.numbers(20)
    results = [
        simulate(loops.halving(slices, 4, second=True), {"numbers": table}, seed=slices)
        for slices in (1, 3)
    ]
    assert rows(results[0]) == loops.halved(loops.events_of(table), 4)
    counted: dict[tuple[int, int], int] = {}
    for epoch, key, _, _ in rows(results[0]):
        counted[epoch, key] = counted.get((epoch, key), 0) + 1
    events = [(epoch, key, count) for (epoch, key), count in counted.items()]
    for result in results:
        assert rows(result, "seen2") == loops.halved(events, 3)


@pytest.mark.parametrize("combine", [False, True])
def test_an_aggregate_in_a_loop_fires_once_per_epoch(combine: bool) -> None:
    table = loops.numbers(20)
    digests = set()
    for slices in (1, 2):
        result = simulate(loops.summing(slices, combine), {"numbers": table}, seed=slices)
        found = [(row[0], row[-2], row[-1]) for row in rows(result, "result")]
        assert found == loops.summed(loops.events_of(table))
        digests.add(result.digest)
    assert len(digests) == 1


@pytest.mark.parametrize("budget_bytes", [1, 300])
def test_a_loop_with_hardly_any_credit_gets_to_its_end(budget_bytes: int) -> None:
    table = loops.numbers(20)
    settings = SimulationSettings(channel_budget_bytes=budget_bytes, read_rows=3)
    result = simulate(loops.halving(2, 4), {"numbers": table}, settings=settings)
    assert rows(result) == loops.halved(loops.events_of(table), 4)


# --- a loop that is fed in its middle ------------------------------------------------------------


def fed_inputs(first_rows: int) -> dict[str, pa.Table]:
    """A head that has all its rows at once, and long before the others are over."""
    return {
        "numbers": loops.numbers(4, largest=8).slice(0, first_rows),
        "more": loops.numbers(20, seed=5, largest=8),
    }


def check_fed(result: SimulationResult, inputs: dict[str, pa.Table], max_rounds: int) -> None:
    events, more = (loops.events_of(inputs[name]) for name in ("numbers", "more"))
    expected = loops.halved(events, max_rounds, more)
    assert rows(result) == expected
    assert [row[1:] for row in rows(result, "result")] == loops.totals_of(expected)


@pytest.mark.parametrize(("slices", "max_rounds"), [(1, 1), (2, 20)])
def test_a_checkpoint_is_complete_though_all_that_feeds_the_head_is_over(
    slices: int, max_rounds: int
) -> None:
    inputs = fed_inputs(0)
    settings = SimulationSettings(
        checkpoint_epochs=4, read_rows=1, source_seconds=4.0, heartbeat_seconds=0.05
    )
    topology = loops.fed(slices, max_rounds)
    result = simulate(topology, inputs, seed=slices, settings=settings)
    assert result.checkpoints > 1
    check_fed(result, inputs, max_rounds)
    undisturbed = simulate(topology, inputs)
    assert undisturbed.checkpoints == 0
    assert result.digest == undisturbed.digest


@pytest.mark.parametrize(("slices", "max_rounds"), [(1, 1), (3, 2), (2, 20)])
def test_faults_change_nothing_where_a_loop_is_fed_in_its_middle(
    slices: int, max_rounds: int
) -> None:
    workload = Workload(loops.fed(slices, max_rounds), inputs := fed_inputs(4))
    check_fed(run_workload(workload), inputs, max_rounds)
    trials = Trials(workload, parse_kinds("all"), most_faults=6)
    done = [trials.run(seed) for seed in SEEDS]
    assert [trial.problem for trial in done] == [None] * len(done)


# --- faults -------------------------------------------------------------------------------------


@functools.cache
def trials(max_rounds: int, second: bool) -> Trials:
    topology = loops.halving(2, max_rounds, second=second)
    table = loops.numbers(25, largest=8)
    return Trials(Workload(topology, {"numbers": table}), parse_kinds("all"), most_faults=6)


@pytest.mark.parametrize(("max_rounds", "second"), [(20, False), (1, False), (2, True)])
def test_the_output_is_that_of_a_run_without_faults(max_rounds: int, second: bool) -> None:
    done = [trials(max_rounds, second).run(seed) for seed in SEEDS]
    assert [trial.problem for trial in done] == [None] * len(done)
    assert sum(trial.rebuilt for trial in done) > len(done)


# --- the checks notice --------------------------------------------------------------------------


def broken_run() -> None:
    table = loops.numbers(12)
    run_workload(Workload(loops.halving(2, 2), {"numbers": table}), seed=1)


def test_a_total_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ends, "total", lambda self, at: 0)
    with pytest.raises(SimulationError, match=r"other rows of|are held|is closed"):
        broken_run()


def test_rows_that_are_carried_nowhere_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopHeadSlice, "_carry", lambda self, at, to: self.held.give(at))
    with pytest.raises(SimulationError, match="other rows of"):
        broken_run()


def test_a_round_that_is_closed_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hasty(loop_head.LoopHead):
        def _counting(self, now: loop_head.Standing, ends: Ends) -> list[loop_head.Decision]:
            self.round += 1
            self.phase = loop_head.HeadPhase.CARRYING
            return [loop_head.CloseStamp(final(self.epoch))]

    monkeypatch.setattr("streammine.engine.loop_slice.LoopHead", Hasty)
    with pytest.raises((SimulationError, AssertionError)):
        broken_run()
