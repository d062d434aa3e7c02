"""Which scheme a slice is to have, the numbers of all of them being known (Martin 2015, section 6.2).

A scheme is *left* at once when its estimate is beyond the time that a recovery may take: safety comes first,
whenever that is. It is *entered* only with something to spare, so that small changes don't throw the slice
out again: its estimate is at most `SAFETY_SHARE` of that time. Of those it is the cheapest, of equally cheap
ones the fastest. A scheme that fits is left only for one that costs less by `WORTH_SHARE` of its cost, for
each change costs, too, and what is measured is never quite the same; and only when that is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable

from streammine.model.recovery_assessment import Assessment
from streammine.model.recovery_policy import RecoveryGoal
from streammine.model.schemes import Scheme

SAFETY_SHARE = 0.8
"""Of the time that a recovery may take: what the estimate of a scheme may be for it to be entered."""

WORTH_SHARE = 0.02
"""Of its cost that must be saved for a scheme that fits to be left."""

Choice = tuple[Scheme, str]
"""With the reason."""


def choose(present: Scheme, assessment: Assessment, goal: RecoveryGoal, may_save: bool) -> Choice:
    """`may_save`: a scheme that fits may be left for a cheaper one."""
    seconds = {scheme: estimate.seconds for scheme, estimate in assessment.estimates.items()}
    safe_seconds = SAFETY_SHARE * goal.max_seconds
    safe = [scheme for scheme in seconds if seconds[scheme] <= safe_seconds]
    if seconds[present] > goal.max_seconds:
        too_slow = f"{present} would take {seconds[present]:.3g} s of {goal.max_seconds:.3g} s"
        if safe:
            cheapest = _cheapest(safe, assessment)
            return cheapest, f"{too_slow}; the cheapest within {safe_seconds:.3g} s"
        fitting = [scheme for scheme in seconds if seconds[scheme] <= goal.max_seconds]
        if fitting:
            return _cheapest(fitting, assessment), f"{too_slow}; the cheapest that fits, barely"
        return Scheme.ACTIVE_REPLICATION, f"nothing fits into {goal.max_seconds:.3g} s"
    if not safe:
        return present, "it fits, and nothing else does with a margin"
    cheapest = _cheapest(safe, assessment)
    saved = assessment.costs[present] - assessment.costs[cheapest]
    if saved <= WORTH_SHARE * assessment.costs[present]:
        return present, "hardly dearer than the cheapest" if saved > 0 else "the cheapest that fits"
    if not may_save:
        return present, f"it fits; {cheapest} is cheaper, but the last change is too recent"
    return cheapest, f"the cheapest within {safe_seconds:.3g} s"


def _cheapest(schemes: Iterable[Scheme], assessment: Assessment) -> Scheme:
    return min(
        schemes, key=lambda each: (assessment.costs[each], assessment.estimates[each].seconds)
    )
