"""The recovery line is feasible, and the best that there is, on any graph."""

from __future__ import annotations

from itertools import combinations, pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from replication import recovery_line
from streammine.model.disciplines import Discipline
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.model.job import Edge, JobGraph, Vertex
from streammine.model.recovery import LineStanding

Standings = dict[SliceId, LineStanding]
Line = dict[SliceId, int]


def graph_of(vertices: dict[str, int], edges: list[tuple[str, str]]) -> JobGraph:
    return JobGraph(
        tuple(Vertex(name, "stateful", n, Discipline.EPOCH, "") for name, n in vertices.items()),
        tuple(Edge(source, target, 0, (), False, "partition", False) for source, target in edges),
    )


def chain(**standings: LineStanding) -> Line:
    """Line of a chain of vertices of one slice each; by name of the vertex."""
    names = list(standings)
    graph = graph_of(dict.fromkeys(names, 1), list(pairwise(names)))
    return recovery_line(graph, {SliceId(name, 0): one for name, one in standings.items()})


def line(**epochs: int) -> Line:
    return {SliceId(name, 0): epoch for name, epoch in epochs.items()}


def lost(*snapshots: int) -> LineStanding:
    return LineStanding(False, snapshots=snapshots)


def living(lacks_from: int, retained_after: int = BEGINNING, *snapshots: int) -> LineStanding:
    return LineStanding(True, lacks_from, retained_after, snapshots)


def test_nobody_lost_nobody_rebuilt() -> None:
    assert chain(a=living(9, 5), b=living(7, 6), c=living(0, BEGINNING)) == {}


def test_a_slice_starts_before_what_its_consumer_lacks() -> None:
    # A ──> B (lost; 10, 20) ──> C (processed up to 17): from 20, B would never make 18 to 20 again
    assert chain(a=living(30, 10, 10), b=lost(10, 20), c=living(18)) == line(b=10)
    assert chain(a=living(30, 10, 10), b=lost(10, 20), c=living(21)) == line(b=20)
    assert chain(a=living(30, 10, 10), b=lost(10, 20), c=living(20)) == line(b=10)


def test_a_producer_that_pruned_too_much_is_rebuilt_too() -> None:
    assert chain(a=living(30, 11, 10, 20), b=lost(10, 20), c=living(18)) == line(a=10, b=10)
    assert chain(a=living(30, 11, 20), b=lost(10, 20), c=living(18)) == line(a=BEGINNING, b=10)


def test_the_newest_snapshots_do_when_everything_is_lost() -> None:
    assert chain(a=lost(10, 20), b=lost(10, 20), c=lost(10, 20)) == line(a=20, b=20, c=20)
    assert chain(a=lost(10, 20), b=lost(10, 20), c=lost(10)) == line(a=10, b=10, c=10)
    assert chain(a=lost(), b=lost(10), c=lost(10)) == line(a=BEGINNING, b=10, c=10)


def test_a_consumer_that_has_nothing_yet_sends_its_producer_to_the_beginning() -> None:
    assert chain(a=living(30, 0, 10), b=lost(10, 20), c=living(BEGINNING)) == line(
        a=BEGINNING, b=BEGINNING
    )


def test_a_finished_consumer_lacks_nothing() -> None:
    assert chain(a=living(30, 10), b=lost(10, 20), c=living(INFINITY)) == line(b=20)


def test_a_sink_that_is_lost_takes_its_newest_snapshot() -> None:
    assert chain(a=living(30), b=living(25, 10), c=lost(10, 20)) == line(c=20)


def test_a_second_replica_of_a_living_producer_serves_its_other_consumers_too() -> None:
    graph = graph_of({"a": 1, "b": 1, "c": 1}, [("a", "b"), ("a", "c")])
    standings = {
        SliceId("a", 0): living(30, 15, 5, 10, 20),
        SliceId("b", 0): lost(10),
        SliceId("c", 0): living(8),
    }
    assert recovery_line(graph, standings) == line(a=5, b=10)


def promoted(held_after: int, *snapshots: int) -> LineStanding:
    """A replica that stood by with that state is the first now."""
    return LineStanding(True, 25, held_after, snapshots, held_after)


def test_one_that_was_promoted_is_rebuilt_where_its_state_is_ahead_of_a_living_consumer() -> None:
    # B holds the state after 20 and makes 21 and what follows; C lacks epochs from 18, or 20, or 21 on
    assert chain(a=living(30, 10), b=promoted(20, 10, 20), c=living(18)) == line(b=10)
    assert chain(a=living(30, 10), b=promoted(20, 10, 20), c=living(20)) == line(b=10)
    assert chain(a=living(30, 10), b=promoted(20, 10, 20), c=living(21)) == {}
    assert chain(a=living(30, 10), b=promoted(BEGINNING, 10), c=living(BEGINNING)) == {}


def test_a_loop_falls_back_together() -> None:
    graph = graph_of({"a": 1, "b": 1}, [("a", "b"), ("b", "a")])
    standings = {SliceId("a", 0): lost(10, 20), SliceId("b", 0): lost(10, 15)}
    assert recovery_line(graph, standings) == line(a=10, b=10)


def feasible(graph: JobGraph, standings: Standings, answer: Line) -> bool:
    """Every rule of DESIGN §5, said once more and plainly."""
    for slice_id in graph.slices:
        if not standings[slice_id].alive and slice_id not in answer:
            return False
    for x, epoch in answer.items():
        if epoch not in (BEGINNING, *standings[x].snapshots):
            return False
        for channel in graph.channels:
            if channel.source == x and epoch != BEGINNING:
                y = channel.target
                if standings[y].alive and not epoch < standings[y].lacks_from:
                    return False
                if y in answer and not epoch <= answer[y]:
                    return False
            held = channel.source in answer or standings[channel.source].retained_after <= epoch
            if channel.target == x and not held:
                return False
    return True


def answers(graph: JobGraph, standings: Standings) -> list[Line]:
    """Every feasible answer there is."""
    alive = [one for one in graph.slices if standings[one].alive]
    dead = [one for one in graph.slices if not standings[one].alive]
    found = []
    for count in range(len(alive) + 1):
        for also in combinations(alive, count):
            rebuilt = [*dead, *also]
            choices = [(BEGINNING, *standings[one].snapshots) for one in rebuilt]
            for epochs in product(*choices):
                answer = dict(zip(rebuilt, epochs, strict=True))
                if feasible(graph, standings, answer):
                    found.append(answer)
    return found


@st.composite
def worlds(draw: st.DrawFn, cycles: bool, slices: int = 5) -> tuple[JobGraph, Standings]:
    vertices = {}
    while sum(vertices.values()) < slices:
        left = slices - sum(vertices.values())
        vertices[f"v{len(vertices)}"] = draw(st.integers(1, min(2, left)))
    names = list(vertices)
    pairs = [(a, b) for i, a in enumerate(names) for b in (names if cycles else names[i + 1 :])]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=7)) if pairs else []
    graph = graph_of(vertices, edges)
    epochs = st.integers(0, 6)
    somewhere = st.one_of(st.just(BEGINNING), epochs)
    standings = {
        one: LineStanding(
            draw(st.booleans()),
            draw(st.one_of(somewhere, st.just(INFINITY))),
            draw(somewhere),
            tuple(sorted(draw(st.sets(epochs, max_size=2)))),
        )
        for one in graph.slices
    }
    return graph, standings


def check_best(graph: JobGraph, standings: Standings) -> None:
    found = recovery_line(graph, standings)
    assert feasible(graph, standings, found)
    for other in answers(graph, standings):
        assert set(found) <= set(other), "fewer slices could be rebuilt"
        for slice_id, epoch in found.items():
            assert epoch >= other[slice_id], f"{slice_id} could take a newer snapshot"


@given(worlds(cycles=False))
def test_the_line_is_the_best_answer_without_cycles(world: tuple[JobGraph, Standings]) -> None:
    check_best(*world)


@given(worlds(cycles=True))
def test_the_line_is_the_best_answer_with_cycles(world: tuple[JobGraph, Standings]) -> None:
    check_best(*world)


@given(worlds(cycles=True, slices=30))
def test_large_graphs_end_in_a_feasible_line(world: tuple[JobGraph, Standings]) -> None:
    graph, standings = world
    found = recovery_line(graph, standings)
    assert feasible(graph, standings, found)
    assert list(found) == [one for one in graph.slices if one in found]


@given(worlds(cycles=True), st.integers(0, 6))
def test_a_complete_checkpoint_stops_the_fall(
    world: tuple[JobGraph, Standings], epoch: int
) -> None:
    graph, standings = world
    covered = {
        one: LineStanding(
            standing.alive,
            max(standing.lacks_from, epoch + 1),
            min(standing.retained_after, epoch),
            tuple(sorted({*standing.snapshots, epoch})),
        )
        for one, standing in standings.items()
    }
    found = recovery_line(graph, covered)
    assert all(start >= epoch for start in found.values())
    assert set(found) == {one for one in graph.slices if not covered[one].alive}
