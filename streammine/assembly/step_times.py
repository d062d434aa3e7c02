"""How long the steps of bringing slices to life take on a node, as its shell measures them.

Both shells hold one of these for each job, on their own clock, and put what it knows into every heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable

from streammine.assembly.compiled import CompiledJob
from streammine.assembly.environment import BuiltSlice, Environment
from streammine.engine.node_stimuli import NewReplica
from streammine.engine.stimuli import WorkResult
from streammine.model.control import StepReport
from streammine.model.ids import SliceId
from streammine.model.recovery_policy import Step

MOST_STEPS = 64
"""Of a job, the newest."""


class StepTimes:
    """Bounded; of each step of a replica the newest. May be used from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._newest: dict[tuple[Step, str, int], StepReport] = {}
        self._declared: dict[int, float] = {}

    @property
    def reports(self) -> tuple[StepReport, ...]:
        return tuple(self._newest.copy().values())

    def took(
        self, step: Step, slice_id: SliceId | str, generation: int, since: float, nbytes: float = 0
    ) -> float:
        """A step of a replica is over, which began at `since`. Returns the time now."""
        now = self.clock()
        key = (step, str(slice_id), generation)
        report = StepReport(step.value, *key[1:], max(0.0, now - since), float(nbytes))
        self._newest.pop(key, None)
        self._newest[key] = report
        for oldest in list(self._newest)[:-MOST_STEPS]:
            self._newest.pop(oldest, None)
        return now

    def declared(self, version: int) -> None:
        """A plan is on its way to the coordination service."""
        self._declared = {version: self.clock()}

    def seen(self, version: int) -> None:
        """A plan has come from there."""
        since = self._declared.pop(version, None)
        if since is not None:
            self.took(Step.SWITCH, "", version, since)

    def performed(
        self, result: WorkResult, slice_id: SliceId, generation: int, since: float
    ) -> None:
        """What came of the work of a replica, begun at `since`; a state that it took in was loaded."""
        if result.taken is not None:
            self.took(Step.LOAD, slice_id, generation, since, result.taken_bytes)

    def built(
        self,
        compiled: CompiledJob,
        job: int,
        replica: NewReplica,
        environment: Environment,
        seat: BuiltSlice | None = None,
        since: float | None = None,
    ) -> BuiltSlice:
        """A replica that is ready, as of `CompiledJob.slice` and `BuiltSlice.prepare`; begun at `since`."""
        begun = self.clock() if since is None else since
        key = (replica.slice, replica.generation)
        built = compiled.slice(job, replica, environment, seat)
        if seat is not None and built.processor is seat.processor:
            # it was deployed before; what takes time is to take its state in
            if built.taken_bytes:
                self.took(Step.LOAD, *key, begun, built.taken_bytes)
            return built
        built.prepare_operator()
        begun = self.took(Step.DEPLOY, *key, begun)
        if built.snapshot is not None:
            built.take_snapshot()
            self.took(Step.LOAD, *key, begun, built.snapshot.nbytes)
        return built
