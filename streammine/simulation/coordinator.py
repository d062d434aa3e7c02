"""The virtual coordination service: what ZooKeeper keeps, told to each node in order but not at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from streammine.model.coordination import (
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
    """A `CoordinationService`, its events delayed per node. Numbers of jobs start from 1."""

    def __init__(self, clock: VirtualClock, random: Random, settings: SimulationSettings) -> None:
        self._clock = clock
        self._random = random
        self._settings = settings
        self._members: list[Member] = []
        self._jobs: dict[int, bytes] = {}
        self._plans: dict[int, PlanPublished] = {}
        self._outcomes: dict[int, bytes] = {}
        self._listeners: dict[str, EventListener] = {}
        self._last: dict[str, float] = {}
        self.on_end: Callable[[int, bytes], None] = lambda job, outcome: None

    # --- the service ----------------------------------------------------------------------------

    def join(self, member: Member) -> Member:
        joined = replace(member, sequence=len(self._members), session=len(self._members) + 1)
        self._members.append(joined)
        event = MembersChanged(tuple(self._members))
        for other in self._members[:-1]:
            self._tell(other.name, event)
        self._tell_all_of_it(joined.name)
        return joined

    def submit_job(self, blob: bytes) -> int:
        number = len(self._jobs) + 1
        self._jobs[number] = blob
        self._tell_everyone(JobSubmitted(number, blob))
        return number

    def publish_plan(self, job: int, version: int, blob: bytes) -> None:
        if job not in self._jobs or job in self._outcomes:
            raise ClusterError(f"job {job} is not running")
        standing = self._plans[job].version if job in self._plans else 0
        if version != standing + 1:
            raise StalePlanError(f"plan {version} of job {job}, but {standing} stands")
        self._plans[job] = PlanPublished(job, version, blob)
        for name in self._listeners:
            self._tell_plan(name, job)

    def end_job(self, job: int, outcome: bytes) -> bool:
        if job in self._outcomes:
            return False
        self._outcomes[job] = outcome
        self.on_end(job, outcome)
        return True

    def members(self) -> tuple[Member, ...]:
        return tuple(self._members)

    def jobs(self) -> tuple[JobListing, ...]:
        return tuple(JobListing(job, job in self._outcomes) for job in self._jobs)

    def read_job(self, job: int) -> bytes:
        return self._jobs[job]

    def read_plan(self, job: int) -> PlanPublished | None:
        return self._plans.get(job)

    def read_outcome(self, job: int) -> bytes | None:
        return self._outcomes.get(job)

    # --- events ---------------------------------------------------------------------------------

    def attach(self, name: str, listener: EventListener) -> None:
        """A node listens before it joins."""
        self._listeners[name] = listener

    def announce_end(self, job: int) -> None:
        """Tell every node that the job is over; apart from `end_job`, so that what is still on its
        way can arrive first and be looked at."""
        self._tell_everyone(JobEnded(job, self._outcomes[job]))

    def _tell_all_of_it(self, name: str) -> None:
        """What a node that has just joined finds: members, and every job that is not over."""
        self._tell(name, MembersChanged(tuple(self._members)))
        for number, blob in self._jobs.items():
            if number in self._outcomes:
                continue
            self._tell(name, JobSubmitted(number, blob))
            if number in self._plans:
                self._tell_plan(name, number)

    def _tell_everyone(self, event: CoordinationEvent) -> None:
        for member in self._members:
            self._tell(member.name, event)

    def _tell_plan(self, name: str, job: int) -> None:
        """The plan that stands when the word arrives: versions may be skipped."""
        if any(member.name == name for member in self._members):
            self._later(name, lambda: self._listeners[name](self._plans[job]))

    def _tell(self, name: str, event: CoordinationEvent) -> None:
        self._later(name, lambda: self._listeners[name](event))

    def _later(self, name: str, action: Callable[[], None]) -> None:
        delay = self._random.uniform(0.0, self._settings.coordination_delay_seconds)
        due = max(self._clock.now_seconds + delay, self._last.get(name, 0.0))
        self._last[name] = due
        self._clock.at(due, action)
