"""The rows of open windows, gathered pane by pane, and how they come into a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from streammine.operators.best_rows import BestRows
from streammine.operators.frozen import Header, encode_piece, row_pieces
from streammine.operators.windows import AlignedWindows

Added = Sequence[tuple[int, Sequence[pa.RecordBatch]]]


class HeldRows:
    """Rows by the last epoch of the pane that they lie in; where windows tumble, a pane is a window."""

    def __init__(self, window: AlignedWindows, gathering: Callable[[], BestRows]) -> None:
        """`gathering` makes what the rows of one pane or window are gathered in."""
        self._window = window
        self._gathering = gathering
        self._panes: dict[int, BestRows] = {}
        self._closed: int | None = None
        self._frozen: dict[int, tuple[int, int]] | None = None

    def over(self, epoch: int, collected: BestRows) -> BestRows | None:
        """Take in what an epoch has collected; gives the rows of the window that ends with it, if it has
        any."""
        window = self._window
        if window.epochs == 1:
            return collected if collected.batches else None
        self._closed = epoch
        if collected.batches:
            self._take_in(window.pane_end(epoch), epoch, collected)
        if not window.ends_with(epoch) or not self._panes:
            return None
        inside = list(self._panes.values())
        needed = window.first_needed(epoch)
        self._panes = {last: rows for last, rows in self._panes.items() if last >= needed}
        if len(inside) == 1 and not self._panes:
            return inside[0]
        whole = self._gathering()
        for rows in inside:
            whole.merge(rows)
        return whole

    def _take_in(self, last: int, epoch: int, collected: BestRows) -> None:
        """Rows of the pane that ends with `last`. What no row comes to any more holds its first ones only."""
        if last in self._panes:
            self._panes[last].merge(collected)
        else:
            before = next(reversed(self._panes.values()), None)
            if before is not None:
                before.trim()
            self._panes[last] = collected
        if last == epoch and not self._window.tumbles:
            self._panes[last].trim()

    @property
    def due_epoch(self) -> int | None:
        """The end of the next window, while there are rows in it."""
        if not self._panes:
            return None
        assert self._closed is not None, "a pane comes with an epoch"
        return self._window.next_end(self._closed)

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self._panes.values())

    def freeze(self, full: bool) -> tuple[bool, Iterator[pa.Buffer]]:
        """Whether all is given, and the pieces: batches that were added, all of a pane that was cut."""
        full = full or self._frozen is None
        before = {} if full or self._frozen is None else self._frozen
        anew, added = [], []
        for last, rows in sorted(self._panes.items()):
            cuts, known = before.get(last, (-1, 0))
            if cuts != rows.cuts:
                anew.append(last)
                known = 0
            added.append((last, rows.batches[known:]))
        self._frozen = {last: (rows.cuts, len(rows.batches)) for last, rows in self._panes.items()}
        header = {"panes": sorted(self._panes), "anew": anew, "closed": self._closed}
        return full, _pieces(header, added)

    def restore_first(self, header: Header, full: bool) -> None:
        """Take in the first piece of a snapshot."""
        kept = {} if full else self._panes
        anew = set(header["anew"])
        self._panes = {
            last: self._gathering() if last in anew else kept[last] for last in header["panes"]
        }
        self._closed = header["closed"]
        self._frozen = None

    def restore(self, header: Header, batches: Sequence[pa.RecordBatch]) -> None:
        """Take in another piece."""
        for batch in batches:
            self._panes[header["pane"]].hold(batch)


def _pieces(header: Header, added: Added) -> Iterator[pa.Buffer]:
    yield encode_piece(header)
    for last, batches in added:
        yield from row_pieces({"pane": last}, batches)
