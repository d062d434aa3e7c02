"""What users test their topologies and operators with.

`simulate` runs a whole topology on virtual nodes, in milliseconds and without a file, a socket or a
process. `assert_deterministic` runs it under many seeds, each with other delays, other numbers of nodes and
of slices, and other read sizes, and wants one output. `check_operator` tries other orders, batches and
restores on a single operator.

>>> import pyarrow as pa
>>> from streammine import Topology
>>> from streammine.testing import assert_deterministic, assert_rows, simulate
>>> topology = (
...     Topology(name="words", epoch={"count": 2})
...     .source("lines", files="lines.txt")
...     .operator("words", input="lines", flat_map={"split": "line", "into": "word"})
...     .operator("counts", input="words", key="word", aggregate={"count": "count()"})
...     .sink("result", input="counts", format="console")
... )
>>> lines = pa.table({"line": ["a b a", "b", "a"]})
>>> result = simulate(topology, {"lines": lines}, seed=1)
>>> assert_rows(result.table("result"), [(0, "a", 2), (0, "b", 2), (1, "a", 1)])
>>> result.outputs["result"][1].to_pylist()
[{'epoch': 1, 'word': 'a', 'count': 1}]
>>> assert_deterministic(topology, {"lines": lines}, seeds=range(3)).digest == result.digest
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from streammine.model.disciplines import Discipline
from streammine.model.topology import KeyedFields, Topology
from streammine.model.topology.partitions import HashPartition
from streammine.operators.checking import check_operator
from streammine.simulation import (
    SimulationError,
    SimulationResult,
    SimulationSettings,
    simulate,
)
from streammine.simulation.workload import Inputs, Workload

__all__ = [
    "SimulationError",
    "SimulationResult",
    "SimulationSettings",
    "assert_deterministic",
    "assert_rows",
    "check_operator",
    "simulate",
]

_READ_ROWS = (3, 17, 64, 1024)
_SLICES = (None, 1, 3)
_ANY_SLICES = (Discipline.EPOCH, Discipline.STRICT)


def assert_rows(table: pa.Table, expected: Iterable[Sequence[Any]], ordered: bool = False) -> None:
    """The table holds these rows (values in the order of its columns), as often, and no others.

    `ordered`: in this order, too. Raises AssertionError with the rows that are missing or too many.
    """
    found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    wanted = [tuple(row) for row in expected]
    missing = Counter(map(repr, wanted)) - Counter(map(repr, found))
    surplus = Counter(map(repr, found)) - Counter(map(repr, wanted))
    assert missing == surplus, (
        f"missing rows: {sorted(missing.elements())[:10]}; "
        f"rows too many: {sorted(surplus.elements())[:10]}"
    )
    if ordered:
        for place, (row, right) in enumerate(zip(found, wanted, strict=True)):
            assert repr(row) == repr(right), f"row {place} is {row}, expected {right}"


def assert_deterministic(
    topology: Topology,
    inputs: Inputs | None = None,
    *,
    seeds: Iterable[int] = range(20),
    nodes: Sequence[int] = (1, 2, 3, 4),
    slices: Sequence[int | None] = _SLICES,
    base: str = ".",
    settings: SimulationSettings | None = None,
) -> SimulationResult:
    """Every seed gives the same output, byte for byte, on whatever nodes; returns the first run.

    Each seed takes the next number of `nodes`, another size of reads, and the next number of `slices`: so
    many has each operator with a key that is shared by hash, or as many as the topology says (None). These
    stay as they are where the discipline of some operator goes by channels (merge, none or consensus), for
    its output is the same for fixed numbers of slices only. Raises AssertionError that names the seed, sink
    and epoch that differ, and whatever `simulate` raises.
    """
    first: SimulationResult | None = None
    first_seed = 0
    graph = Workload(topology, inputs, base).compiled.graph
    if any(each.discipline not in _ANY_SLICES for each in graph.vertices):
        slices = (None,)
    for turn, seed in enumerate(seeds):
        base_settings = settings or SimulationSettings()
        chosen = replace(base_settings, read_rows=_READ_ROWS[turn % len(_READ_ROWS)])
        result = simulate(
            _with_slices(topology, slices[turn % len(slices)]),
            inputs,
            seed=seed,
            nodes=nodes[turn % len(nodes)],
            base=base,
            settings=chosen,
        )
        if first is None:
            first, first_seed = result, seed
        elif result.digest != first.digest:
            raise AssertionError(
                f"seed {seed} gives another output than seed {first_seed}: "
                f"{_difference(first, result)}"
            )
    assert first is not None, "give at least one seed"
    return first


def _with_slices(topology: Topology, slices: int | None) -> Topology:
    """Whatever shares its keys by hash has so many slices; None: as many as before."""
    if slices is None:
        return topology
    operators = {
        name: operator.model_copy(update={"slices": slices})
        if isinstance(operator, KeyedFields)
        and isinstance(operator.partition, HashPartition)
        and any(operator.key_columns)
        else operator
        for name, operator in topology.operators.items()
    }
    return topology.model_copy(update={"operators": operators})


def _difference(left: SimulationResult, right: SimulationResult) -> str:
    """The first sink and epoch in which two runs differ."""
    for sink, epochs in left.outputs.items():
        others = right.outputs[sink]
        for epoch in sorted(epochs.keys() | others.keys()):
            rows, other_rows = (
                [] if each.get(epoch) is None else list(map(repr, each[epoch].to_pylist()))
                for each in (epochs, others)
            )
            only_left = list((Counter(rows) - Counter(other_rows)).elements())[:3]
            only_right = list((Counter(other_rows) - Counter(rows)).elements())[:3]
            if only_left or only_right:
                return f"sink {sink!r}, epoch {epoch}: {only_left} against {only_right}"
            if rows != other_rows:
                return f"sink {sink!r}, epoch {epoch}: the same rows in another order"
    return "in what is not seen in rows: types or bits of floats"
