"""What a job's controller knows that is to outlive its manager, on its way into the job's store.

One version is written at a time, and the newest one next; what failed is tried again after a while. Nothing
is written before it is known what an earlier manager has left: it would be lost.
"""

from __future__ import annotations

from streammine.model.recovery_assessment import ControlMemory

AGAIN_SECONDS = 1.0
"""After a store that could not be written."""


class Remembering:
    """Of one job, for one term of its manager. `kept`: what the store holds."""

    def __init__(self, kept: ControlMemory | None = None) -> None:
        self._kept = ControlMemory() if kept is None else kept
        self._writing: ControlMemory | None = None
        self._from_seconds = 0.0

    def due(self, now_seconds: float, memory: ControlMemory) -> bool:
        """Whether what is known now is to be written now; if so, `written` is said of it."""
        if self._writing is not None or now_seconds < self._from_seconds or memory == self._kept:
            return False
        self._writing = memory
        return True

    def written(self, now_seconds: float, memory: ControlMemory, error: str | None) -> None:
        if memory != self._writing:
            # of an earlier term
            return
        self._writing = None
        if error is None:
            self._kept = memory
        else:
            self._from_seconds = now_seconds + AGAIN_SECONDS
