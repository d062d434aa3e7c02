"""`split`: which output each row goes to, and the outputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import Derived
from streammine.model.errors import TopologyError
from streammine.model.topology.merging import is_else
from streammine.operators.expressions import Expression
from streammine.operators.expressions.salvage import evaluated_or_aside
from streammine.operators.set_aside import SetAside

_OUTPUT_COLUMN = ".output"
_UNDECIDED = -1
_FAILED = -2

NO_MATCH = "no condition of the split is true for it"


class SplitOperator:
    """Adds a column with the number of each row's output behind the others (a StatelessOperator).

    A row's output is the first one whose condition is true. A condition is asked only of rows that no
    earlier one is true for, so one may rest on what an earlier one has made sure. Rows that match none, where
    no output is for them, are set aside, and so are those that a condition fails on, where that is wanted.
    """

    one_to_many = False
    deterministic = True
    needs: frozenset[str] | None = None

    def __init__(
        self, name: str, outputs: Mapping[str, str], schema: pa.Schema, *, dead_letter: bool = False
    ) -> None:
        """`outputs`: conditions over `schema`, or else, by output. Raises TopologyError."""
        self.name = name
        self._conditions: list[tuple[int, Expression]] = []
        self._rest = _UNDECIDED
        for number, (output, text) in enumerate(outputs.items()):
            if is_else(text):
                self._rest = number
                continue
            condition = Expression(name, text, schema)
            if not pa.types.is_boolean(condition.type):
                raise TopologyError(
                    f"operator {name!r}: split: {output}: {text!r} gives {condition.type}; a condition gives "
                    "a boolean, for example a comparison"
                )
            self._conditions.append((number, condition))
        column = _OUTPUT_COLUMN
        while column in schema.names:
            column += "_"
        self.output = schema.append(pa.field(column, pa.int16()))
        self._dead = SetAside()
        self._dead_letter = dead_letter

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        # a call that failed as a whole may have left some
        self._dead.take()
        outputs = self._outputs(batch)
        matched = outputs >= 0
        if matched.all():
            return Derived(self._with_outputs(batch, outputs))
        unmatched = outputs == _UNDECIDED
        if unmatched.any():
            self._dead.add(NO_MATCH, batch.filter(pa.array(unmatched)))
        rows = batch.filter(pa.array(matched))
        parents = np.flatnonzero(matched).astype(np.int64, copy=False)
        return Derived(self._with_outputs(rows, outputs[matched]), parents, self._dead.take())

    def _outputs(self, batch: pa.RecordBatch) -> npt.NDArray[np.int16]:
        """The output of each row; _UNDECIDED for none, _FAILED for those that were set aside."""
        outputs = np.full(batch.num_rows, self._rest, np.int16)
        left = np.arange(batch.num_rows)
        rows = batch
        for number, condition in self._conditions:
            if not len(left):
                break
            if self._dead_letter:
                (true,), kept = evaluated_or_aside([condition], rows, self._dead)
                if kept is not None:
                    outputs[np.delete(left, kept)] = _FAILED
                    left, rows = left[kept], rows.take(pa.array(kept))
            else:
                true = condition.evaluate(rows)
            if true.null_count:
                true = pc.fill_null(true, False)
            matches = true.to_numpy(zero_copy_only=False)
            outputs[left[matches]] = number
            left = left[~matches]
            rows = rows.filter(pa.array(~matches))
        return outputs

    def _with_outputs(self, rows: pa.RecordBatch, outputs: npt.NDArray[np.int16]) -> pa.RecordBatch:
        return pa.record_batch([*rows.columns, pa.array(outputs)], schema=self.output)


class SplitOutput:
    """The rows of one output of a split, without the column that says so (a StatelessOperator)."""

    one_to_many = False
    deterministic = True
    needs: frozenset[str] | None = None

    def __init__(self, name: str, number: int, schema: pa.Schema) -> None:
        """`schema`: the output of a SplitOperator."""
        self.name = name
        self.output = pa.schema(list(schema)[:-1])
        self._number = pa.scalar(number, pa.int16())

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        own = pc.equal(batch.column(batch.num_columns - 1), self._number)
        rows = pa.record_batch(batch.columns[:-1], schema=self.output)
        if own.true_count == batch.num_rows:
            return Derived(rows)
        places = np.flatnonzero(own.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
        return Derived(rows.filter(own), places)
