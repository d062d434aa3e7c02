"""A harness for operators: does one epoch give the same bytes whichever way it arrives?

The epochs are run again and again with their rows shuffled (where order may not matter), cut into
other batches, and split over several combiners and accumulators. An operator that keeps state is also
lost and restored in between, as after a crash: after epochs chosen by chance it is frozen, incrementally
or in full, goes on with the next epoch while its pieces are made, and a fresh one that is restored from
the chain of snapshots takes that epoch again. A seed makes the trials the same each time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streammine.model.contracts import EpochClose, FrozenState, KeepsState, StatefulOperator
from streammine.model.epochs import EpochDefinition
from streammine.operators.api import Mapper, Operator, Reducer, UserCode
from streammine.operators.loading import instance_of
from streammine.operators.user import adapted
from streammine.operators.user_mapper import UserMapper
from streammine.operators.user_reducer import UserReducer

Adapter: TypeAlias = Any
"""A StatelessOperator, StatefulOperator or SequentialOperator of the contracts."""

_CUTS = (1, 2, 3, 7, 64, 1000)
_SEED = 20150401
_FROZEN, _FULL, _LOST = 0.8, 0.3, 0.6
"""How often an operator is frozen before an epoch, then in full, then lost and restored."""


@dataclass(frozen=True)
class _Trial:
    """One way for the rows to arrive. `parts`: number of combiners or accumulators."""

    shuffled: bool
    rows_per_batch: int
    parts: int
    combined: bool
    restored: bool

    def __str__(self) -> str:
        words = [f"batches of {self.rows_per_batch} rows"]
        words += ["shuffled"] if self.shuffled else []
        words += [f"{self.parts} combiners"] if self.combined else []
        words += [f"{self.parts} accumulators"] if self.parts > 1 and not self.combined else []
        words += ["lost and restored from snapshots"] if self.restored else []
        return ", ".join(words)


def check_operator(
    operator: type[UserCode] | UserCode | Callable[[], Adapter],
    batches: Sequence[pa.RecordBatch],
    *,
    key: str | Sequence[str] = (),
    **settings: Any,
) -> None:
    """Check that an operator keeps what it claims, on these batches.

    `operator` is a Mapper, Reducer or Operator (class, made with `settings`, or instance) of one
    input, or a function that makes a contract's operator anew. Each batch is one epoch. `key` names
    the key column or columns. Raises AssertionError, which tells the way of arriving and the first
    difference, and what the operator raises.
    """
    assert batches, "check_operator needs at least one batch with rows"
    schema = batches[0].schema
    keys = [key] if isinstance(key, str) else list(key)

    def fresh() -> Adapter:
        if isinstance(operator, (Mapper, Reducer, Operator)):
            return adapted("checked", copy.deepcopy(operator), [schema], [keys])
        if isinstance(operator, type) and issubclass(operator, (Mapper, Reducer, Operator)):
            code = instance_of(operator, operator.__name__, settings)
            return adapted("checked", code, [schema], [keys])
        make: Any = operator
        return make()

    first = fresh()
    random = np.random.default_rng(_SEED)
    whole = max(batch.num_rows for batch in batches)
    expected = _run(first, fresh, batches, _Trial(False, max(1, whole), 1, False, False), random)
    for trial in _trials(first):
        found = _run(fresh(), fresh, batches, trial, random)
        for epoch, (right, wrong) in enumerate(zip(expected, found, strict=True)):
            if not _same_bytes(right, wrong):
                raise AssertionError(
                    f"{_name(operator)}: epoch {epoch} gives something else with {trial}:\n"
                    f"{_difference(right, wrong)}"
                )


def _name(operator: Any) -> str:
    return str(getattr(operator, "__name__", type(operator).__name__))


def _trials(operator: Adapter) -> Iterator[_Trial]:
    """Ways to arrive that must make no difference, by what the operator says of itself."""
    # Built-in operators are told when they are made whether they get partials.
    traits = getattr(operator, "traits", None)
    shuffles = (False, True) if traits is not None and traits.commutative else (False,)
    keeps = isinstance(operator, KeepsState)
    for cut in _CUTS:
        for shuffled in shuffles:
            yield _Trial(shuffled, cut, 1, False, False)
            if keeps:
                yield _Trial(shuffled, cut, 1, False, True)
            if traits is not None and traits.mergeable:
                yield _Trial(shuffled, cut, 3, False, keeps)
            if isinstance(operator, UserReducer) and operator.traits.combinable:
                yield _Trial(shuffled, cut, 2, True, keeps)


def _run(
    operator: Adapter,
    fresh: Callable[[], Adapter],
    epochs: Sequence[pa.RecordBatch],
    trial: _Trial,
    random: np.random.Generator,
) -> list[pa.Table]:
    """The output of each epoch, and last of the input's end."""
    operator.prepare()
    outputs = []
    snapshots = _Snapshots(fresh)
    for number, rows in enumerate(epochs):
        close = EpochClose(number, number, EpochDefinition("count", max(1, rows.num_rows)))

        def take(one: Adapter, rows: pa.RecordBatch = rows, close: EpochClose = close) -> pa.Table:
            return _epoch(one, _cut(rows, trial, random), close, trial)

        if trial.restored and number and random.random() < _FROZEN:
            frozen = snapshots.freeze(operator, full=random.random() < _FULL)
            lost = random.random() < _LOST
            if lost:
                # what it does now must be seen neither in the pieces nor in the output
                take(operator)
            snapshots.write(frozen)
            if lost:
                operator = snapshots.restored()
        outputs.append(take(operator))
    while getattr(operator, "due_epoch", None) is not None:
        due = EpochClose(operator.due_epoch, 0, EpochDefinition("count", 1))
        empty = [operator.accumulator(port) for port in range(len(operator.keys))]
        outputs.append(pa.Table.from_batches(list(operator.close(due, empty)), operator.output))
    if hasattr(operator, "flush"):
        last = EpochClose(len(epochs), len(epochs), EpochDefinition("count", 1))
        outputs.append(pa.Table.from_batches(list(operator.flush(last)), operator.output))
    return outputs


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


def _epoch(
    operator: Adapter, arriving: list[pa.RecordBatch], close: EpochClose, trial: _Trial
) -> pa.Table:
    """The output of one epoch."""
    if isinstance(operator, UserMapper) or hasattr(operator, "apply"):
        made = [operator.apply(batch).batch for batch in arriving]
    elif isinstance(operator, StatefulOperator):
        made = list(_close(operator, arriving, close, trial))
    else:
        made = list(operator.run(close, ((0, batch) for batch in arriving)))
    return pa.Table.from_batches(made, operator.output)


def _cut(rows: pa.RecordBatch, trial: _Trial, random: np.random.Generator) -> list[pa.RecordBatch]:
    if trial.shuffled:
        rows = rows.take(pa.array(random.permutation(rows.num_rows)))
    step = trial.rows_per_batch
    return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]


def _close(
    operator: StatefulOperator, arriving: list[pa.RecordBatch], close: EpochClose, trial: _Trial
) -> Sequence[pa.RecordBatch]:
    """Share the batches out over the parts, combine or merge these, and close the epoch."""
    shares = [arriving[part :: trial.parts] for part in range(trial.parts)]
    accumulators = []
    for share in shares:
        accumulator = operator.accumulator(0)
        if trial.combined:
            combiner = operator.combiner()
            for batch in share:
                combiner.add(batch)
            accumulator.add(combiner.partials())
        else:
            for batch in share:
                accumulator.add(batch)
        accumulators.append(accumulator)
    whole = accumulators[0]
    for other in accumulators[1:]:
        whole.merge(other)
    return list(operator.close(close, [whole]))


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
            return f"  row {row} was {before}\n  row {row} is  {after}"
    return f"  {expected.num_rows} rows were expected, {found.num_rows} came"
