"""When a node has no time for replicas that stand behind others, and when it has again."""

from __future__ import annotations

from streammine.engine.crowding import CROWDED_SECONDS, ROOM_SECONDS, Crowding

BUSY = {"spare_wait_seconds": 0.0, "idle_share": 0.1}
ROOM = {"spare_wait_seconds": 0.0, "idle_share": 0.6}


def waits(seconds: float) -> dict[str, float]:
    return {"spare_wait_seconds": seconds, "idle_share": 0.0}


def test_a_node_is_crowded_once_spare_work_has_waited_for_long() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, waits(0.9 * CROWDED_SECONDS))
    nodes.heard("b", 0.0, waits(CROWDED_SECONDS))
    assert nodes.crowded == ("b",)


def test_it_has_room_when_its_workers_were_idle_for_some_time_on_end() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, waits(CROWDED_SECONDS))
    nodes.heard("a", 1.0, ROOM)
    nodes.heard("a", 1.0 + 0.9 * ROOM_SECONDS, BUSY)
    nodes.heard("a", 10.0, ROOM)
    nodes.heard("a", 10.0 + 0.9 * ROOM_SECONDS, ROOM)
    assert nodes.crowded == ("a",), "between, it was busy"
    nodes.heard("a", 10.0 + ROOM_SECONDS, ROOM)
    assert nodes.crowded == ()


def test_a_node_that_says_nothing_of_it_stays_as_it_is() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, {})
    assert nodes.crowded == ()
    nodes.adopt(("a",))
    nodes.heard("a", 0.0, {})
    nodes.heard("a", 99.0, {})
    assert nodes.crowded == ("a",)


def test_nodes_that_are_gone_are_forgotten_and_another_managers_are_known() -> None:
    nodes = Crowding()
    nodes.adopt(("a", "b"))
    nodes.heard("b", 0.0, ROOM)
    nodes.keep({"a", "c"})
    assert nodes.crowded == ("a",)
    nodes.adopt(("c",))
    assert nodes.crowded == ("c",)
