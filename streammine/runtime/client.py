"""A client's view of a cluster: who is there, submit a job, watch it, stop it.

Events of the coordination service arrive in a queue, so waiting for something is waiting for its event.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from streammine.model import control
from streammine.model.coordination import (
    CoordinationEvent,
    JobEnded,
    JobSubmitted,
    Member,
    MembersChanged,
)
from streammine.model.errors import ClusterError
from streammine.model.job import JobOutcome, JobSpec
from streammine.model.job_codec import decode_outcome, decode_spec, encode_spec
from streammine.runtime.cluster import ClusterAddress
from streammine.runtime.control_client import ControlClient
from streammine.runtime.coordinator import Coordinator

JOIN_SECONDS = 60.0
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.25
EVENTS_KEPT = 10_000


@dataclass(frozen=True)
class KnownJob:
    """A job that the cluster keeps; `outcome` is None while it runs."""

    number: int
    spec: JobSpec
    outcome: JobOutcome | None

    @property
    def name(self) -> str:
        return str(self.spec.topology["name"])

    @property
    def state(self) -> str:
        """``running``, or the outcome's status."""
        return "running" if self.outcome is None else self.outcome.status


class Client:
    """Connects to a cluster. Raises ClusterError when it can't be reached."""

    def __init__(self, address: ClusterAddress) -> None:
        self.address = address
        self.keys = address.keys()
        self.members: tuple[Member, ...] = ()
        self._outcomes: dict[int, JobOutcome] = {}
        self._watched: set[int] = set()
        self._events: queue.Queue[CoordinationEvent] = queue.Queue(EVENTS_KEPT)
        self._control: ControlClient | None = None
        self._service = Coordinator(
            address.zookeeper, address.name, self.keys.zookeeper_secret, self._events.put
        )
        self._service.start()

    def wait_for_members(self, count: int, check: Callable[[], None]) -> None:
        """Until `count` nodes have joined. `check` may raise in between; ClusterError when it takes
        too long."""
        deadline = time.monotonic() + JOIN_SECONDS
        while len(self.members) < count:
            if not self._next_event(LOOK_SECONDS):
                check()
            if time.monotonic() > deadline:
                names = ", ".join(member.name for member in self.members) or "none"
                raise ClusterError(
                    f"{count} nodes should have joined within {JOIN_SECONDS:g} s; joined: {names}"
                )

    def submit(self, spec: JobSpec) -> int:
        """Hand the job to the cluster; returns its number."""
        return self._service.submit_job(encode_spec(spec))

    def wait(
        self, job: int, check: Callable[[], None], pause_seconds: float = LOOK_SECONDS
    ) -> JobOutcome:
        """Until the job has ended. `check` is called about every `pause_seconds` and may raise."""
        while not self._ended(job):
            if not self._next_event(pause_seconds):
                check()
        return self._outcomes[job]

    def _ended(self, job: int) -> bool:
        """Whether the outcome is known now. Jobs that end before our watch stands are never told of."""
        if job not in self._outcomes and job not in self._watched:
            known = self._service.read_outcome(job)
            if known is not None:
                self._outcomes[job] = decode_outcome(known)
        return job in self._outcomes

    def _next_event(self, timeout_seconds: float) -> bool:
        try:
            event = self._events.get(timeout=timeout_seconds)
        except queue.Empty:
            return False
        match event:
            case MembersChanged(members):
                self.members = members
            case JobSubmitted(job, _):
                self._watched.add(job)
            case JobEnded(job, outcome):
                self._outcomes[job] = decode_outcome(outcome)
            case _:
                return True
        return True

    def status(self, job: int | None = None) -> dict[str, Any]:
        """What the manager knows. Raises ClusterError when no manager answers."""
        answer = self._ask(control.StatusRequest(job))
        assert isinstance(answer, control.StatusAnswer)
        return answer.payload

    def stop(self, job: int, reason: str, timeout_seconds: float = 10.0) -> JobOutcome:
        """Have the manager stop a job and wait until it has ended, however it did.

        Raises ClusterError when there is no such job, it is over, or it does not end in time.
        """
        deadline = time.monotonic() + timeout_seconds
        known = self._service.read_outcome(job)
        if known is not None:
            raise ClusterError(f"job {job} is over already: it {decode_outcome(known).status}")
        self._ask(control.StopRequest(job, reason))
        while not self._ended(job):
            left = deadline - time.monotonic()
            if left <= 0:
                raise ClusterError(
                    f"job {job} was told to stop, and runs on after {timeout_seconds:g} s"
                )
            self._next_event(min(left, LOOK_SECONDS))
        return self._outcomes[job]

    def jobs(self) -> list[KnownJob]:
        """The jobs that the cluster keeps, by number: those that run, and the last that ended."""
        known = []
        for listing in self._service.jobs():
            spec = decode_spec(self._service.read_job(listing.number))
            outcome = self._service.read_outcome(listing.number)
            known.append(
                KnownJob(
                    listing.number,
                    spec,
                    None if outcome is None else decode_outcome(outcome),
                )
            )
        return known

    def _ask(self, request: control.ControlMessage) -> control.ControlMessage:
        while self._next_event(0):
            continue
        if not self.members:
            raise ClusterError(f"no node has joined cluster {self.address.name}")
        endpoint = self.members[0].control_endpoint
        if self._control is None or self._control.endpoint != endpoint:
            if self._control is not None:
                self._control.close()
            self._control = ControlClient(endpoint, self.keys)
        answer = control.decode(self._control.request(control.encode(request), ANSWER_SECONDS))
        if isinstance(answer, control.ErrorAnswer):
            raise ClusterError(answer.message)
        return answer

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
        self._service.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
