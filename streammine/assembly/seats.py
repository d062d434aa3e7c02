"""Operators that stand ready on a node without a part in the job: deployed, and perhaps in some state."""

from __future__ import annotations

from streammine.assembly.compiled import CompiledJob
from streammine.assembly.environment import BuiltSlice, Environment
from streammine.engine.node_stimuli import NewReplica, Seated, Sit
from streammine.engine.processor import OperatorProcessor
from streammine.engine.stimuli import TakeState
from streammine.model.epochs import BEGINNING
from streammine.model.errors import SnapshotDamagedError
from streammine.model.ids import SliceId


class Seats:
    """Of one job on one node, by slice. Used on one thread at a time."""

    def __init__(self) -> None:
        self._taken: dict[SliceId, BuiltSlice] = {}

    def sit(self, compiled: CompiledJob, wish: Sit, environment: Environment) -> Seated:
        """Do as wished. A snapshot that can't be read leaves an operator without state."""
        restore = wish.restore
        try:
            built = self._taken.get(wish.slice)
            if built is None:
                replica = NewReplica(wish.slice, wish.generation, restore)
                built = self._taken[wish.slice] = compiled.slice(wish.job, replica, environment)
                built.prepare()
            elif restore is not None and isinstance(built.processor, OperatorProcessor):
                built.processor.perform((TakeState(restore),), 0.0)
        except SnapshotDamagedError:
            self.leave(wish.slice)
            return Seated(wish.job, wish.slice, wish.generation, BEGINNING, 0)
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
