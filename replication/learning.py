"""What a replica must know of former plans before it takes part in a new one (used by `consensus`).

An *answer* is a report that is given for the new plan: who gave it does nothing for older plans any more.

* Let w be the newest plan that any answer's replica was ready in. It learnt then what may have been chosen
  before w, and brings it along as accepted in (w, inherited); so plans before w need not be asked.
* Of each former plan from w on, `closing` many answers are wanted, so that nothing is chosen in it any more,
  and what was chosen is in one of the answers. Where its replicas have ended, the answers of all others
  are: then more of them were lost than the plan stands, unless those left had written what they held.
* What was chosen with the bag on few replicas (a lone replica, the witness) goes by the store, in the way
  of all logs there: the new plan puts its seal in first and lists afterwards; who writes looks for a seal
  afterwards. So either the decision is on the list, or its writer finds the seal and drops it.
* That some epoch is decided may be all that answers tell of it: who told it begins there itself, and those
  who knew more have ended. Where every decision is stored, the list has it: each newer plan's value for an
  epoch is the one that was decided, so of the values on the list that of the newest plan is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from replication.peers import accepted
from replication.quorums import Accepted, closing, may_be_chosen
from streammine.model.agreement import (
    BagSet,
    Ballot,
    Decision,
    FormerPlan,
    Report,
    StoredDecision,
    StoreRead,
)

STORED = 1 << 30
"""Attempt of what is found in the store. Only what was chosen is written, so it goes before the others."""


def is_closed(
    former: Iterable[FormerPlan], answers: Mapping[int, Report], gone: Collection[int]
) -> bool:
    """Whether the answers, with the store, tell all that these plans may have chosen."""
    ready_in = max(each.ready_in for each in answers.values())
    return all(_is_closed(each, answers, gone) for each in former if each.version >= ready_in)


def _is_closed(plan: FormerPlan, answers: Mapping[int, Report], gone: Collection[int]) -> bool:
    answered = sum(generation in answers for generation in plan.replicas)
    silent = [each for each in plan.replicas if each not in answers and each not in gone]
    return answered >= closing(len(plan.replicas)) or not silent


def stored_chain(store: StoreRead, decided: int, known: int) -> Iterator[Decision]:
    """The decisions that follow the epoch `decided`, as far as the store holds them without a gap, of those
    up to `known`, which are all decided. None where some of it was damaged: that may have been the newest."""
    newest: dict[int, StoredDecision] = {}
    for each in store.decisions if store.is_whole else ():
        after = each.decision.after
        if after not in newest or newest[after].plan_version < each.plan_version:
            newest[after] = each
    while decided < known and decided in newest:
        yield newest[decided].decision
        decided = newest[decided].decision.chosen.epoch


def inherited(
    answers: Iterable[Report], stored: Iterable[StoredDecision], decided: int
) -> dict[int, BagSet]:
    """By the epoch that it follows, what may have been chosen and is not known to be decided."""
    found: dict[int, list[Accepted]] = {}
    for answer in answers:
        for entry in answer.entries:
            if entry.after >= decided and (vote := accepted(entry)) is not None:
                found.setdefault(entry.after, []).append(vote)
    for each in stored:
        ballot = Ballot(each.plan_version, STORED)
        vote = Accepted(ballot, each.decision.chosen)
        if each.decision.after >= decided:
            found.setdefault(each.decision.after, []).append(vote)
    values = {after: may_be_chosen(votes) for after, votes in found.items()}
    return {after: value for after, value in sorted(values.items()) if value is not None}
