"""Loops in the plan: where they are, what each edge is to them, and what can't be run."""

from __future__ import annotations

import pytest

from streammine.engine.planner import LogicalNode, plan
from streammine.model.contracts import Traits
from streammine.model.disciplines import Discipline
from streammine.model.errors import TopologyError
from streammine.model.job import JobGraph, Loop
from streammine.model.schemes import Scheme


def node(name: str, *inputs: str, kind: str = "stateful", **fields: object) -> LogicalNode:
    return LogicalNode(name, kind, inputs, **fields)  # type: ignore[arg-type]


def edges(graph: JobGraph) -> dict[str, str]:
    return {
        f"{each.source}-{'-'.join((*each.stages, each.target))}": each.kind for each in graph.edges
    }


def test_every_edge_knows_where_it_lies() -> None:
    # lines -> head -> member -(stage)-> head; member -> after -> out
    graph = plan(
        [
            node("lines", kind="source"),
            node("head", "lines", "stage", max_rounds=7),
            node("member", "head"),
            node("stage", "member", kind="stateless"),
            node("after", "member"),
            node("out", "after", kind="sink"),
        ]
    )
    assert graph.loops == (Loop("head", ("head", "member"), (("member", "head"),), 7),)
    assert edges(graph) == {
        "lines-head": "entry",
        "member-stage-head": "back",
        "head-member": "inside",
        "member-after": "exit",
        "after-out": "plain",
        "out-out.committer": "plain",
    }


def test_replicas_in_a_loop_stand_by_processing_but_for_those_on_a_crowded_node() -> None:
    graph = plan(
        [
            node("lines", kind="source"),
            node("head", "lines", "head"),
            node("out", "head", kind="sink"),
        ]
    )
    hot, cold = Scheme.PASSIVE_STANDBY_HOT, Scheme.PASSIVE_STANDBY_COLD
    assert graph.rung_of("head", hot) is Scheme.ACTIVE_STANDBY
    assert graph.rung_of("out", Scheme.ACTIVE_REPLICATION, crowded=True) is hot
    for wanted in (hot, Scheme.ACTIVE_STANDBY, Scheme.ACTIVE_REPLICATION):
        assert graph.rung_of("head", wanted, crowded=True) is cold


def test_an_operator_may_read_from_itself_and_rounds_have_a_default() -> None:
    graph = plan(
        [
            node("lines", kind="source"),
            node("again", "head", kind="stateless"),
            node("head", "lines", "again"),
            node("out", "head", kind="sink"),
        ]
    )
    assert graph.loops == (Loop("head", ("head",), (("head", "head"),), 1000),)
    assert edges(graph)["head-again-head"] == "back"


def test_between_two_loops_an_edge_is_an_exit_at_one_end_and_an_entry_at_the_other() -> None:
    graph = plan(
        [
            node("lines", kind="source"),
            node("a", "lines", "a"),
            node("b", "a", "b"),
            node("out", "b", kind="sink"),
        ]
    )
    assert [loop.head for loop in graph.loops] == ["a", "b"]
    (between,) = (edge for edge in graph.edges if (edge.source, edge.target) == ("a", "b"))
    assert graph.kind_at("a", between) == "exit"
    assert graph.kind_at("b", between) == "entry"
    assert graph.kind_at("lines", graph.edges[0]) == "plain"


def test_without_a_loop_nothing_changes() -> None:
    graph = plan([node("lines", kind="source"), node("a", "lines"), node("o", "a", kind="sink")])
    assert graph.loops == ()
    assert {each.kind for each in graph.edges} == {"plain"}


def test_a_cycle_inside_a_cycle_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"'a' and 'b' both read .* a cycle inside a cycle"):
        plan(
            [
                node("lines", kind="source"),
                node("a", "lines", "c"),
                node("b", "a", "c"),
                node("c", "b"),
            ]
        )


def test_a_head_reads_from_outside() -> None:
    with pytest.raises(TopologyError, match="'a' begins a loop, so it must also read from outside"):
        plan([node("lines", kind="source"), node("a", "b"), node("b", "a", "lines")])


def test_a_cycle_needs_an_operator_with_state() -> None:
    with pytest.raises(TopologyError, match="a, b form a cycle, and none of them keeps state"):
        plan(
            [
                node("a", "b", kind="stateless"),
                node("b", "a", kind="stateless"),
                node("o", "a", kind="sink"),
            ]
        )


def test_order_inside_a_round_is_refused() -> None:
    for fields in (
        {"traits": Traits(commutative=False)},
        {"discipline": Discipline.STRICT},
        {"discipline": Discipline.MERGE},
        {"discipline": Discipline.NONE},
    ):
        with pytest.raises(
            TopologyError, match="in a loop the events of a round come in any order"
        ):
            plan([node("lines", kind="source"), node("a", "lines", "a", **fields)])


def test_what_waits_for_the_end_of_the_input_is_refused() -> None:
    with pytest.raises(TopologyError, match="it can't have `end_input`"):
        plan([node("lines", kind="source"), node("a", "lines", "a", ends_input=True)])
