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
* Where nobody left can tell a replica what was decided it gives up, and is built anew like one that is lost:
  it began early, those that know what is decided now began later, and who knew all has ended. Where decisions
  live in memory it does so only once one of them votes. That one has learnt all that former plans may have
  chosen, from this one's answer, too; so no more is lost with it than with any voter. Where every decision is
  stored nothing is, and it may be the only one that the plan lists.
* So who lacks what was removed from the store, once checkpoints covered it, votes for nothing before it has
  learnt from others what was decided up to there: else it would decide anew what they went on from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from replication.peers import accepted
from replication.quorums import Accepted, closing, may_be_chosen
from streammine.model.agreement import (
    BagSet,
    Ballot,
    FormerPlan,
    Report,
    StoredDecision,
)
from streammine.model.epochs import BEGINNING

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


def untold_until(
    decided: int, version: int, said: Iterable[Report | None], stored: bool, removed: int
) -> int | None:
    """An epoch up to which nobody knows any more what followed `decided`, as far as was heard; None where
    somebody may.

    `said`: what each other replica that has not ended said last, those of former plans included. `version`:
    the newest plan, in which one of them must vote unless every decision is `stored`. `removed`: up to where
    the store may hold none any more.
    """
    begins = [removed] if removed > decided else []
    votes = stored
    for report in said:
        if report is None:
            return None
        if report.decided > decided:
            if report.tells_after <= decided:
                return None
            begins.append(report.tells_after)
        votes |= report.ready_in == report.plan_version == version
    return min(begins) if votes and begins else None


def to_be_told_until(answers: Mapping[int, Report], others: Collection[int], stored: bool) -> int:
    """Up to which epoch this replica is to be told what was decided, before it takes part.

    Where every decision is `stored` only `others` that are still there are waited for: what counted of former
    plans is on the list, and in this one it has accepted nothing yet.
    """
    said = (each.decided for one, each in answers.items() if not stored or one in others)
    return max(said, default=BEGINNING)


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
