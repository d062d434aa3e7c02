"""Tells of changes in ZooKeeper: reads again what a watch says has changed, and compares.

A watch fires once and says nothing but "changed"; between its firing and the next read more may
happen. So each read sets the next watch in the same request, events are made from the difference to
what was told before, and after every break of the connection everything is read again. Versions in
between may be skipped, the last one never.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import NoNodeError

from streammine.model.coordination import (
    ConnectionChanged,
    EventListener,
    JobEnded,
    JobSubmitted,
    Member,
    MembersChanged,
)
from streammine.model.errors import ClusterError, ProtocolError
from streammine.runtime.records import (
    Paths,
    PlanRecord,
    in_order,
    number_of,
    read_job,
    read_member,
    read_plan,
)
from streammine.runtime.znodes import Znodes

logger = logging.getLogger(__name__)

_MEMBERS = -2
_JOBS = -1
_PAUSE_SECONDS = 1.0


@dataclass
class _JobView:
    """What has been told of a job."""

    submitted: bool = False
    plan_version: int = 0
    ended: bool = False


class Watcher:
    """Watches members and jobs on a thread of its own, on which `listener` is called.

    Jobs that were over at the start are not told of.
    """

    def __init__(self, znodes: Znodes, paths: Paths, listener: EventListener) -> None:
        self._znodes = znodes
        self._paths = paths
        self._listener = listener
        self._changed = threading.Condition()
        # At most one entry per job that is not over: what has to be read again.
        self._stale: set[int] = set()
        self._connected = False
        self._closing = False
        self._members: tuple[Member, ...] | None = None
        self._member_cache: dict[str, Member] = {}
        self._views: dict[int, _JobView] | None = None
        self._thread = threading.Thread(target=self._run, name="zookeeper-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def connection_changed(self, connected: bool) -> None:
        """Read everything again once the connection stands."""
        with self._changed:
            self._connected = connected
            if connected:
                self._stale |= {_MEMBERS, _JOBS, *(self._views or ())}
                self._changed.notify()

    def close(self) -> None:
        """No event is told any more. Does not wait for the thread: its call must be cut first."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def join(self) -> None:
        """Wait for the thread, after `close` and the end of the session."""
        self._thread.join()

    def _mark(self, what: int) -> None:
        with self._changed:
            self._stale.add(what)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closing and not (self._stale and self._connected):
                    self._changed.wait()
                if self._closing:
                    return
                what = min(self._stale)
                self._stale.remove(what)
            try:
                self._read(what)
            except ClusterError as error:
                if not self._pause():
                    return
                # An answer took too long, or the server refuses: it may do better later.
                logger.warning("watching ZooKeeper goes on: %s", error)
                self._mark(what)
            except ProtocolError as error:
                logger.error("passed over what ZooKeeper holds: %s", error)
            except Exception:
                logger.exception("watching ZooKeeper")

    def _pause(self) -> bool:
        """Wait a little; False when the watcher is closed meanwhile."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._closing, _PAUSE_SECONDS)

    def _read(self, what: int) -> None:
        if what == _MEMBERS:
            self._read_members()
        elif what == _JOBS:
            self._read_jobs()
        else:
            self._read_job(what)

    def _tell(self, event: Any) -> None:
        if not self._closing:
            self._listener(event)

    def _read_members(self) -> None:
        try:
            names = self._znodes.children(self._paths.members, self._members_changed)
        except NoNodeError:
            self._tell(ConnectionChanged("removed"))
            return
        known = {name: self._member_cache[name] for name in names if name in self._member_cache}
        for name in names:
            if name in known:
                continue
            try:
                known[name] = read_member(self._znodes, self._paths, name)
            except NoNodeError:
                # Gone since; the watch has fired, or will.
                continue
            except ProtocolError as error:
                logger.error("passed over a member: %s", error)
        self._member_cache = known
        members = in_order(list(known.values()))
        if members != self._members:
            self._members = members
            self._tell(MembersChanged(members))

    def _read_jobs(self) -> None:
        try:
            names = self._znodes.children(self._paths.jobs, self._jobs_changed)
        except NoNodeError:
            # with the cluster, which the list of members tells
            return
        numbers = [number_of(name) for name in names]
        if self._views is None:
            over = [number for number in numbers if self._is_over(number)]
            self._views = {number: _JobView(ended=True) for number in over}
        self._views = {number: self._views.get(number) or _JobView() for number in numbers}
        for number, view in self._views.items():
            if not view.ended and not view.submitted:
                self._mark(number)

    def _is_over(self, number: int) -> bool:
        try:
            return "outcome" in self._znodes.children(self._paths.job(number))
        except NoNodeError:
            return True

    def _read_job(self, number: int) -> None:
        view = (self._views or {}).get(number)
        if view is None or view.ended:
            return
        path = self._paths.job(number)
        try:
            names = self._znodes.children(path, lambda _: self._mark(number))
            if "complete" not in names:
                return
            if not view.submitted:
                blob = read_job(self._znodes, self._paths, number)
                view.submitted = True
                self._tell(JobSubmitted(number, blob))
            self._read_plan(number, view)
            if "outcome" in names:
                outcome = self._znodes.get(f"{path}/outcome").data
                view.ended = True
                self._tell(JobEnded(number, outcome))
        except NoNodeError:
            # Removed while we read; the list of jobs has changed as well.
            return

    def _read_plan(self, number: int, view: _JobView) -> None:
        path = f"{self._paths.job(number)}/plan"
        data = self._znodes.get(path, lambda _: self._mark(number)).data
        record = PlanRecord.decode(data, path)
        if record.version <= view.plan_version:
            return
        plan = read_plan(self._znodes, path, record, number)
        if plan is not None:
            view.plan_version = plan.version
            self._tell(plan)

    def _members_changed(self, _event: Any) -> None:
        self._mark(_MEMBERS)

    def _jobs_changed(self, _event: Any) -> None:
        self._mark(_JOBS)
