"""Receivers of one feed that got different rows: replicas process the same ones, whatever happens.

The monitor compares what every replica of a slice takes and makes, epoch by epoch. Besides, each seed's
output is that of an undisturbed run in which the same was agreed on, see simulation.trials.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from replication import consensus
from streammine import Topology
from streammine.assembly import settled
from streammine.engine import rebuilding
from streammine.engine.managed_job import ManagedJob
from streammine.engine.node_stimuli import MadeSure, MakeSure
from streammine.engine.source_processor import SourceProcessor
from streammine.engine.unwanted import UnwantedEpochs, UnwantedFeeds
from streammine.model.agreement import DecisionDurable, MakeDurable
from streammine.model.recovery import Checkpoint
from streammine.simulation import keeping
from streammine.simulation.disk import NodeStore
from streammine.simulation.run import SimulationError, run_workload
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from tests.simulation.seeds import PORTION, Seeds

SEEDS = range(400_000, 400_080)
ROWS = 130
LOST = 0.15


def received(seed: int) -> pa.Table:
    """What one receiver got of the feed: most of it, and not quite in its order."""
    feed, own = Random(1), Random(seed)
    time, rows = 1000, []
    for number in range(ROWS):
        time += feed.choice((0, 0, 1, 1, 2, 7))
        row = (time, feed.choice("abcde"), number)
        if own.random() > LOST:
            rows.append(row)
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("ts", "key", "number"), map(list, columns), strict=True)))


def counted(replicas: int, **fields: Any) -> Topology:
    """east, west -> feed -> counts -> result"""
    return (
        Topology(name="either", epoch={"time": "5s", "column": "ts"}, replicas=replicas)
        .source("east", files="east.parquet", prepare="none", slices=1, replicas=1)
        .source("west", files="west.parquet", prepare="none", slices=1, replicas=1)
        .operator("feed", either=["east", "west"])
        .operator(
            "counts",
            input="feed",
            key="key",
            aggregate={"count": "count()", "sum": "sum(number)"},
            **fields,
        )
        .sink("result", input="counts", format="console")
    )


INPUTS = {"east": received(1), "west": received(2)}
TWO = Seeds(Workload(counted(2), INPUTS))
THREE = Seeds(Workload(counted(3, slices=1), INPUTS))
ONE = Seeds(Workload(counted(1, slices=1), INPUTS))
PASSIVE = Seeds(Workload(counted(2, slices=1, scheme="passive-replication"), INPUTS))
WINDOWS = Seeds(Workload(counted(2, slices=1, window="20s"), INPUTS))
WHOLE = Seeds(Workload(counted(2, slices=3, window="global"), INPUTS))


@pytest.mark.parametrize("first", range(0, 40, PORTION))
def test_two_replicas(first: int) -> None:
    TWO.run("all", SEEDS[first : first + PORTION])


def test_three_replicas() -> None:
    THREE.run("all", SEEDS[40 : 40 + PORTION])


def test_a_replica_alone() -> None:
    ONE.run("all", SEEDS[50 : 50 + PORTION])


def test_results_of_the_whole_input_come_after_its_last_epoch() -> None:
    """On slices that had nothing in the last epochs as well."""
    WHOLE.run("all", SEEDS[60 : 60 + PORTION])


def test_a_committer_that_was_far_behind_outlives_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then nobody goes back behind what has been forgotten of the decisions."""
    without, met = rebuilding._without_stragglers, list[int]()

    def noted(standings: Any, forgotten: int) -> Any:
        met.append(forgotten)
        return without(standings, forgotten)

    monkeypatch.setattr(rebuilding, "_without_stragglers", noted)
    PASSIVE.run("all", [500_009])
    assert met, "this seed is none of these any more: find another one"


def test_a_standby_that_asked_again_and_again_is_past_what_it_first_asked_for() -> None:
    """A sender that stood still hears all that at once, and may have forgotten those epochs."""
    (done,) = THREE.run("all", [3_000_317])
    assert done.rows["output", "subscribed: what is asked for is kept no more"]


def test_where_both_kept_checkpoints_are_damaged_an_older_one_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody goes back to the beginning then, where what was agreed on is forgotten."""
    found, older = ManagedJob.found, list[int]()

    def noted(self: ManagedJob, checkpoints: tuple[Checkpoint, ...], forgotten: int) -> None:
        found(self, checkpoints, forgotten)
        if self.damaged:
            older.extend(each.epoch for each in self.look.older)

    monkeypatch.setattr(ManagedJob, "found", noted)
    TWO.run("disk-torn,corrupt,crash", [7_000_078])
    assert older, "this seed is none of these any more: find another one"


def test_decisions_stay_until_a_checkpoint_that_covers_them_was_read_back() -> None:
    """Else the beginning, where damage to the first two leads, would be lost with them."""
    assert WINDOWS.trials("all").run(6_003_195).problem is None


def test_windows_of_several_epochs() -> None:
    WINDOWS.run("all", SEEDS[60 : 60 + PORTION])


def test_runs_are_hit_often_and_both_receivers_are_chosen() -> None:
    done = TWO.run("all", SEEDS[:PORTION])
    assert sum(sum(trial.faults.values()) for trial in done) >= 3 * PORTION
    assert sum(trial.checkpoints for trial in done) >= PORTION
    chosen = {
        channel
        for seed in range(4)
        for epochs in run_workload(TWO.workload, seed=seed).choices.values()
        for each in epochs.values()
        for channel in each.values()
    }
    assert len(chosen) == 4, "of two receivers in two slices"


def test_receivers_that_are_not_chosen_pass_epochs_over_and_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, passed_over = 0, set[tuple[int, int]]()
    holds_back, deliver = UnwantedEpochs.holds_back, SourceProcessor._deliver

    def noted(self: UnwantedEpochs, open_epoch: int) -> bool:
        nonlocal held
        holds = holds_back(self, open_epoch)
        held += holds
        return holds

    def delivered(self: SourceProcessor, delivery: Any, unwanted: Any, outputs: Any) -> int:
        first, below = unwanted
        passed_over.update(
            (id(self), piece.epoch) for piece in delivery.pieces if first <= piece.epoch < below
        )
        return deliver(self, delivery, unwanted, outputs)

    monkeypatch.setattr(UnwantedEpochs, "holds_back", noted)
    monkeypatch.setattr(SourceProcessor, "_deliver", delivered)
    TWO.run("all", SEEDS[70:])
    assert held >= PORTION
    assert len(passed_over) >= PORTION


def test_each_epoch_is_what_one_of_the_receivers_got() -> None:
    result = run_workload(THREE.workload, seed=5)
    got = {
        (row["epoch"], row["key"]): (row["count"], row["sum"])
        for row in result.table("result").to_pylist()
    }
    ways = [counts(INPUTS[name]) for name in ("east", "west")]
    epochs = {epoch for epoch, _ in got}
    assert epochs >= set.intersection(*({epoch for epoch, _ in way} for way in ways))
    for epoch in epochs:
        rows = {key: each for key, each in got.items() if key[0] == epoch}
        assert rows in [{key: each for key, each in way.items() if key[0] == epoch} for way in ways]


def counts(table: pa.Table) -> dict[tuple[int, str], tuple[int, int]]:
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for row in table.to_pylist():
        key = row["ts"] // 5, row["key"]
        count, total = found.get(key, (0, 0))
        found[key] = count + 1, total + row["number"]
    return found


@pytest.mark.parametrize("seeds", [TWO, THREE])
def test_a_node_that_gets_no_decision_into_the_store_holds_up_nobody(
    seeds: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node that is the first to write any fails with all."""
    tried, make_sure = list[str](), keeping.make_sure

    def failing(store: NodeStore, effect: MakeSure) -> MadeSure:
        if not isinstance(effect.wish, MakeDurable):
            return make_sure(store, effect)
        tried.append(store.node)
        return MadeSure(effect, None) if store.node == tried[0] else make_sure(store, effect)

    settings = replace(seeds.trials("all").settings(400_004), step_limit=20_000)
    with monkeypatch.context() as patched:
        patched.setattr(keeping, "make_sure", failing)
        done = run_workload(seeds.workload, seed=4, nodes=3, settings=settings)
    assert len(set(tried)) > 1
    assert done.digest == run_workload(seeds.workload, decided=done.choices).digest


# --- broken on purpose ------------------------------------------------------------------------


def replicas_differ(seeds: Seeds, tried: range = range(410_000, 410_030)) -> bool:
    """Whether some seed's replicas are seen to take different bags of an epoch.

    What a seed's output is compared with is broken as well, so that this may differ says nothing.
    """
    trials = Trials(seeds.workload, seeds.trials("all").kinds)
    found = (trials.run(seed).problem or "" for seed in tried)
    return any(re.search(r" takes {.*} of epoch \d+, another {", each) for each in found)


def test_a_choice_without_a_majority_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replication.ballots.unanimous", lambda replicas: 1)
    assert replicas_differ(TWO)


def test_a_ballot_without_a_majority_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replication.ballots.majority", lambda replicas: 1)
    assert replicas_differ(TWO)


def test_a_decision_that_counts_in_spite_of_a_newer_plan_s_seal_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unfenced(self: Any, stimulus: Any) -> None:
        for each in stimulus.stored:
            self._writing.done(each)
            self._chain.note_stored(each.decision)

    monkeypatch.setitem(consensus._HANDLERS, DecisionDurable, unfenced)
    assert replicas_differ(PASSIVE, range(410_071, 410_072))


def test_a_decision_that_is_not_durable_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgotten(store: Any, effect: Any) -> Any:
        if isinstance(effect.wish, MakeDurable):
            names = set(store.list("decisions/"))
            done = settled(store, effect)
            for name in set(store.list("decisions/")) - names:
                store.delete(name)
            return done
        return settled(store, effect)

    monkeypatch.setattr(keeping, "settled", forgotten)
    assert replicas_differ(ONE)


def test_what_is_in_the_store_and_is_not_asked_for_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consensus, "inherited", lambda answers, stored, decided: {})
    assert replicas_differ(ONE)


def test_a_receiver_that_passes_over_what_it_was_chosen_for_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(self: UnwantedFeeds, decision: Any) -> None:
        self._below = max(self._below, decision.chosen.epoch + 1)

    monkeypatch.setattr(UnwantedFeeds, "decided", forgetful)
    with pytest.raises(SimulationError, match=r"count as unwanted, but \d+ was processed"):
        run_workload(TWO.workload, seed=0)
