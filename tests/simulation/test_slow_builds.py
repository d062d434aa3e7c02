"""Replicas that agree on their input are lost one after the other, while a third is being built."""

from __future__ import annotations

from random import Random

import pytest

from streammine.engine import node_stimuli as machine
from streammine.engine.managed_job import ManagedJob
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Placement
from streammine.simulation.agreed_books import keep_choices
from streammine.simulation.faults import FaultPlan
from streammine.simulation.node import VirtualNode
from streammine.simulation.run import SimulationError, _Run
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.workload import Workload
from streammine.simulation.world import World
from tests.simulation import test_seeds_either as either

COUNTS = SliceId("counts", 0)
NODES = 5
ROWS = 700
VARIED_SEED = 2
"""Where another receiver would be chosen if that was decided anew."""

LATER = 5
"""Checkpoints that are made while the third replica is being built."""


class Story(_Run):
    """The second replica of the counts dies. The one that replaces it has read its snapshot, of an epoch
    `begin`, and takes its state in for so long that the newest checkpoints are far beyond. Meanwhile the
    receiver that was chosen pauses, so that the other one is chosen. Then the first replica dies."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = SimulationSettings(
            checkpoint_epochs=4, heartbeat_seconds=0.05, source_seconds=15.0, read_rows=4
        )
        inputs = {"east": either.received(1), "west": either.received(2)}
        workload = Workload(either.counted(2, slices=1), inputs)
        spec = workload.spec(NODES, settings.checkpoint_epochs)
        world = World(seed, settings, spec, workload.sources, workload.compiled)
        keep_choices(world.disk.open_store(spec.recovery.store), {})
        super().__init__(world, spec, FaultPlan())
        self.begin: int | None = None
        self.told: list[str] = []
        self._held: list[tuple[VirtualNode, machine.NodeStimulus]] = []
        self._handle = VirtualNode._handle
        monkeypatch.setattr(
            VirtualNode, "_handle", lambda node, stimulus: self._slowly(node, stimulus)
        )

    def _slowly(self, node: VirtualNode, stimulus: machine.NodeStimulus) -> None:
        """A virtual node hears that the third replica is built only once the first one is dead."""
        if "first died" not in self.told and _builds_third(stimulus):
            self._held.append((node, stimulus))
        else:
            self._handle(node, stimulus)

    def _next_event(self) -> None:
        super()._next_event()
        if not self.world.monitor.plans:
            return
        made = self.world.monitor.checkpoints
        group = self.world.monitor.plans[-1].placements[COUNTS]
        if not self.told:
            if len(made) >= 2 and len(group) == 2:
                self._crash(group[1], "second died")
        elif self.told == ["second died"]:
            if self._held and len(group) == 2 and group[1].generation > 2:
                self.begin = group[1].begin
                self.told.append("third is built")
        elif self.begin is not None:
            later = sum(each > self.begin for each in made)
            if self.told[-1] == "third is built" and later:
                self._pause("east")
            elif self.told[-1] == "east paused" and later >= LATER:
                self._crash(group[0], "first died")
                for node, deployed in self._held:
                    self._handle(node, deployed)

    def _crash(self, replica: Placement, told: str) -> None:
        self.told.append(told)
        self.cluster.crash(self.cluster.nodes[replica.node], Random(1))

    def _pause(self, source: str) -> None:
        self.told.append(f"{source} paused")
        (placement,) = self.world.monitor.plans[-1].placements[SliceId(source, 0)]
        node = self.cluster.nodes[placement.node]
        node.process.stop()
        self.world.clock.after(0.2, node.process.go_on)


def _builds_third(stimulus: machine.NodeStimulus) -> bool:
    return isinstance(stimulus, machine.Deployed) and any(
        each.slice_id == COUNTS and each.generation > 2 for each in stimulus.slices
    )


def played(seed: int, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(either, "ROWS", ROWS)
    with monkeypatch.context() as slow:
        story = Story(seed, slow)
        assert story.outcome().status == "finished"
    assert story.told[-1] == "first died", (
        "this seed does not come to it any more: find another one"
    )
    return story


@pytest.mark.parametrize("seed", [VARIED_SEED, VARIED_SEED + 1])
def test_who_is_being_built_while_the_last_one_dies_finds_all_that_was_decided(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = played(seed, monkeypatch)
    chosen = story.world.monitor.choices[COUNTS].values()
    assert len({receiver for bags in chosen for receiver in bags.values()}) == 2, "both are chosen"


def remove_decisions_behind_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ManagedJob, "all_followed", lambda *_: True)


def test_where_decisions_are_gone_nonetheless_nothing_is_decided_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where one manager removes what the next one would keep."""
    remove_decisions_behind_replicas(monkeypatch)
    played(VARIED_SEED, monkeypatch)


def test_to_vote_without_what_was_removed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_decisions_behind_replicas(monkeypatch)
    monkeypatch.setattr("replication.decisions.forgotten_until", lambda _: BEGINNING)
    with pytest.raises(SimulationError, match="takes"):
        played(VARIED_SEED, monkeypatch)
