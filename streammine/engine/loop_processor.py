"""What a slice inside a loop works on: the times of its work are stamps (see model.stamps).

An operator that takes a bag event by event runs once per round, over that round's bag. One that folds
accumulators runs once per epoch, in the final round, over what came in all of its rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from streammine.engine.processor import OperatorProcessor
from streammine.model.contracts import Accumulator, EpochClose, StatefulOperator
from streammine.model.stamps import epoch_of, final, is_final, round_of


class LoopProcessor(OperatorProcessor):
    """Runs the operator of a loop's member."""

    def _epoch_of(self, at: int) -> int:
        return epoch_of(at)

    def _close_at(self, at: int, watermark: int) -> EpochClose:
        return EpochClose(epoch_of(at), watermark, self.epoch, round_of(at), is_final(at))

    def _due(self) -> int | None:
        due = super()._due()
        return None if due is None else final(due)

    def _finishing_at(self, epoch: int) -> int:
        return final(epoch)

    def _folded(self, at: int, operator: StatefulOperator) -> list[Accumulator]:
        together: dict[tuple[int, int], Accumulator] = {}
        for time in _rounds(self._accumulators, at):
            for key, accumulator in sorted(self._accumulators.pop(time).items()):
                into = together.setdefault(key, accumulator)
                if into is not accumulator:
                    into.merge(accumulator)
        self._accumulators[at] = together
        return super()._folded(at, operator)

    def _segments(self, epochs: Sequence[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self._folding is None:
            yield from super()._segments(epochs)
            return
        (at,) = epochs
        for time in _rounds(self._bags, at):
            yield from super()._segments([time])


def _rounds(held: Iterable[int], at: int) -> list[int]:
    """The stamps at which something is held, of the same epoch as the final stamp `at`."""
    return sorted(each for each in held if epoch_of(each) == epoch_of(at))
