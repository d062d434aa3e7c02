"""The coordinator against a real ZooKeeper."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kazoo.client import KazooClient

from streammine.model.coordination import (
    ConnectionChanged,
    JobEnded,
    JobListing,
    JobSubmitted,
    Member,
    MembersChanged,
    PlanPublished,
)
from streammine.model.errors import ClusterError, StalePlanError
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.znodes import MAXIMUM_BLOB_BYTES, PART_BYTES
from streammine.runtime.zookeeper import ZooKeeperServer

Event = TypeVar("Event")

WAIT_SECONDS = 20.0


class Listener:
    """Collects events, and waits for the one that is wanted."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.seen: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.events.put(event)

    def wait(self, kind: type[Event], wanted: Callable[[Event], bool] = lambda _: True) -> Event:
        while True:
            event = self.events.get(timeout=WAIT_SECONDS)
            self.seen.append(event)
            if isinstance(event, kind) and wanted(event):
                return event


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def open_coordinator(
    server: ZooKeeperServer, request: pytest.FixtureRequest
) -> Iterator[Callable[..., tuple[Coordinator, Listener]]]:
    opened: list[Coordinator] = []
    cluster = request.node.name.replace("[", "-").replace("]", "")[-60:].strip("_")

    def opener(**settings: Any) -> tuple[Coordinator, Listener]:
        listener = Listener()
        watch = settings.pop("watch", True)
        coordinator = Coordinator(
            server.hosts,
            settings.pop("cluster", cluster),
            settings.pop("secret", None),
            listener,
            **settings,
        )
        coordinator.start(watch=watch)
        opened.append(coordinator)
        return coordinator, listener

    threads = set(threading.enumerate())
    yield opener
    for coordinator in opened:
        coordinator.close()
    assert set(threading.enumerate()) <= threads, "a closed coordinator leaves no thread"


def member(name: str) -> Member:
    return Member(name, f"ipc:///x/{name}.d", f"ipc:///x/{name}.c", "here", os.getpid())


def names(*wanted: str) -> Callable[[MembersChanged], bool]:
    return lambda event: tuple(m.name for m in event.members) == wanted


def test_the_first_to_join_is_the_manager_until_its_session_ends(open_coordinator: Any) -> None:
    first, _ = open_coordinator()
    second, listener = open_coordinator()
    joined_first = first.join(member("zoe"))
    joined_second = second.join(member("adam"))
    assert joined_first.sequence < joined_second.sequence
    assert joined_first.session != joined_second.session

    event = listener.wait(MembersChanged, names("zoe", "adam"))
    assert event.manager == joined_first
    assert second.members() == (joined_first, joined_second)

    first.close()
    event = listener.wait(MembersChanged, names("adam"))
    assert event.manager == joined_second


def test_members_are_told_that_their_cluster_is_removed(open_coordinator: Any) -> None:
    first, listener = open_coordinator()
    second, _ = open_coordinator()
    first.join(member("zoe"))
    listener.wait(MembersChanged, names("zoe"))
    second.remove_cluster()
    listener.wait(ConnectionChanged, lambda event: event.state == "removed")


def test_joining_again_in_the_same_session_keeps_the_membership(open_coordinator: Any) -> None:
    coordinator, _ = open_coordinator()
    joined = coordinator.join(member("a"))
    assert coordinator.join(member("a")) == joined
    moved = coordinator.join(replace(member("a"), data_endpoint="ipc:///y"))
    assert moved.sequence > joined.sequence
    assert coordinator.members() == (moved,)


def test_a_process_that_has_ended_loses_its_membership_alone(open_coordinator: Any) -> None:
    launcher, listener = open_coordinator()
    first, _ = open_coordinator()
    second, _ = open_coordinator()
    first.join(member("a"))
    left = second.join(replace(member("a"), pid=7))
    listener.wait(MembersChanged, names("a"))
    assert not launcher.expel("a", "elsewhere", os.getpid())
    assert not launcher.expel("b", "here", os.getpid())
    assert launcher.members() == (left,)
    assert launcher.expel("a", "here", 7)
    event = listener.wait(MembersChanged, lambda event: event.members[0].pid == os.getpid())
    assert len(event.members) == 1, "who was hidden behind it is still there"
    assert launcher.expel("a", "here", os.getpid())
    assert launcher.members() == ()
    assert not launcher.expel("a", "here", os.getpid())


def test_a_restarted_node_replaces_what_is_left_of_it(open_coordinator: Any) -> None:
    ghost, _ = open_coordinator()
    other, _ = open_coordinator()
    again, listener = open_coordinator()
    ghost.join(member("a"))
    other.join(member("b"))
    restarted = again.join(member("a"))
    event = listener.wait(MembersChanged, names("b", "a"))
    assert event.members[1] == restarted


def test_a_late_comer_is_told_of_members_jobs_and_the_newest_plan(open_coordinator: Any) -> None:
    early, _ = open_coordinator()
    early.join(member("a"))
    over = early.submit_job(b"over")
    early.end_job(over, b"done")
    job = early.submit_job(b"job")
    for version in (1, 2, 3):
        early.publish_plan(job, version, b"plan %d" % version)

    _, listener = open_coordinator()
    listener.wait(PlanPublished, lambda event: event == PlanPublished(job, 3, b"plan 3"))
    told = [event for event in listener.seen if not isinstance(event, ConnectionChanged)]
    assert [type(event) for event in told] == [MembersChanged, JobSubmitted, PlanPublished]
    assert told[1] == JobSubmitted(job, b"job")


@pytest.mark.parametrize("size", [0, 10, PART_BYTES, 3 * PART_BYTES + 1])
def test_a_job_of_any_size_is_seen_whole(open_coordinator: Any, size: int) -> None:
    client, _ = open_coordinator(watch=False)
    _, listener = open_coordinator()
    blob = os.urandom(size)
    job = client.submit_job(blob)
    assert listener.wait(JobSubmitted) == JobSubmitted(job, blob)
    assert client.read_job(job) == blob
    assert client.jobs() == (JobListing(job, ended=False),)


def test_an_unfinished_submission_is_not_seen(
    open_coordinator: Any, server: ZooKeeperServer
) -> None:
    coordinator, listener = open_coordinator(cluster="half")
    raw = KazooClient(server.hosts)
    raw.start()
    try:
        raw.create("/streammine/half/jobs/job-", b"", sequence=True)
    finally:
        raw.stop()
        raw.close()
    job = coordinator.submit_job(b"whole")
    assert listener.wait(JobSubmitted).number == job
    assert [listing.number for listing in coordinator.jobs()] == [job]


def test_a_job_too_large_is_refused_before_anything_is_written(open_coordinator: Any) -> None:
    coordinator, _ = open_coordinator(watch=False)
    with pytest.raises(ClusterError, match="64 MiB"):
        coordinator.submit_job(bytes(MAXIMUM_BLOB_BYTES + 1))
    assert coordinator.jobs() == ()


def test_a_plan_is_published_only_on_top_of_the_one_that_stands(open_coordinator: Any) -> None:
    manager, _ = open_coordinator()
    stale, listener = open_coordinator()
    job = manager.submit_job(b"job")
    assert manager.read_plan(job) is None
    manager.publish_plan(job, 1, b"one")
    for version in (1, 3):
        with pytest.raises(StalePlanError):
            stale.publish_plan(job, version, b"stale")
    large = os.urandom(2 * PART_BYTES)
    manager.publish_plan(job, 2, large)
    with pytest.raises(StalePlanError):
        stale.publish_plan(job, 2, b"stale")
    listener.wait(PlanPublished, lambda event: event == PlanPublished(job, 2, large))
    assert stale.read_plan(job) == PlanPublished(job, 2, large)


def test_of_two_managers_that_publish_at_once_one_wins(open_coordinator: Any) -> None:
    coordinators = [open_coordinator(watch=False)[0] for _ in range(4)]
    job = coordinators[0].submit_job(b"job")
    barrier = threading.Barrier(len(coordinators))
    won: queue.SimpleQueue[int] = queue.SimpleQueue()

    def publish(number: int) -> None:
        barrier.wait()
        try:
            coordinators[number].publish_plan(job, 1, b"%d" % number)
        except StalePlanError:
            return
        won.put(number)

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winner = won.get_nowait()
    assert won.empty()
    assert coordinators[0].read_plan(job) == PlanPublished(job, 1, b"%d" % winner)


def test_a_manager_that_is_no_member_any_more_publishes_nothing(
    open_coordinator: Any, server: ZooKeeperServer
) -> None:
    manager, _ = open_coordinator(cluster="fenced")
    manager.join(member("a"))
    job = manager.submit_job(b"job")
    raw = KazooClient(server.hosts)
    raw.start()
    try:
        raw.delete("/streammine/fenced/members", recursive=True)
        raw.create("/streammine/fenced/members")
    finally:
        raw.stop()
        raw.close()
    with pytest.raises(StalePlanError, match="no longer a member"):
        manager.publish_plan(job, 1, b"plan")
    assert manager.read_plan(job) is None


def test_the_last_of_many_plans_is_always_told(open_coordinator: Any) -> None:
    manager, _ = open_coordinator(watch=False)
    _, listener = open_coordinator()
    job = manager.submit_job(b"job")
    for version in range(1, 101):
        manager.publish_plan(job, version, b"%d" % version)
    listener.wait(PlanPublished, lambda event: event.version == 100)
    versions = [event.version for event in listener.seen if isinstance(event, PlanPublished)]
    assert versions == sorted(set(versions))


def test_a_job_ends_once(open_coordinator: Any) -> None:
    manager, _ = open_coordinator(watch=False)
    client, listener = open_coordinator()
    job = manager.submit_job(b"job")
    assert client.read_outcome(job) is None
    assert manager.end_job(job, b"well")
    assert not client.end_job(job, b"not well")
    assert listener.wait(JobEnded) == JobEnded(job, b"well")
    assert client.read_outcome(job) == b"well"
    assert client.jobs() == (JobListing(job, ended=True),)


def test_an_unknown_job_is_an_error_that_names_it(open_coordinator: Any) -> None:
    coordinator, _ = open_coordinator(watch=False)
    for call in (coordinator.read_job, coordinator.read_plan, coordinator.read_outcome):
        with pytest.raises(ClusterError, match="no job 77"):
            call(77)
    with pytest.raises(ClusterError, match="no job 77"):
        coordinator.end_job(77, b"")


def test_paths_with_a_secret_are_closed_to_others(open_coordinator: Any) -> None:
    keys = ClusterKeys.create()
    inside, listener = open_coordinator(cluster="locked", secret=keys.zookeeper_secret)
    inside.join(member("a"))
    listener.wait(MembersChanged, names("a"))
    for secret in (None, ClusterKeys.create().zookeeper_secret):
        with pytest.raises(ClusterError, match="secret"):
            open_coordinator(cluster="locked", secret=secret)
    again, _ = open_coordinator(cluster="locked", secret=keys.zookeeper_secret)
    assert [m.name for m in again.members()] == ["a"]


def test_open_paths_are_refused_by_those_who_have_a_secret(open_coordinator: Any) -> None:
    open_coordinator(cluster="unlocked")
    with pytest.raises(ClusterError, match="without this secret"):
        open_coordinator(cluster="unlocked", secret=b"s" * 32)


def test_unreachable_servers_are_named_with_the_time_spent() -> None:
    threads = set(threading.enumerate())
    coordinator = Coordinator("127.0.0.1:1,127.0.0.1:2", "c", None, lambda _: None)
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:1,127\.0\.0\.1:2 .* 0\.5 s"):
        coordinator.start(timeout_seconds=0.5)
    assert set(threading.enumerate()) <= threads


@pytest.mark.slow
def test_members_outlive_a_restart_of_the_server(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        listener = Listener()
        coordinator = Coordinator(server.hosts, "c", None, listener)
        coordinator.start()
        joined = coordinator.join(member("a"))
        listener.wait(MembersChanged, names("a"))
        job = coordinator.submit_job(b"job")
        server.close()
        listener.wait(ConnectionChanged, lambda event: event.state == "suspended")
        server.start()
        listener.wait(ConnectionChanged, lambda event: event.state == "connected")
        assert coordinator.members() == (joined,)
        coordinator.publish_plan(job, 1, b"plan")
        listener.wait(PlanPublished)
        coordinator.close()


def test_a_lost_session_is_told_and_a_member_can_join_again(
    open_coordinator: Any, server: ZooKeeperServer
) -> None:
    coordinator, listener = open_coordinator(cluster="lost")
    first = coordinator.join(member("a"))
    job = coordinator.submit_job(b"job")
    listener.wait(JobSubmitted)
    # Whoever knows a session's number and password may take it over, and end it.
    thief = KazooClient(server.hosts, client_id=coordinator._znodes._client.client_id)
    thief.start()
    thief.stop()
    thief.close()
    listener.wait(ConnectionChanged, lambda event: event.state == "lost")
    listener.wait(ConnectionChanged, lambda event: event.state == "connected")
    with pytest.raises(StalePlanError):
        coordinator.publish_plan(job, 1, b"before joining again")
    second = coordinator.join(member("a"))
    assert second.sequence > first.sequence
    assert second.session != first.session
    listener.wait(MembersChanged, lambda event: event.members == (second,))
    coordinator.publish_plan(job, 1, b"plan")
    listener.wait(PlanPublished)


@pytest.mark.slow
def test_closing_while_the_server_is_away_ends_soon(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with ZooKeeperServer(tmp_path) as server:
        listener = Listener()
        coordinator = Coordinator(server.hosts, "c", None, listener)
        coordinator.start()
    listener.wait(ConnectionChanged, lambda event: event.state == "suspended")
    coordinator.close()
    assert set(threading.enumerate()) <= threads
