"""A node is emptied while it takes long to build what replaces its replicas: snapshots must fit together."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.engine import node_stimuli as machine
from streammine.engine import plans
from streammine.engine.snapshot_chain import SnapshotChain
from streammine.model.ids import SliceId
from streammine.model.job import Placement
from streammine.simulation.faults import FaultPlan
from streammine.simulation.node import VirtualNode
from streammine.simulation.run import SimulationError, _Run
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.workload import Workload
from streammine.simulation.world import World

COUNTS = SliceId("counts", 0)
TOPOLOGY = (
    Topology(name="led-again", epoch={"count": 12}, replicas=2)
    .source("lines", files="lines.txt", slices=1)
    .operator("words", input="lines", flat_map={"split": "line", "into": "word"})
    .operator(
        "counts",
        input="words",
        key="word",
        aggregate={"count": "count()"},
        window="global",
        slices=1,
    )
    .sink("result", input="counts", format="console")
)
LINES = [
    " ".join(f"word{30 * line + each}" for each in range(30 if line < 12 else 1))
    for line in range(80 * 12)
]
"""Most words are in the first epoch: what comes later is little beside them, so it adds to their snapshot."""

LATER = 6
"""Checkpoints that are made before what replaces the replicas is built, and after that: enough for the first
snapshots to be removed."""


class Story(_Run):
    """The node of the second replica of the counts is emptied. For `LATER` checkpoints nobody hears that a
    third replica is built; then it is, the second one goes, and as many checkpoints more are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = SimulationSettings(
            checkpoint_epochs=3, heartbeat_seconds=0.05, source_seconds=20.0, read_rows=4
        )
        workload = Workload(TOPOLOGY, {"lines": pa.table({"line": LINES})})
        spec = workload.spec(3, settings.checkpoint_epochs)
        world = World(1, settings, spec, workload.sources, workload.compiled)
        super().__init__(world, spec, FaultPlan())
        self.asked_at: int | None = None
        self.gone_at: int | None = None
        self.leaders: list[int] = []
        self._held: list[tuple[VirtualNode, machine.NodeStimulus]] = []
        self._handle = VirtualNode._handle
        monkeypatch.setattr(
            VirtualNode, "_handle", lambda node, stimulus: self._slowly(node, stimulus)
        )

    @property
    def made(self) -> int:
        return len(self.world.monitor.checkpoints)

    @property
    def group(self) -> tuple[Placement, ...]:
        return self.world.monitor.plans[-1].placements[COUNTS]

    def _slowly(self, node: VirtualNode, stimulus: machine.NodeStimulus) -> None:
        if self._waits and isinstance(stimulus, machine.Deployed) and stimulus.slices:
            self._held.append((node, stimulus))
        else:
            self._handle(node, stimulus)

    @property
    def _waits(self) -> bool:
        return self.asked_at is not None and self.made < self.asked_at + LATER

    def _next_event(self) -> None:
        super()._next_event()
        if not self.world.monitor.plans or len(self.group) < 2:
            return
        if not self.leaders or self.leaders[-1] != self.group[0].generation:
            self.leaders.append(self.group[0].generation)
        if self.asked_at is None:
            if self.made >= 2 and self.cluster.ask_drain(self.cluster.nodes[self.group[1].node]):
                self.asked_at = self.made
        elif not self._waits:
            held, self._held = self._held, []
            for node, deployed in held:
                self._handle(node, deployed)
            if self.gone_at is None and not any(each.leaving for each in self.group):
                self.gone_at = self.made


def played(monkeypatch: pytest.MonkeyPatch) -> Story:
    with monkeypatch.context() as slow:
        story = Story(slow)
        assert story.outcome().status == "finished"
    assert story.gone_at is not None
    assert story.made >= story.gone_at + LATER
    return story


def let_leaving_replicas_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are listed in front of those that stay, as one that leads is."""
    first = plans.leading_first
    monkeypatch.setattr(
        plans,
        "leading_first",
        lambda group: first(sorted(group, key=lambda each: not each.leaving)),
    )


def test_who_leads_goes_on_leading_while_another_one_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(set(played(monkeypatch).leaders)) == 1


def test_who_leads_again_begins_with_all_of_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    let_leaving_replicas_lead(monkeypatch)
    first, second, again = played(monkeypatch).leaders
    assert first == again != second


def test_to_add_to_what_was_removed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    let_leaving_replicas_lead(monkeypatch)
    monkeypatch.setattr(SnapshotChain, "leave", lambda _: None)
    with pytest.raises(SimulationError, match="snapshots/"):
        played(monkeypatch)
