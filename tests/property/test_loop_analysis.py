"""Loops of any graph: what the analysis says of them, against reachability tried out node by node."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.topology import Topology
from streammine.model.topology.loops import circles, cycle, cycle_without, fed, head_of, is_entered

Inputs = dict[str, tuple[str, ...]]


@st.composite
def graphs(draw: st.DrawFn) -> Inputs:
    """Operators that read from one source and from each other, declared in any order."""
    names = draw(st.permutations("abcdef"[: draw(st.integers(1, 6))]))
    inputs: Inputs = {"source": ()}
    for name in names:
        inputs[name] = tuple(
            draw(st.lists(st.sampled_from(["source", *names]), min_size=1, max_size=3))
        )
    return inputs


def reached(inputs: Inputs, start: str) -> set[str]:
    """Everything that `start` gets rows from."""
    found: set[str] = set()
    waiting = list(inputs.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name in inputs and name not in found:
            found.add(name)
            waiting += inputs[name]
    return found


def without(inputs: Inputs, left_out: str) -> Inputs:
    return {name: names for name, names in inputs.items() if name != left_out}


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_the_members_of_a_loop_reach_each_other_and_nothing_else_does(inputs: Inputs) -> None:
    found = circles(inputs)
    expected = {
        frozenset(
            other
            for other in inputs
            if name in reached(inputs, other) and other in reached(inputs, name)
        )
        for name in inputs
        if name in reached(inputs, name)
    }
    assert {frozenset(members) for members in found} == expected
    assert len(found) == len(expected)


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_a_head_is_entered_and_lies_on_all_cycles(inputs: Inputs) -> None:
    for members in circles(inputs):
        among = {name: inputs[name] for name in members}
        fit = [
            name
            for name in members
            if is_entered(name, members, inputs)
            and not any(
                other in reached(without(among, name), other) for other in without(among, name)
            )
        ]
        head = head_of(members, inputs)
        assert head == (fit[0] if fit else None)
        around = cycle_without(members[0], members, inputs)
        assert members[0] not in around
        if members[0] in fed(inputs):
            assert is_entered(members[0], members, inputs)
            assert bool(around) == (members[0] != head)


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_what_is_fed_gets_rows_from_the_source(inputs: Inputs) -> None:
    assert fed(inputs) == {
        name for name in inputs if name == "source" or "source" in reached(inputs, name)
    }


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_a_cycle_leads_round(inputs: Inputs) -> None:
    around = cycle(inputs)
    assert bool(around) == any(name in reached(inputs, name) for name in inputs)
    for before, name in zip((*around[-1:], *around[:-1]), around, strict=True):
        assert before in inputs[name]


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_in_the_order_only_back_edges_go_backwards(inputs: Inputs) -> None:
    if any(head_of(members, inputs) is None for members in circles(inputs)) or fed(inputs) < set(
        inputs
    ):
        return
    topology = Topology(epoch={"count": 10}).source("source", files="a.txt")
    for name, names in inputs.items():
        if names:
            topology = topology.operator(name, inputs=list(names), operator="m:A")
    for name in inputs:
        topology = topology.sink(f"sink-{name}", input=name, format="console")
    graph = topology.check().graph()
    places = {name: place for place, name in enumerate(graph.order)}
    backwards = {
        (name, one)
        for name, names in graph.inputs.items()
        for one in names
        if places[one] >= places[name]
    }
    assert backwards == {(loop.head, one) for loop in graph.loops for one in loop.back}
    assert [loop.head for loop in graph.loops] == sorted(
        (loop.head for loop in graph.loops), key=places.__getitem__
    )
    for loop in graph.loops:
        assert loop.members[0] == loop.head
        assert list(loop.members) == sorted(loop.members, key=places.__getitem__)
