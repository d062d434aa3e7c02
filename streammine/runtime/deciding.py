"""What a node does for replicas that agree on their input, on threads of its own: they wait for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from streammine.assembly import settled
from streammine.engine import node_stimuli as machine
from streammine.model.agreement import AskWitness, WitnessAnswered
from streammine.model.coordination import CoordinationService
from streammine.model.errors import OutputError
from streammine.model.ids import SliceId
from streammine.runtime.failures import failure_text
from streammine.runtime.hosting import HostedJob
from streammine.runtime.workers import Workers

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""A store takes its time for each write, and replicas of several slices wait for theirs after a loss."""

REMINDER_SECONDS = 60.0
"""Between warnings of a store that goes on failing."""

Coordinate = Callable[[Callable[[CoordinationService], object], machine.NodeStimulus], None]


class FailingStores:
    """Which replicas a store has failed for since when: what is tried again and again is told seldom.

    A disk that is full may have room again, and where it is so for one node another one writes: so nothing is
    given up. Until then the slice stands still, and whoever looks into the log has to learn why.
    """

    def __init__(self, node: str, clock: Callable[[], float]) -> None:
        self._node = node
        self._clock = clock
        self._guard = threading.Lock()
        # by job, slice and generation: since when, and when it was told last
        self._failing: dict[tuple[int, SliceId, int], tuple[float, float]] = {}

    def failed(self, effect: machine.MakeSure, error: OutputError) -> None:
        replica, now = (effect.job, effect.slice, effect.generation), self._clock()
        with self._guard:
            since, told = self._failing.get(replica, (now, now - REMINDER_SECONDS))
            is_due = now - told >= REMINDER_SECONDS
            self._failing[replica] = since, now if is_due else told
        if is_due:
            logger.warning(
                "node %s, job %d: slice %s can't store or read what its replicas agree on, for %.0f s now, "
                "and goes on only where another one can; it is tried until it works: %s",
                self._node,
                effect.job,
                effect.slice,
                now - since,
                error,
            )

    def worked(self, effect: machine.MakeSure) -> None:
        with self._guard:
            failed = self._failing.pop((effect.job, effect.slice, effect.generation), None)
        if failed is not None:
            logger.warning(
                "node %s, job %d: slice %s can store and read again what its replicas agree on, after %.0f s",
                self._node,
                effect.job,
                effect.slice,
                self._clock() - failed[0],
            )


class Decider:
    """Performs `MakeSure`. `handle` takes what came of it; `coordinate` talks to the coordination service off
    the loop."""

    def __init__(
        self,
        node: str,
        handle: Callable[[machine.NodeStimulus], None],
        coordinate: Coordinate,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._handle = handle
        self._coordinate = coordinate
        self._failing = FailingStores(node, clock)
        self._workers = Workers(AT_ONCE, f"{node}-decisions")

    def make_sure(self, job: HostedJob, effect: machine.MakeSure) -> None:
        if isinstance(effect.wish, AskWitness):
            self._take_witness(effect, effect.wish)
        else:
            self._workers.submit(0, lambda: self._handle(self._settled(job, effect)))

    def _settled(self, job: HostedJob, effect: machine.MakeSure) -> machine.NodeStimulus:
        """Put decisions, or the seal of those who decide now, into the job's store."""
        try:
            done = settled(job.snapshot_store, effect, self._warn)
        except OutputError as error:
            self._failing.failed(effect, error)
            return machine.MadeSure(effect, None)
        except Exception as error:
            return machine.JobBroken(job.number, failure_text(self._node, error))
        self._failing.worked(effect)
        return done

    def _warn(self, text: str) -> None:
        logger.error("node %s: damaged decisions: %s", self._node, text)

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
