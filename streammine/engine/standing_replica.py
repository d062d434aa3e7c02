"""What a slice's replica does about its place among the others: whether it leads, and where on the ladder it
stands (DESIGN §5)."""

from __future__ import annotations

from abc import abstractmethod

from streammine.engine.frontier import Frontier
from streammine.engine.linked_replica import LinkedReplica
from streammine.engine.slice_settings import Phase, RestoredTo
from streammine.engine.snapshot_chain import SnapshotChain
from streammine.engine.stimuli import (
    Effect,
    Led,
    Progressed,
    Run,
    Stand,
    StateOffered,
    TakeState,
)
from streammine.model.epochs import BEGINNING
from streammine.model.schemes import Scheme


class StandingReplica(LinkedReplica):
    """One replica of a slice among others. `rung` is where it stands, `wanted_rung` where it is to stand;
    `taking`: it takes in the state after that epoch now."""

    phase: Phase
    frontier: Frontier
    busy: bool
    leads: bool
    spare: bool
    rung: Scheme
    wanted_rung: Scheme
    taking: int
    last_epoch: int
    frozen: int
    skipped: int
    barriers: list[int]
    snapshots: SnapshotChain

    @abstractmethod
    def _settle(self) -> list[Effect]:
        """Pass on how far processing has got."""

    def _led(self, stimulus: Led) -> list[Effect]:
        if self.leads and not stimulus.by_this:
            self.snapshots.leave()
        self.leads, self.spare = stimulus.by_this, stimulus.spare
        return []

    def _stand(self, stimulus: Stand) -> list[Effect]:
        self.wanted_rung = stimulus.rung
        if self.taking == BEGINNING:
            self._climb()
        return []

    def _climb(self) -> None:
        """Not while state is taken in: what is made, and may be heard, comes after it."""
        before, self.rung = self.rung, self.wanted_rung
        for channel in self.outputs.values():
            if before.publishes and not self.rung.publishes:
                channel.hush()
            elif self.rung.publishes and not before.publishes:
                channel.speak()

    def _state_offered(self, stimulus: StateOffered) -> list[Effect]:
        epoch = stimulus.restore.epoch
        stands_by = self.phase is Phase.RUNNING and not self.rung.processes and not self.busy
        if not stands_by or epoch < self.processed_below or stimulus.restore.record is None:
            return []
        receiving = self.frontier.complete_below <= epoch
        if receiving or any(channel.lacked(epoch) for channel in self.outputs.values()):
            return []
        self.busy = True
        self.taking = epoch
        return [Run((TakeState(stimulus.restore),)), Progressed()]

    def _taken(self, taken: RestoredTo) -> list[Effect]:
        """The state of a complete checkpoint is held: what led up to it is not needed any more."""
        self.taking = BEGINNING
        self.frozen = self.skipped = taken.epoch
        self.last_epoch = max(self.last_epoch, taken.last_epoch)
        self.barriers = [each for each in self.barriers if each > taken.epoch]
        self.waiting.forget(taken.epoch)
        self.losses.epochs.drop(taken.epoch)
        self._begin_behind(taken)
        self.frontier.skip(taken.epoch, taken.due)
        for channel in self.outputs.values():
            channel.restart(taken.epoch)
        self._climb()
        return [*self._settle(), Progressed()]
