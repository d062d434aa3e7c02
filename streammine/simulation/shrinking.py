"""Shrinking: the few faults out of many that a failure needs.

Delta debugging (Zeller and Hildebrandt, IEEE TSE 28(2), 2002): halves, then quarters and so on are left out
as long as the run still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

MOST_TRIALS = 200


def shrink(
    numbers: Sequence[int], fails: Callable[[Sequence[int]], bool], most_trials: int = MOST_TRIALS
) -> list[int]:
    """A part of `numbers`, in order, with which it still `fails`; leaving out any one more cures it,
    unless `most_trials` ran out first. `fails(numbers)` is taken to be true."""
    kept = list(numbers)
    if not kept or fails([]):
        return []
    parts = 2
    trials = 1
    while len(kept) > 1:
        length = -(-len(kept) // parts)
        for start in range(0, len(kept), length):
            if trials == most_trials:
                return kept
            trials += 1
            rest = kept[:start] + kept[start + length :]
            if fails(rest):
                kept = rest
                parts = max(2, parts - 1)
                break
        else:
            if parts >= len(kept):
                return kept
            parts = min(len(kept), 2 * parts)
    return kept
