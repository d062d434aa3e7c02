"""Whatever happens to the cluster, and however often users change the schemes, the output stays the same."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.assembly import compiled
from streammine.engine.loop_slice import LoopHeadSlice
from streammine.engine.output_channel import OutputChannel
from streammine.engine.slice import SliceMachine
from streammine.engine.stimuli import Directed, Effect
from streammine.model.ids import SliceId
from streammine.model.schemes import Scheme
from streammine.simulation.faults import FaultKind
from streammine.simulation.workload import Workload
from tests.simulation import loops, workloads
from tests.simulation.seeds import Seeds

STANDING = tuple(each for each in Scheme if each.deploys)
USERS = "scheme,crash,manager,move,drain"
MOST_SEEDS = 12


def standing(topology: Topology, scheme: Scheme, replicas: int = 2) -> Topology:
    return topology.model_copy(update={"replicas": replicas, "scheme": scheme})


@functools.cache
def word_count(scheme: Scheme) -> Seeds:
    lines = pa.table({"line": workloads.text(160)})
    return Seeds(Workload(standing(workloads.word_count(), scheme), {"lines": lines}))


@functools.cache
def join(scheme: Scheme) -> Seeds:
    inputs = workloads.orders_and_payments(100)
    return Seeds(Workload(standing(workloads.equi_join(), scheme), inputs))


@functools.cache
def halving(scheme: Scheme) -> Seeds:
    """A loop."""
    return Seeds(Workload(standing(loops.halving(), scheme), {"numbers": loops.numbers()}))


def ordered() -> Topology:
    """An operator with state that outlives its epoch."""
    return (
        Topology(name="chained", epoch={"count": 8})
        .source("rows", files="rows.parquet", prepare="none")
        .operator("chain", input="rows", key="key", operator=workloads.Chain, discipline="merge")
        .sink("result", input="chain", format="console")
    )


@pytest.mark.parametrize("scheme", STANDING)
@pytest.mark.parametrize("seeds", [word_count, join, halving])
@pytest.mark.parametrize("kinds", ["all", USERS])
def test_seeds(seeds: Callable[[Scheme], Seeds], kinds: str, scheme: Scheme) -> None:
    done = seeds(scheme).run(kinds, range(2))
    assert sum(sum(each.faults.values()) for each in done) >= 2


def test_what_a_rebuilt_head_of_a_loop_jumps_over_may_be_forgotten() -> None:
    """This seed reaches it: its snapshot says which epoch is next; until then it waits for no back-edge."""
    (done,) = halving(Scheme.ACTIVE_STANDBY).run("crowded,scheme", [254])
    assert done.rebuilt


@functools.cache
def of_three(scheme: Scheme) -> Seeds:
    lines = pa.table({"line": workloads.text(160)})
    return Seeds(Workload(standing(workloads.word_count(), scheme, 3), {"lines": lines}))


@pytest.mark.parametrize("scheme", STANDING)
def test_of_three_replicas_any_number_stands_behind_and_the_output_is_that_of_one(
    scheme: Scheme,
) -> None:
    of_three(scheme).run("all", range(880_000, 880_002))
    alone = Workload(workloads.word_count(), {"lines": pa.table({"line": workloads.text(160)})})
    assert of_three(scheme).trials("all").digest == Seeds(alone).trials("all").digest


@pytest.mark.parametrize("numbers", [None, (1, 3, 10)])
def test_who_takes_over_from_a_committer_that_was_far_ahead_of_the_other(
    numbers: tuple[int, ...] | None,
) -> None:
    """With these faults alone a loop's head hears by the others that all is over, before its source tells."""
    trials = halving(Scheme.PASSIVE_STANDBY_HOT).trials("all")
    assert trials.run(5_001_050, numbers).problem is None


def test_a_loop_does_not_stop_for_a_checkpoint_that_is_over() -> None:
    """Its other slices have gone past that epoch, and wait for what it holds up."""
    assert halving(Scheme.PASSIVE_STANDBY_COLD).trials("all").run(6_002_684).problem is None


def test_a_loop_goes_on_though_it_is_told_late_that_a_checkpoint_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The head that was rebuilt goes through the epochs that the other one has jumped over."""
    kept_back: list[Directed] = []
    heard: Counter[tuple[SliceId, int]] = Counter()
    told = SliceMachine.handlers[Directed]

    def late(self: SliceMachine, directed: Directed) -> list[Effect]:
        replica = (self.slice_id, self.generation)
        heard[replica] += 1
        if isinstance(self, LoopHeadSlice) and self.generation > 1 and heard[replica] <= 4:
            kept_back.append(directed)
            directed = replace(self.directed, retain_after=directed.retain_after)
        return told(self, directed)

    monkeypatch.setitem(SliceMachine.handlers, Directed, late)
    assert halving(Scheme.PASSIVE_STANDBY_COLD).trials("all").run(6_002_684).problem is None
    assert len(kept_back) >= 4


def test_a_plan_does_not_stand_behind_one_that_was_refused() -> None:
    """By its number it would be the next one, for the same manager's plan of before stands after all."""
    assert join(Scheme.ACTIVE_STANDBY).trials("all").run(7_201_079).problem is None


def test_schemes_do_change() -> None:
    done = [trial for each in STANDING for trial in word_count(each).run(USERS, range(2))]
    assert sum(trial.faults[FaultKind.SCHEME] for trial in done) >= 5


def test_the_scheme_changes_no_byte() -> None:
    plain = Seeds(
        Workload(workloads.word_count(), {"lines": pa.table({"line": workloads.text(160)})})
    )
    digests = {word_count(each).trials("all").digest for each in STANDING}
    assert digests == {plain.trials("all").digest}


# --- broken on purpose ------------------------------------------------------------------------


def noticed(seeds: Seeds, kinds: str = "crash,move") -> bool:
    trials = seeds.trials(kinds)
    return any(trials.run(seed).problem for seed in range(MOST_SEEDS))


@pytest.mark.parametrize("scheme", [Scheme.PASSIVE_STANDBY_HOT, Scheme.ACTIVE_STANDBY])
def test_a_promotion_after_which_nobody_speaks(
    scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = word_count(scheme)
    seeds.trials("crash,move")
    monkeypatch.setattr(OutputChannel, "speak", lambda self: None)
    assert noticed(seeds)


def test_a_seat_whose_state_is_taken_for_that_of_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topology = standing(ordered(), Scheme.PASSIVE_STANDBY_COLD)
    seeds = Seeds(Workload(topology, {"rows": workloads.keyed_values(160)}))
    seeds.trials("crash,move")
    monkeypatch.setattr(compiled, "taken_from", lambda seat, vertex, restore, snapshot: 0)
    assert noticed(seeds)
