"""Loops in topologies: which operator is the head, what leads back to it, and what is refused."""

import pytest

from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.model.topology import OperatorLoop, Topology

DOCUMENT = """\
epoch: {count: 100}
sources:
  edges: {files: edges.csv, schema: {u: int64, v: int64}, prepare: none}
operators:
OPERATORS
sinks:
  result: {input: SINK, format: csv, path: out}
"""


def document(*operators: str, sink: str = "a") -> str:
    """The first operator stands in line 5."""
    lines = "\n".join(f"  {operator}" for operator in operators)
    return DOCUMENT.replace("OPERATORS", lines).replace("SINK", sink)


def loops(*operators: str, sink: str = "a") -> tuple[OperatorLoop, ...]:
    return parse_topology(document(*operators, sink=sink), "t.yaml").graph().loops


def refused(*operators: str) -> str:
    with pytest.raises(TopologyError) as caught:
        parse_topology(document(*operators), "t.yaml")
    return str(caught.value)


def test_an_operator_may_read_from_a_later_one():
    # edges ─→ a ─→ b
    #          ↑────┘
    topology = parse_topology(
        document("a: {inputs: [edges, b], operator: m:A}", "b: {input: a, map: {u: u}}"), "t.yaml"
    )
    graph = topology.graph()
    assert graph.loops == (OperatorLoop("a", ("a", "b"), ("b",), 1000),)
    assert graph.order == ("edges", "a", "b", "result")
    assert graph.upstream("a") == {"edges", "a", "b"}
    assert graph.downstream("b") == {"a", "b", "result"}
    assert Topology.model_validate(topology.model_dump(mode="json")).graph() == graph


def test_python_builds_the_same():
    topology = (
        Topology(epoch={"count": 100})
        .source("edges", files="edges.csv", schema={"u": "int64", "v": "int64"}, prepare="none")
        .operator("a", inputs=["edges", "b"], operator="m:A", max_rounds=7)
        .operator("b", input="a", map={"u": "u"})
        .sink("result", input="a", format="csv", path="out")
        .check()
    )
    assert topology.graph().loops == (OperatorLoop("a", ("a", "b"), ("b",), 7),)


def test_an_operator_may_read_from_itself():
    found = loops("a: {inputs: [edges, a], operator: m:A, max_rounds: 1000000}")
    assert found == (OperatorLoop("a", ("a",), ("a",), 1_000_000),)


def test_the_head_is_where_rows_come_first_even_if_it_is_declared_last():
    found = loops("b: {input: a, map: {u: u}}", "a: {inputs: [edges, b], operator: m:A}")
    assert found == (OperatorLoop("a", ("a", "b"), ("b",), 1000),)


def test_where_rows_enter_twice_the_first_declared_is_the_head():
    # edges ─→ a ⇄ b ←─ edges
    both = ("a: {inputs: [edges, b], operator: m:A}", "b: {inputs: [edges, a], operator: m:B}")
    assert [one.head for one in loops(*both)] == ["a"]
    assert [one.head for one in loops(*reversed(both))] == ["b"]


def test_the_head_lies_on_all_cycles_even_if_rows_enter_elsewhere_first():
    # edges ─→ a ⇄ b ←─ edges, b → b: only b lies on both cycles
    found = loops(
        "a: {inputs: [edges, b], operator: m:A}", "b: {inputs: [edges, a, b], operator: m:B}"
    )
    assert found == (OperatorLoop("b", ("b", "a"), ("a", "b"), 1000),)


def test_several_back_edges_lead_to_one_head():
    #  edges ─→ a ─→ b ─→ c, b → a, c → a
    found = loops(
        "a: {inputs: [edges, b, c, b], operator: m:A}",
        "b: {input: a, map: {u: u}}",
        "c: {inputs: [b, edges], operator: m:C}",
    )
    assert found == (OperatorLoop("a", ("a", "b", "c"), ("b", "c"), 1000),)


def test_a_join_may_be_a_head_where_the_user_declares_the_columns():
    found = loops("a: {join: {left: edges, right: b, on: u}}", "b: {input: a, operator: m:B}")
    assert [one.head for one in found] == ["a"]


def test_a_topology_may_have_several_loops():
    found = loops(
        "b: {inputs: [a, c], operator: m:B, max_rounds: 5}",
        "a: {inputs: [edges, a], operator: m:A, max_rounds: 3}",
        "c: {input: b, filter: u > 3}",
        sink="c",
    )
    assert found == (
        OperatorLoop("a", ("a",), ("a",), 3),
        OperatorLoop("b", ("b", "c"), ("c",), 5),
    )


def test_a_loop_that_leads_to_no_sink_is_not_run():
    topology = parse_topology(
        document("a: {input: edges, filter: u > 3}", "b: {inputs: [a, b], operator: m:B}"), "t.yaml"
    )
    assert topology.graph().loops == ()
    assert topology.warnings() == [
        "'b' leads to no sink, so it is not run; give it a sink or take it out"
    ]


MISTAKES = {
    "a self-reference of a stateless operator": (
        ["a: {input: a, filter: u > 3}"],
        "5:14: operators.a.input",
        "the loop a → a has stateless operators only (filter)",
        "inputs: [NAME, NAME]",
    ),
    "stateless operators only": (
        ["a: {input: b, filter: u > 3}", "b: {input: a, map: {u: u}}"],
        "5:14: operators.a.input",
        "the loop a → b → a has stateless operators only (filter, map)",
        "inputs: [NAME, NAME]",
    ),
    "nothing enters": (
        ["b: {input: a, map: {u: u}}", "a: {input: b, key: u, aggregate: {n: count()}}"],
        "5:14: operators.b.input",
        "nothing leads into the loop b → a → b",
        "one of its operators must read from outside as well",
    ),
    "nothing enters what enters": (
        [
            "a: {inputs: [a, b], operator: m:A}",
            "b: {inputs: [a, b], operator: m:A}",
            "c: {inputs: [d, c], operator: m:A}",
            "d: {inputs: [c, a], operator: m:A}",
        ],
        "5:16: operators.a.inputs.0",
        "nothing leads into the loop a → a",
        "one of its operators must read from outside as well",
    ),
    "a cycle inside a cycle": (
        [
            "a: {inputs: [edges, b], operator: m:A}",
            "b: {inputs: [a, c], operator: m:B, max_rounds: 3}",
            "c: {inputs: [b, a], operator: m:C}",
        ],
        "6:19: operators.b.inputs.1",
        "a cycle inside a cycle: b → c → b passes 'a' by",
        "lead back to 'a'",
    ),
    "an operator that reads from itself inside a cycle": (
        ["a: {inputs: [edges, b], operator: m:A}", "b: {inputs: [a, b], operator: m:B}"],
        "6:19: operators.b.inputs.1",
        "a cycle inside a cycle: b → b passes 'a' by",
        "lead back to 'a'",
    ),
    "columns that nobody declares": (
        ["a: {join: {left: edges, right: b, on: u}}", "b: {input: a, map: {u: u}}"],
        "5:34: operators.a.join.right",
        "the columns that go round in a → b → a can't be known",
        "one must be code of your own",
    ),
    "no order": (
        [
            "a: {inputs: [edges, b], operator: m:A}",
            "b: {input: a, operator: m:B, discipline: none}",
        ],
        "6:44: operators.b.discipline",
        "'b' is in a loop, and without order no round of it ends",
        "write epoch, or leave it out",
    ),
    "the order of the channels": (
        [
            "a: {inputs: [edges, b], operator: m:A}",
            "b: {input: a, operator: m:B, discipline: merge}",
        ],
        "6:44: operators.b.discipline",
        "a round is over when its rows are counted, not when its channels have ended it",
        "write epoch, or leave it out",
    ),
    "strict order": (
        [
            "a: {inputs: [edges, b], operator: m:A}",
            "b: {input: a, operator: m:B, discipline: strict}",
        ],
        "6:44: operators.b.discipline",
        "'b' is in a loop, and the events of a round come in any order there",
        "write epoch, or leave it out",
    ),
    "event order": (
        [
            "a: {inputs: [edges, b], operator: m:A}",
            "b: {input: a, key: u, recent: {n: count()}, within: 5s}",
        ],
        "6:3: operators.b",
        "'b' takes events one after the other, and in a loop those of a round come in any order",
        "let it read what leaves a source",
    ),
    "max_rounds at another member": (
        [
            "a: {inputs: [edges, b], operator: m:A}",
            "b: {input: a, operator: m:B, max_rounds: 9}",
        ],
        "6:32: operators.b.max_rounds",
        "begins at 'a'",
        "write max_rounds there",
    ),
    "max_rounds outside of the loops": (
        [
            "a: {inputs: [edges, a], operator: m:A}",
            "b: {input: a, key: u, aggregate: {n: count()}, max_rounds: 9}",
        ],
        "6:50: operators.b.max_rounds",
        "'b' is in no loop",
        "loops begin at a",
    ),
    "max_rounds without loops": (
        ["a: {input: edges, operator: m:A, max_rounds: 9}"],
        "5:36: operators.a.max_rounds",
        "'a' is in no loop",
        "there is no loop here",
    ),
    "max_rounds at a stateless operator": (
        ["a: {inputs: [edges, b], operator: m:A}", "b: {input: a, filter: u, max_rounds: 9}"],
        "6:28: operators.b.max_rounds",
        "a filter has no 'max_rounds'",
        "the operator that a loop begins at",
    ),
    "no round": (
        ["a: {inputs: [edges, a], operator: m:A, max_rounds: 0}"],
        "5:54: operators.a.max_rounds",
        "not 0",
        "at least 1",
    ),
    "too many rounds": (
        ["a: {inputs: [edges, a], operator: m:A, max_rounds: 1000001}"],
        "5:54: operators.a.max_rounds",
        "not 1000001",
        "at most 1000000",
    ),
    "a typing error in a back-edge": (
        ["a: {inputs: [edges, spraed], operator: m:A}", "spread: {input: a, filter: u > 3}"],
        "5:23: operators.a.inputs.1",
        "there is no source or operator 'spraed'",
        "did you mean 'spread'?",
    ),
    "a sink in a cycle": (
        ["a: {inputs: [edges, result], operator: m:A}"],
        "5:23: operators.a.inputs.1",
        "'result' is a sink",
        "read from its input 'a'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_loop_is_refused_with_its_place_and_what_would_be_right(mistake):
    operators, place, wrong, right = MISTAKES[mistake]
    lines = refused(*operators).splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"t.yaml:{place}: ")
    assert wrong in lines[0]
    assert right in lines[0]


def test_a_source_in_a_cycle_is_refused():
    text = document("a: {input: edges, operator: m:A}").replace(
        "edges.csv,", "edges.csv, input: a,"
    )
    with pytest.raises(TopologyError, match=r"t.yaml:3:29: .* no 'input': a source's rows come"):
        parse_topology(text, "t.yaml")
