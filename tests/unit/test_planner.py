"""From operators to vertices, edges and disciplines, and from there to places."""

from __future__ import annotations

from typing import Any

import pytest

from streammine.engine.placement import place
from streammine.engine.planner import LogicalNode, plan
from streammine.model.contracts import Traits
from streammine.model.disciplines import Discipline
from streammine.model.errors import ClusterError, TopologyError
from streammine.model.ids import SliceId
from streammine.model.job import DEAD_LETTERS, Edge, JobGraph
from streammine.model.schemes import Scheme

ORDER_SENSITIVE = Traits(commutative=False, mergeable=False)
COMBINABLE = Traits(combinable=True)


def stateful(name: str, *inputs: str, **fields: Any) -> LogicalNode:
    return LogicalNode(name, "stateful", inputs, **fields)


def graph(*operators: LogicalNode, sink: dict[str, Any] | None = None) -> JobGraph:
    """source -> operators … -> result"""
    last = operators[-1].name if operators else "source"
    return plan(
        [
            LogicalNode("source", "source", slices=3),
            *operators,
            LogicalNode("result", "sink", (last,), **(sink or {})),
        ]
    )


def edge_into(found: JobGraph, target: str) -> Edge:
    (edge,) = [edge for edge in found.edges if edge.target == target]
    return edge


def test_stateless_operators_run_on_the_edge_and_have_no_vertex() -> None:
    #   source ==words==long==> counts --> result --> result.committer
    found = graph(
        LogicalNode("words", "stateless", ("source",)),
        LogicalNode("long", "stateless", ("words",)),
        stateful("counts", "long", slices=4),
    )
    names = [vertex.name for vertex in found.vertices]
    assert names == ["source", "counts", "result", "result.committer"]
    assert edge_into(found, "counts").stages == ("words", "long")
    assert len(found.inputs[SliceId("counts", 2)]) == 3
    assert len(found.outputs[SliceId("source", 0)]) == 4


def test_channels_are_numbered_alike_from_any_end() -> None:
    found = graph(stateful("counts", "source", slices=2))
    assert [channel.number for channel in found.channels] == list(range(len(found.channels)))
    ends = [(str(channel.source), str(channel.target)) for channel in found.channels[:3]]
    assert ends == [
        ("source/0", "counts/0"),
        ("source/0", "counts/1"),
        ("source/1", "counts/0"),
    ]
    for slice_id, channels in found.inputs.items():
        assert all(found.channels[channel.number].target == slice_id for channel in channels)


@pytest.mark.parametrize(
    ("traits", "wish", "expected"),
    [
        (Traits(), None, Discipline.EPOCH),
        (Traits(), Discipline.STRICT, Discipline.STRICT),
        (Traits(), Discipline.NONE, Discipline.NONE),
        (ORDER_SENSITIVE, None, Discipline.STRICT),
        (ORDER_SENSITIVE, Discipline.STRICT, Discipline.STRICT),
    ],
)
def test_the_cheapest_discipline_that_keeps_the_promise_is_taken(
    traits: Traits, wish: Discipline | None, expected: Discipline
) -> None:
    found = graph(stateful("op", "source", traits=traits, discipline=wish))
    assert found.vertex("op").discipline is expected
    assert found.vertex("op").reason
    assert edge_into(found, "op").carries_order == (expected is Discipline.STRICT)


def either(name: str, *sources: str) -> LogicalNode:
    return LogicalNode(name, "either", sources)


def test_behind_an_either_each_source_has_an_edge_and_the_reader_agrees() -> None:
    found = plan(
        [
            LogicalNode("east", "source", slices=2),
            LogicalNode("west", "source", slices=2),
            either("feed", "east", "west"),
            LogicalNode("words", "stateless", ("feed",)),
            stateful("counts", "words"),
            stateful("sums", "counts"),
            LogicalNode("sink", "sink", ("sums",)),
        ]
    )
    ways = [edge for edge in found.edges if edge.target == "counts"]
    assert [(edge.source, edge.stages, edge.either, edge.port) for edge in ways] == [
        ("east", ("feed", "words"), True, 0),
        ("west", ("feed", "words"), True, 0),
    ]
    assert found.agreeing == {"counts"}
    assert "those of east or west" in found.vertex("counts").reason
    assert "east" not in found.vertex("sums").reason


def test_a_sink_behind_an_either_agrees_too() -> None:
    found = plan(
        [
            LogicalNode("east", "source", slices=2),
            LogicalNode("west", "source", slices=2),
            either("feed", "east", "west"),
            LogicalNode("sink", "sink", ("feed",)),
        ]
    )
    assert found.agreeing == {"sink"}
    assert found.vertex("sink").slices == 2


def test_a_loop_reads_nothing_behind_an_either() -> None:
    with pytest.raises(TopologyError, match="let an operator before the loop read it"):
        plan(
            [
                LogicalNode("east", "source", slices=2),
                LogicalNode("west", "source", slices=2),
                either("feed", "east", "west"),
                LogicalNode("head", "stateful", ("feed", "head"), traits=Traits()),
                LogicalNode("sink", "sink", ("head",)),
            ]
        )


def test_who_agrees_does_not_stand_by_without_processing() -> None:
    found = plan(
        [
            LogicalNode("east", "source", slices=2),
            LogicalNode("west", "source", slices=2),
            either("feed", "east", "west"),
            stateful("counts", "feed"),
            LogicalNode("sink", "sink", ("counts",)),
        ]
    )
    hot, cold = Scheme.PASSIVE_STANDBY_HOT, Scheme.PASSIVE_STANDBY_COLD
    assert found.rung_of("counts", hot) is cold
    assert found.rung_of("sink", hot) is hot


def test_epoch_for_an_order_sensitive_operator_is_refused() -> None:
    with pytest.raises(TopologyError, match="needs a commutative operator"):
        graph(stateful("op", "source", traits=ORDER_SENSITIVE, discipline=Discipline.EPOCH))


@pytest.mark.parametrize(
    ("fields", "combined"),
    [
        ({"traits": COMBINABLE}, True),
        ({"traits": COMBINABLE, "combine": False}, False),
        ({"traits": COMBINABLE, "discipline": Discipline.STRICT}, False),
        ({"traits": COMBINABLE, "broadcast": True}, False),
        ({"traits": Traits()}, False),
    ],
)
def test_what_can_be_combined_before_the_shuffle_is(fields: dict[str, Any], combined: bool) -> None:
    assert edge_into(graph(stateful("op", "source", **fields)), "op").combined == combined


def test_an_operator_without_keys_has_one_slice() -> None:
    assert graph(stateful("all", "source", slices=5, keyed=False)).vertex("all").slices == 1


def test_a_sink_has_the_slices_of_its_input_and_an_ordered_one_has_one() -> None:
    counts = stateful("counts", "source", slices=4)
    assert graph(counts).vertex("result").slices == 4
    assert graph(counts, sink={"slices": 2}).vertex("result").slices == 2
    assert graph(counts, sink={"slices": 9}).vertex("result").slices == 4
    ordered = graph(counts, sink={"ordered": True})
    assert ordered.vertex("result").slices == 1
    assert edge_into(ordered, "result").carries_order
    assert edge_into(ordered, "result").routing == "forward"


def test_whatever_may_die_has_a_channel_to_the_dead_letters() -> None:
    #   source ==parsed==> counts --> result      parsed runs in the source's slices, so its dead
    #      \------.dead-letters------/            rows leave from there
    found = graph(
        LogicalNode("parsed", "stateless", ("source",), may_die=True),
        stateful("counts", "parsed", may_die=True),
    )
    dead = [edge.source for edge in found.edges if edge.dead]
    assert sorted(dead) == ["counts", "source"]
    assert found.vertex(DEAD_LETTERS).slices == 1
    assert not any(edge.dead for edge in graph(stateful("counts", "source")).edges)


def test_slices_go_round_robin_over_the_nodes_in_the_order_of_joining() -> None:
    found = graph(stateful("counts", "source", slices=4))
    placed = place(found, [("b", 3), ("a", 5), ("c", 6)])
    nodes = [placed[SliceId("counts", index)] for index in range(4)]
    assert nodes == [(("b", 3),), (("a", 5),), (("c", 6),), (("b", 3),)]
    # a sink's slice stands where the slice that it writes for stands
    assert placed[SliceId("result", 2)] == placed[SliceId("counts", 2)]


def test_without_a_node_nothing_can_be_placed() -> None:
    with pytest.raises(ClusterError, match="no live node"):
        place(graph(), [])


def test_an_operator_that_ends_epochs_for_every_key_has_one_slice_and_says_why() -> None:
    found = graph(stateful("ends", "source", slices=3, every_key=True)).vertex("ends")
    assert found.slices == 1
    assert "every_key" in found.reason


ERRATIC = Traits(deterministic=False)


@pytest.mark.parametrize(
    ("operators", "sink", "refused"),
    [
        (
            [stateful("erratic", "source", traits=ERRATIC, replicas=2)],
            {},
            "operator 'erratic': its",
        ),
        (
            [
                LogicalNode("erratic", "stateless", ("source",), traits=ERRATIC),
                stateful("counts", "erratic", replicas=2),
            ],
            {},
            "operator 'counts': its replicas may differ, for 'erratic', which",
        ),
        (
            [
                stateful("before", "source", replicas=2),
                LogicalNode("erratic", "stateless", ("before",), traits=ERRATIC),
                stateful("counts", "erratic"),
            ],
            {},
            "operator 'before': its replicas may differ, for 'erratic', which",
        ),
        (
            [stateful("erratic", "source", traits=ERRATIC)],
            {"replicas": 2},
            "sink 'result': its replicas may differ, for 'erratic', which",
        ),
    ],
)
def test_what_is_not_deterministic_has_no_replicas_nor_has_what_takes_from_it(
    operators: list[LogicalNode], sink: dict[str, Any], refused: str
) -> None:
    with pytest.raises(TopologyError, match=refused):
        graph(*operators, sink=sink)


def test_nobody_gives_replicas_to_what_may_differ() -> None:
    found = graph(
        stateful("before", "source"),
        stateful("erratic", "before", traits=ERRATIC),
        stateful("behind", "erratic"),
    )
    assert alone(found) == {"erratic", "behind", "result", "result.committer"}


def test_what_runs_in_a_vertex_concerns_it_and_what_takes_from_there_alone() -> None:
    found = plan(
        [
            LogicalNode("source", "source"),
            LogicalNode("erratic", "stateless", ("source",), traits=ERRATIC, may_die=True),
            stateful("counts", "erratic"),
            stateful("beside", "source", replicas=2, may_die=True),
            LogicalNode("result", "sink", ("beside",), replicas=2),
            LogicalNode("other", "sink", ("counts",)),
        ]
    )
    letters = {DEAD_LETTERS, f"{DEAD_LETTERS}.committer"}
    assert alone(found) == {"source", "counts", "other", "other.committer", *letters}
    assert found.vertex(DEAD_LETTERS).replicas == 1
    assert found.vertex("result").replicas == 2


def alone(found: JobGraph) -> set[str]:
    return {vertex.name for vertex in found.vertices if not vertex.replicable}
