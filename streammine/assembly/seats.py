"""Operators that stand ready on a node without a part in the job: deployed, and perhaps in some state."""

from __future__ import annotations

from streammine.assembly.compiled import CompiledJob
from streammine.assembly.environment import BuiltSlice, Environment
from streammine.assembly.step_times import StepTimes
from streammine.engine.node_stimuli import NewReplica, Seated, Sit, damaged_by
from streammine.engine.processor import OperatorProcessor
from streammine.engine.stimuli import TakeState
from streammine.model.epochs import BEGINNING
from streammine.model.errors import SnapshotDamagedError
from streammine.model.ids import SliceId


class Seats:
    """Of one job on one node, by slice. Used on one thread at a time."""

    def __init__(self, times: StepTimes) -> None:
        self._times = times
        self._taken: dict[SliceId, BuiltSlice] = {}

    def sit(
        self,
        compiled: CompiledJob,
        wish: Sit,
        environment: Environment,
        since: float | None = None,
    ) -> Seated:
        """Do as wished, `since` some time. A snapshot that can't be read leaves nothing."""
        restore = wish.restore
        begun = self._times.clock() if since is None else since
        try:
            built = self._taken.get(wish.slice)
            if built is None:
                replica = NewReplica(wish.slice, wish.generation, restore)
                built = self._times.built(compiled, wish.job, replica, environment, since=begun)
                self._taken[wish.slice] = built
            elif restore is not None and isinstance(built.processor, OperatorProcessor):
                result = built.processor.perform((TakeState(restore),), 0.0)
                self._times.performed(result, wish.slice, wish.generation, begun)
        except SnapshotDamagedError as error:
            self.leave(wish.slice)
            damaged = damaged_by(wish, error)
            return Seated(wish.job, wish.slice, wish.generation, BEGINNING, 0, damaged=damaged)
        epoch = BEGINNING if restore is None else restore.epoch
        processor = built.processor
        nbytes = processor.operator.state_nbytes if isinstance(processor, OperatorProcessor) else 0
        return Seated(wish.job, wish.slice, wish.generation, epoch, nbytes)

    def give(self, slice_id: SliceId) -> BuiltSlice | None:
        """Whoever is deployed now may use it, and closes it otherwise."""
        return self._taken.pop(slice_id, None)

    def leave(self, slice_id: SliceId) -> None:
        built = self._taken.pop(slice_id, None)
        if built is not None:
            built.close()

    def close(self) -> None:
        for slice_id in list(self._taken):
            self.leave(slice_id)
