"""Discipline merge: what it is taken for, what it forces upstream, and what it can't stand beside."""

from __future__ import annotations

from typing import Any

import pytest

from streammine.engine.planner import LogicalNode, plan
from streammine.model.contracts import Traits
from streammine.model.disciplines import Discipline
from streammine.model.errors import TopologyError
from streammine.model.job import Edge, JobGraph

ORDER_SENSITIVE = Traits(commutative=False, mergeable=False)
MERGE = Discipline.MERGE


def own(name: str, *inputs: str, **fields: Any) -> LogicalNode:
    """An operator that depends on the order of its events, as do the positions of its rows."""
    fields = {"traits": ORDER_SENSITIVE, "positioned": True, "discipline": MERGE} | fields
    return LogicalNode(name, "stateful", inputs, **fields)


def graph(*operators: LogicalNode, ordered: bool = False) -> JobGraph:
    """source -> operators … -> result"""
    sink = LogicalNode("result", "sink", (operators[-1].name,), ordered=ordered)
    return plan([LogicalNode("source", "source"), *operators, sink])


def into(found: JobGraph, target: str) -> list[Edge]:
    return [edge for edge in found.edges if edge.target == target]


def test_the_planner_takes_merge_where_it_is_asked_for_and_says_what_it_promises() -> None:
    vertex = graph(own("chain", "source")).vertex("chain")
    assert vertex.discipline is MERGE
    assert "bags in the order of their channels" in vertex.reason
    assert "as long as it and what leads to it keep their numbers of slices" in vertex.reason
    assert graph(own("chain", "source", discipline=None)).vertex("chain").discipline is (
        Discipline.STRICT
    )


def test_what_is_merged_comes_in_one_sequence_and_carries_no_positions() -> None:
    #   source ==clean==> chain --> result
    found = graph(LogicalNode("clean", "stateless", ("source",)), own("chain", "clean"))
    (edge,) = into(found, "chain")
    assert (edge.sequenced, edge.carries_order, edge.combined) == (True, False, False)
    assert not any(edge.sequenced for edge in into(found, "result"))


def test_a_commutative_operator_under_merge_is_combined_and_takes_rows_in_any_order() -> None:
    traits = Traits(combinable=True)
    found = graph(own("counts", "source", traits=traits, positioned=False))
    (edge,) = into(found, "counts")
    assert (edge.sequenced, edge.carries_order, edge.combined) == (False, False, True)
    assert "any order gives its bytes" in found.vertex("counts").reason


def test_merge_behind_an_operator_without_any_order_is_refused() -> None:
    loose = LogicalNode("loose", "stateful", ("source",), discipline=Discipline.NONE)
    between = LogicalNode("counts", "stateful", ("loose",))
    for operators in ((loose, own("chain", "loose")), (loose, between, own("chain", "counts"))):
        with pytest.raises(TopologyError, match=r"'loose'.*has discipline none; use epoch") as told:
            graph(*operators)
        assert told.value.part == "chain"


@pytest.mark.parametrize("discipline", [None, Discipline.STRICT])
def test_strict_order_behind_rows_without_positions_is_refused(
    discipline: Discipline | None,
) -> None:
    with pytest.raises(TopologyError, match="'chain' have none under discipline merge") as told:
        graph(own("chain", "source"), own("after", "chain", discipline=discipline))
    assert told.value.part == "after"
    assert "write strict for 'chain', or merge for 'after' too" in str(told.value)


def test_an_ordered_sink_behind_rows_without_positions_is_refused() -> None:
    with pytest.raises(TopologyError, match="sink 'result' with ordered: true") as told:
        graph(own("chain", "source"), ordered=True)
    assert told.value.part == "result"


def test_rows_that_are_ordered_by_their_own_columns_may_be_put_in_order_behind_merge() -> None:
    found = graph(own("reduced", "source", positioned=False), ordered=True)
    (edge,) = into(found, "result")
    assert edge.carries_order


def test_merge_may_follow_merge_strict_and_epoch() -> None:
    #   source --> strict --> merged --> counts --> again --> result
    found = graph(
        own("strict", "source", discipline=Discipline.STRICT),
        own("merged", "strict"),
        LogicalNode("counts", "stateful", ("merged",)),
        own("again", "counts"),
    )
    assert [edge.target for edge in found.edges if edge.sequenced] == ["merged", "again"]
    assert [edge.target for edge in found.edges if edge.carries_order] == ["strict"]
