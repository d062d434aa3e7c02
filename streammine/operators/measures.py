"""What is known of each key of a ranking: latest values and sums, after each change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.model.errors import TopologyError
from streammine.model.topology.leading import MeasureCall
from streammine.operators.expressions import unknown_column
from streammine.operators.kernels import leading
from streammine.operators.kernels.columns import fixed_values, validity_mask
from streammine.operators.kernels.group_states import extended

Mask = npt.NDArray[np.bool_]
Known = tuple[IntArray, Mask]
"""Values as the bits of int64 or float64, and where there are any; 0 where there are none."""


class Measure:
    """One measure. Of a key of which nothing is known, a latest value is null and a sum is 0."""

    def __init__(
        self, operator: str, name: str, call: MeasureCall, inputs: Sequence[pa.Schema]
    ) -> None:
        """Raises TopologyError for a column that is not there or can't be followed."""
        self.name = name
        self.column = call.column
        self.adds = call.function == "sum"
        self.ports = [port for port, schema in enumerate(inputs) if call.column in schema.names]
        if not self.ports:
            there = pa.schema(list(dict.fromkeys(field for each in inputs for field in each)))
            raise TopologyError(
                f"operator {operator!r}: {call}: {unknown_column(call.column, there)}"
            )
        kinds = {inputs[port].field(call.column).type for port in self.ports}
        whole = all(pa.types.is_integer(kind) and kind != pa.uint64() for kind in kinds)
        floating = all(pa.types.is_floating(kind) for kind in kinds)
        if not whole and (self.adds or not floating):
            wanted = "whole numbers" if self.adds else "whole numbers, or floats,"
            raise TopologyError(
                f"operator {operator!r}: {call}: column {call.column!r} has type "
                f"{' and '.join(sorted(map(str, kinds)))}; {call.function} takes {wanted} of up to 64 "
                "bits: cast it with a map before"
            )
        self.type = pa.int64() if whole else pa.float64()
        self._held: IntArray = np.empty(0, np.int64)
        self._known: Mask = np.empty(0, np.bool_)

    @property
    def nbytes(self) -> int:
        return int(self._held.nbytes + self._known.nbytes)

    def values(self, batch: pa.RecordBatch, port: int) -> tuple[Known, bool]:
        """The values that a batch has, and whether it has the column at all."""
        rows = batch.num_rows
        if port not in self.ports:
            return (np.zeros(rows, np.int64), np.zeros(rows, np.bool_)), False
        return bits_of(batch.column(self.column), self.type), True

    def follow(self, ids: IntArray, carries: Mask, values: Known) -> Known:
        """Take in changes of keys that there are, in their order; what is known of each one's key then.

        Raises OverflowError.
        """
        after, known = np.empty(ids.size, np.int64), np.empty(ids.size, np.bool_)
        followed = leading.follow(
            ids, carries, *values, self.adds, self._held, self._known, after, known
        )
        if followed < ids.size:
            raise OverflowError(
                f"measure {self.name!r}: adding {values[0][followed]} of {self.column!r} to the sum of a key "
                f"leaves int64; sum smaller numbers"
            )
        return after, known

    def grow(self, keys: int) -> None:
        """There are so many keys."""
        self._held = extended(self._held, keys, 0)
        self._known = extended(self._known, keys, self.adds)

    def of(self, ids: IntArray) -> Known:
        """What is known of some keys."""
        return self._held[ids], self._known[ids]

    def put(self, ids: IntArray, values: Known) -> None:
        """What is known of some keys is this."""
        self._held[ids], self._known[ids] = values

    def select(self, ids: IntArray) -> None:
        """Keep these keys alone, which become 0, 1, …"""
        self._held, self._known = self._held[ids], self._known[ids]

    def as_first(self, values: Known) -> Mask:
        """Which of these are as of a key of which nothing is known."""
        held, known = values
        found: Mask = (held == 0) & (known == self.adds)
        return found

    def array(self, values: Known) -> pa.Array:
        held, known = values
        numbers = held if self.type == pa.int64() else held.view(np.float64)
        return pa.array(numbers) if known.all() else pa.array(numbers, mask=~known)

    def ranks(self, values: Known) -> tuple[IntArray, Mask]:
        """See `ranks_of`."""
        held, known = values
        return (held, known) if self.type == pa.int64() else _ranks_of_floats(held, known)


def bits_of(column: pa.Array, kind: pa.DataType) -> Known:
    """Whole numbers or floats as `Known`; -0.0 is 0.0, and there is one NaN."""
    values = fixed_values(column)
    if column.null_count:
        valid = validity_mask(column)
        values = np.where(valid, values, values.dtype.type(0))
    else:
        valid = np.ones(len(column), np.bool_)
    if kind == pa.int64():
        return values.astype(np.int64, copy=False), valid
    wide = values.astype(np.float64) + 0.0
    wide[np.isnan(wide)] = np.nan
    return wide.view(np.int64), valid


def ranks_of(column: pa.Array) -> tuple[IntArray, Mask]:
    """int64 in the order of the values, and which are listed: those that are neither null nor NaN."""
    if pa.types.is_uint64(column.type):
        listed = column.is_valid().to_numpy(zero_copy_only=False)
        whole = column.fill_null(0).to_numpy().view(np.int64)
        # the greater half has the negative bits
        return whole ^ np.int64(-(2**63)), listed
    kind = pa.float64() if pa.types.is_floating(column.type) else pa.int64()
    bits, listed = bits_of(column, kind)
    return (bits, listed) if kind == pa.int64() else _ranks_of_floats(bits, listed)


def _ranks_of_floats(bits: IntArray, listed: Mask) -> tuple[IntArray, Mask]:
    # of negative floats, those further from 0 have the greater bits
    ranks = np.where(bits < 0, np.int64(-(2**63)) - bits - 1, bits)
    return ranks, listed & ~np.isnan(bits.view(np.float64))
