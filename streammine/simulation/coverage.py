"""Which situations a run went through: what faults are for is that all of them are met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streammine.engine import node_stimuli as machine
from streammine.engine.node_stimuli import NodeEffect, NodeStimulus
from streammine.engine.stimuli import Discard
from streammine.model import control

SITUATIONS = (
    "checkpoint published",
    "checkpoint not published",
    "snapshot written",
    "snapshot not written",
    "snapshot found damaged",
    "replica restored from a full snapshot",
    "replica restored from a chain of snapshots",
    "replica rebuilt from nothing",
    "finished replica restored",
    "replica withdrawn",
    "frames asked for again",
    "open epoch discarded",
    "manager taken over",
    "plan refused",
)


class Coverage:
    """Counts situations. `SITUATIONS` names them all, so that those never met can be shown."""

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()

    def note(self, situation: str) -> None:
        assert situation in SITUATIONS, situation
        self.met[situation] += 1

    def step(self, stimulus: NodeStimulus, effects: Iterable[NodeEffect]) -> None:
        match stimulus:
            case machine.SnapshotWritten(_, _, _, record):
                self.note("snapshot not written" if record is None else "snapshot written")
            case machine.CheckpointPublished(_, _, error):
                failed = error is not None
                self.note("checkpoint not published" if failed else "checkpoint published")
            case machine.Deployed() if stimulus.damaged:
                self.note("snapshot found damaged")
            case machine.CheckpointsFound():
                self.note("manager taken over")
            case _:
                pass
        for effect in effects:
            match effect:
                case machine.Deploy():
                    self._deploy(effect)
                case machine.Withdraw():
                    self.note("replica withdrawn")
                case machine.Perform() if any(isinstance(each, Discard) for each in effect.work):
                    self.note("open epoch discarded")
                case machine.TransmitControl(_, control.ResendRequest()):
                    self.note("frames asked for again")
                case _:
                    continue

    def _deploy(self, effect: machine.Deploy) -> None:
        for replica in effect.replicas:
            restore = replica.restore
            if restore is None:
                if not replica.links:
                    self.note("replica rebuilt from nothing")
            elif restore.record is None:
                self.note("finished replica restored")
            elif restore.record.full:
                self.note("replica restored from a full snapshot")
            else:
                self.note("replica restored from a chain of snapshots")
