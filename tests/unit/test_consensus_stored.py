"""Where every decision is stored and bags can be had again, in transcripts: see agreement_transcripts."""

from __future__ import annotations

from tests.unit.agreement_transcripts import (
    Replicas,
    check,
    hear_each_other,
    ready,
    together_for,
)


def test_where_every_decision_is_stored_equal_names_are_too() -> None:
    # the coordinator writes; the other is told
    check(
        ready(2, stored=True),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5a
          2 tells 1: named 5a
        > 1 hears 2
          1 writes 5a
        > 2 hears 1
        > 1 wrote
          1 tells 2: decided 5a
          1 processes 5a
        > 2 hears 1
          2 processes 5a
        """,
    )


def test_who_is_behind_names_what_it_hears_and_processes_what_it_holds() -> None:
    check(
        ready(2, stored=True),
        """
        > 2 is behind
        > 1 has 5a
          1 tells 2: named 5a
        > 2 hears 1
          2 tells 1: named 5a
        > 1 hears 2
          1 writes 5a
        > 1 wrote
          1 tells 2: decided 5a
          1 processes 5a
        > 2 hears 1
          2 fetches 5a from 1
        > 2 holds 5a
          2 processes 5a
        """,
    )


def test_where_bags_come_unasked_nobody_fetches_any() -> None:
    check(
        ready(2, stored=True, bags_come=True),
        """
        > 2 is behind
        > 1 has 5a
          1 tells 2: named 5a
        > 2 hears 1
          2 tells 1: named 5a
        > 1 hears 2
          1 writes 5a
        > 1 wrote
          1 tells 2: decided 5a
          1 processes 5a
        > 2 hears 1
        > 2 holds 5a
          2 processes 5a
        """,
    )


def test_who_is_behind_waits_for_its_bags_where_they_are_in_memory_alone() -> None:
    check(
        ready(2),
        """
        > 2 is behind
        > 1 has 5a
          1 tells 2: named 5a
        > 2 hears 1
        """,
    )


def test_a_leader_that_lacks_a_bag_proposes_what_the_others_hold_where_all_is_stored() -> None:
    check(
        ready(3, stored=True),
        """
        > 2 has 5a
          2 tells 1 3: named 5a
        > 3 has 5a
          3 tells 1 2: named 5a
        > 1 hears 2
        > 1 hears 3
        > 1 waits
          1 fetches 5a from 2 3
          1 tells 2 3: accepted 5a in 1
        > 2 hears 1
          2 tells 1 3: accepted 5a in 1
        > 1 hears 2
          1 writes 5a
        > 1 wrote
          1 tells 2 3: decided 5a
        > 1 holds 5a
          1 processes 5a
        """,
    )


def test_who_coordinates_after_another_one_writes_what_that_one_did_not() -> None:
    check(
        ready(3, stored=True),
        """
        > 1 has 5a
          1 tells 2 3: named 5a
        > 2 has 5a
          2 tells 1 3: named 5a
        > 3 has 5a
          3 tells 1 2: named 5a
        > 2 hears 1
        > 2 hears 3
        > 2 waits little
        > 3 waits little
          3 tells 1 2: as before, knows up to 0
        > 2 hears 3
        > 2 waits little
          2 tells 1 3: as before, knows up to 0
        > 3 waits little
          3 tells 1 2: named 5a but promised 3
        > 2 hears 3
          2 tells 1 3: named 5a but promised 3
        > 2 waits little
          2 writes 5a
          2 tells 1 3: as before, knows up to 0
        """,
    )


BOTH_NAMED = """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5a
          2 tells 1: named 5a
        > 2 hears 1
        > 1 hears 2
          1 writes 5a"""


def writers(done: list[str]) -> list[str]:
    return [each for each in done if " writes " in each]


def test_where_the_store_does_not_answer_the_one_that_writes_another_one_does() -> None:
    replicas = ready(2, stored=True)
    check(replicas, BOTH_NAMED)
    patience_seconds = replicas.settings.write_seconds
    assert not writers(together_for(replicas, patience_seconds - 0.1)), "it may just be slow"
    assert writers(together_for(replicas, 0.2)) == ["2 writes 5a"]
    check(
        replicas,
        """
        > 2 wrote
          2 tells 1: decided 5a
          2 processes 5a
        > 1 hears 2
          1 processes 5a
        > 1 has 6a
          1 tells 2: named 5a, named 6a, late with the store
        > 2 has 6a
          2 tells 1: named 5a, named 6a
        > 1 hears 2
        > 2 hears 1
          2 writes 6a
        > 2 wrote
          2 tells 1: decided 6a
          2 processes 6a
        > 1 hears 2
          1 processes 6a
        """,
    )


def test_who_was_late_with_the_store_writes_again_once_that_answers() -> None:
    replicas = ready(2, stored=True)
    check(replicas, BOTH_NAMED)
    together_for(replicas, replicas.settings.write_seconds + 0.1)
    check(
        replicas,
        """
        > 1 wrote
          1 tells 2: decided 5a
          1 processes 5a
        > 2 hears 1
          2 processes 5a
        > 2 wrote
        """,
    )
    together_for(replicas, 0.1)
    check(
        replicas,
        """
        > 1 has 6a
          1 tells 2: named 6a
        > 2 has 6a
          2 tells 1: named 6a
        > 2 hears 1
        > 1 hears 2
          1 writes 6a
        """,
    )


def test_where_the_store_answers_nobody_each_has_one_write_under_way() -> None:
    replicas = ready(2, stored=True)
    check(replicas, BOTH_NAMED)
    done = together_for(replicas, 4 * replicas.settings.write_seconds)
    assert writers(done) == ["2 writes 5a"]


BEGAN_BESIDE_ONE_THAT_IS_BEHIND = """
        > plan 1 of 1
          1 seals the store for plan 1
        > 1 read
        > 1 has 5a
          1 writes 5a
        > 1 wrote
          1 processes 5a
        > plan 2 of 1 2, after 1 of 1
          1 seals the store for plan 2
          1 tells 2: not ready for plan 2, named 5a?
          2 seals the store for plan 2
          2 tells 1: not ready for plan 2?
        > 3 begins at 5
        > plan 3 of 2 3, after 2 of 1 2
          2 seals the store for plan 3
          2 tells 1 3: not ready for plan 3?
          3 seals the store for plan 3
          3 tells 1 2: not ready for plan 3?
        > 3 read
          3 tells 2: knows up to 5
        > 2 hears 3
        > 2 read
        > 2 waits
          2 tells 1 3: not ready for plan 3?"""
"""2 knows nothing, 1 knows all and is not in the plan, and 3 knows what comes after 5 alone."""


def test_who_could_be_told_by_nobody_that_is_left_is_built_anew() -> None:
    check(
        Replicas(stored=True),
        BEGAN_BESIDE_ONE_THAT_IS_BEHIND
        + """
        > 2 knows 1 gone
        > 2 waits
          2 is outrun up to 5
        """,
    )


def test_who_has_to_learn_waits_for_those_that_may_still_tell() -> None:
    check(
        Replicas(stored=True),
        BEGAN_BESIDE_ONE_THAT_IS_BEHIND
        + """
        > 2 waits long
          2 tells 1 3: not ready for plan 3?
        > 1 hears 2
          1 tells 2: decided 5a
          1 tells 2: not ready for plan 3
        """,
    )


def test_who_has_the_witness_leads_where_too_few_are_left_without_it() -> None:
    # 1 and 4 are lost: of the four votes two are there, and 3 counts for two
    check(
        ready(4, stored=True, bags_come=True),
        """
        > 2 has 5a
          2 tells 1 3 4: named 5a
        > 2 waits long
          2 asks for the witness
          2 tells 1 3 4: named 5a but promised 2
        > 3 has 5a
          3 tells 1 2 4: named 5a
        > 3 waits long
          3 asks for the witness
          3 tells 1 2 4: named 5a but promised 3
        > witness 3: 3
        > witness 2: 3
        > 3 hears 2
        > 3 waits long
          3 tells 1 2 4: as before, knows up to 0
        > 2 hears 3
          2 tells 3: named 5a but promised 2?
        > 3 hears 2
          3 tells 2: named 5a but promised 3
        > 2 hears 3
          2 tells 1 3 4: named 5a but promised 3
        > 3 hears 2
          3 tells 1 2 4: accepted 5a in 3
        > 2 hears 3
          2 tells 1 3 4: accepted 5a in 3
        > 3 hears 2
          3 writes 5a
        > 3 wrote
          3 tells 1 2 4: decided 5a
          3 processes 5a
        """,
    )


def test_nobody_waits_to_be_told_by_one_that_has_ended_what_the_store_has_told() -> None:
    replicas = Replicas(stored=True, bags_come=True)
    for line in ("plan 1 of 1 2 3", "1 read", "2 read", "3 read"):
        replicas(line)
    hear_each_other(replicas, 1, 2, 3)
    for line in ("1 has 5a", "2 has 5a", "3 has 5a", "1 hears 2", "1 hears 3", "1 wrote"):
        replicas(line)
    # 1 knows the decision, says so in the new plan, and ends
    replicas("plan 2 of 1 2 3 after 1 of 1 2 3")
    for line in ("2 hears 1", "3 hears 1", "2 read", "3 read"):
        replicas(line)
    hear_each_other(replicas, 2, 3)
    assert replicas.machines[2].ready_in == 1, "1 may still tell it"
    while replicas.now_seconds < 2.0:
        for line in ("2 waits little", "3 waits little"):
            replicas(line)
        hear_each_other(replicas, 2, 3)
        # what was asked for
        hear_each_other(replicas, 2, 3)
    assert [replicas.machines[one].ready_in for one in (2, 3)] == [2, 2]
    assert "2 processes 5a" in replicas("2 wrote")
