"""What `streammine check` does: sample rows for each operator, and what comes of checking it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from streammine.model.contracts import Traits
from streammine.model.errors import StreammineError
from streammine.model.topology import (
    FilesSource,
    GeneratorSource,
    LogSource,
    Topology,
)
from streammine.model.topology.recent import InEventOrder
from streammine.operators.catalog import BuiltOperator, build_operator
from streammine.operators.checking import Events, Fault, find_fault
from streammine.operators.site import Site
from streammine.simulation import SimulationSettings
from streammine.simulation.run import run_workload
from streammine.simulation.workload import Workload

AT_REST = (FilesSource, GeneratorSource, LogSource)
QUICKLY = SimulationSettings(read_rows=1 << 16, check_every=1 << 16)
"""The sample is not there to test the engine."""
MOST_EVENTS = 5000
"""Of those that reach an operator: each is given to it dozens of times."""
SPREAD_EPOCHS = 10
"""Nothing can be restored in the middle of a sample that is one epoch only."""


@dataclass(frozen=True)
class Check:
    """What came of one operator. `note` says why it was not checked, or what was left out."""

    operator: str
    status: Literal["ok", "failed", "not checked"]
    note: str = ""
    events: int = 0
    epochs: int = 0
    ways: int = 0
    problem: str = ""

    @property
    def tree(self) -> dict[str, Any]:
        """As JSON holds it."""
        return dict(vars(self))

    def lines(self, width: int) -> Iterator[str]:
        """As a person reads it, names padded to `width`."""
        text = f"{self.operator:{width}}  {self.status:11}"
        if self.status == "ok":
            epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
            text += f"  {self.events:,} events in {epochs}, {self.ways} ways of arriving"
            text += f"; {self.note}" if self.note else ""
        else:
            text += f"  {self.note}"
        yield text
        yield from (f"    {line}" for line in self.problem.splitlines())


def checks(
    topology: Topology, tables: dict[str, pa.Table], base: str, seed: int
) -> Iterator[Check]:
    """Check every operator of a topology over the rows of `tables` that reach it, in the order of the
    operators.

    `tables` hold the rows of its files. Raises TopologyError, InputError and, for user code that
    fails in front of others, JobFailedError.
    """
    sample = _Sample(topology, tables, base, seed)
    for name in topology.operators:
        yield sample.check(name)


class _Sample:
    """The rows that reach each operator, taken from one simulated run."""

    def __init__(
        self, topology: Topology, tables: dict[str, pa.Table], base: str, seed: int
    ) -> None:
        topology.check()
        self._topology = topology
        self._base = base
        self._seed = seed
        self._graph = topology.graph()
        self._live = {
            name: _live_sources(topology, self._graph.upstream(name))
            for name in self._graph.order
            if name in topology.operators
        }
        wanted = [
            stream
            for name, live in self._live.items()
            if not live
            for stream in topology.operators[name].input_names
        ]
        self._streams = _streams(topology, sorted(set(wanted)), tables, base, seed)

    def check(self, name: str) -> Check:
        if name not in self._live:
            return Check(name, "not checked", "it leads to no sink, so it is not run")
        if self._live[name]:
            live = " and ".join(map(repr, self._live[name]))
            return Check(name, "not checked", f"there is no sample of the live source {live}")
        settings = self._topology.operators[name]
        if isinstance(settings, InEventOrder):
            note = "it goes by the time and place of each event, which a sample does not hold"
            return Check(name, "not checked", note)
        schemas, events = self._events(name)

        def make(combined: bool) -> BuiltOperator:
            code = self._topology.code
            site = Site(
                name,
                schemas,
                self._topology.epoch_definition(),
                combined=combined,
                # some sort their rows only where they are read in order
                ordered=True,
                base=self._base,
                loader=lambda wanted: copy.deepcopy(code[wanted]),
                job=self._topology.name,
            )
            return build_operator(settings, site)

        return _checked(name, make, events, self._seed)

    def _events(self, name: str) -> tuple[list[pa.Schema], Events]:
        """The schemas of the operator's ports, and the rows that reach them."""
        inputs = [self._streams[each] for each in self._topology.operators[name].input_names]
        epochs = {
            epoch: tuple(
                _whole(each.epochs.get(epoch, each.schema.empty_table())) for each in inputs
            )
            for epoch in sorted({epoch for each in inputs for epoch in each.epochs})
        }
        events = Events(self._topology.epoch_definition(), epochs)
        return [each.schema for each in inputs], events.at_most(MOST_EVENTS)


@dataclass(frozen=True)
class _Stream:
    schema: pa.Schema
    epochs: dict[int, pa.Table]


def _checked(name: str, make: Callable[[bool], BuiltOperator], events: Events, seed: int) -> Check:
    try:
        operator = make(False)
    except StreammineError as error:
        return Check(name, "failed", "can't be made", problem=str(error))
    traits: Traits | None = getattr(operator, "traits", None)
    deterministic = getattr(operator if traits is None else traits, "deterministic", True)
    commutative = traits is None or traits.commutative
    ports = len(next(iter(events.epochs.values()), ()))
    rows = len(events.rows)
    if not deterministic:
        return Check(name, "not checked", "it says of itself that it is not deterministic")
    if not rows:
        return Check(name, "not checked", "no row of the sample reaches it; take more (--rows)")
    if not commutative and ports > 1:
        note = f"it is not commutative, and the order between its {ports} inputs is not sampled"
        return Check(name, "not checked", note)
    if traits is None and ports > 1:
        note = f"it passes on the rows of {ports} inputs, which have no order among each other"
        return Check(name, "not checked", note)
    notes = []
    if not commutative:
        notes.append("never shuffled, as it is not commutative")
    if len(events.epochs) == 1:
        events = events.spread(SPREAD_EPOCHS)
        notes.append("they are of one epoch, and were shared out")
    combines = traits is not None and traits.combinable
    try:
        finding = find_fault(make, events, seed, combines)
    except StreammineError as error:
        note = "raises while its events come in order"
        return Check(name, "failed", note, rows, len(events.epochs), 1, str(error))
    status: Literal["ok", "failed"] = "ok"
    problem = ""
    if isinstance(finding.fault, Fault):
        status, notes = "failed", [finding.fault.trial.offence]
        problem = str(finding.fault)
    return Check(name, status, "; ".join(notes), rows, len(events.epochs), finding.trials, problem)


def _live_sources(topology: Topology, upstream: frozenset[str]) -> list[str]:
    return sorted(
        name
        for name in upstream
        if name in topology.sources and not isinstance(topology.sources[name], AT_REST)
    )


def _streams(
    topology: Topology, names: list[str], tables: dict[str, pa.Table], base: str, seed: int
) -> dict[str, _Stream]:
    """The rows of these streams by epoch, in their order: each of them gets a sink of its own."""
    if not names:
        return {}
    taken = {*topology.sources, *topology.operators}
    sinks = {}
    for number, name in enumerate(names):
        sink = f"stream_{number}"
        while sink in taken:
            sink += "_"
        sinks[name] = sink
    # an operator that gets no order, or one without positions, has no order to give
    operators = {
        name: operator.model_copy(update={"discipline": None})
        if hasattr(operator, "discipline")
        else operator
        for name, operator in topology.operators.items()
    }
    tapped = topology.model_copy(update={"sinks": {}, "operators": operators})
    for name, sink in sinks.items():
        tapped = tapped.sink(sink, input=name, format="console", ordered=True)
    used = tapped.graph().order
    given = {name: table for name, table in tables.items() if name in used}
    workload = Workload(tapped, given, base)
    result = run_workload(workload, seed=seed, nodes=1, settings=QUICKLY)
    return {
        name: _Stream(
            workload.compiled.streams[name].schema,
            {number: table for number, table in result.outputs[sink].items() if table.num_rows},
        )
        for name, sink in sinks.items()
    }


def _whole(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], schema=table.schema)
    ]
    return batch
