"""One harness for every standard operator: against a slow reference, in every way its rows may arrive.

The rows of an epoch are shuffled, cut into other batches, shared out over accumulators or combiners, and
over 1 to 8 slices by the hash of their keys; the operator is lost and restored from its snapshots in
between. What leaves must be the reference's rows each time, byte for byte: floats by their bits, and out of
one slice in the order that the operator promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from partitioners import Hash
from streammine.model.canonical import canonical_order, encode_rows
from streammine.model.epochs import EpochDefinition
from streammine.operators.checking.events import Events, Trial
from streammine.operators.checking.running import Run, run

MOST_SLICES = 8

Maker = Callable[[bool], Any]
"""Makes the operator anew; True: its accumulators are to be given partials."""

Rows = Iterable[Sequence[Any]]


def minutes(column: str = "ts", seconds: int = 60) -> EpochDefinition:
    """Epochs of so many seconds of a column in seconds."""
    return EpochDefinition("time", seconds * 1_000_000, column)


def events_of(
    definition: EpochDefinition,
    schemas: Sequence[pa.Schema],
    epochs: Mapping[int, Sequence[Rows]],
) -> Events:
    """What is sent to an operator: by epoch, the rows of each port as tuples."""
    return Events(
        definition,
        {
            number: tuple(
                batch_of(schema, rows) for schema, rows in zip(schemas, ports, strict=True)
            )
            for number, ports in sorted(epochs.items())
        },
    )


def batch_of(schema: pa.Schema, rows: Rows) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def assert_as_reference(
    make: Maker,
    events: Events,
    expected: Mapping[int, Rows],
    random: np.random.Generator,
    *,
    ordered: bool = True,
    in_sequence: bool = False,
    trials: int = 4,
    dead: Mapping[int, Sequence[str]] | None = None,
) -> None:
    """The operator gives `expected`, its rows by epoch as tuples of Python values, however they arrive.

    `ordered`: out of one slice they come in canonical order of the operator's `output_order`; `in_sequence`:
    in the order in which they are expected. `dead`: the texts of the rows that are set aside, by epoch;
    without it they are left to the caller (see `dead_of`).
    """
    operator = make(False)
    wanted = {
        epoch: _Wanted.of(pa.Table.from_batches([batch]), in_sequence)
        for epoch, rows in expected.items()
        if (batch := batch_of(operator.output, rows)).num_rows
    }
    for trial in [Trial(None), *(_some_trial(operator, random) for _ in range(trials))]:
        done = run(make, events, trial, random)
        _compare(done, wanted, f"with {trial}", operator, ordered, in_sequence)
        _compare_dead(done, dead, f"with {trial}")
    if getattr(operator, "every_key", False):
        # all its keys lie in one slice
        return
    slices = int(random.integers(2, MOST_SLICES + 1))
    shares = [
        run(make, share, _some_trial(operator, random), random)
        for share in sliced(events, operator.keys, slices)
        if share.rows
    ]
    together = _together(shares)
    _compare(together, wanted, f"with {slices} slices", operator, ordered=False)
    _compare_dead(together, dead, f"with {slices} slices")


def dead_of(make: Maker, events: Events) -> list[str]:
    """The texts of all rows that the operator sets aside."""
    done = run(make, events, Trial(None), np.random.default_rng(0))
    return sorted(text for step in done.steps for text in step.dead)


def sliced(events: Events, keys: Sequence[Sequence[str]], slices: int) -> list[Events]:
    """The events of each slice. Without keys all are of slice 0.

    An epoch without rows of a slice is passed over, but for the last: the input ends for all at once.
    """
    shares: list[dict[int, tuple[pa.RecordBatch, ...]]] = [{} for _ in range(slices)]
    for epoch, ports in events.epochs.items():
        parts = [_parts(batch, of_port, slices) for batch, of_port in zip(ports, keys, strict=True)]
        for number, share in enumerate(shares):
            own = tuple(part[number] for part in parts)
            if any(batch.num_rows for batch in own) or epoch == max(events.epochs):
                share[epoch] = own
    return [Events(events.definition, share) for share in shares]


def _parts(batch: pa.RecordBatch, keys: Sequence[str], slices: int) -> list[pa.RecordBatch]:
    if keys:
        targets = Hash().targets([batch.column(name) for name in keys], slices)
    else:
        targets = np.zeros(batch.num_rows, np.int32)
    return [batch.filter(pa.array(targets == number)) for number in range(slices)]


def _some_trial(operator: Any, random: np.random.Generator) -> Trial:
    traits = operator.traits
    parts = int(random.integers(1, 4)) if traits.mergeable else 1
    return Trial(
        rows_per_batch=[None, 1, 2, 5][random.integers(4)],
        shuffled=traits.commutative and bool(random.random() < 0.8),
        parts=parts,
        combined=traits.combinable and bool(random.random() < 0.5),
        restored=bool(random.random() < 0.7),
        epochs_together=int(random.integers(1, 5)),
    )


def _together(runs: Sequence[Run]) -> Run:
    return Run([step for each in runs for step in each.steps], {}, set())


@dataclass(frozen=True)
class _Wanted:
    """The rows of an epoch as the reference has them."""

    table: pa.Table
    any_order: tuple[bytes, bytes]
    in_sequence: tuple[bytes, bytes] | None

    @classmethod
    def of(cls, table: pa.Table, in_sequence: bool) -> _Wanted:
        return cls(table, _bytes(_in_order(table)), _bytes(table) if in_sequence else None)


def _compare(
    done: Run,
    wanted: Mapping[int, _Wanted],
    how: str,
    operator: Any,
    ordered: bool,
    in_sequence: bool = False,
) -> None:
    found: dict[int, list[pa.Table]] = {}
    for step in done.steps:
        assert step.table.schema.equals(operator.output), step.table.schema
        if step.table.num_rows:
            found.setdefault(step.epoch, []).append(step.table)
    assert sorted(found) == sorted(wanted), f"{how}: epochs {sorted(found)}, not {sorted(wanted)}"
    for epoch, tables in found.items():
        table = pa.concat_tables(tables).combine_chunks()
        if ordered:
            order = canonical_order(table, operator.output_order)
            assert (order == np.arange(table.num_rows)).all(), (
                f"{how}: epoch {epoch} is not in order"
            )
        of_epoch = wanted[epoch]
        if in_sequence:
            same = _bytes(table) == of_epoch.in_sequence
        else:
            same = _bytes(_in_order(table)) == of_epoch.any_order
        if not same:
            raise AssertionError(
                f"{how}: epoch {epoch} gave\n{table.to_pylist()}\nand the reference\n"
                f"{of_epoch.table.to_pylist()}"
            )


def _compare_dead(done: Run, dead: Mapping[int, Sequence[str]] | None, how: str) -> None:
    if dead is None:
        return
    found: dict[int, list[str]] = {}
    for step in done.steps:
        if step.dead:
            found.setdefault(step.epoch, []).extend(step.dead)
    assert {epoch: sorted(texts) for epoch, texts in found.items()} == {
        epoch: sorted(texts) for epoch, texts in dead.items() if texts
    }, f"{how}: other rows are set aside"


def _in_order(table: pa.Table) -> pa.Table:
    return table.take(pa.array(canonical_order(table)))


def _bytes(table: pa.Table) -> tuple[bytes, bytes]:
    data, offsets = encode_rows(table)
    return data.tobytes(), offsets.tobytes()
