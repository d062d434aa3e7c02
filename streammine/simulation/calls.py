"""A virtual node's calls of the coordination service."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from streammine.model.coordination import CoordinationService
from streammine.model.errors import ClusterError, StalePlanError
from streammine.simulation.coordinator import Session
from streammine.simulation.process import VirtualProcess
from streammine.simulation.world import World

ATTEMPTS = 20
PAUSE_SECONDS = 0.1

Call = Callable[[CoordinationService], object]


class CoordinationCalls:
    """They reach the service late, one after the other; one that fails is made again some times before the
    next has its turn, or until it works where nobody would be told that it did not. Where its answer is
    lost it may have been heard, too."""

    def __init__(
        self,
        name: str,
        world: World,
        process: VirtualProcess,
        session: Session,
        random: Random,
    ) -> None:
        self._name = name
        self._world = world
        self._process = process
        self._session = session
        self._random = random
        self._waiting: deque[tuple[Call, Callable[[], None] | None]] = deque()

    def make(self, call: Call, refused: Callable[[], None] | None) -> None:
        """`refused` is called when it did not come about."""
        self._waiting.append((call, refused))
        if len(self._waiting) == 1:
            self._call(ATTEMPTS, 0.0)

    def _call(self, attempts: int, pause_seconds: float) -> None:
        world = self._world
        delay = self._random.uniform(0.0, world.settings.coordination_delay_seconds)
        call, refused = self._waiting[0]

        def heard() -> None:
            # what has left the process is heard, whether it stands still by now or not
            world.progressed()
            try:
                call(self._session)
            except StalePlanError as error:
                world.tell(self._name, str(error))
                self._process.occur(given_up)
                return
            except ClusterError:
                self._process.occur(failed)
                return
            self._process.occur(answered)

        def answered() -> None:
            if not self._session.connected:
                failed()
                return
            self._next()

        def failed() -> None:
            if (attempts > 1 or refused is None) and not self._session.over:
                self._call(attempts - 1, PAUSE_SECONDS)
                return
            given_up()

        def given_up() -> None:
            self._next()
            if refused is not None:
                refused()

        if self._process.alive:
            world.clock.after(pause_seconds + delay, heard)

    def _next(self) -> None:
        self._waiting.popleft()
        if self._waiting:
            self._call(ATTEMPTS, 0.0)
