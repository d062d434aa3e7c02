"""What the manager decides by, and is handed: see `model.recovery` and `model.recovery_policy`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from streammine.engine.scheme_control import SchemeControl
from streammine.model.job import JobGraph
from streammine.model.recovery import CheckpointCoordinator, RecoveryLine
from streammine.model.recovery_policy import RecoveryGoal, SchemeController
from streammine.model.snapshots import RecoverySettings

DETECTION_SECONDS = 4.0
"""A member that nothing is heard of for so long is lost, unless a shell says otherwise."""

ANY_TIME = RecoveryGoal(math.inf)
"""Of a job that says nothing of `recovery`."""


@dataclass(frozen=True)
class Policies:
    """`controller` is told how long it takes at most to notice a loss: `detection_seconds`."""

    coordinator: Callable[[JobGraph, RecoverySettings], CheckpointCoordinator]
    line: RecoveryLine
    controller: Callable[[RecoveryGoal, float], SchemeController]
    detection_seconds: float = DETECTION_SECONDS

    def control(self, graph: JobGraph, recovery: RecoverySettings) -> SchemeControl | None:
        """Where a job's schemes are chosen, or, without a goal, what they would take and cost is known; None
        where a job makes no snapshots: all estimates rest on them."""
        if recovery.mode == "none":
            return None
        chooses = recovery.goal is not None
        controller = self.controller(recovery.goal or ANY_TIME, self.detection_seconds)
        return SchemeControl(controller, graph, recovery.paced, chooses)
