"""Looking for a way of arriving that changes an operator's output, and for few events that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from streammine.model.contracts import KeepsState
from streammine.model.errors import StreammineError
from streammine.operators.checking.events import Events, Row, Trial, shortened
from streammine.operators.checking.running import Adapter, Maker, Run, Step, run

CUTS = (1, 2, 3, 7, 64, 1000)
SHUFFLES = 3
"""How many shuffles are tried for few events; one is as likely as not to be the order they had."""
MOST_ATTEMPTS = 300
"""Parts of the sample that are tried for a smaller one that still fails."""
SHOWN_EVENTS = 20


@dataclass(frozen=True)
class Fault:
    """A way of arriving in which events give something else than in one batch and in order.

    `first` and `second`: what left, where it differs. `raised`: what the operator raised instead.
    `found` is the run that differs. The sample had `sampled` events, and those of `events` are enough.
    """

    trial: Trial
    events: Events
    sampled: int
    found: Run | None = None
    first: Step | None = None
    second: Step | None = None
    raised: str | None = None

    @property
    def epoch(self) -> int | None:
        return None if self.first is None else self.first.epoch

    @property
    def difference(self) -> str:
        """The first row that differs, or what was raised, as text."""
        if self.first is None or self.second is None:
            return f"  {self.raised}"
        if self.first.dead != self.second.dead and _same_bytes(self.first.table, self.second.table):
            return (
                f"  {len(self.first.dead)} events were set aside as dead letters, "
                f"now {len(self.second.dead)}"
            )
        return _difference(self.first.table, self.second.table)

    def __str__(self) -> str:
        if self.raised is not None:
            what = f"raises with {self.trial}"
        else:
            what = f"epoch {self.epoch} gives something else with {self.trial}"
        return "\n".join([f"{what}:", self.difference, *self.example()])

    def example(self) -> Iterator[str]:
        """The events that show it, and the order in which they came."""
        rows = self.events.rows
        yield f"  {len(rows):,} of {self.sampled:,} events show it:"
        several = any(port for _, port, _ in rows)
        for number, row in enumerate(rows[:SHOWN_EVENTS], 1):
            port = f", port {row[1]}" if several else ""
            yield f"    {number}: epoch {row[0]}{port}: {self.events.value(row)}"
        if len(rows) > SHOWN_EVENTS:
            yield f"    and {len(rows) - SHOWN_EVENTS:,} more"
        elif self.found is not None:
            yield f"  they came as {self._order(self.found, rows)}"

    def _order(self, found: Run, rows: list[Row]) -> str:
        """Numbers of events: batches with commas between them, epochs with semicolons."""
        number = {row: place for place, row in enumerate(rows, 1)}
        epochs = []
        for epoch, arrival in found.arrivals.items():
            batches = [
                " ".join(str(number[epoch, port, int(row)]) for row in numbers)
                for port, numbers in arrival
            ]
            restored = "(lost and restored) " if epoch in found.restored else ""
            epochs.append(restored + ", ".join(batches))
        return "; ".join(epochs)


@dataclass(frozen=True)
class Finding:
    """What came of looking: `trials` is the number of ways that were tried."""

    trials: int
    fault: Fault | None


def find_fault(make: Maker, events: Events, seed: int, combines: bool) -> Finding:
    """Try every way of arriving that must make no difference.

    `combines`: also with combiners, for which `make(True)` makes the operator. Raises what the
    operator raises when its events come in one batch and in order.
    """
    expected = run(make, events, Trial(None), _random(seed))
    trials = list(_trials(make(False), combines))
    for number, trial in enumerate(trials, 1):
        if _attempt(make, events, expected, trial, seed, 1) is not None:
            rows = _smallest(events, partial(_fails, make, trial, seed))
            return Finding(number, _simplest(make, events, rows, trial, trials, seed))
    return Finding(len(trials), None)


def _trials(operator: Adapter, combines: bool) -> Iterator[Trial]:
    """Ways to arrive that must make no difference, by what the operator says of itself; simple first."""
    stateless = hasattr(operator, "apply")
    shuffles = (False, True) if stateless or operator.traits.commutative else (False,)
    merges = not stateless and operator.traits.mergeable
    loses = stateless or isinstance(operator, KeepsState)
    yield Trial(None)
    for shuffled in shuffles:
        for cut in CUTS:
            yield Trial(cut, shuffled)
    for cut in CUTS:
        for shuffled in shuffles:
            if merges:
                yield Trial(cut, shuffled, parts=3)
            if combines:
                yield Trial(cut, shuffled, parts=2, combined=True)
    for cut in CUTS if loses else ():
        for shuffled in shuffles:
            yield Trial(cut, shuffled, restored=True)
            if merges:
                yield Trial(cut, shuffled, parts=3, restored=True)
            if combines:
                yield Trial(cut, shuffled, parts=2, combined=True, restored=True)


def _random(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _fails(make: Maker, trial: Trial, seed: int, events: Events) -> Fault | None:
    """The fault that few events show in a trial."""
    try:
        expected = run(make, events, Trial(None), _random(seed))
    except StreammineError:
        # that is another fault than the one that is looked for
        return None
    return _attempt(make, events, expected, trial, seed, SHUFFLES)


def _attempt(
    make: Maker, events: Events, expected: Run, trial: Trial, seed: int, times: int
) -> Fault | None:
    sampled = len(events.rows)
    by_chance = trial.shuffled or trial.restored
    for turn in range(times if by_chance else 1):
        try:
            found = run(make, events, trial, _random(seed, turn))
        except StreammineError as error:
            return Fault(trial, events, sampled, raised=str(error))
        for first, second in zip(expected.steps, found.steps, strict=False):
            if not _same_step(first, second):
                return Fault(trial, events, sampled, found, first, second)
        if len(expected.steps) != len(found.steps):
            return _windows_differ(trial, events, found, expected)
    return None


def _windows_differ(trial: Trial, events: Events, found: Run, expected: Run) -> Fault:
    """One run closed an epoch more than the other."""
    longer = max(expected.steps, found.steps, key=len)
    extra = longer[min(len(expected.steps), len(found.steps))]
    empty = Step(extra.epoch, extra.table.slice(0, 0))
    first, second = (extra, empty) if longer is expected.steps else (empty, extra)
    return Fault(trial, events, len(events.rows), found, first, second)


def _smallest(events: Events, fails: Callable[[Events], Fault | None]) -> list[Row]:
    """Few events that still fail, by halving (Zeller and Hildebrandt 2002, delta debugging)."""
    rows = events.rows
    parts = 2
    attempts = 0
    while len(rows) > 1 and attempts < MOST_ATTEMPTS:
        size = -(-len(rows) // parts)
        for start in range(0, len(rows), size):
            attempts += 1
            fewer = rows[:start] + rows[start + size :]
            if fewer and fails(events.only(fewer)) is not None:
                rows, parts = fewer, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(rows), 2 * parts)
    return rows


def _simplest(
    make: Maker,
    events: Events,
    rows: Sequence[Row],
    trial: Trial,
    trials: Sequence[Trial],
    seed: int,
) -> Fault:
    """The first trial that these few events fail."""
    few = events.only(rows)
    sampled = len(events.rows)
    for simple in [*trials[: trials.index(trial)], trial]:
        fault = _fails(make, simple, seed, few)
        if fault is not None:
            return replace(fault, sampled=sampled)
    # the few are all: no part of the sample failed, and not even the whole does so twice
    expected = run(make, events, Trial(None), _random(seed))
    again = _attempt(make, events, expected, trial, seed, SHUFFLES)
    if again is None:
        return Fault(
            trial, few, sampled, raised="gave another result once, and the same afterwards"
        )
    return replace(again, sampled=sampled)


def _same_step(first: Step, second: Step) -> bool:
    return (
        first.epoch == second.epoch
        and first.dead == second.dead
        and _same_bytes(first.table, second.table)
    )


def _same_bytes(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables hold the same values, floats bit for bit."""
    return left.num_rows == right.num_rows and all(
        _bits(a).equals(_bits(b)) for a, b in zip(left.columns, right.columns, strict=True)
    )


def _bits(column: pa.ChunkedArray) -> pa.Array:
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_floating(whole.type):
        return whole.view(f"int{whole.type.bit_width}")
    return whole


def _difference(expected: pa.Table, found: pa.Table) -> str:
    """The first row that differs, as text."""
    rows = min(expected.num_rows, found.num_rows)
    bits = [
        [_bits(column).slice(0, rows).to_pylist() for column in table.columns]
        for table in (expected, found)
    ]
    for row in range(rows):
        if any(a[row] != b[row] for a, b in zip(*bits, strict=True)):
            before, after = (table.slice(row, 1).to_pylist()[0] for table in (expected, found))
            return f"  row {row} was {_shown(before)}\n  row {row} is  {_shown(after)}"
    longer = max(expected, found, key=lambda table: table.num_rows)
    extra = _shown(longer.slice(rows, 1).to_pylist()[0])
    which = "missing" if longer is expected else "too many"
    return f"  {expected.num_rows} rows were expected, {found.num_rows} came; {which}: {extra}"


def _shown(row: dict[str, object]) -> str:
    return ", ".join(f"{name}={shortened(value)}" for name, value in row.items())
