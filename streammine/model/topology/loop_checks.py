"""What must hold for the loops of a topology. Each check yields the problems that it finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streammine.model.disciplines import Discipline
from streammine.model.suggestions import listed
from streammine.model.topology.graph import operator_inputs
from streammine.model.topology.keyed import KeyedFields
from streammine.model.topology.loops import (
    Inputs,
    circles,
    cycle,
    cycle_text,
    cycle_without,
    fed,
    head_of,
    is_entered,
)
from streammine.model.topology.own_code import UserOperator
from streammine.model.topology.problems import Path, Problem
from streammine.model.topology.recent import InEventOrder

if TYPE_CHECKING:
    from streammine.model.topology.definition import Topology

Problems = Iterator[Problem]


def loop_problems(topology: Topology) -> Problems:
    """Everything that is wrong with a topology's cycles and with what is said about them."""
    inputs = operator_inputs(topology)
    reached = fed(inputs)
    heads: dict[str, tuple[str, ...]] = {}
    broken: set[str] = set()
    for members in circles(inputs):
        if not any(is_entered(name, members, inputs) for name in members):
            yield _never_entered(topology, members)
            broken.update(members)
            continue
        if members[0] not in reached:
            # what it is entered from is reported: a name that is none, or a loop that nothing enters
            broken.update(members)
            continue
        yield from _disciplines(topology, members)
        yield from _columns(topology, members, inputs)
        head = head_of(members, inputs)
        if head is None:
            yield _two_heads(topology, members, inputs)
            broken.update(members)
        else:
            heads[head] = members
    yield from _rounds(topology, heads, broken)


def _input_from(topology: Topology, name: str, members: tuple[str, ...]) -> Path:
    """Where operator `name` names its first input that is one of `members`."""
    while name not in topology.operators:
        # an output is not written down, its split is, and is in the loop as well
        (name,) = topology.every_operator[name].input_names
    operator = topology.operators[name]
    port = next(port for port, one in enumerate(operator.input_names) if one in members)
    return ("operators", name, *operator.input_place(port))


def _never_entered(topology: Topology, members: tuple[str, ...]) -> Problem:
    operators = topology.every_operator
    around = cycle({name: operators[name].input_names for name in members})
    first = next(name for name in topology.operators if name in around)
    around = _from(first, around)
    path = _input_from(topology, first, around)
    if all(operators[name].stateless for name in members):
        kinds = listed(dict.fromkeys(operators[name].kind for name in around))
        return Problem(
            path,
            f"the loop {cycle_text(around)} has stateless operators only ({kinds}): each has one "
            "input, so no row ever enters it; a loop needs an operator of your own with "
            "inputs: [NAME, NAME], a join, or a union",
        )
    return Problem(
        path,
        f"nothing leads into the loop {cycle_text(around)}: one of its operators must read from "
        "outside as well, like inputs: [NAME, NAME] of an operator of your own",
    )


def _two_heads(topology: Topology, members: tuple[str, ...], inputs: Inputs) -> Problem:
    entry = members[0]
    inner = cycle_without(entry, members, inputs)
    first = next(name for name in members if name in inner)
    return Problem(
        _input_from(topology, first, inner),
        f"a cycle inside a cycle: {cycle_text(_from(first, inner))} passes '{entry}' by, where rows "
        f"enter the loop; lead back to '{entry}' what goes round here",
    )


_LOST_IN_LOOPS = {
    Discipline.NONE: "without order no round of it ends",
    Discipline.MERGE: "the events of a round come in any order there, since a round is over when its rows "
    "are counted, not when its channels have ended it",
    Discipline.STRICT: "the events of a round come in any order there, since places in an order would "
    "grow with each round",
}


def _disciplines(topology: Topology, members: tuple[str, ...]) -> Problems:
    for name in members:
        operator = topology.every_operator[name]
        if isinstance(operator, InEventOrder):
            yield Problem(
                ("operators", name),
                f"'{name}' takes events one after the other, and in a loop those of a round come in any "
                "order; let it read what leaves a source, outside of the loop",
                at_key=True,
            )
            continue
        wish = operator.discipline if isinstance(operator, KeyedFields) else None
        if wish in _LOST_IN_LOOPS:
            yield Problem(
                ("operators", name, "discipline"),
                f"'{name}' is in a loop, and {_LOST_IN_LOOPS[wish]}; write epoch, or leave it out",
            )


def _columns(topology: Topology, members: tuple[str, ...], inputs: Inputs) -> Problems:
    """What goes round must have columns that are known without itself."""
    standard = {
        name: inputs[name]
        for name in members
        if not isinstance(topology.every_operator[name], UserOperator)
    }
    around = cycle(standard)
    if around:
        first = next(name for name in topology.operators if name in around)
        around = _from(first, around)
        yield Problem(
            _input_from(topology, first, around),
            f"the columns that go round in {cycle_text(around)} can't be known, each operator's "
            "follow from its input's; one must be code of your own, which declares its output",
        )


def _rounds(topology: Topology, heads: dict[str, tuple[str, ...]], broken: set[str]) -> Problems:
    head_by_member = {name: head for head, members in heads.items() for name in members}
    for name, operator in topology.operators.items():
        rounds = getattr(operator, "max_rounds", None)
        if rounds is None or name in heads or name in broken:
            continue
        head = head_by_member.get(name)
        if head is None:
            begins = f"loops begin at {listed(heads)}" if heads else "there is no loop here"
            text = f"'{name}' is in no loop, so it has no rounds to count; {begins}"
        else:
            text = f"the loop that '{name}' is in begins at '{head}'; write max_rounds there"
        yield Problem(("operators", name, "max_rounds"), text, at_key=True)


def _from(first: str, around: tuple[str, ...]) -> tuple[str, ...]:
    start = around.index(first)
    return around[start:] + around[:start]
