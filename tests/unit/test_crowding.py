"""When a node has no time for replicas that stand behind others, and when it has again."""

from __future__ import annotations

from collections.abc import Sequence

from streammine.engine.crowding import CROWDED_SECONDS, ROOM_SECONDS, ROOM_SHARE, Crowding, Queue

BUSY = {"spare_wait_seconds": 0.0, "idle_share": 0.1}
ROOM = {"spare_wait_seconds": 0.0, "idle_share": 0.6}

BEAT_SECONDS = 0.25


def waits(seconds: float) -> dict[str, float]:
    return {"spare_wait_seconds": seconds, "idle_share": 0.0}


def test_a_node_is_crowded_once_spare_work_has_waited_for_long() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, waits(0.9 * CROWDED_SECONDS), {})
    nodes.heard("b", 0.0, waits(CROWDED_SECONDS), {})
    assert nodes.crowded == ("b",)


def beats(nodes: Crowding, since_seconds: float, shares: Sequence[float]) -> float:
    """Heartbeats of "a" that say how idle it was, and the time of the last."""
    now_seconds = since_seconds
    for share in shares:
        now_seconds += BEAT_SECONDS
        nodes.heard("a", now_seconds, {"idle_share": share}, {})
    return now_seconds


BEATS = round(ROOM_SECONDS / BEAT_SECONDS)
ENOUGH = 1.01 * ROOM_SHARE


def test_it_has_room_when_its_workers_were_idle_for_some_time() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, waits(CROWDED_SECONDS), {})
    now_seconds = beats(nodes, 0.0, [ENOUGH] * (BEATS - 1))
    assert nodes.crowded == ("a",), "not for so long"
    beats(nodes, now_seconds, [ENOUGH])
    assert nodes.crowded == ()


def test_a_busy_heartbeat_between_idle_ones_is_outweighed() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, waits(CROWDED_SECONDS), {})
    beats(nodes, 0.0, [0.2, 0.75, 0.8, 0.3, 0.9] * BEATS)
    assert nodes.crowded == ()


def test_short_idle_times_are_no_room() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, waits(CROWDED_SECONDS), {})
    beats(nodes, 0.0, [0.9, 0.1] * BEATS)
    assert nodes.crowded == ("a",)


def test_what_was_before_the_last_seconds_is_forgotten() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, waits(CROWDED_SECONDS), {})
    now_seconds = beats(nodes, 0.0, [0.0] * 10 * BEATS)
    beats(nodes, now_seconds, [ENOUGH] * BEATS)
    assert nodes.crowded == ()


def test_a_share_counts_for_the_time_since_the_heartbeat_before() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, waits(CROWDED_SECONDS), {})
    nodes.heard("a", 0.1, {"idle_share": 1.0}, {})
    nodes.heard("a", 0.2, {"idle_share": 1.0}, {})
    nodes.heard("a", ROOM_SECONDS, {"idle_share": 0.3}, {})
    assert nodes.crowded == ("a",)


def test_a_node_that_says_nothing_of_it_stays_as_it_is() -> None:
    nodes = Crowding()
    nodes.heard("a", 0.0, {}, {})
    assert nodes.crowded == ()
    nodes.adopt(("a",))
    nodes.heard("a", 0.0, {}, {})
    nodes.heard("a", 99.0, {}, {})
    assert nodes.crowded == ("a",)


def test_nodes_that_are_gone_are_forgotten_and_another_managers_are_known() -> None:
    nodes = Crowding()
    nodes.adopt(("a", "b"))
    nodes.heard("b", 0.0, ROOM, {})
    nodes.keep({"a", "c"})
    assert nodes.crowded == ("a",)
    nodes.adopt(("c",))
    assert nodes.crowded == ("c",)


RATE = 1e6


class Behind:
    """A replica behind another one: so many bytes come, and so many it can process, per second."""

    def __init__(self, nodes: Crowding) -> None:
        self.nodes = nodes
        self.now_seconds = self.came = self.waits = 0.0

    def go_on(self, seconds: float, comes: float, does: float, load: dict[str, float]) -> bool:
        """Whether its node was ever crowded meanwhile."""
        crowded = False
        for _ in range(round(seconds / BEAT_SECONDS)):
            self.now_seconds += BEAT_SECONDS
            self.came += comes * BEAT_SECONDS
            self.waits = max(0.0, self.waits + (comes - does) * BEAT_SECONDS)
            queues = {("job", "counts/0", 7): Queue(self.came, self.waits)}
            self.nodes.heard("a", self.now_seconds, load, queues)
            crowded = crowded or self.nodes.crowded == ("a",)
        return crowded


def test_a_node_is_crowded_where_what_stands_behind_gets_its_turn_too_seldom() -> None:
    behind = Behind(Crowding())
    assert not behind.go_on(30.0, RATE, 2 * RATE, BUSY), "it keeps up"
    assert not behind.go_on(4.0, RATE, 0.6 * RATE, BUSY), "less than 3 s behind"
    assert behind.go_on(30.0, RATE, 0.6 * RATE, BUSY)


def test_a_spike_is_caught_up_with() -> None:
    behind = Behind(Crowding())
    behind.go_on(10.0, RATE, 2 * RATE, BUSY)
    assert not behind.go_on(2.0, 3 * RATE, 0.0, BUSY)
    assert not behind.go_on(20.0, RATE, 2 * RATE, BUSY)


def test_a_long_queue_that_becomes_shorter_does_not_crowd_its_node() -> None:
    behind = Behind(Crowding())
    behind.came = behind.waits = 30 * RATE
    assert not behind.go_on(60.0, RATE, 1.5 * RATE, BUSY)
    assert behind.waits == 0.0


def test_a_node_with_room_is_not_crowded_however_slow_a_replica_is() -> None:
    assert not Behind(Crowding()).go_on(60.0, RATE, 0.6 * RATE, ROOM)


def test_however_often_a_node_speaks_the_looks_are_as_far_back_as_they_must() -> None:
    nodes = Crowding()
    for number in range(300):
        now_seconds = number * 0.03
        queue = Queue(RATE * now_seconds, RATE * now_seconds / 2)
        nodes.heard("a", now_seconds, BUSY, {"one": queue})
    assert nodes.crowded == ("a",)
