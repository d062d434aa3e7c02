"""Where slices and their replicas are placed; a slice is drawn as its nodes, the one that leads first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from streammine.engine.placement import MOST_MORE, Node, place, place_again
from streammine.model.disciplines import Discipline
from streammine.model.errors import ClusterError
from streammine.model.ids import SliceId
from streammine.model.job import Edge, JobGraph, Loop, Placement, Vertex


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
    assert place_again(graph(), slices(0, 1), kept, nodes("abc")) == {
        SliceId("counts", 0): ("b", 2),
        SliceId("counts", 1): ("a", 1),
    }


def test_one_more_replica_goes_where_least_is() -> None:
    kept = {
        SliceId("counts", 0): on("a"),
        SliceId("counts", 1): on("b"),
        SliceId("counts", 2): on("b"),
    }
    assert place_again(graph(), slices(0), kept, nodes("abc")) == {SliceId("counts", 0): ("c", 3)}


def pipeline(slices: int = 4) -> JobGraph:
    """lines -> counts -> result, the first edge by key."""
    kinds: dict[str, Any] = {"lines": "source", "counts": "stateful", "result": "sink"}
    edges = [("lines", "counts", "partition"), ("counts", "result", "forward")]
    return JobGraph(
        tuple(Vertex(name, kind, slices, Discipline.EPOCH, "") for name, kind in kinds.items()),
        tuple(
            Edge(source, target, 0, (), False, routing, False)  # type: ignore[arg-type]
            for source, target, routing in edges
        ),
    )


def chain(index: int) -> list[SliceId]:
    return [SliceId(name, index) for name in ("lines", "counts", "result")]


def test_what_a_slice_sends_stays_in_the_node_where_a_chain_is_built_anew() -> None:
    # a, b: a chain each;  two chains are lost
    kept = {each: on("ab"[each.index]) for each in (*chain(0), *chain(1))}
    places = place_again(pipeline(), [*chain(2), *chain(3)], kept, nodes("ab"))
    for index in (2, 3):
        assert places[SliceId("counts", index)] == places[SliceId("result", index)]
    assert Counter(places.values()) == {("a", 1): 3, ("b", 2): 3}


def test_a_slice_comes_back_to_where_its_rows_go() -> None:
    # of b's chain the middle is lost, and c is empty
    kept = {**dict.fromkeys(chain(0), on("a")), **dict.fromkeys(chain(1), on("b"))}
    del kept[SliceId("counts", 1)]
    # a source, whose rows go everywhere, does not go there for that
    assert place_again(pipeline(), [SliceId("lines", 2)], kept, nodes("abc")) == {
        SliceId("lines", 2): ("c", 3)
    }
    assert place_again(pipeline(), slices(1), kept, nodes("abc")) == {
        SliceId("counts", 1): ("b", 2)
    }
    # but not where much more is
    kept |= {SliceId("totals", number): on("b") for number in range(3)}
    assert place_again(pipeline(), slices(1), kept, nodes("abc")) == {
        SliceId("counts", 1): ("c", 3)
    }


@pytest.mark.parametrize("count", [3, 4, 6])
def test_no_node_gets_much_more_than_another(count: int) -> None:
    graph = pipeline(slices=count)
    at = dict(enumerate("abcdef"[:count]))
    kept = {each: on(at[each.index]) for each in graph.slices}
    for lost in range(count):
        left = {each: group for each, group in kept.items() if each.index != lost}
        alive = [node for node in nodes("abcdef"[:count]) if node[0] != at[lost]]
        places = place_again(graph, chain(lost), left, alive)
        load = Counter(places.values()) + Counter(dict.fromkeys(alive, 3))
        assert max(load.values()) - min(load.values()) <= MOST_MORE + 1


def test_dead_rows_and_records_of_files_attract_nothing_else() -> None:
    plain = pipeline(2)
    vertices = (
        *plain.vertices,
        Vertex("result.committer", "committer", 1, Discipline.EPOCH, ""),
    )
    commits = Edge("result", "result.committer", 0, (), False, "forward", False)
    graph = JobGraph(vertices, (*plain.edges, commits))
    kept = {SliceId("result.committer", 0): on("a"), SliceId("counts", 1): on("b")}
    assert place_again(graph, [SliceId("result", 1)], kept, nodes("ab")) == {
        SliceId("result", 1): ("b", 2)
    }


def test_receivers_of_a_feed_stay_apart() -> None:
    vertices = (
        *(Vertex(name, "source", 1, Discipline.EPOCH, "") for name in ("east", "west")),
        Vertex("counts", "stateful", 1, Discipline.CONSENSUS, ""),
    )
    edges = tuple(
        Edge(name, "counts", 0, ("feed",), False, "partition", False, either=True)
        for name in ("east", "west")
    )
    graph = JobGraph(vertices, edges)
    assert graph.rivals == {"east": {"west"}, "west": {"east"}}
    kept = {SliceId("west", 0): on("a"), SliceId("counts", 0): on("a")}
    kept |= {SliceId("counts", number): on("b") for number in range(1, 9)}
    assert place_again(graph, [SliceId("east", 0)], kept, nodes("ab")) == {
        SliceId("east", 0): ("b", 2)
    }
    # where there is but one node, there they are
    assert place_again(graph, [SliceId("east", 0)], kept, nodes("a")) == {
        SliceId("east", 0): ("a", 1)
    }


def test_slices_with_another_replica_spread() -> None:
    kept = {each: on("a") for index in range(6) for each in chain(index)}
    places = place_again(pipeline(6), kept, kept, nodes("abc"))
    for name in ("lines", "counts", "result"):
        found = Counter(places[SliceId(name, index)] for index in range(6))
        assert found == {("b", 2): 3, ("c", 3): 3}


def test_a_slice_that_is_everywhere_gets_no_further_replica() -> None:
    kept = {SliceId("counts", 0): on("a", "b"), SliceId("counts", 1): on("a")}
    assert place_again(graph(), slices(0, 1), kept, nodes("ab")) == {SliceId("counts", 1): ("b", 2)}


def test_a_node_that_joined_anew_under_its_name_is_no_second_node() -> None:
    kept = {SliceId("counts", 0): on("a")}
    assert place_again(graph(), slices(0), kept, [("a", 1), ("a", 7)]) == {}
    assert place_again(graph(), slices(0), {}, [("a", 1), ("a", 7)]) == {
        SliceId("counts", 0): ("a", 7)
    }


@pytest.mark.parametrize(
    ("slices", "names", "expected"),
    [
        (1, "ab", ["a", "b", "b"]),
        (2, "abc", ["a", "b", "b", "c", "b", "c"]),
        (1, "abcd", ["a", "c", "c"]),
        (2, "ab", ["a", "b"] * 3),
    ],
)
def test_the_stages_of_a_narrow_job_share_the_nodes(
    slices: int, names: str, expected: list[str]
) -> None:
    # a sink goes where its rows are made
    assert drawn(place(pipeline(slices), nodes(names))) == expected


def test_a_lone_narrow_stage_begins_where_all_begin() -> None:
    wide = pipeline(2)
    counts = replace(wide.vertices[1], slices=1)
    graph = JobGraph((wide.vertices[0], counts, wide.vertices[2]), wide.edges)
    assert drawn(place(graph, nodes("ab"))) == ["a", "b", "a", "a", "b"]


def test_a_narrow_loop_stays_together_and_receivers_apart() -> None:
    names = ("east", "west", "ranks", "links")
    vertices = tuple(
        Vertex(name, "source" if name in names[:2] else "stateful", 1, Discipline.EPOCH, "")
        for name in names
    )
    edges = [("east", "ranks"), ("west", "ranks"), ("ranks", "links"), ("links", "ranks")]
    joined = tuple(
        Edge(source, target, 0, ("any",), False, "partition", False, either=source in names[:2])
        for source, target in edges
    )
    loop = Loop("ranks", ("ranks", "links"), (("links", "ranks"),), 10)
    places = place(JobGraph(vertices, joined, (loop,)), nodes("abcd"))
    assert drawn(places) == ["a", "b", "c", "c"]
