"""What a node does for replicas that agree on their input, on threads of its own: they wait for it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from streammine.assembly import settled
from streammine.engine import node_stimuli as machine
from streammine.model.agreement import AskWitness, WitnessAnswered
from streammine.model.coordination import CoordinationService
from streammine.model.errors import OutputError
from streammine.runtime.failures import failure_text
from streammine.runtime.hosting import HostedJob
from streammine.runtime.workers import Workers

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""A store takes its time for each write, and replicas of several slices wait for theirs after a loss."""

Coordinate = Callable[[Callable[[CoordinationService], object], machine.NodeStimulus], None]


class Decider:
    """Performs `MakeSure`. `handle` takes what came of it; `coordinate` talks to the coordination service off
    the loop."""

    def __init__(
        self, node: str, handle: Callable[[machine.NodeStimulus], None], coordinate: Coordinate
    ) -> None:
        self._node = node
        self._handle = handle
        self._coordinate = coordinate
        self._workers = Workers(AT_ONCE, f"{node}-decisions")

    def make_sure(self, job: HostedJob, effect: machine.MakeSure) -> None:
        if isinstance(effect.wish, AskWitness):
            self._take_witness(effect, effect.wish)
        else:
            self._workers.submit(0, lambda: self._handle(self._settled(job, effect)))

    def _settled(self, job: HostedJob, effect: machine.MakeSure) -> machine.NodeStimulus:
        """Put decisions, or the seal of those who decide now, into the job's store."""
        try:
            return settled(job.snapshot_store, effect, self._warn)
        except OutputError as error:
            logger.warning("node %s: what replicas decide: %s", self._node, error)
            return machine.MadeSure(effect, None)
        except Exception as error:
            return machine.JobBroken(job.number, failure_text(self._node, error))

    def _warn(self, text: str) -> None:
        logger.error("node %s passes damaged decisions over: %s", self._node, text)

    def _take_witness(self, effect: machine.MakeSure, wish: AskWitness) -> None:
        name = machine.witness_name(effect.slice, wish.plan_version)

        def answered(holder: int | None) -> machine.MadeSure:
            return machine.MadeSure(effect, WitnessAnswered(wish.plan_version, holder))

        def take(service: CoordinationService) -> None:
            holder = service.take_witness(effect.job, name, effect.generation)
            self._handle(answered(holder))

        self._coordinate(take, answered(None))

    def close(self) -> None:
        self._workers.close()
