"""Which rows of the machines' tables a run went through: what faults are for is that all of them are met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streammine.engine import node_stimuli as machine
from streammine.engine.manager import ManagerMachine
from streammine.engine.node_stimuli import NodeEffect, NodeStimulus
from streammine.model.recovery import CheckpointCoordinator
from streammine.simulation.rows import ROWS, UNREACHED, Row
from streammine.simulation.watching import watch_coordinator, watch_manager, watch_slice

_KNOWN = frozenset([*ROWS, *UNREACHED])


class Coverage:
    """Counts rows. Managers and coordinators of checkpoints must be shown to it; slices are seen as they are
    deployed. A row that is in no table is an AssertionError."""

    def __init__(self) -> None:
        # counting in a plain dict takes half of a Counter's time
        self._met: dict[Row, int] = {}

    @property
    def met(self) -> Counter[Row]:
        return Counter(self._met)

    def note(self, machine_name: str, what: str) -> None:
        row = (machine_name, what)
        met = self._met
        if row in met:
            met[row] += 1
            return
        assert row in _KNOWN, f"{machine_name}: {what}: there is no such row"
        met[row] = 1

    def watch_manager(self, manager: ManagerMachine) -> None:
        watch_manager(manager, self.note)

    def watch_coordinator(self, coordinator: CheckpointCoordinator) -> None:
        watch_coordinator(coordinator, self.note)

    def step(self, stimulus: NodeStimulus, effects: Iterable[NodeEffect]) -> None:
        """A node's machine has taken a stimulus."""
        match stimulus:
            case machine.ControlReceived(_, message):
                self.note("node", type(message).__name__)
            case machine.Deployed():
                for each in stimulus.slices:
                    watch_slice(each, self.note)
                if stimulus.damaged:
                    self.note("recovery", "snapshot found damaged")
            case machine.SnapshotWritten(_, _, _, record):
                written = "snapshot not written" if record is None else "snapshot written"
                self.note("recovery", written)
            case machine.CheckpointPublished(_, _, error):
                failed = error is not None
                published = "checkpoint not published" if failed else "checkpoint published"
                self.note("recovery", published)
            case _:
                pass
        if not isinstance(stimulus, machine.ControlReceived):
            self.note("node", type(stimulus).__name__)
        for effect in effects:
            self._effect(effect)

    def _effect(self, effect: NodeEffect) -> None:
        self.note("node effects", type(effect).__name__)
        match effect:
            case machine.Deploy():
                for replica in effect.replicas:
                    self._deploy(replica)
            case machine.Withdraw():
                self.note("recovery", "replica withdrawn")
            case machine.Perform():
                for work in effect.work:
                    self.note("work", type(work).__name__)
            case _:
                pass

    def _deploy(self, replica: machine.NewReplica) -> None:
        restore = replica.restore
        if restore is None:
            if not replica.links:
                self.note("recovery", "replica rebuilt from nothing")
        elif restore.record is None:
            self.note("recovery", "finished replica restored")
        elif restore.record.full:
            self.note("recovery", "replica restored from a full snapshot")
        else:
            self.note("recovery", "replica restored from a chain of snapshots")
