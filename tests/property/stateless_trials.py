"""The harness for operators that keep nothing: against a reference that looks at one row alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa

from streammine.model.canonical import encode_rows
from streammine.operators.checking.events import Trial
from streammine.operators.checking.running import run
from tests.property.operator_trials import MOST_SLICES, batch_of, events_of, minutes

Row = tuple[Any, ...]
Shape = Callable[[Row], Sequence[Row]]
"""The rows that a row becomes, in their order; none where it is dropped or set aside."""


def assert_shapes(
    make: Callable[[], Any],
    schema: pa.Schema,
    epochs: Mapping[int, Sequence[Row]],
    shape: Shape,
    random: np.random.Generator,
    *,
    dead: Callable[[Row], bool] = lambda row: False,
    trials: int = 3,
) -> None:
    """The operator makes of each row what `shape` says, byte for byte, and sets aside those that are `dead`.

    The rows come shuffled and cut into other batches, shared out over 1 to 8 slices by chance, and the
    operator is lost in between. What is made must say of which row: all is put in their order again.
    """
    # making one takes longer than applying it, and what keeps nothing may serve any slice
    operators = cycle([make(), make()])
    output = next(operators).output
    for number in range(trials):
        slices = int(random.integers(1, MOST_SLICES + 1)) if number else 1
        places = {epoch: random.integers(slices, size=len(rows)) for epoch, rows in epochs.items()}
        for part in range(slices):
            share = {
                epoch: [
                    row for row, place in zip(rows, places[epoch], strict=True) if place == part
                ]
                for epoch, rows in epochs.items()
            }
            events = events_of(minutes(), [schema], {at: [rows] for at, rows in share.items()})
            trial = Trial(
                rows_per_batch=[None, 1, 2, 5][random.integers(4)],
                shuffled=number > 0 and bool(random.random() < 0.8),
                restored=number > 0 and bool(random.random() < 0.7),
            )
            for step in run(lambda combined: next(operators), events, trial, random).steps:
                of_epoch = share[step.epoch]
                wanted = [made for row in of_epoch for made in shape(row)]
                assert_same_bytes(step.table, output, wanted, f"with {trial}")
                texts = [row_text(schema, row) for row in of_epoch if dead(row)]
                assert step.dead == tuple(sorted(texts)), f"with {trial}"
    for rows in epochs.values():
        # batches that are cut out of larger ones have offsets, which kernels on buffers may forget
        whole = batch_of(schema, rows)
        cut = pa.concat_batches([whole.slice(0, 1), whole]).slice(min(1, len(rows)))
        wanted = [made for row in rows for made in shape(row)]
        made = pa.Table.from_batches([next(operators).apply(cut).batch])
        assert_same_bytes(made, output, wanted, "cut out of a larger batch")


def row_text(schema: pa.Schema, row: Row) -> str:
    """A short row as dead letters tell it."""
    return ", ".join(f"{name}={value!r}" for name, value in zip(schema.names, row, strict=True))


def assert_same_bytes(table: pa.Table, output: pa.Schema, rows: Sequence[Row], how: str) -> None:
    """The table has these rows in this order."""
    wanted = pa.Table.from_batches([batch_of(output, rows)])
    assert table.schema.equals(output), table.schema
    found = [each.tobytes() for each in encode_rows(table)]
    if found != [each.tobytes() for each in encode_rows(wanted)]:
        raise AssertionError(
            f"{how} it gave\n{table.to_pylist()}\nand the reference\n{wanted.to_pylist()}"
        )
