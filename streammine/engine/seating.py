"""Operators that stand ready on a node without a part in the job (see `ladder`)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from streammine.engine import stimuli
from streammine.engine.hosted_job import HostedJob, Seat
from streammine.engine.node_stimuli import NodeEffect, Seated, Sit, Unseat
from streammine.engine.routing import RoutingNode
from streammine.model import control
from streammine.model.ids import SliceId
from streammine.model.job import Placement


class SeatingNode(RoutingNode):
    """The part of a node that keeps seats. `member`: its number among all that joined, once it is known."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.member: int | None = None

    @abstractmethod
    def _fail(self, job: HostedJob, failure: str, effects: list[NodeEffect]) -> None:
        """The job can't go on."""

    def _mine(self, job: HostedJob, slice_id: SliceId) -> Placement | None:
        """The replica of a slice that the plan puts here."""
        for each in job.placed(slice_id):
            if each.node == self.name and each.member == self.member:
                return each
        return None

    def _seat(self, job: HostedJob, effects: list[NodeEffect]) -> None:
        """Have those operators ready, and no others, that the plan puts here without a part in the job."""
        assert job.plan is not None
        here = {each: self._mine(job, each) for each in job.plan.placements}
        wanted = {
            each: mine
            for each, mine in here.items()
            if mine and not mine.rung.queues and (each, mine.generation) not in job.damaged
        }
        for slice_id in [each for each in job.seats if each not in wanted]:
            del job.seats[slice_id]
            effects.append(Unseat(job.number, slice_id))
        for slice_id, mine in wanted.items():
            seat = job.seats.get(slice_id)
            if seat is None:
                job.seats[slice_id] = Seat(mine.generation)
                effects.append(Sit(job.number, slice_id, mine.generation, None))
            else:
                seat.generation = mine.generation

    def _seated(self, done: Seated, effects: list[NodeEffect]) -> None:
        job = self.jobs.get(done.job)
        seat = job.seats.get(done.slice) if job is not None else None
        if job is None or seat is None:
            return
        if done.failure is not None:
            self._fail(job, done.failure, effects)
            return
        if done.damaged is not None:
            # the manager makes up for it, with another snapshot
            job.damaged[done.slice, seat.generation] = replace(
                done.damaged, generation=seat.generation
            )
            self._seat(job, effects)
            self._report(effects)
            return
        seat.epoch, seat.state_bytes, seat.at_work = done.epoch, done.state_bytes, False

    def _offered(self, message: control.StateOffers, effects: list[NodeEffect]) -> None:
        """States of a complete checkpoint, for those here that only stand by."""
        job = self.jobs.get(message.job)
        if job is None or job.plan is None or message.plan_version < job.plan.version:
            return
        for offer in message.offers:
            slice_id = SliceId.parse(offer.slice)
            mine = self._mine(job, slice_id)
            seat = job.seats.get(slice_id)
            if mine is None or mine.generation != offer.generation:
                continue
            if seat is None:
                self._local.append((job.number, slice_id, stimuli.StateOffered(offer.restore)))
            elif mine.rung.holds_state and not seat.at_work and seat.epoch < offer.restore.epoch:
                seat.at_work = True
                effects.append(Sit(job.number, slice_id, mine.generation, offer.restore))
