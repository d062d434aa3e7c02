"""Which epochs of a slice's output lack something: what gap recovery loses, and what follows from it.

Theory: gap recovery (Hwang et al. 2005, section 3) gives up what was under way when a replica was lost, and
goes on with what comes now. Here it gives up whole epochs, and says which. A replica that is built anew
under it holds the state after some epoch S and takes its input from a later epoch G on; the epochs between
are *left out*. It counts them as over, with the input of none of its channels, and sends their ends flagged
`LOST`. Who gets a lost end on some channel marks these epochs as lost for itself and passes the flag on,
down to the committer, whose manifests name them.

What is promised: **an epoch that is not named as lost has the rows that it would have had without any crash,
byte for byte.** One that is named may hold all of them, some, or none.

For that the flag reaches as far as the missing events do. An operator's state that goes beyond an epoch is
a window of `window_epochs` epochs; so an epoch that is lost makes its window lost, up to the window's last
epoch, where its results leave. Of windows that slide, it makes all lost that hold it. Operators that keep
state without end would never be right again: these, the members of loops, and all that leads to either,
recover as under precise semantics (`JobGraph.may_lose`). So are sources, which read again, and sinks and
committers, which never lose what they were given; a sink's window is the group of epochs that is committed
together.

House rules
-----------
* An epoch that a receiver has complete is not lost there, whatever its sender becomes: it drops the end that
  says so, like every other frame of that epoch.
* Nothing is lost without a plan that leaves it out (`Restore.left_out_until`), so under precise semantics
  there is nothing here, and nothing is looked for.
* What a snapshot's state lacks travels with the snapshot, so that who is restored from it goes on flagging.
"""

from __future__ import annotations

from collections.abc import Iterator

from streammine.model.epoch_ranges import EpochRanges
from streammine.model.epochs import BEGINNING


class Losses:
    """The lost epochs of one replica's output."""

    def __init__(self, window_epochs: int, slide_epochs: int | None = None) -> None:
        """`slide_epochs`: how far apart windows begin; by default they tumble."""
        self.epochs = EpochRanges()
        self._window_epochs = window_epochs
        self._slide_epochs = slide_epochs or window_epochs

    def __bool__(self) -> bool:
        return bool(self.epochs)

    def missed(self, first: int, last: int) -> None:
        """Input of these epochs is missing: what it would have had a part in is lost."""
        if first <= last:
            self.lost(first, self._reach(last))

    def lost(self, first: int, last: int) -> None:
        """Output of these epochs is lost."""
        self.epochs.add(first, last)

    def up_to(self, epoch: int) -> Iterator[tuple[int, bool]]:
        """How to end all epochs up to this one: the last of each run in turn, and whether it is lost."""
        ended = None
        for first, last in self.epochs:
            if first > epoch:
                break
            yield first - 1, False
            ended = min(last, epoch)
            yield ended, True
        if ended != epoch:
            yield epoch, False

    def beyond(self, epoch: int) -> int:
        """How far the output that follows `epoch` lacks what was lost up to it; BEGINNING where it lacks
        nothing."""
        reach = self._reach(epoch)
        for first, last in self.epochs:
            if first <= epoch < last:
                # what reaches further was lost behind the epoch
                return min(last, reach) if reach > epoch else BEGINNING
        return BEGINNING

    def _reach(self, epoch: int) -> int:
        """The end of the last window that an epoch lies in."""
        return epoch // self._slide_epochs * self._slide_epochs + self._window_epochs - 1
