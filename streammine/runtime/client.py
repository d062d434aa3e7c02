"""A client's view of a cluster: who is there, submit a job, watch it, stop it.

Events of the coordination service arrive in a queue, so waiting for something is waiting for its event.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
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
from streammine.model.ids import SliceId
from streammine.model.job import JobOutcome, JobSpec, Placement, Plan
from streammine.model.job_codec import decode_outcome, decode_plan, decode_spec, encode_spec
from streammine.model.schemes import AUTOMATIC, Scheme
from streammine.runtime.cluster import ClusterAddress
from streammine.runtime.control_client import ControlClient
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.scheme_change import SchemeChange

JOIN_SECONDS = 60.0
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.25
HEARD_SECONDS = 2.0
"""A node that says nothing for so long is not waited for."""

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

    def outcome(self, job: int) -> JobOutcome | None:
        """How the job ended; None while it runs."""
        known = self._service.read_outcome(job)
        return None if known is None else decode_outcome(known)

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

    def status(
        self, job: int | None = None, timeout_seconds: float = ANSWER_SECONDS
    ) -> dict[str, Any]:
        """What the manager knows. Raises ClusterError when no manager answers."""
        answer = self._ask(control.StatusRequest(job), timeout_seconds)
        assert isinstance(answer, control.StatusAnswer)
        return answer.payload

    def later_status(self, job: int | None, earlier: dict[str, Any]) -> dict[str, Any]:
        """What the manager knows once every node has told of itself again since the `earlier` status.

        A node that does not is waited for no longer than `HEARD_SECONDS`. Raises ClusterError.
        """
        clocks = {name: node["load"].get("clock") for name, node in earlier["nodes"].items()}
        deadline = time.monotonic() + HEARD_SECONDS
        while True:
            self._next_event(LOOK_SECONDS)
            status = self.status(job)
            silent = any(
                node["load"].get("clock") == clocks[name]
                for name, node in status["nodes"].items()
                if name in clocks
            )
            if not silent or time.monotonic() > deadline:
                return status

    def stop(self, job: int, reason: str, timeout_seconds: float = 10.0) -> JobOutcome:
        """Have the manager stop a job and wait until it has ended, however it did.

        Raises ClusterError when there is no such job, it is over, or it does not end in time.
        """
        self._require_running(job)
        self._ask(control.StopRequest(job, reason))
        return self._end_of(job, "told to stop", timeout_seconds)

    def savepoint(self, job: int, timeout_seconds: float) -> JobOutcome:
        """Have the manager make a checkpoint, and stop the job when it is complete. As `stop`."""
        self._require_running(job)
        self._ask(control.SavepointRequest(job))
        return self._end_of(job, "asked for a savepoint", timeout_seconds)

    def move(self, job: int, slice_name: str, node: str, mode: str, timeout_seconds: float) -> None:
        """Have the manager move a slice ("vertex/index"), and wait until it runs there and one place less.
        Of several replicas it is the one that leads that moves.

        Raises ClusterError when that can't be, the job ends, or it takes too long.
        """
        self._require_running(job)
        moving = SliceId.parse(slice_name)
        before = {each.generation for each in self.placements(job).get(moving, ())}
        self._ask(control.MoveRequest(job, slice_name, node, mode))

        def moved() -> bool:
            group = self.placements(job).get(moving, ())
            come = {each.node for each in group if each.generation not in before}
            return node in come and not any(each.leaving for each in group)

        otherwise = f"{slice_name} has not moved to {node}"
        self.wait_for(moved, lambda: otherwise, timeout_seconds, job)

    def change_scheme(
        self,
        job: int,
        slices: Sequence[SliceId],
        named: str,
        scheme: Scheme | None,
        timeout_seconds: float,
        crowded_too: bool = False,
    ) -> tuple[str, ...]:
        """Have the manager give slices another fault-tolerance scheme, and wait until the plan says so and
        places all their replicas where it wants them. `named`: what the slices are called together. None: let
        the job's controller choose from now on. `crowded_too`: don't wait for replicas on nodes that have
        no room for them now; these nodes are returned.

        Raises ClusterError when that can't be, the job ends, or it takes too long.
        """
        self._require_running(job)
        graph = next(each.spec.graph for each in self.jobs() if each.number == job)
        change = SchemeChange(graph, slices, scheme)
        wanted = AUTOMATIC if scheme is None else scheme.value
        self._ask(control.SchemeRequest(job, named, wanted))
        self.wait_for(
            lambda: change.stands(
                self.plan(job), crowded_too, [each.name for each in self.members]
            ),
            lambda: (
                f"not all replicas of {named} are where {wanted} wants them"
                f"{change.told_of_room(self.plan(job))}"
            ),
            timeout_seconds,
            job,
        )
        return change.waiting(self.plan(job))

    def drain(self, node: str, timeout_seconds: float) -> None:
        """Have the manager move all slices away from a node, and wait until it has none.

        Raises ClusterError when that can't be, or takes too long.
        """
        self._ask(control.DrainRequest(node))
        self.wait_for(
            lambda: all(node not in places for places in self.nodes_of(None).values()),
            lambda: f"slices are still on {node}",
            timeout_seconds,
        )

    def nodes_of(self, job: int | None) -> dict[str, set[str]]:
        """The nodes that slices ("vertex/index") have replicas on, by the newest plans.

        With None those of all jobs that run, under ("job/vertex/index").
        """
        numbers = [listing.number for listing in self._service.jobs() if not listing.ended]
        found = {}
        for number in numbers if job is None else [job]:
            prefix = f"{number}/" if job is None else ""
            for slice_id, replicas in self.placements(number).items():
                found[f"{prefix}{slice_id}"] = {replica.node for replica in replicas}
        return found

    def placements(self, job: int) -> dict[SliceId, tuple[Placement, ...]]:
        """The replicas of each slice, by the newest plan; {} while there is none."""
        plan = self.plan(job)
        return {} if plan is None else plan.placements

    def plan(self, job: int) -> Plan | None:
        """The newest one; None while there is none."""
        published = self._service.read_plan(job)
        return None if published is None else decode_plan(published.blob)

    def wait_for(
        self,
        condition: Callable[[], bool],
        otherwise: Callable[[], str],
        timeout_seconds: float,
        job: int | None = None,
    ) -> None:
        """Until something is so; it is looked at after every change in the coordination service.

        Raises ClusterError with what `otherwise` says when it takes too long, or `job` ends before.
        """
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if job is not None and self._ended(job):
                raise ClusterError(f"job {job} {self._outcomes[job].status} meanwhile")
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{otherwise()} after {timeout_seconds:g} s; it may yet come, but not where the"
                    " manager was lost before it wrote that down: if `streammine status` shows nothing of it,"
                    " ask again"
                )
            self._next_event(LOOK_SECONDS)

    def _require_running(self, job: int) -> None:
        known = self._service.read_outcome(job)
        if known is not None:
            raise ClusterError(f"job {job} is over already: it {decode_outcome(known).status}")

    def _end_of(self, job: int, what: str, timeout_seconds: float) -> JobOutcome:
        deadline = time.monotonic() + timeout_seconds
        while not self._ended(job):
            left = deadline - time.monotonic()
            if left <= 0:
                raise ClusterError(f"job {job} was {what}, and runs on after {timeout_seconds:g} s")
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

    def _ask(
        self, request: control.ControlMessage, timeout_seconds: float = ANSWER_SECONDS
    ) -> control.ControlMessage:
        while self._next_event(0):
            continue
        if not self.members:
            raise ClusterError(f"no node has joined cluster {self.address.name}")
        endpoint = self.members[0].control_endpoint
        if self._control is None or self._control.endpoint != endpoint:
            if self._control is not None:
                self._control.close()
            self._control = ControlClient(endpoint, self.keys)
        answer = control.decode(self._control.request(control.encode(request), timeout_seconds))
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
