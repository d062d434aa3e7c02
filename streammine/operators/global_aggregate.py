"""The keyed aggregate over the whole input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Unpack

import pyarrow as pa

from streammine.model.contracts import Accumulator, EpochClose
from streammine.model.epochs import INFINITY
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import (
    AggregateAccumulator,
    AggregateBase,
    AggregateSettings,
)
from streammine.operators.aggregates.window_state import OpenWindows
from streammine.operators.frozen import Handover, check_version


class GlobalAggregate(AggregateBase):
    """Aggregates per key over all rows (a StatefulOperator that Flushes and KeepsState).

    The results leave when the input is over, in the final epoch: one more than the last that held
    data. Until then there is a group for each key.
    """

    ends_input = True

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        aggregates: Mapping[str, AggregateCall],
        **settings: Unpack[AggregateSettings],
    ) -> None:
        """As `AggregateBase`. Raises TopologyError."""
        super().__init__(name, schema, keys, aggregates, **settings)
        self._open = OpenWindows()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Add the epoch; nothing leaves yet."""
        (collected,) = accumulators
        assert isinstance(collected, AggregateAccumulator), collected
        state = collected.groups()
        if groups := state.group_count:
            self.renew_table(state.table, groups)
            self._open.add(INFINITY, state)
        return []

    def flush(self, epoch: EpochClose) -> Sequence[pa.RecordBatch]:
        """See contracts.Flushes."""
        left: list[pa.RecordBatch] = []
        for _, state in self._open.take_closed(INFINITY):
            left += self._leave(epoch.epoch, state)
        return left

    @property
    def state_nbytes(self) -> int:
        return self._open.nbytes

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState."""
        return self._open.freeze(full)

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        self._open.restore(full, pieces, self.new_state)
        self.renew_table(self._table, 0)
