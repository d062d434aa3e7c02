"""The parts of the virtual world that faults act on: processes, sessions, network, disk."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from streammine.model.coordination import (
    ConnectionChanged,
    CoordinationEvent,
    Member,
    MembersChanged,
    PlanPublished,
)
from streammine.model.errors import ClusterError, OutputError, StalePlanError
from streammine.simulation.clock import VirtualClock
from streammine.simulation.coordinator import Session, VirtualCoordinator
from streammine.simulation.disk import MOST_FAILURES, TEMPORARY_SUFFIX, VirtualDisk
from streammine.simulation.network import Disturbance, Receiver, VirtualNetwork
from streammine.simulation.process import VirtualProcess
from streammine.simulation.settings import MOST_SLOWNESS, SimulationSettings

SETTINGS = SimulationSettings(session_timeout_seconds=1.0)


class Service:
    """A coordinator with some processes, and what each was told."""

    def __init__(self, *names: str) -> None:
        self.clock = VirtualClock()
        self.coordinator = VirtualCoordinator(self.clock, 7, SETTINGS)
        self.told: dict[str, list[CoordinationEvent]] = {}
        self.sessions = {name: self.join(name) for name in names}
        self.run(0.1)

    def join(self, name: str) -> Session:
        told = self.told[name] = []
        session = self.coordinator.open(name, told.append)
        session.join(Member(name, name, name, "virtual", 1))
        return session

    def run(self, seconds: float) -> None:
        """Let this much time pass."""
        end = self.clock.now_seconds + seconds
        passed: list[bool] = []
        self.clock.at(end, lambda: passed.append(True))
        while not passed:
            self.clock.step()

    def names(self, seen_by: str) -> list[str]:
        """The members as a process was last told of them."""
        seen = [each for each in self.told[seen_by] if isinstance(each, MembersChanged)]
        return [member.name for member in seen[-1].members]

    def states(self, name: str) -> list[str]:
        return [each.state for each in self.told[name] if isinstance(each, ConnectionChanged)]


def test_a_process_that_is_not_heard_of_loses_its_membership_and_learns_of_it_later() -> None:
    service = Service("a", "b")
    mend = service.sessions["a"].cut()
    service.run(0.5)
    assert service.names("b") == ["a", "b"]
    service.run(1.0)
    assert service.names("b") == ["b"]
    assert service.states("a") == ["suspended"]
    with pytest.raises(ClusterError, match="a can't reach"):
        service.sessions["a"].members()
    mend()
    service.run(0.1)
    assert service.states("a") == ["suspended", "lost"]


def test_a_short_cut_costs_nothing_but_the_word_of_it() -> None:
    service = Service("a", "b")
    mend = service.sessions["a"].cut()
    service.run(0.5)
    late = service.join("c")
    service.run(0.1)
    assert service.names("a") == ["a", "b"]
    mend()
    service.run(2.0)
    assert service.states("a") == ["suspended", "connected"]
    assert service.names("a") == ["a", "b", "c"]
    assert late.number == 3


def test_no_session_ends_while_the_service_is_down() -> None:
    service = Service("a", "b")
    mend_a = service.sessions["a"].cut()
    service.run(0.8)
    back = service.coordinator.outage()
    service.run(5.0)
    assert [member.name for member in service.coordinator.members()] == ["a", "b"]
    back()
    service.run(0.8)
    assert [member.name for member in service.coordinator.members()] == ["a", "b"]
    service.run(0.4)
    assert [member.name for member in service.coordinator.members()] == ["b"]
    mend_a()


def test_a_member_that_comes_back_under_its_name_is_another_one() -> None:
    service = Service("a", "b")
    service.sessions["a"].close()
    again = service.join("a")
    service.run(0.1)
    assert [member.sequence for member in service.coordinator.members()] == [0, 1, 2]
    service.run(1.5)
    assert service.names("a") == ["b", "a"]
    assert again.connected


def test_plans_are_numbered_without_a_gap_and_written_by_members_alone() -> None:
    service = Service("a", "b")
    job = service.coordinator.submit_job(b"job")
    service.sessions["a"].publish_plan(job, 1, b"one")
    with pytest.raises(StalePlanError):
        service.sessions["b"].publish_plan(job, 1, b"other")
    service.coordinator.expire(service.sessions["a"])
    with pytest.raises(ClusterError):
        service.sessions["a"].publish_plan(job, 2, b"two")
    outsider = service.coordinator.open("c", lambda event: None)
    with pytest.raises(StalePlanError, match="no member"):
        outsider.publish_plan(job, 2, b"two")
    service.run(0.1)
    assert [each for each in service.told["b"] if isinstance(each, PlanPublished)] == [
        PlanPublished(job, 1, b"one")
    ]


def test_what_happens_to_a_paused_process_happens_later_and_to_a_dead_one_never() -> None:
    process = VirtualProcess()
    happened: list[int] = []
    process.stop()
    process.stop()
    for number in range(3):
        process.occur(lambda number=number: happened.append(number))  # type: ignore[misc]
    process.go_on()
    assert (happened, process.waiting) == ([], 3)
    process.go_on()
    assert happened == [0, 1, 2]
    process.stop()
    process.occur(lambda: happened.append(3))
    process.die()
    process.go_on()
    process.occur(lambda: happened.append(4))
    assert happened == [0, 1, 2]


class Wire:
    """Three nodes on a network, and what arrived at each."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.network = VirtualNetwork(self.clock, 7, replace(SETTINGS, network_delay_seconds=0.1))
        self.arrived: dict[str, list[bytes]] = {}
        for name in "abc":
            took = self.arrived[name] = []
            take_data = lambda sender, header, body, took=took: took.append(header)  # noqa: E731
            take_control = lambda sender, message, took=took: took.append(message)  # noqa: E731
            self.network.attach(name, Receiver(take_data, take_control))

    def send(self, sender: str, receiver: str, message: bytes) -> None:
        self.network.send_data(sender, receiver, message, None)
        self.network.send_control(sender, receiver, message)

    def finish(self) -> None:
        while self.clock.step():
            pass


def test_a_split_loses_what_crosses_it_and_what_is_under_way_when_it_comes() -> None:
    wire = Wire()
    wire.send("a", "b", b"early")
    wire.send("c", "a", b"early")
    cut = Disturbance(frozenset("a"), frozenset("bc"), loss=1.0)
    wire.network.disturbances.append(cut)
    wire.send("a", "b", b"lost")
    wire.send("b", "a", b"other way")
    wire.finish()
    wire.network.disturbances.remove(cut)
    wire.send("a", "b", b"late")
    wire.finish()
    assert sorted(wire.arrived["a"]) == [b"early", b"early", b"other way", b"other way"]
    assert wire.arrived["b"] == [b"late", b"late"]
    assert cut.hits == 4


def test_a_split_may_hold_messages_back_until_it_is_over() -> None:
    wire = Wire()
    wire.network.disturbances.append(Disturbance(frozenset("a"), None, held_until_seconds=9.0))
    wire.send("a", "b", b"held")
    wire.send("c", "b", b"free")
    wire.finish()
    assert wire.arrived["b"] == [b"free", b"free", b"held", b"held"]
    assert wire.clock.now_seconds >= 9.0
    assert wire.network.frames_under_way == 0


def test_delays_that_overlap_slow_a_message_down_only_so_far() -> None:
    wire = Wire()
    slow = Disturbance(slowness=20.0)
    wire.network.disturbances += [slow, replace(slow), replace(slow)]
    wire.send("a", "b", b"late")
    wire.finish()
    assert wire.arrived["b"] == [b"late", b"late"]
    assert wire.clock.now_seconds <= MOST_SLOWNESS * 0.1


def test_a_broken_connection_loses_what_is_under_way_and_no_more() -> None:
    wire = Wire()
    wire.send("a", "b", b"lost")
    wire.send("a", "c", b"kept")
    assert wire.network.reconnect("b") == 2
    wire.send("a", "b", b"new")
    wire.finish()
    assert wire.arrived["b"] == [b"new", b"new"]
    assert wire.arrived["c"] == [b"kept", b"kept"]


def test_what_is_sent_to_nobody_is_lost() -> None:
    wire = Wire()
    wire.send("a", "b", b"message")
    wire.network.detach("b")
    wire.finish()
    assert wire.arrived["b"] == []


def disk() -> tuple[VirtualDisk, list[str]]:
    written: list[str] = []
    made = VirtualDisk(lambda node, location, name, data: written.append(name), 7)
    made.fallible.add("snapshots")
    return made, written


def test_a_full_disk_stops_one_node_from_writing_snapshots_and_nothing_else() -> None:
    shared, written = disk()
    shared.failing.add("a")
    with pytest.raises(OutputError, match="a can't write x: the disk is full"):
        shared.of_node("a", "snapshots").put("x", b"data")
    shared.of_node("b", "snapshots").put("x", b"data")
    shared.of_node("a", "out").put("y", b"data")
    assert written == ["x", "y"]
    assert shared.hits["failed"] == 1


def test_who_can_not_write_can_not_read_what_was_agreed_on_either() -> None:
    shared, _ = disk()
    for name in ("decisions/x", "snapshots/x"):
        shared.of_node("a", "snapshots").put(name, b"data")
    shared.failing.add("a")
    with pytest.raises(OutputError, match="a can't read decisions/x"):
        shared.of_node("a", "snapshots").get("decisions/x")
    assert shared.of_node("a", "snapshots").get("snapshots/x") == pa.py_buffer(b"data")
    assert shared.of_node("b", "snapshots").get("decisions/x") == pa.py_buffer(b"data")
    assert shared.hits["failed"] == 1


def test_a_torn_write_leaves_half_under_another_name() -> None:
    shared, written = disk()
    shared.torn["a"] = ["x"]
    store = shared.of_node("a", "snapshots")
    store.put("w", b"data")
    with pytest.raises(OutputError, match="half of x"):
        store.put("x", b"data")
    assert store.list("") == ["w", "x" + TEMPORARY_SUFFIX]
    store.put("x", b"data")
    assert store.get("x") == pa.py_buffer(b"data")
    assert written == ["w", "x"]


def test_no_slice_fails_to_write_so_often_that_its_job_would_give_up() -> None:
    shared, written = disk()
    shared.failing.add("a")
    store = shared.of_node("a", "snapshots")
    for epoch in range(MOST_FAILURES):
        with pytest.raises(OutputError, match="the disk is full"):
            store.put(f"counts/0/{epoch}", b"data")
    store.put("counts/0/9", b"data")
    with pytest.raises(OutputError, match="the disk is full"):
        store.put("counts/1/9", b"data")
    assert written == ["counts/0/9"]


def test_a_damaged_blob_has_one_wrong_bit() -> None:
    shared, _ = disk()
    shared.corrupt = 1
    store = shared.of_node("a", "snapshots")
    store.put("x", b"data")
    store.put("y", b"data")
    found = [bytes(store.get(name)) for name in ("x", "y")]
    wrong = [int.bit_count(left ^ right) for left, right in zip(found[0], b"data", strict=True)]
    assert sum(wrong) == 1
    assert found[1] == b"data"


def test_a_dying_node_gets_some_of_its_writes_done() -> None:
    shared, written = disk()
    shared.mortal["a"] = 2
    store = shared.of_node("a", "snapshots")
    store.put("part-0", b"0")
    store.put("part-1", b"1")
    with pytest.raises(OutputError, match="a dies while it writes header"):
        store.put("header", b"2")
    assert written == ["part-0", "part-1"]


def test_a_process_that_dies_while_the_service_is_down_is_missed_once_it_is_back() -> None:
    service = Service("a", "b")
    back = service.coordinator.outage()
    service.sessions["a"].close()
    service.run(5.0)
    back()
    service.run(0.5)
    assert service.names("b") == ["a", "b"]
    service.run(1.0)
    assert service.names("b") == ["b"]
    assert service.states("a") == []
