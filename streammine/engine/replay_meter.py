"""How fast the replicas of a vertex catch up, which is faster than they keep up.

Who keeps up does a run of work for every few batches that come. While several complete epochs wait, a run
takes all that waits of one, and of some more where they are small, so less time goes into each of them. Every
such run is measured, whatever has made the replica late: a recovery, a move, or a long breath of the machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from streammine.engine.stimuli import Accumulate, Read, Work, WorkResult

STEP_BYTES = 64
"""What an epoch's end, or a batch, counts beside its rows: it takes time, too, where there are hardly any."""

ENOUGH_SECONDS = 0.005
"""Of such work, for a rate."""

WINDOW_SECONDS = 1.0
"""Of such work; what was measured before it is forgotten."""


@dataclass
class ReplayCount:
    """What a replica has done while it caught up: bytes of input, as a `SliceMeter` counts them, and the
    seconds that the work took."""

    nbytes: float = 0.0
    seconds: float = 0.0

    def performed(
        self, work: Sequence[Work], late_bytes: int, result: WorkResult, seconds: float
    ) -> None:
        """A run of work is done. `late_bytes` as in `stimuli.Run`. A source catches up unless it waits for
        its next row, and what it takes is what it makes."""
        if any(isinstance(item, Read) for item in work):
            if result.wake_after_seconds is None:
                made_bytes = sum(output.nbytes for output in result.outputs)
                self._add(made_bytes + STEP_BYTES, seconds)
        elif late_bytes:
            steps = sum(isinstance(item, Accumulate) for item in work) + len(result.closed)
            self._add(late_bytes + STEP_BYTES * steps, seconds)

    def _add(self, nbytes: float, seconds: float) -> None:
        self.nbytes += nbytes
        self.seconds += seconds

    def counters(self) -> dict[str, float]:
        return {"replayed_bytes": self.nbytes, "replay_seconds": self.seconds}


class ReplayMeter:
    """Of one vertex, from what its replicas have counted."""

    def __init__(self) -> None:
        self._counted: dict[object, ReplayCount] = {}
        self._newest: deque[ReplayCount] = deque(maxlen=256)

    def note(self, replica: object, counters: Mapping[str, float]) -> None:
        """What one replica has counted by now. One that was made anew under its old name counts from
        nothing."""
        now = ReplayCount(counters.get("replayed_bytes", 0.0), counters.get("replay_seconds", 0.0))
        before = self._counted.get(replica, ReplayCount())
        if now.seconds < before.seconds:
            before = ReplayCount()
        self._counted[replica] = now
        if now.seconds > before.seconds:
            self._newest.append(
                ReplayCount(now.nbytes - before.nbytes, now.seconds - before.seconds)
            )
            while self._seconds - self._newest[0].seconds >= WINDOW_SECONDS:
                self._newest.popleft()

    def forget(self, living: Set[object]) -> None:
        """Only these replicas may be heard of again."""
        for replica in self._counted.keys() - living:
            del self._counted[replica]

    @property
    def _seconds(self) -> float:
        return sum(each.seconds for each in self._newest)

    @property
    def bytes_per_second(self) -> float | None:
        """Of work; None while too little is known."""
        seconds = self._seconds
        if seconds < ENOUGH_SECONDS:
            return None
        return sum(each.nbytes for each in self._newest) / seconds
