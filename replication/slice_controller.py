"""The controller of one slice: when its scheme is changed (Martin 2015, section 6.3).

House rules
-----------
* It starts with active replication, the safe choice, and comes back to it whenever something that estimates
  rest on is not known (any more).
* After each change it cools down, for load comes in spikes. Until it has cooled down, the scheme is changed
  only for safety: because what it is to have no longer fits, or is not known to. Such a change starts the
  cool-down anew.
* What an earlier manager's controller has chosen stands while this one measures, but no longer than
  `PATIENCE_SECONDS`: it rests on more than is known here yet.
* What a person has set is left alone, and the numbers are kept up for who looks at them. When the slice is
  handed back, it has just been changed.
* As long as there is one node alone, nothing is decided. No further replica has a place then, and what the
  slice is to have it has again as soon as there is a second node.

::

    phase      what happens  next phase
    measuring  changed       measuring   to active replication, once, or by a person
    measuring  measured      cooling     the cool-down of an earlier change is kept
    cooling    cooled        settled
    cooling    changed       cooling     for safety, or by a person
    cooling    lacking       measuring
    settled    changed       cooling     for safety, to something cheaper, or by a person
    settled    lacking       measuring

One look may take it from measuring to cooling, settled and cooling again.
"""

from __future__ import annotations

from enum import Enum

from replication.costs import resource_use, weighted_cost
from replication.estimates import recovery_estimates
from replication.recovery_history import RecoveryHistory
from replication.scheme_choice import Choice, choose
from replication.slice_history import SliceHistory
from streammine.model.ids import SliceId
from streammine.model.recovery_assessment import (
    Assessment,
    ControlPhase,
    Decision,
    SliceStance,
)
from streammine.model.recovery_policy import RecoveryGoal, SliceObservation
from streammine.model.schemes import Scheme

PATIENCE_SECONDS = 30.0
"""Several checkpoints, as often as they are made by default."""


class _Event(Enum):
    MEASURED = "measured"
    LACKING = "lacking"
    CHANGED = "changed"
    COOLED = "cooled"


_TRANSITIONS = {
    (ControlPhase.MEASURING, _Event.CHANGED): ControlPhase.MEASURING,
    (ControlPhase.MEASURING, _Event.MEASURED): ControlPhase.COOLING,
    (ControlPhase.COOLING, _Event.COOLED): ControlPhase.SETTLED,
    (ControlPhase.COOLING, _Event.CHANGED): ControlPhase.COOLING,
    (ControlPhase.COOLING, _Event.LACKING): ControlPhase.MEASURING,
    (ControlPhase.SETTLED, _Event.CHANGED): ControlPhase.COOLING,
    (ControlPhase.SETTLED, _Event.LACKING): ControlPhase.MEASURING,
}


class SliceController:
    """`look` is the only mutator. `scheme` is what the slice is to have."""

    def __init__(self, slice_id: SliceId, goal: RecoveryGoal, begun: SliceObservation) -> None:
        """`begun`: how the slice was found."""
        self.phase = ControlPhase.MEASURING
        self.scheme = begun.scheme
        self._inherits = begun.chosen
        self._began_at: float | None = None
        self._slice = slice_id
        self._goal = goal
        self._changed_at: float | None = None
        self._reason = "nothing is known yet"
        self._assessment = Assessment()
        self._history = SliceHistory()

    @property
    def stance(self) -> SliceStance:
        return SliceStance(self.phase, self.scheme, self._reason, self._assessment)

    def look(
        self,
        now_seconds: float,
        observation: SliceObservation,
        history: RecoveryHistory,
        clock_seconds: float,
    ) -> Decision | None:
        """What changes from now on, if anything does."""
        if self._began_at is None:
            self._began_at = now_seconds
            if self._inherits:
                # when it was chosen is not known: it may have been just now
                self._changed_at = now_seconds
        self._history.observe(now_seconds, observation)
        self._assessment = self._assess(history, observation.may_lose)
        if observation.fixed:
            self._enter(_Event.CHANGED)
            self.scheme, self._changed_at = observation.scheme, now_seconds
            self._inherits = False
            self._reason = "a person has set it"
            return None
        if min(observation.replicas, observation.nodes) < 2:
            self._reason = "there is no second node for a further replica"
            return None
        chosen, self._reason = self._choose(now_seconds)
        if chosen is self.scheme:
            return None
        self._enter(_Event.CHANGED)
        previous, self.scheme = self.scheme, chosen
        self._changed_at = now_seconds
        return Decision(
            self._slice, previous, chosen, clock_seconds, self._reason, self._assessment
        )

    def _assess(self, history: RecoveryHistory, may_lose: bool) -> Assessment:
        missing = (*history.missing, *self._history.missing)
        if missing:
            return Assessment(missing)
        outlook, times = self._history.outlook, history.times
        semantics = self._goal.semantics if may_lose else "precise"
        estimates = recovery_estimates(outlook, times, semantics)
        uses = {scheme: resource_use(scheme, outlook, times) for scheme in Scheme}
        costs = {scheme: weighted_cost(use, self._goal.weights) for scheme, use in uses.items()}
        return Assessment((), outlook, estimates, uses, costs)

    def _choose(self, now_seconds: float) -> Choice:
        missing = self._assessment.missing
        if missing and self._waits(now_seconds):
            return self.scheme, f"chosen before; not measured yet: {', '.join(missing)}"
        self._inherits = False
        if missing:
            if self.phase is not ControlPhase.MEASURING:
                self._enter(_Event.LACKING)
            return Scheme.ACTIVE_REPLICATION, f"not measured yet: {', '.join(missing)}"
        if self.phase is ControlPhase.MEASURING:
            self._enter(_Event.MEASURED)
        if self.phase is ControlPhase.COOLING and self._cooled(now_seconds):
            self._enter(_Event.COOLED)
        may_save = self.phase is ControlPhase.SETTLED
        return choose(self.scheme, self._assessment, self._goal, may_save)

    def _waits(self, now_seconds: float) -> bool:
        """What was chosen before stands for a while."""
        assert self._began_at is not None
        return self._inherits and now_seconds - self._began_at < PATIENCE_SECONDS

    def _cooled(self, now_seconds: float) -> bool:
        changed_at = self._changed_at
        return changed_at is None or now_seconds - changed_at >= self._goal.cool_down_seconds

    def _enter(self, event: _Event) -> None:
        after = _TRANSITIONS.get((self.phase, event))
        assert after is not None, f"{self._slice} can't be {event.value} while {self.phase.value}"
        self.phase = after
