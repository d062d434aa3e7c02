"""The virtual coordination service: what ZooKeeper keeps, told to each node in order but not at once.

A process opens a `Session` and joins by it. The service expires a session that it has heard nothing of
for the session's timeout, and the membership goes with it; the process learns of that when it is heard
again. While the service itself is down no session expires, and all get their whole timeout once it is back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from streammine.model.coordination import (
    ConnectionChanged,
    ConnectionState,
    CoordinationEvent,
    EventListener,
    JobEnded,
    JobListing,
    JobSubmitted,
    Member,
    MembersChanged,
    PlanPublished,
)
from streammine.model.errors import ClusterError, StalePlanError
from streammine.simulation.clock import VirtualClock
from streammine.simulation.settings import SimulationSettings


class VirtualCoordinator:
    """What is kept. Numbers of jobs start from 1, those of members from 0; none is used twice.

    `on_end` and `on_plan` are told of outcomes and plans, the moment they stand.
    """

    def __init__(self, clock: VirtualClock, seed: int, settings: SimulationSettings) -> None:
        self.clock = clock
        self.seed = seed
        self.settings = settings
        self.sessions: list[Session] = []
        self.joined = 0
        self._members: dict[int, Member] = {}
        self._jobs: dict[int, bytes] = {}
        self._plans: dict[int, PlanPublished] = {}
        self._witnesses: dict[tuple[int, str], int] = {}
        self._outcomes: dict[int, bytes] = {}
        self._announced: set[int] = set()
        self.on_end: Callable[[int, bytes], None] = lambda job, outcome: None
        self.on_plan: Callable[[PlanPublished], None] = lambda plan: None

    def open(self, name: str, listener: EventListener) -> Session:
        """A process connects."""
        session = Session(self, len(self.sessions) + 1, name, listener)
        self.sessions.append(session)
        return session

    # --- what clients ask ------------------------------------------------------------------------

    def submit_job(self, blob: bytes) -> int:
        number = len(self._jobs) + 1
        self._jobs[number] = blob
        self._tell_everyone(JobSubmitted(number, blob))
        return number

    def members(self) -> tuple[Member, ...]:
        """By sequence; the first is the manager."""
        return tuple(sorted(self._members.values(), key=lambda member: member.sequence))

    def jobs(self) -> tuple[JobListing, ...]:
        return tuple(JobListing(job, job in self._outcomes) for job in self._jobs)

    def read_job(self, job: int) -> bytes:
        return self._jobs[job]

    def read_plan(self, job: int) -> PlanPublished | None:
        return self._plans.get(job)

    def read_outcome(self, job: int) -> bytes | None:
        return self._outcomes.get(job)

    # --- what sessions ask -----------------------------------------------------------------------

    def join(self, session: Session, member: Member) -> Member:
        known = self._members.get(session.number)
        if known is not None:
            return known
        joined = replace(member, sequence=self.joined, session=session.number)
        self.joined += 1
        self._members[session.number] = joined
        for other in self._members:
            if other != session.number:
                self._session(other).tell(MembersChanged(self.members()))
        session.tell_all()
        return joined

    def publish_plan(self, session: Session, job: int, version: int, blob: bytes) -> None:
        if job not in self._jobs or job in self._outcomes:
            raise ClusterError(f"job {job} is not running")
        standing = self._plans[job].version if job in self._plans else 0
        if version != standing + 1:
            raise StalePlanError(f"plan {version} of job {job}, but {standing} stands")
        if session.number not in self._members:
            raise StalePlanError(f"plan {version} of job {job} by one that is no member")
        self._plans[job] = PlanPublished(job, version, blob)
        self.on_plan(self._plans[job])
        for number in self._members:
            self._session(number).tell_plan(job)

    def end_job(self, job: int, outcome: bytes) -> bool:
        if job in self._outcomes:
            return False
        self._outcomes[job] = outcome
        self.on_end(job, outcome)
        return True

    def take_witness(self, job: int, name: str, holder: int) -> int:
        if job not in self._jobs or job in self._outcomes:
            raise ClusterError(f"job {job} is not running")
        return self._witnesses.setdefault((job, name), holder)

    def announce_end(self, job: int) -> None:
        """Tell every node that the job is over; apart from `end_job`, so that what is still on its
        way can arrive first and be looked at."""
        self._announced.add(job)
        self._tell_everyone(JobEnded(job, self._outcomes[job]))

    def events(self) -> list[CoordinationEvent]:
        """What a process finds that has just connected, but for the plans that stand."""
        found: list[CoordinationEvent] = [MembersChanged(self.members())]
        for number, blob in self._jobs.items():
            if number in self._announced:
                found.append(JobEnded(number, self._outcomes[number]))
            elif number not in self._outcomes:
                found.append(JobSubmitted(number, blob))
        return found

    def plans(self) -> list[int]:
        """Jobs with a plan that are not over."""
        return [job for job in self._plans if job not in self._outcomes]

    # --- faults ----------------------------------------------------------------------------------

    def outage(self) -> Callable[[], None]:
        """Nobody reaches the service until what is returned is called."""
        cut = [session.cut(expires=False) for session in self.sessions if not session.over]

        def over() -> None:
            for mend in cut:
                mend()

        return over

    def expire(self, session: Session) -> bool:
        """End a session as its timeout does. False when it was over."""
        if session.expired:
            return False
        session.expired = True
        session.missed += 1
        if self._members.pop(session.number, None) is not None:
            self._tell_everyone(MembersChanged(self.members()))
        return True

    def _tell_everyone(self, event: CoordinationEvent) -> None:
        for number in self._members:
            self._session(number).tell(event)

    def _session(self, number: int) -> Session:
        return self.sessions[number - 1]


class Session:
    """The service as one process has it: a `CoordinationService` whose calls raise ClusterError while
    the service can't be reached, and whose events stay away meanwhile; `missed` counts both."""

    def __init__(
        self, coordinator: VirtualCoordinator, number: int, name: str, listener: EventListener
    ) -> None:
        self.number = number
        self.name = name
        self.expired = False
        self.over = False
        self.missed = 0
        self._coordinator = coordinator
        self._listener = listener
        self._random = Random(f"{coordinator.seed}/session/{number}")
        self._cuts: list[bool] = []
        self._silence = 0
        self._suspended = False
        self._last_seconds = 0.0

    # --- the service -----------------------------------------------------------------------------

    def join(self, member: Member) -> Member:
        self._reach()
        return self._coordinator.join(self, member)

    def submit_job(self, blob: bytes) -> int:
        self._reach()
        return self._coordinator.submit_job(blob)

    def publish_plan(self, job: int, version: int, blob: bytes) -> None:
        self._reach()
        self._coordinator.publish_plan(self, job, version, blob)

    def end_job(self, job: int, outcome: bytes) -> bool:
        self._reach()
        return self._coordinator.end_job(job, outcome)

    def take_witness(self, job: int, name: str, holder: int) -> int:
        self._reach()
        return self._coordinator.take_witness(job, name, holder)

    def members(self) -> tuple[Member, ...]:
        self._reach()
        return self._coordinator.members()

    def jobs(self) -> tuple[JobListing, ...]:
        self._reach()
        return self._coordinator.jobs()

    def read_job(self, job: int) -> bytes:
        self._reach()
        return self._coordinator.read_job(job)

    def read_plan(self, job: int) -> PlanPublished | None:
        self._reach()
        return self._coordinator.read_plan(job)

    def read_outcome(self, job: int) -> bytes | None:
        self._reach()
        return self._coordinator.read_outcome(job)

    @property
    def connected(self) -> bool:
        return not self._cuts and not self.expired and not self.over

    def _reach(self) -> None:
        if not self.connected:
            self.missed += 1
            raise ClusterError(f"{self.name} can't reach the coordination service")

    # --- events ----------------------------------------------------------------------------------

    def tell(self, event: CoordinationEvent) -> None:
        self._later(lambda: self._listener(event))

    def tell_plan(self, job: int) -> None:
        """The plan that stands when the word arrives: versions may be skipped."""

        def told() -> None:
            plan = self._coordinator.read_plan(job)
            assert plan is not None
            self._listener(plan)

        self._later(told)

    def tell_all(self) -> None:
        """Everything that stands: to a new member, and to one that was cut off."""
        for event in self._coordinator.events():
            self.tell(event)
        for job in self._coordinator.plans():
            self.tell_plan(job)

    def _later(self, action: Callable[[], None]) -> None:
        if not self.connected:
            self.missed += 1
            return
        silence = self._silence

        def told() -> None:
            if silence == self._silence:
                action()
            else:
                self.missed += 1

        self._at_its_turn(told)

    def _at_its_turn(self, action: Callable[[], None]) -> None:
        coordinator = self._coordinator
        delay = self._random.uniform(0.0, coordinator.settings.coordination_delay_seconds)
        due = max(coordinator.clock.now_seconds + delay, self._last_seconds)
        self._last_seconds = due
        coordinator.clock.at(due, action)

    # --- faults ----------------------------------------------------------------------------------

    def cut(self, expires: bool = True) -> Callable[[], None]:
        """The service can't be reached until what is returned is called.

        `expires`: the service, too, hears nothing, and its patience ends.
        """
        self._cuts.append(expires)
        self._silence += 1
        if len(self._cuts) == 1:
            self._at_its_turn(self._notice)
        if expires:
            self._await_expiry()

        def mend() -> None:
            self._cuts.remove(expires)
            self._silence += 1
            if self._cuts:
                # a session gets its whole timeout once the service is back
                self._await_expiry()
                return
            self._at_its_turn(self._reconnect)

        return mend

    def close(self) -> None:
        """The process is gone: nobody is told anything, and the service's patience ends in its time."""
        self.cut()
        self.over = True

    def _await_expiry(self) -> None:
        silence = self._silence
        timeout = self._coordinator.settings.session_timeout_seconds

        def elapsed() -> None:
            if silence == self._silence and all(self._cuts):
                self._coordinator.expire(self)

        self._coordinator.clock.after(timeout, elapsed)

    def _notice(self) -> None:
        if self._cuts and not self._suspended and not self.over:
            self._change("suspended")

    def _reconnect(self) -> None:
        if self._cuts or self.over:
            return
        if self.expired:
            self.over = True
            self._change("lost")
            return
        if self._suspended:
            self._change("connected")
        self.tell_all()

    def hear_of_expiry(self) -> None:
        """A process whose session has expired while it was connected learns of it now."""
        self._at_its_turn(self._reconnect)

    def _change(self, state: ConnectionState) -> None:
        self._suspended = state == "suspended"
        self._listener(ConnectionChanged(state))
