"""Where slices and their replicas are placed; a slice is drawn as its nodes, the one that leads first."""

from __future__ import annotations

from collections import Counter

import pytest

from streammine.engine.placement import Node, place, place_again
from streammine.model.contracts import Discipline
from streammine.model.errors import ClusterError
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Placement, Vertex


def graph(slices: int = 4, replicas: int = 2, vertices: int = 1) -> JobGraph:
    names = ("counts", "totals", "sums")[:vertices]
    return JobGraph(
        tuple(
            Vertex(name, "stateful", slices, Discipline.EPOCH, "", replicas=replicas)
            for name in names
        ),
        (),
    )


def nodes(names: str) -> list[Node]:
    """One for each letter, in this order."""
    return [(name, member) for member, name in enumerate(names, 1)]


def drawn(places: dict[SliceId, tuple[Node, ...]]) -> list[str]:
    return ["".join(name for name, _ in group) for group in places.values()]


def on(*names: str) -> tuple[Placement, ...]:
    return tuple(Placement(name, 1, "abcdef".index(name) + 1) for name in names)


def slices(*indexes: int) -> list[SliceId]:
    return [SliceId("counts", index) for index in indexes]


def test_replicas_of_a_slice_are_on_different_nodes() -> None:
    assert drawn(place(graph(4, replicas=2), nodes("ab"))) == ["ab", "ba", "ab", "ba"]


def test_the_others_of_what_leads_on_one_node_spread_over_all_other_nodes() -> None:
    #        a leads 0, 3, 6          b leads 1, 4, 7          c leads 2, 5, 8
    assert drawn(place(graph(9), nodes("abc"))) == [
        *("ab", "bc", "ca"),
        *("ac", "ba", "cb"),
        *("ab", "bc", "ca"),
    ]


@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize("vertices", [1, 3])
def test_what_a_lost_node_led_is_taken_over_by_all_others_alike(count: int, vertices: int) -> None:
    names = "abcde"[:count]
    chosen = drawn(place(graph(count * (count - 1), 2, vertices), nodes(names)))
    for lost in names:
        heirs = Counter(group[1] for group in chosen if group[0] == lost)
        assert heirs.keys() == set(names) - {lost}
        assert len(set(heirs.values())) == 1


@pytest.mark.parametrize("replicas", [2, 3, 5])
def test_every_node_has_as_many_replicas(replicas: int) -> None:
    chosen = drawn(place(graph(30, replicas), nodes("abcde")))
    assert all(len(set(group)) == replicas for group in chosen)
    assert set(Counter("".join(chosen)).values()) == {30 * replicas // 5}


def test_where_there_are_fewer_nodes_there_are_fewer_replicas() -> None:
    assert drawn(place(graph(2, replicas=3), nodes("ab"))) == ["ab", "ba"]
    assert drawn(place(graph(2, replicas=3), nodes("a"))) == ["a", "a"]


def test_members_of_one_name_are_one_node_the_one_that_joined_last() -> None:
    members = [("a", 1), ("b", 2), ("a", 3)]
    chosen = place(graph(2, replicas=2), members)
    assert list(chosen.values()) == [(("b", 2), ("a", 3)), (("a", 3), ("b", 2))]


def test_without_a_node_there_is_no_place() -> None:
    with pytest.raises(ClusterError, match="no live node"):
        place(graph(), [])


def test_one_more_replica_goes_where_none_of_its_slice_is() -> None:
    kept = {SliceId("counts", 0): on("a"), SliceId("counts", 1): on("b", "c")}
    assert place_again(slices(0, 1), kept, nodes("abc")) == {
        SliceId("counts", 0): ("b", 2),
        SliceId("counts", 1): ("a", 1),
    }


def test_one_more_replica_goes_where_least_is() -> None:
    kept = {
        SliceId("counts", 0): on("a"),
        SliceId("counts", 1): on("b"),
        SliceId("counts", 2): on("b"),
    }
    assert place_again(slices(0), kept, nodes("abc")) == {SliceId("counts", 0): ("c", 3)}


def test_a_slice_that_is_everywhere_gets_no_further_replica() -> None:
    kept = {SliceId("counts", 0): on("a", "b"), SliceId("counts", 1): on("a")}
    assert place_again(slices(0, 1), kept, nodes("ab")) == {SliceId("counts", 1): ("b", 2)}


def test_a_node_that_joined_anew_under_its_name_is_no_second_node() -> None:
    kept = {SliceId("counts", 0): on("a")}
    assert place_again(slices(0), kept, [("a", 1), ("a", 7)]) == {}
    assert place_again(slices(0), {}, [("a", 1), ("a", 7)]) == {SliceId("counts", 0): ("a", 7)}
