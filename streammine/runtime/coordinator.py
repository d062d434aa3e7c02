"""The cluster's coordination service on ZooKeeper (DESIGN §5).

Membership is ephemeral znodes; the member with the lowest sequence is the manager. Jobs and plans
are written as a whole or not at all. A plan is written by compare-and-set on its version, and only
while the writer is a member, so that a manager that was replaced unawares can do no harm.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import replace
from types import TracebackType
from typing import cast

import msgpack
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from streammine.model.coordination import (
    ConnectionChanged,
    ConnectionState,
    EventListener,
    JobListing,
    Member,
    PlanPublished,
)
from streammine.model.errors import ClusterError, StalePlanError, UnknownJobError
from streammine.runtime.identities import is_name
from streammine.runtime.records import (
    NO_PLAN,
    ROOT,
    Paths,
    PlanRecord,
    decode_member,
    encode_member,
    in_order,
    number_of,
    read_job,
    read_member,
    read_plan,
)
from streammine.runtime.watcher import Watcher
from streammine.runtime.znodes import (
    PART_BYTES,
    UncertainError,
    Znodes,
    check_blob,
    write_blob,
)

ENDED_JOBS_KEPT = 64
"""Jobs that are over stay readable until so many newer ones are over, too."""

_ATTEMPTS = 5


class Coordinator:
    """A session with the cluster's ZooKeeper.

    `events` gets a CoordinationEvent at each change, from threads of the coordinator: it must be
    quick and safe to call from any thread. `secret` protects the cluster's paths (access control by
    digest); all that take part must have the same. Calls may come from any thread.
    """

    def __init__(
        self,
        hosts: str,
        cluster: str,
        secret: bytes | None,
        events: EventListener,
        session_timeout_seconds: float = 10.0,
        operation_timeout_seconds: float = 15.0,
    ) -> None:
        if not is_name(cluster):
            raise ClusterError(
                f"a cluster's name has letters, digits and _.- only, at most 64: not {cluster!r}"
            )
        self._paths = Paths(cluster)
        self._secret = secret
        self._events = events
        self._closed = False
        self._lock = threading.Lock()
        self._member_path: str | None = None
        self._znodes = Znodes(
            hosts,
            secret,
            self._state_changed,
            session_timeout_seconds,
            operation_timeout_seconds,
        )
        self._watcher: Watcher | None = None

    def start(self, timeout_seconds: float = 15.0, watch: bool = True) -> None:
        """Connect, make the cluster's paths where they are missing, and begin to tell of changes.

        Without `watch`, only changes of the connection are told. The first events give all members
        and every job that is not over. Raises ClusterError.
        """
        if watch:
            self._watcher = Watcher(self._znodes, self._paths, self._tell)
        try:
            self._znodes.start(timeout_seconds)
            self._make_paths()
        except BaseException:
            self._watcher = None
            self.close()
            raise
        if self._watcher is not None:
            self._watcher.start()

    def join(self, member: Member) -> Member:
        """Become a member; gives the record with its sequence and session.

        Said again in the same session, the membership stays; after "lost" it is a new one.
        """
        data = encode_member(member)
        for _ in range(_ATTEMPTS):
            known = self._own_member(data)
            if known is not None:
                return known
            try:
                path = self._znodes.create(
                    f"{self._paths.members}/member-", data, ephemeral=True, sequence=True
                )
            except UncertainError:
                continue
            with self._lock:
                self._member_path = path
            sequence = number_of(path)
            return replace(member, sequence=sequence, session=self._znodes.session)
        raise ClusterError(f"ZooKeeper at {self._znodes.hosts} breaks the connection at every try")

    def expel(self, name: str, host: str, pid: int) -> bool:
        """Take the membership away from a process that has ended; whether it had one.

        Safe at any time: another process of that name keeps its own, and so does a later session.
        """
        paths = [
            self._paths.member(member.sequence)
            for member in self._listed()
            if (member.name, member.host, member.pid) == (name, host, pid)
        ]
        for path in paths:
            self._delete_surely(path)
        return bool(paths)

    def submit_job(self, blob: bytes) -> int:
        """Hand in a job; gives its number. It is seen by others as a whole only."""
        check_blob(blob, "the job")
        path = self._znodes.create(f"{self._paths.jobs}/job-", sequence=True)
        try:
            header = write_blob(self._znodes, path, blob)
            self._znodes.create(f"{path}/plan", NO_PLAN.encode())
            self._znodes.create(f"{path}/complete", msgpack.packb(header.tree()))
        except BaseException:
            self._remove_quietly(path)
            raise
        return number_of(path)

    def publish_plan(self, job: int, version: int, blob: bytes) -> None:
        """Declare the next version of a job's plan.

        Raises StalePlanError unless the version that stands is `version - 1` and the writer, if it
        ever joined, is still a member.
        """
        check_blob(blob, "the plan")
        path = f"{self._paths.job(job)}/plan"
        token = secrets.token_hex(8)
        folder = f"{path}/{token}"
        try:
            self._check_plan(path, version)
            self._znodes.create(folder)
            record = PlanRecord(version, token, write_blob(self._znodes, folder, blob))
            self._set_plan(path, record)
        except StalePlanError:
            self._remove_quietly(folder)
            raise
        except (BadVersionError, NoNodeError, NodeExistsError):
            self._remove_quietly(folder)
            raise StalePlanError(
                f"plan {version} of job {job} is not the next one, or its writer is no longer a"
                f" member: another node is the manager now, or the job was removed"
            ) from None
        for name in self._znodes.children(path):
            if name != token:
                self._remove_quietly(f"{path}/{name}")

    def end_job(self, job: int, outcome: bytes) -> bool:
        """Write how a job ended. False when it had ended before: the first outcome stands."""
        if len(outcome) > PART_BYTES:
            raise ClusterError(
                f"the outcome of job {job} has {len(outcome)} bytes; at most {PART_BYTES} are kept"
            )
        path = f"{self._paths.job(job)}/outcome"
        for attempt in range(_ATTEMPTS):
            try:
                self._znodes.create(path, outcome)
            except UncertainError:
                continue
            except NodeExistsError:
                return attempt > 0 and self._znodes.get(path).data == outcome
            except NoNodeError:
                raise UnknownJobError(f"there is no job {job}") from None
            self._remove_old_jobs()
            return True
        raise ClusterError(f"ZooKeeper at {self._znodes.hosts} breaks the connection at every try")

    def take_witness(self, job: int, name: str, holder: int) -> int:
        """Take the witness of that name for `holder`, or see who has it. It goes with the job."""
        path = self._paths.witness(job, name)
        try:
            self._znodes.ensure(path.rpartition("/")[0])
            for _ in range(_ATTEMPTS):
                try:
                    self._znodes.create(path, str(holder).encode())
                except UncertainError:
                    continue
                except NodeExistsError:
                    return int(self._znodes.get(path).data)
                return holder
        except NoNodeError:
            raise UnknownJobError(f"there is no job {job}") from None
        raise ClusterError(f"ZooKeeper at {self._znodes.hosts} breaks the connection at every try")

    def members(self) -> tuple[Member, ...]:
        """All members by sequence; the first is the manager."""
        return in_order(self._listed())

    def jobs(self) -> tuple[JobListing, ...]:
        """All jobs that are kept, by number."""
        listings = []
        for name in self._znodes.children(self._paths.jobs):
            try:
                names = self._znodes.children(f"{self._paths.jobs}/{name}")
            except NoNodeError:
                continue
            if "complete" in names:
                listings.append(JobListing(number_of(name), "outcome" in names))
        return tuple(listings)

    def read_job(self, job: int) -> bytes:
        """What was submitted. Raises ClusterError when there is no such job."""
        try:
            return read_job(self._znodes, self._paths, job)
        except NoNodeError:
            raise UnknownJobError(f"there is no job {job}") from None

    def read_plan(self, job: int) -> PlanPublished | None:
        """The newest plan, None before the first. Raises ClusterError when there is no such job."""
        path = f"{self._paths.job(job)}/plan"
        try:
            record = PlanRecord.decode(self._znodes.get(path).data, path)
            return read_plan(self._znodes, path, record, job)
        except NoNodeError:
            raise UnknownJobError(f"there is no job {job}") from None

    def read_outcome(self, job: int) -> bytes | None:
        """How a job ended, None while it runs. Raises ClusterError when there is no such job."""
        path = self._paths.job(job)
        try:
            if "outcome" not in self._znodes.children(path):
                return None
            return self._znodes.get(f"{path}/outcome").data
        except NoNodeError:
            raise UnknownJobError(f"there is no job {job}") from None

    def remove_cluster(self) -> None:
        """Remove the cluster's paths with all members and jobs, for when it is over for good."""
        self._remove_quietly(self._paths.base)

    def close(self) -> None:
        """End the session, and the membership with it. No event is told afterwards.

        Not to be called from `events`.
        """
        if self._closed:
            return
        self._closed = True
        if self._watcher is not None:
            self._watcher.close()
        self._znodes.close()
        if self._watcher is not None:
            self._watcher.join()

    def _make_paths(self) -> None:
        self._znodes.ensure(ROOT, OPEN_ACL_UNSAFE)
        for path in (self._paths.base, self._paths.members, self._paths.jobs):
            self._znodes.ensure(path)
        found = self._znodes.access(self._paths.base)
        if self._secret is not None and found != self._znodes.acl:
            raise ClusterError(
                f"the paths of cluster {self._paths.cluster} at {self._znodes.hosts} were made"
                f" without this secret; choose another name for the cluster, or remove"
                f" {self._paths.base}"
            )

    def _listed(self) -> list[Member]:
        """What stands under the members' path, ghosts of replaced processes included."""
        found = []
        for name in self._znodes.children(self._paths.members):
            try:
                found.append(read_member(self._znodes, self._paths, name))
            except NoNodeError:
                continue
        return found

    def _own_member(self, data: bytes) -> Member | None:
        """Our membership in this session, where a broken connection hid that it was made."""
        for name in self._znodes.children(self._paths.members):
            path = f"{self._paths.members}/{name}"
            try:
                znode = self._znodes.get(path)
            except NoNodeError:
                continue
            if znode.session != self._znodes.session:
                continue
            if znode.data == data:
                with self._lock:
                    self._member_path = path
                return decode_member(data, name, znode.session)
            self._znodes.delete(path)
        return None

    def _check_plan(self, path: str, version: int) -> int:
        """Version of the znode for compare-and-set. Raises StalePlanError."""
        znode = self._znodes.get(path)
        standing = PlanRecord.decode(znode.data, path).version
        if standing != version - 1:
            raise StalePlanError(
                f"{path} stands at version {standing}, so version {version} is not the next one:"
                f" another node has been the manager since"
            )
        return znode.version

    def _set_plan(self, path: str, record: PlanRecord) -> None:
        with self._lock:
            witness = self._member_path
        for _ in range(_ATTEMPTS):
            version = self._check_plan(path, record.version)
            try:
                self._znodes.replace(path, record.encode(), version, witness)
                return
            except UncertainError:
                standing = PlanRecord.decode(self._znodes.get(path).data, path)
                if standing.token == record.token:
                    return
        raise ClusterError(f"ZooKeeper at {self._znodes.hosts} breaks the connection at every try")

    def _remove_old_jobs(self) -> None:
        over = [listing.number for listing in self.jobs() if listing.ended]
        for number in over[:-ENDED_JOBS_KEPT]:
            self._remove_quietly(self._paths.job(number))

    def _delete_surely(self, path: str) -> None:
        for _ in range(_ATTEMPTS):
            try:
                self._znodes.delete(path)
                return
            except UncertainError:
                continue
        raise ClusterError(f"ZooKeeper at {self._znodes.hosts} breaks the connection at every try")

    def _remove_quietly(self, path: str) -> None:
        """Tidying up must not hide or replace what happened before; what stays does no harm."""
        try:
            self._znodes.delete(path)
        except ClusterError:
            return

    def _state_changed(self, state: str) -> None:
        if state == "lost":
            with self._lock:
                # A member that lost its session writes no plan until it has joined again.
                self._member_path = f"{self._paths.members}/none" if self._member_path else None
        if self._watcher is not None:
            self._watcher.connection_changed(state == "connected")
        self._tell(ConnectionChanged(cast(ConnectionState, state)))

    def _tell(self, event: object) -> None:
        if not self._closed:
            self._events(event)  # type: ignore[arg-type]

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
