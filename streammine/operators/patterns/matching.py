"""From a pattern's settings to its matches in one epoch, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from streammine.model.canonical import canonical_order
from streammine.model.contracts import IntArray
from streammine.model.topology.aggregates import AggregateCall
from streammine.model.topology.pattern_parts import leaves
from streammine.model.topology.patterning import Pattern
from streammine.operators.aggregates.definitions import Aggregate
from streammine.operators.aggregates.functions import aggregate
from streammine.operators.kernels.columns import fixed_values
from streammine.operators.patterns.choosing import Choosing
from streammine.operators.patterns.combinations import BoolArray, Combinations, Judge
from streammine.operators.patterns.combining import Combining
from streammine.operators.patterns.conditions import conditions_of, output_expressions
from streammine.operators.patterns.intake import FITS, TIME
from streammine.operators.patterns.plans import BEFORE, BEHIND, FOCUS, Plan, plan_of
from streammine.operators.patterns.references import (
    AGGREGATES,
    ENDS,
    PREVIOUS,
    EventExpression,
    Scope,
    columns_read,
    reference_type,
)
from streammine.operators.patterns.search import Budget, Places
from streammine.operators.patterns.timeline import Timeline, rows_of_keys


class EpochSpan(NamedTuple):
    """An epoch, of time [start, end) in microseconds."""

    number: int
    start: int
    end: int


class Matcher:
    """A pattern over rows of one schema.

    `numbers` of its events; `own`: what rows must fulfil to be candidates for them; `columns_read` are
    needed of rows, `columns_kept` still of candidates. `spans`: how many times `within` a row is of use.
    """

    def __init__(self, operator: str, schema: pa.Schema, pattern: Pattern) -> None:
        """Raises TopologyError."""
        self._operator = operator
        self._pattern = pattern
        self._within = pattern.within.microseconds
        events = {leaf.name: leaf for leaf in leaves(pattern.root)}
        scope = Scope(operator, events, schema)
        conditions = conditions_of(scope, pattern.where)
        self.own = conditions.own
        self.numbers = {name: number for number, name in enumerate(events)}
        self._plans = [
            plan_of(each, conditions.between, pattern.matching) for each in pattern.alternatives
        ]
        self._output = output_expressions(scope, pattern.output)
        self.output = [
            pa.field(column, checked.expression.type) for column, checked in self._output.items()
        ]
        late = [each.checked for each in conditions.between] + list(self._output.values())
        self.columns_read = columns_read([*late, *self.own.values()])
        self.columns_kept = columns_read(late)
        if pattern.matching != "any" or _depends_on_order(late):
            # what order equal times stand in follows from all that is read of rows
            self.columns_kept = self.columns_read
        self._types = _types(scope, late)
        self._aggregates = _aggregates(scope, late)
        self.spans = max(2 if plan.waits and plan.looks_back else 1 for plan in self._plans)
        self.kept_bits = self._kept_bits()
        self.waiting_bits = self._bits(
            step.event.name
            for plan in self._plans
            if plan.waits
            for step in plan.steps[: plan.anchors]
        )

    def matches(
        self, rows: pa.RecordBatch, keys: tuple[str, ...], epoch: EpochSpan, schema: pa.Schema
    ) -> pa.RecordBatch:
        """The matches that leave in an epoch, in canonical order and in `schema`, of all `rows` before its
        end. Raises UserCodeError where there are too many combinations."""
        wanted = self._anchors(rows, epoch)
        if not wanted.any():
            return empty_batch(schema)
        timeline = Timeline(rows_of_keys(rows, keys, wanted), self._within)
        budget = Budget(self._operator, epoch.number, self._pattern.limit, timeline)
        batches = []
        for plan in self._plans:
            judge = Judge(self._operator, timeline, self._aggregates, forward=plan.forward)
            search = Choosing if plan.matching == "next" else Combining
            places = self._places(plan, timeline.times, epoch)
            for found in search(plan, timeline, places, self.numbers, judge, budget).matches():
                batches.append(self._leaving(epoch.number, found, judge, schema))
        if not batches:
            return empty_batch(schema)
        left = pa.concat_batches(batches)
        return left.take(pa.array(canonical_order(left)))

    def _anchors(self, rows: pa.RecordBatch, epoch: EpochSpan) -> BoolArray:
        """Which rows can be what makes a match leave now (bool[rows]): keys without such a row have none."""
        times, fits = fixed_values(rows.column(TIME)), fixed_values(rows.column(FITS))
        found = np.zeros(rows.num_rows, np.bool_)
        for plan in self._plans:
            # `next` goes forwards, and yet a match is new if its last event is
            at_end = plan.forward and not plan.waits
            steps = plan.steps[-1:] if at_end else plan.steps[: plan.anchors]
            bits = self._bits(step.event.name for step in steps)
            places = self._places(plan, times, epoch)
            found |= (places == FOCUS) & (fits & np.uint64(bits) != 0)
        return found

    def _leaving(
        self, epoch: int, found: Combinations, judge: Judge, schema: pa.Schema
    ) -> pa.RecordBatch:
        groups = pa.array(judge.timeline.groups[found.first])
        columns = [pa.array(np.full(len(found), epoch, np.int64))]
        columns += [column.take(groups) for column in judge.timeline.keys]
        columns += [judge.values(each, found, self._types) for each in self._output.values()]
        return pa.record_batch(columns, schema=schema)

    def _places(self, plan: Plan, times: IntArray, epoch: EpochSpan) -> Places:
        """Where rows lie, seen from the rows that anchor the matches of this epoch."""
        start, end = epoch.start, epoch.end
        if plan.waits:
            # the first event of a match that is certain now has `within` behind it
            start, end = start - self._within, end - self._within
        places = np.full(len(times), FOCUS, np.uint8)
        places[times < start] = BEFORE
        places[times >= end] = BEHIND
        return places

    def _kept_bits(self) -> int:
        """Events for which rows of closed epochs are of use."""
        kept: set[str] = set()
        for plan in self._plans:
            kept |= {absence.event for absence in plan.absences}
            # going backwards from a single last event, that one is always of the newest epoch
            first = 0 if plan.forward or plan.anchors > 1 or plan.steps[0].event.is_closure else 1
            kept |= {step.event.name for step in plan.steps[first:]}
        return self._bits(kept)

    def _bits(self, events: Iterable[str]) -> int:
        return sum(1 << self.numbers[event] for event in set(events))


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)


def _depends_on_order(expressions: Iterable[EventExpression]) -> bool:
    """Whether it makes a difference in which order the elements of a closure stand."""
    return any(
        each.function in (*ENDS, PREVIOUS)
        for expression in expressions
        for each in expression.references.values()
    )


def _types(scope: Scope, expressions: Iterable[EventExpression]) -> pa.Schema:
    """The types of all references."""
    references = {name: each for one in expressions for name, each in one.references.items()}
    return pa.schema([(name, reference_type(scope, each)) for name, each in references.items()])


def _aggregates(scope: Scope, expressions: Iterable[EventExpression]) -> Mapping[str, Aggregate]:
    """How the references that aggregate closures are computed."""
    found = {}
    for expression in expressions:
        for name, each in expression.references.items():
            if each.function in AGGREGATES:
                call = AggregateCall(each.function, each.column)  # type: ignore[arg-type]
                found[name] = aggregate(scope.operator, name, call, scope.schema)
    return found
