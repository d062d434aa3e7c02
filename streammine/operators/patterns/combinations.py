"""Combinations of rows, in columns, and conditions that judge all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import IntArray
from streammine.model.errors import UserCodeError
from streammine.operators.aggregates.definitions import Aggregate, BeyondRangeError
from streammine.operators.aggregates.functions import new_part
from streammine.operators.patterns.conditions import Condition
from streammine.operators.patterns.references import PREVIOUS, EventExpression, Reference
from streammine.operators.patterns.timeline import Timeline

PAIRS_AT_ONCE = 1 << 17
"""How many combinations are made before conditions thin them out."""

BoolArray = npt.NDArray[np.bool_]
Slots = Mapping[str, IntArray]


@dataclass(frozen=True)
class Combinations:
    """n combinations of the same events: `slots[event]` has int64[m, n] rows of the timeline, ascending from
    top to bottom, m = 1 but for closures. `first` and `last` are int64[n], each one's ends."""

    slots: Slots
    first: IntArray
    last: IntArray

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def single(cls, event: str, rows: IntArray) -> Combinations:
        return cls({event: rows.reshape(1, -1)}, rows, rows)

    def kept(self, mask: BoolArray) -> Combinations:
        """Those of bool[n]."""
        return self if mask.all() else self.taken(np.flatnonzero(mask))

    def taken(self, numbers: IntArray) -> Combinations:
        slots = {event: rows[:, numbers] for event, rows in self.slots.items()}
        return Combinations(slots, self.first[numbers], self.last[numbers])

    def extended(
        self, numbers: IntArray, event: str, rows: IntArray, *, forward: bool
    ) -> Combinations:
        """The combinations with these numbers, each with one more row for an event: at the end of its
        closure, or, not `forward`, at the beginning."""
        taken = self.taken(numbers)
        before = taken.slots.get(event)
        added = rows.reshape(1, -1)
        if before is not None:
            added = np.concatenate([before, added] if forward else [added, before])
        return Combinations(
            {**taken.slots, event: added},
            np.minimum(taken.first, rows),
            np.maximum(taken.last, rows),
        )

    def holds(self, rows: IntArray) -> BoolArray:
        """Which combinations hold these rows (int64[n]) already."""
        found = np.zeros(len(self), np.bool_)
        for slot in self.slots.values():
            found |= (slot == rows).any(axis=0)
        return found


class Judge:
    """Evaluates expressions over combinations of one timeline's rows."""

    def __init__(
        self,
        operator: str,
        timeline: Timeline,
        aggregates: Mapping[str, Aggregate],
        *,
        forward: bool,
    ) -> None:
        """`aggregates`: of the references that aggregate a closure, by name. `forward`: closures grow at
        their ends, else at their beginnings."""
        self.timeline = timeline
        self._forward = forward
        self._operator = operator
        self._aggregates = aggregates

    def fulfilled(
        self,
        conditions: Sequence[Condition],
        combinations: Combinations,
        newest: str | None = None,
    ) -> BoolArray:
        """Which combinations fulfil all conditions (bool[n]).

        `newest`: the closure that has just got an element; conditions on its elements are judged for that one
        alone.
        """
        found = np.ones(len(combinations), np.bool_)
        for condition in conditions:
            found &= self._fulfilled(condition, combinations, newest)
        return found

    def values(
        self, expression: EventExpression, combinations: Combinations, absent: pa.Schema
    ) -> pa.Array:
        """The values of an expression, one per combination. `absent` has the types of references to events
        that these combinations do not have."""
        columns = []
        for name, reference in expression.references.items():
            if reference.event in combinations.slots:
                columns.append(self._value(reference, combinations))
            elif reference.function == "count":
                columns.append(pa.array(np.zeros(len(combinations), np.int64)))
            else:
                columns.append(pa.nulls(len(combinations), absent.field(name).type))
        return _evaluated(expression, columns, len(combinations))

    def _fulfilled(
        self, condition: Condition, combinations: Combinations, newest: str | None
    ) -> BoolArray:
        closure = condition.elements_of
        size = len(combinations)
        if closure is None:
            return self._judged(condition, combinations, None, None)
        elements = combinations.slots[closure]
        pairs = condition.pairs
        if closure == newest:
            count = 2 if pairs else 1
            elements = elements[-count:] if self._forward else elements[:count]
        if pairs and len(elements) < 2:
            return np.ones(size, np.bool_)
        current = elements[1:] if pairs else elements
        previous = elements[:-1] if pairs else None
        times = len(current)
        judged = self._judged(condition, combinations, current, previous)
        found: BoolArray = np.logical_and.reduce(judged.reshape(times, size))
        return found

    def _judged(
        self,
        condition: Condition,
        combinations: Combinations,
        current: IntArray | None,
        previous: IntArray | None,
    ) -> BoolArray:
        times = 1 if current is None else len(current)
        columns = []
        for reference in condition.checked.references.values():
            if current is not None and reference.event == condition.elements_of:
                if reference.function == PREVIOUS:
                    assert previous is not None
                    columns.append(self._gathered(reference, previous.reshape(-1)))
                    continue
                if reference.function is None:
                    columns.append(self._gathered(reference, current.reshape(-1)))
                    continue
            column = self._value(reference, combinations)
            if times > 1:
                column = column.take(pa.array(np.tile(np.arange(len(combinations)), times)))
            columns.append(column)
        values = _evaluated(condition.checked, columns, times * len(combinations))
        if values.null_count:
            values = pc.fill_null(values, False)
        flags: BoolArray = values.to_numpy(zero_copy_only=False)
        return flags

    def _gathered(self, reference: Reference, rows: IntArray) -> pa.Array:
        column = self.timeline.rows.column(reference.column)
        return pc.take(column, pa.array(rows), boundscheck=False)

    def _value(self, reference: Reference, combinations: Combinations) -> pa.Array:
        """The values of a reference, one per combination."""
        rows = combinations.slots[reference.event]
        match reference.function:
            case None | "first":
                return self._gathered(reference, rows[0])
            case "last":
                return self._gathered(reference, rows[-1])
            case "count" if reference.column is None:
                return pa.array(np.full(len(combinations), len(rows), np.int64))
        return self._aggregated(reference, rows)

    def _aggregated(self, reference: Reference, rows: IntArray) -> pa.Array:
        count, size = rows.shape
        aggregate = self._aggregates[reference.name]
        numbers = np.tile(np.arange(size), count)
        column = self._gathered(reference, rows.reshape(-1))
        schema = pa.schema([self.timeline.rows.schema.field(reference.column)])
        parts = {key: new_part(key, schema) for key in aggregate.parts}
        for part in parts.values():
            part.add(numbers, column, size)
        try:
            return aggregate.finish(parts, np.full(size, count, np.int64))
        except BeyondRangeError as error:
            raise UserCodeError(
                f"operator {self._operator!r}: {reference.name} of a match: {error}; sum a float64, for "
                "example of a map before: value * 1e0"
            ) from error


def stretches(low: IntArray, high: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """All pairs of a number i and a place in [low[i], high[i]), some at once: (numbers, places), int64."""
    lengths = np.maximum(high - low, 0)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, PAIRS_AT_ONCE):
        stop = min(start + PAIRS_AT_ONCE, total)
        first, last = np.searchsorted(ends, [start, stop - 1], "right").tolist()
        begins = ends[first : last + 1] - lengths[first : last + 1]
        taken = np.minimum(ends[first : last + 1], stop) - np.maximum(begins, start)
        numbers = np.repeat(np.arange(first, last + 1), taken)
        places = np.arange(start, stop) - np.repeat(begins - low[first : last + 1], taken)
        yield numbers, places


def _evaluated(expression: EventExpression, columns: Sequence[pa.Array], rows: int) -> pa.Array:
    if not columns:
        # a constant needs a batch that knows how many rows it has
        batch = pa.record_batch([pa.nulls(rows, pa.int64())], names=[""])
    else:
        batch = pa.record_batch(list(columns), names=list(expression.references))
    return expression.expression.evaluate(batch)
