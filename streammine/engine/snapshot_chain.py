"""What a slice knows of its snapshots: which are durable, and whether the next one must be full.

An increment holds what changed since the snapshot before, so restoring reads a chain back to a full one. A
chain that has grown long, or larger than its full snapshot, costs more to restore than a new full one
costs to write (Carbone et al. 2015, section 4.4, leave incremental snapshots open; Wu & Tan 2015, section
4, rewrite bases likewise).
"""

from __future__ import annotations

from collections import deque

from streammine.model.errors import OutputError
from streammine.model.ids import SliceId
from streammine.model.snapshots import SnapshotRecord

LONGEST_CHAIN = 16
RECORDS_KEPT = 4
"""More than the two checkpoints that are kept, so that one in the making is never missing."""

FAILURES_IN_A_ROW = 3


class SnapshotChain:
    """The snapshots of one replica, newest last. One is written at a time."""

    def __init__(self) -> None:
        self.records: deque[SnapshotRecord] = deque(maxlen=RECORDS_KEPT)
        self.writing = False
        self.failures = 0
        self._begun_on: SnapshotRecord | None = None
        self._left = False
        self._base_bytes = 0
        self._added_bytes = 0

    @property
    def previous(self) -> SnapshotRecord | None:
        """What the next snapshot adds to; None where it must be full."""
        if not self.records or self.failures or self._left:
            return None
        last = self.records[-1]
        if last.chain >= LONGEST_CHAIN or self._added_bytes > self._base_bytes:
            return None
        return last

    def leave(self) -> None:
        """Another replica makes the next ones: what is here is removed once theirs are complete."""
        self._left = True

    def begin(self) -> bool:
        """State is frozen now for the next snapshot; whether all of it."""
        self._begun_on, self._left = self.previous, False
        return self._begun_on is None

    def write(self) -> SnapshotRecord | None:
        """What was frozen is written; gives what it adds to."""
        assert not self.writing, "two snapshots of one slice are written at a time"
        self.writing = True
        return self._begun_on

    def done(self, record: SnapshotRecord | None) -> None:
        """A snapshot is durable, or (None) it could not be written."""
        self.writing = False
        if record is None:
            self.failures += 1
            return
        self.failures = 0
        self.records.append(record)
        if record.full:
            self._base_bytes, self._added_bytes = record.nbytes, 0
        else:
            self._added_bytes += record.nbytes

    @property
    def hopeless(self) -> bool:
        """So many have failed in a row that the next one will, too."""
        return self.failures >= FAILURES_IN_A_ROW

    def check(self, slice_id: SliceId) -> None:
        """Raises OutputError where it is hopeless."""
        if self.hopeless:
            raise OutputError(
                f"slice {slice_id}: {self.failures} snapshots in a row could not be "
                "written; see the node's log, and check the folder and the space of `snapshot: store`"
            )
