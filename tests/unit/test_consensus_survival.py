"""What was decided outlives replicas and plans, in transcripts: see tests/unit/agreement_transcripts.py."""

from __future__ import annotations

import pytest

from replication.phases import TRANSITIONS, Event, Phase
from streammine.model import agreement as words
from tests.unit.agreement_transcripts import Replicas, check, ready


def test_a_lone_replica_of_two_goes_on_with_the_witness_and_writes_what_it_decides() -> None:
    # and what it knew before, since nobody else can be relied on to remember it
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5a
          2 tells 1: named 5a
        > 1 hears 2
          1 processes 5a
        > 2 hears 1
          2 processes 5a
        > 1 has 6a
          1 tells 2: named 5a, named 6a
        > 1 waits long
          1 asks for the witness
          1 writes 5a
          1 tells 2: named 6a but promised 1
        > witness 1: 1
          1 tells 2: accepted 6a in 1
        > 1 wrote
          1 writes 6a
        > 1 wrote
          1 tells 2: decided 6a
          1 processes 6a
        """,
    )


def test_the_witness_counts_for_one_vote_more() -> None:
    # 3 of 5 votes are wanted; the two replicas that give them are too few to do without the store
    check(
        ready(4),
        """
        > 1 has 5a
          1 tells 2 3 4: named 5a
        > 1 waits long
          1 asks for the witness
          1 tells 2 3 4: named 5a but promised 1
        > witness 1: 1
        > 2 hears 1
          2 tells 1 3 4: promised 1 after 0
        > 1 hears 2
          1 tells 2 3 4: accepted 5a in 1
        > 2 hears 1
          2 fetches 5a from 1
        > 2 holds 5a
          2 tells 1 3 4: accepted 5a in 1
        > 1 hears 2
          1 writes 5a
        > 1 wrote
          1 tells 2 3 4: decided 5a
          1 processes 5a
        """,
    )


def test_who_has_promised_a_ballot_names_nothing_any_more() -> None:
    # else 1 could not know what 2 may have decided with others
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 1 waits
          1 tells 2: named 5a but promised 1
        > 2 hears 1
          2 tells 1: promised 1 after 0
        > 2 has 5b
        """,
    )


def test_a_replica_that_is_busy_notices_that_it_is_alone() -> None:
    # what it tells in between is no repetition
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 1 waits little
        > 1 has 6a
          1 tells 2: named 5a, named 6a
        > 1 waits little
          1 tells 2: named 5a but promised 1, named 6a
        > 1 waits little
          1 tells 2: named 5a but promised 1, named 6a but promised 1
        > 1 waits little
          1 asks for the witness
        """,
    )


def test_without_the_witness_a_lone_replica_waits() -> None:
    # 2 holds it, or nobody can tell
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 1 waits long
          1 asks for the witness
          1 tells 2: named 5a but promised 1
        > witness 1: 2
        > 1 waits long
          1 tells 2: as before, knows up to 0
        > 1 waits long
          1 tells 2: as before, knows up to 0
        """,
    )


def test_a_decision_on_one_replica_and_the_witness_does_not_count_before_it_is_written() -> None:
    # 2 hears what 1 accepted; it takes it over, and so does without the store
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 1 waits long
          1 asks for the witness
          1 tells 2: named 5a but promised 1
        > witness 1: 1
          1 writes 5a
          1 tells 2: accepted 5a in 1
        > 2 hears 1
          2 fetches 5a from 1
          2 tells 1: promised 1 after 0
        > 2 holds 5a
          2 processes 5a
          2 tells 1: accepted 5a in 1
        > 1 hears 2
          1 processes 5a
        > 1 wrote
        """,
    )


def test_a_write_that_finds_a_newer_seal_counts_for_nothing() -> None:
    # replicas of plan 2 may have read the store before it was written
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 1 waits long
          1 asks for the witness
          1 tells 2: named 5a but promised 1
        > witness 1: 1
          1 writes 5a
          1 tells 2: accepted 5a in 1
        > 1 wrote, under seal 2
        > 1 waits long
        """,
    )


def test_both_of_two_may_die_one_after_the_other() -> None:
    # epoch 5 was processed as a. 1 dies; 2 writes a down, and dies. 3 and 4 find it in the store
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5a
          2 tells 1: named 5a
        > 1 hears 2
          1 processes 5a
        > 2 hears 1
          2 processes 5a
        > 2 waits long
          2 writes 5a
          2 tells 1: as before, knows up to 5
        > 2 wrote
        > plan 2 of 3 4, after 1 of 1 2
          3 seals the store for plan 2
          3 tells 1 2 4: not ready for plan 2?
          4 seals the store for plan 2
          4 tells 1 2 3: not ready for plan 2?
        > 3 read
        > 4 read
        > 3 knows 1 2 gone
          3 fetches 5a from elsewhere
        > 4 knows 1 2 gone
          4 fetches 5a from elsewhere
        > 3 has 5b
        > 3 holds 5a
          3 tells 4: named 5a
        > 4 holds 5a
          4 tells 3: named 5a
        > 3 hears 4
          3 processes 5a
        > 4 hears 3
          4 processes 5a
        """,
    )


def test_a_new_plan_waits_for_those_that_may_remember() -> None:
    # 2 of the 3 replicas of plan 1 have to answer, or all that are not known to have ended
    check(
        ready(3),
        """
        > plan 2 of 4 5, after 1 of 1 2 3
          4 seals the store for plan 2
          4 tells 1 2 3 5: not ready for plan 2?
          5 seals the store for plan 2
          5 tells 1 2 3 4: not ready for plan 2?
        > 4 has 5b
        > 4 read
        > 1 hears 4
          1 tells 4: not ready for plan 2
        > 4 hears 1
        > 3 hears 4
          3 tells 4: not ready for plan 2
        > 4 hears 3
          4 tells 5: named 5b
        """,
    )


def test_what_replicas_of_a_former_plan_remember_is_named_in_the_new_one() -> None:
    # 1 has processed a, and is lost; 2 does not know that, but has named a
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5a
          2 tells 1: named 5a
        > 1 hears 2
          1 processes 5a
        > plan 2 of 2 3, after 1 of 1 2
          2 seals the store for plan 2
          2 tells 1 3: not ready for plan 2, named 5a?
          3 seals the store for plan 2
          3 tells 1 2: not ready for plan 2?
        > 3 has 5b
        > 3 read
        > 2 hears 3
          2 tells 3: not ready for plan 2, named 5a
        > 3 hears 2
          3 fetches 5a from 2
        > 3 holds 5a
          3 tells 2: named 5a
        """,
    )


def test_a_later_leader_needs_promises() -> None:
    # that 3 has named c says all to 1 alone: in the ballot of 1 it may since have accepted another
    check(
        ready(3),
        """
        > 2 has 5b
          2 tells 1 3: named 5b
        > 3 has 5c
          3 tells 1 2: named 5c
        > 2 hears 3
        > 2 waits long
          2 tells 1 3: named 5b but promised 2
        > 3 hears 2
          3 tells 1 2: named 5c but promised 2
        > 2 hears 3
          2 tells 1 3: accepted 5b in 2
        """,
    )


def test_who_answers_for_a_new_plan_is_mute_in_the_old_one() -> None:
    # 1 and 2 have the same bag, but 2 has answered 3 before
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > plan 2 of 3, after 1 of 1 2
          3 seals the store for plan 2
          3 tells 1 2: not ready for plan 2?
        > 2 hears 3
          2 tells 3: not ready for plan 2
        > 2 has 5a
        > 2 hears 1
        > 3 read
        > 3 hears 2
        > 3 has 5b
          3 writes 5b
        > 3 wrote
          3 processes 5b
        """,
    )


def test_a_new_replica_is_told_what_was_decided_and_names_nothing_before() -> None:
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5a
          2 tells 1: named 5a
        > 1 hears 2
          1 processes 5a
        > 2 hears 1
          2 processes 5a
        > plan 2 of 1 2 3, after 1 of 1 2
          1 seals the store for plan 2
          1 tells 2 3: not ready for plan 2, named 5a?
          2 seals the store for plan 2
          2 tells 1 3: not ready for plan 2, named 5a?
          3 seals the store for plan 2
          3 tells 1 2: not ready for plan 2?
        > 1 read
          1 tells 2 3: knows up to 5
        > 3 read
        > 3 has 5b
        > 1 hears 3
          1 tells 3: decided 5a
          1 tells 3: knows up to 5
        > 3 hears 1, the first
          3 tells 1: not ready for plan 2
        > 3 hears 1
        > 3 holds 5a
        > 1 waits
          1 tells 2 3: as before, knows up to 5
        > 1 hears 3
          1 tells 3: decided 5a
        > 3 hears 1
          3 processes 5a
          3 tells 1 2: knows up to 5
        """,
    )


def test_a_paused_replica_does_not_vote_but_learns() -> None:
    check(
        ready(2),
        """
        > 2 pauses
          2 tells 1: paused
        > 1 hears 2
        > 1 has 5a
          1 tells 2: named 5a but promised 1
        > 2 has 5a
        > 2 hears 1
        > 1 waits
          1 asks for the witness
          1 tells 2: as before, knows up to 0
        > witness 1: 1
          1 writes 5a
          1 tells 2: accepted 5a in 1
        > 1 wrote
          1 tells 2: decided 5a
          1 processes 5a
        > 2 hears 1
        > 2 resumes at 0
          2 processes 5a
          2 tells 1: knows up to 5
        """,
    )


def test_a_resumed_replica_processes_nothing_that_its_new_state_contains() -> None:
    check(
        ready(2),
        """
        > 2 pauses
          2 tells 1: paused
        > 1 hears 2
        > 1 has 5a
          1 tells 2: named 5a but promised 1
        > 1 waits
          1 asks for the witness
          1 tells 2: as before, knows up to 0
        > witness 1: 1
          1 writes 5a
          1 tells 2: accepted 5a in 1
        > 1 wrote
          1 tells 2: decided 5a
          1 processes 5a
        > 2 hears 1
          2 fetches 5a from elsewhere
        > 2 resumes at 5
          2 tells 1: knows up to 5
        """,
    )


def test_what_a_checkpoint_covers_is_forgotten_and_who_is_behind_it_is_built_anew() -> None:
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5a
          2 tells 1: named 5a
        > 1 hears 2
          1 processes 5a
        > 1 covered 5
        > 2 covered 5
          2 is outrun up to 5
        > 2 waits
        > 1 hears 2
        """,
    )


def test_a_single_replica_writes_what_it_decides() -> None:
    check(
        ready(1),
        """
        > 1 has 5a
          1 writes 5a
        > 1 wrote
          1 processes 5a
        """,
    )


def test_every_phase_has_a_row_for_all_that_may_happen_in_it() -> None:
    learning_alone = {(phase, Event.LEARNT) for phase in Phase if phase is not Phase.LEARNING}
    taking_part_alone = {(phase, Event.LEFT_BEHIND) for phase in (Phase.OUTSIDE, Phase.OUTRUN)}
    every = {(phase, event) for phase in Phase for event in Event}
    assert set(TRANSITIONS) == every - learning_alone - taking_part_alone


def test_a_plan_never_changes() -> None:
    replicas = ready(2)
    with pytest.raises(AssertionError, match="a plan never changes"):
        replicas("plan 1 of 1 3")


def test_an_older_plan_or_the_same_one_again_changes_nothing() -> None:
    # replica 1 was told of plan 2 first
    check(
        Replicas(),
        """
        > plan 2 of 1
          1 seals the store for plan 2
        > plan 2 of 1
        > plan 1 of 1
        """,
    )


def test_where_nothing_is_open_little_is_said_and_nobody_is_missed() -> None:
    machines = ready(2).machines
    told: list[tuple[float, object]] = []

    def give(now: float, each: int, stimulus: words.AgreementStimulus, alive: set[int]) -> None:
        for effect in machines[each].handle(stimulus):
            told.append((now, effect))
            if isinstance(effect, words.Tell):
                for receiver in alive.intersection(effect.receivers):
                    give(now, receiver, words.Heard(effect.message), alive)

    def pass_by(begin: float, seconds: float, alive: set[int], epoch: int) -> None:
        """Time passes for those who live, who have a bag at its beginning."""
        for each in alive:
            give(begin, each, words.BagHeld(0, epoch, words.Bag("a")), alive)
            give(begin, each, words.EpochEnded(epoch), alive)
        for step in range(round(seconds * 100)):
            for each in alive:
                give(begin + step / 100, each, words.Tick(begin + step / 100), alive)

    def reports(begin: float, end: float) -> int:
        return sum(begin <= now < end and isinstance(each, words.Tell) for now, each in told)

    def asked() -> list[float]:
        return [now for now, each in told if isinstance(each, words.AskWitness)]

    pass_by(0.0, 4.0, {1, 2}, epoch=5)
    assert {each.decided for each in machines.values()} == {5}
    assert reports(0.1, 0.5) >= 30, "two replicas, every 20 ms"
    assert 12 <= reports(2.0, 4.0) <= 18, "every quarter of a second"
    assert asked() == []
    # the other one is lost; that is found out when there is something to do, and soon
    pass_by(4.0, 0.5, {1}, epoch=7)
    assert 4.04 <= asked()[0] <= 4.12
