"""The rows of open windows, as their operator gathers them, and how they come into a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from streammine.operators.best_rows import BestRows
from streammine.operators.frozen import Header, encode_piece, row_pieces
from streammine.operators.windows import TumblingWindow

Added = Sequence[tuple[int, Sequence[pa.RecordBatch]]]


class HeldRows:
    """Rows by the last epoch of the tumbling window that they lie in."""

    def __init__(self, window: TumblingWindow, gathering: Callable[[], BestRows]) -> None:
        """`gathering` makes what the rows of one window are gathered in."""
        self._window = window
        self._gathering = gathering
        self._windows: dict[int, BestRows] = {}
        self._frozen: dict[int, tuple[int, int]] | None = None

    def over(self, epoch: int, collected: BestRows) -> list[tuple[int, BestRows]]:
        """Take in what an epoch has collected; gives the windows that are over with it, in order."""
        if self._window.epochs == 1:
            return [(epoch, collected)] if collected.batches else []
        if collected.batches:
            last = self._window.last_epoch(epoch)
            if last in self._windows:
                self._windows[last].merge(collected)
            else:
                self._windows[last] = collected
        ended = sorted(last for last in self._windows if last <= epoch)
        return [(last, self._windows.pop(last)) for last in ended]

    @property
    def due_epoch(self) -> int | None:
        """The end of the first open window."""
        return min(self._windows, default=None)

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self._windows.values())

    def freeze(self, full: bool) -> tuple[bool, Iterator[pa.Buffer]]:
        """Whether all is given, and the pieces: batches that were added, all of a window that was cut."""
        full = full or self._frozen is None
        before = {} if full or self._frozen is None else self._frozen
        anew, added = [], []
        for last, rows in sorted(self._windows.items()):
            cuts, known = before.get(last, (-1, 0))
            if cuts != rows.cuts:
                anew.append(last)
                known = 0
            added.append((last, rows.batches[known:]))
        self._frozen = {
            last: (rows.cuts, len(rows.batches)) for last, rows in self._windows.items()
        }
        return full, _pieces(sorted(self._windows), anew, added)

    def restore_first(self, header: Header, full: bool) -> None:
        """Take in the first piece of a snapshot."""
        kept = {} if full else self._windows
        anew = set(header["anew"])
        self._windows = {
            last: self._gathering() if last in anew else kept[last] for last in header["windows"]
        }
        self._frozen = None

    def restore(self, header: Header, batches: Sequence[pa.RecordBatch]) -> None:
        """Take in another piece."""
        for batch in batches:
            self._windows[header["window"]].hold(batch)


def _pieces(windows: Sequence[int], anew: Sequence[int], added: Added) -> Iterator[pa.Buffer]:
    yield encode_piece({"windows": list(windows), "anew": list(anew)})
    for last, batches in added:
        yield from row_pieces({"window": last}, batches)
