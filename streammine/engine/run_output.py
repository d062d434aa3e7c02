"""What a run of work gives to the outgoing edges.

Where stages or a split lie behind them, the rows of several small epochs go there together. Batches of one
epoch don't: dead letters of stages come batch by batch.
"""

from __future__ import annotations

import pyarrow as pa

from streammine.engine.edges import OutgoingEdges
from streammine.engine.span import SPAN_BYTES, SPAN_ROWS, Span, spans
from streammine.engine.stimuli import Output
from streammine.model.batch_size import batch_nbytes
from streammine.model.contracts import DeadRows


class RunOutput:
    """Rows come with ascending epochs; `end` says which of these are over. `nbytes`: of what came."""

    def __init__(self, edges: OutgoingEdges) -> None:
        self.outputs: list[Output] = []
        self.nbytes = 0
        self._edges = edges
        self._waiting: list[tuple[int, pa.RecordBatch]] = []
        self._waiting_rows = self._waiting_bytes = 0

    def push(self, epoch: int, batch: pa.RecordBatch) -> None:
        """Rows of one epoch."""
        if not batch.num_rows:
            return
        nbytes = batch_nbytes(batch)
        self.nbytes += nbytes
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += nbytes
        again = self._waiting and self._waiting[-1][0] == epoch
        if again or self._waiting_rows > SPAN_ROWS or self._waiting_bytes > SPAN_BYTES:
            self._flush()
            self._waiting_rows, self._waiting_bytes = batch.num_rows, nbytes
        self._waiting.append((epoch, batch))
        full = self._waiting_rows >= SPAN_ROWS or self._waiting_bytes >= SPAN_BYTES
        if full or not self._edges.gain_by_spans:
            self._flush()

    def push_span(self, span: Span) -> None:
        """Rows of several epochs."""
        self._flush()
        self.nbytes += batch_nbytes(span.batch)
        self._edges.push(span, self.outputs)

    def dead(self, epoch: int, origin: str, rows: DeadRows) -> None:
        """Rows that could not be used."""
        self._flush()
        self._edges.dead(epoch, origin, rows, self.outputs)

    def end(self, open_epoch: int) -> None:
        """Every epoch below `open_epoch` is complete here."""
        self._flush()
        self._edges.end(open_epoch, self.outputs)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting_rows = self._waiting_bytes = 0
        for span in spans(waiting):
            self._edges.push(span, self.outputs)
