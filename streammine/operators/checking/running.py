"""Running one operator over sample input, in one of the ways in which it may arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streammine.model.contracts import (
    DeadRows,
    EpochClose,
    FrozenState,
    GoesByTime,
    KeepsState,
    SetsAside,
    StatefulOperator,
)
from streammine.operators.checking.events import Arrival, Events, Trial

Adapter: TypeAlias = Any
"""A StatelessOperator, StatefulOperator or SequentialOperator of the contracts."""

Maker: TypeAlias = Callable[[bool], Adapter]
"""Makes the operator anew; True: its accumulators are to be given partials."""

FROZEN, FULL, LOST = 0.8, 0.3, 0.6
"""How often an operator is frozen before an epoch, then in full, then lost and restored."""


@dataclass(frozen=True)
class Step:
    """What left an operator in one epoch: rows, and the texts of events that were set aside."""

    epoch: int
    table: pa.Table
    dead: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """Everything that left an operator, how its events arrived, and before which epochs it was lost
    and restored."""

    steps: list[Step]
    arrivals: dict[int, Arrival]
    restored: set[int]


def run(make: Maker, events: Events, trial: Trial, random: np.random.Generator) -> Run:
    """One trial from the first epoch to the end of the input. Raises what the operator raises."""
    return _Running(make, events, trial, random).run()


class _Running:
    def __init__(
        self, make: Maker, events: Events, trial: Trial, random: np.random.Generator
    ) -> None:
        self._make = make
        self._events = events
        self._trial = trial
        self._random = random
        self._operator = make(trial.combined)
        self._snapshots = _Snapshots(lambda: make(trial.combined))
        self._steps: list[Step] = []
        self._arrivals: dict[int, Arrival] = {}
        self._restored: set[int] = set()

    def run(self) -> Run:
        self._operator.prepare()
        epochs = list(self._events.epochs.items())
        together = self._trial.epochs_together if isinstance(self._operator, GoesByTime) else 1
        for first in range(0, len(epochs), together):
            epoch, ports = epochs[first]
            self._close_due(before=epoch)
            if self._trial.restored and first and self._random.random() < FROZEN:
                self._freeze(epoch, ports)
            stretch = epochs[first : first + together]
            for each, of_each in stretch:
                self._arrivals[each] = self._trial.arrival(of_each, self._random)
            if len(stretch) > 1:
                self._steps += self._through(stretch)
            else:
                self._steps.append(self._epoch(epoch, ports, self._arrivals[epoch]))
        self._close_due(before=None)
        if hasattr(self._operator, "flush"):
            last = max(self._events.epochs) + 1
            rows = self._operator.flush(self._close(last))
            self._steps.append(self._step(last, rows, self._operator))
        return Run(self._steps, self._arrivals, self._restored)

    def _close(self, epoch: int) -> EpochClose:
        definition = self._events.definition
        return EpochClose(epoch, definition.watermark(epoch), definition)

    def _close_due(self, before: int | None) -> None:
        """Close the epochs without events that the operator wants closed."""
        while (due := getattr(self._operator, "due_epoch", None)) is not None:
            if before is not None and due >= before:
                return
            operator = self._operator
            if isinstance(operator, StatefulOperator):
                empty = [operator.accumulator(port) for port in range(len(operator.keys))]
                rows = operator.close(self._close(due), empty)
            else:
                rows = operator.run(self._close(due), iter(()))
            self._steps.append(self._step(due, rows, self._operator))

    def _freeze(self, epoch: int, ports: Sequence[pa.RecordBatch]) -> None:
        """Save the operator, and perhaps go on with one that was restored from what is saved."""
        lost = self._random.random() < LOST
        keeps = isinstance(self._operator, KeepsState)
        if keeps:
            frozen = self._snapshots.freeze(self._operator, full=self._random.random() < FULL)
        if lost:
            # what it does now must be seen neither in the pieces nor in the output
            self._epoch(epoch, ports, self._trial.arrival(ports, self._random))
        if keeps:
            self._snapshots.write(frozen)
        if lost:
            self._operator = self._snapshots.restored()
            self._restored.add(epoch)

    def _epoch(self, epoch: int, ports: Sequence[pa.RecordBatch], arrival: Arrival) -> Step:
        operator = self._operator
        arriving = [(port, ports[port].take(pa.array(numbers))) for port, numbers in arrival]
        if hasattr(operator, "apply"):
            return self._applied(epoch, arriving, arrival)
        combiners: list[Any] = []
        if isinstance(operator, StatefulOperator):
            folded = [
                self._folded(port, [batch for p, batch in arriving if p == port], combiners)
                for port in range(len(operator.keys))
            ]
            made = operator.close(self._close(epoch), folded)
        else:
            made = operator.run(self._close(epoch), iter(arriving))
        return self._step(epoch, made, operator, *combiners)

    def _through(self, epochs: Sequence[tuple[int, Sequence[pa.RecordBatch]]]) -> list[Step]:
        """What leaves in some epochs that the operator is given at once."""
        arriving = [
            (port, ports[port].take(pa.array(numbers)))
            for epoch, ports in epochs
            for port, numbers in self._arrivals[epoch]
        ]
        last, _ = epochs[-1]
        tables: dict[int, list[pa.Table]] = {}
        for batch, of_rows in self._operator.run_through(self._close(last), iter(arriving)):
            for epoch in np.unique(of_rows):
                rows = pa.Table.from_batches([batch]).filter(pa.array(of_rows == epoch))
                tables.setdefault(int(epoch), []).append(rows)
        return [Step(epoch, pa.concat_tables(parts)) for epoch, parts in sorted(tables.items())]

    def _applied(
        self, epoch: int, arriving: Sequence[tuple[int, pa.RecordBatch]], arrival: Arrival
    ) -> Step:
        """What a stateless operator makes, in the order of the rows that it was made of."""
        tables: list[pa.RecordBatch] = []
        parents = [np.empty(0, np.int64)]
        dead: list[str] = []
        for (_, batch), (_, numbers) in zip(arriving, arrival, strict=True):
            derived = self._operator.apply(batch)
            tables.append(derived.batch)
            parents.append(numbers if derived.parents is None else numbers[derived.parents])
            dead += _texts(derived.dead)
        table = pa.Table.from_batches(tables, self._operator.output)
        places = np.argsort(np.concatenate(parents), kind="stable")
        return Step(epoch, table.take(pa.array(places)), tuple(sorted(dead)))

    def _folded(self, port: int, arriving: list[pa.RecordBatch], combiners: list[Any]) -> Any:
        """The batches shared out over the parts; these combined or merged."""
        trial, operator = self._trial, self._operator
        accumulators = []
        for share in (arriving[part :: trial.parts] for part in range(trial.parts)):
            accumulator = operator.accumulator(port)
            if trial.combined:
                combiners.append(operator.combiner())
                for batch in share:
                    combiners[-1].add(batch)
                accumulator.add(combiners[-1].partials())
            else:
                for batch in share:
                    accumulator.add(batch)
            accumulators.append(accumulator)
        whole = accumulators[0]
        for other in accumulators[1:]:
            whole.merge(other)
        return whole

    def _step(self, epoch: int, rows: Any, *setting_aside: Any) -> Step:
        table = pa.Table.from_batches(list(rows), self._operator.output)
        dead = [
            text
            for each in setting_aside
            if isinstance(each, SetsAside)
            for text in _texts(each.take_dead())
        ]
        return Step(epoch, table, tuple(sorted(dead)))


def _texts(dead: DeadRows | None) -> tuple[str, ...]:
    return () if dead is None else dead.rows


class _Snapshots:
    """A chain of snapshots: a full one, and what changed since."""

    def __init__(self, fresh: Callable[[], Adapter]) -> None:
        self._fresh = fresh
        self._version = 0
        self._chain: list[tuple[bool, list[pa.Buffer]]] = []

    def freeze(self, operator: KeepsState, full: bool) -> FrozenState:
        self._version = operator.state_version
        return operator.freeze(full)

    def write(self, frozen: FrozenState) -> None:
        """Make the pieces, as a node does in the background."""
        if frozen.full:
            self._chain = []
        assert self._chain or frozen.full, "the first freeze of an operator must be a full one"
        self._chain.append((frozen.full, list(frozen.pieces())))

    def restored(self) -> Adapter:
        """A new operator in the state of the newest snapshot."""
        operator = self._fresh()
        operator.prepare()
        for full, pieces in self._chain:
            operator.restore(self._version, full, iter(pieces))
        return operator
