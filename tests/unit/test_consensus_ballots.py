"""Replicas of one plan agree, in transcripts: see tests/unit/agreement_transcripts.py for what lines mean."""

from __future__ import annotations

from tests.unit.agreement_transcripts import check, ready


def test_equal_names_decide_in_the_time_of_one_message() -> None:
    # nothing is written, and nobody leads
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
        """,
    )


def test_of_differing_bags_the_coordinators_counts_and_who_lacks_it_fetches_it() -> None:
    # 1: a   2: b      1 proposes what it has itself, since neither is more common
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5b
          2 tells 1: named 5b
        > 1 hears 2
          1 tells 2: accepted 5a in 1
        > 2 hears 1
          2 fetches 5a from 1
          2 tells 1: named 5b but promised 1
        > 2 holds 5a
          2 processes 5a
          2 tells 1: accepted 5a in 1
        > 1 hears 2
          1 processes 5a
        """,
    )


def test_a_slow_feed_is_not_waited_for() -> None:
    # 2 has nothing of epoch 5 yet; it takes the bag from 1, and is done without its own feed
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 1 waits
          1 tells 2: named 5a but promised 1
        > 2 hears 1
          2 tells 1: promised 1 after 0
        > 1 hears 2
          1 tells 2: accepted 5a in 1
        > 2 hears 1
          2 fetches 5a from 1
        > 2 holds 5a
          2 processes 5a
          2 tells 1: accepted 5a in 1
        > 1 hears 2
          1 processes 5a
        """,
    )


def test_the_coordinator_takes_what_another_has_rather_than_wait_for_its_own_feed() -> None:
    check(
        ready(2),
        """
        > 2 has 5b
          2 tells 1: named 5b
        > 1 hears 2
        > 1 waits
          1 fetches 5b from 2
          1 tells 2: promised 1 after 0
        > 1 holds 5b
          1 tells 2: accepted 5b in 1
        > 2 hears 1
          2 processes 5b
          2 tells 1: accepted 5b in 1
        > 1 hears 2
          1 processes 5b
        """,
    )


def test_the_replicas_agree_on_gaps_too() -> None:
    # the feed of 2 had nothing between 4 and 7: the lower epoch is taken, so that nothing is lost
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 1 has 7a
          1 tells 2: named 5a, named 7a
        > 2 has 7a
          2 tells 1: named 7a
        > 1 hears 2
          1 tells 2: accepted 5a in 1, named 7a
        > 2 hears 1
          2 fetches 5a from 1
          2 tells 1: named 7a but promised 1
        > 2 holds 5a
          2 processes 5a
          2 processes 7a
          2 tells 1: accepted 5a in 1, named 7a
        > 1 hears 2
          1 processes 5a
          1 processes 7a
        """,
    )


def test_three_need_all_equal_names_or_one_round_more() -> None:
    # were 1 lost and had 3 named b, nobody could tell which of the two 1 had chosen: so one round more
    check(
        ready(3),
        """
        > 1 has 5a
          1 tells 2 3: named 5a
        > 2 has 5a
          2 tells 1 3: named 5a
        > 1 hears 2
        > 1 waits
          1 tells 2 3: accepted 5a in 1
        > 2 hears 1
          2 processes 5a
          2 tells 1 3: accepted 5a in 1
        > 1 hears 2
          1 processes 5a
        """,
    )


def test_three_equal_names_decide_at_once() -> None:
    check(
        ready(3),
        """
        > 1 has 5a
          1 tells 2 3: named 5a
        > 2 has 5a
          2 tells 1 3: named 5a
        > 3 has 5a
          3 tells 1 2: named 5a
        > 1 hears 2
        > 1 hears 3
          1 processes 5a
        """,
    )


def test_messages_that_come_twice_or_too_late_change_nothing() -> None:
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5b
          2 tells 1: named 5b
        > 1 hears 2
          1 tells 2: accepted 5a in 1
        > 1 hears 2
        > 1 hears 2, the first
        > 2 hears 1, the first
        > 2 hears 1
          2 fetches 5a from 1
          2 tells 1: named 5b but promised 1
        > 2 hears 1
        """,
    )


def test_who_missed_a_decision_is_told() -> None:
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5a
          2 tells 1: named 5a
        > 1 hears 2
          1 processes 5a
        > 2 waits
          2 tells 1: as before, knows up to 0
        > 1 hears 2
          1 tells 2: decided 5a
        > 2 hears 1
          2 processes 5a
        """,
    )


def test_what_was_not_got_is_asked_for_again() -> None:
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 2 has 5b
          2 tells 1: named 5b
        > 1 hears 2
          1 tells 2: accepted 5a in 1
        > 2 hears 1
          2 fetches 5a from 1
          2 tells 1: named 5b but promised 1
        > 2 waits little
        > 2 waits little
          2 fetches 5a from 1
          2 tells 1: as before, knows up to 0
        """,
    )


def test_who_missed_the_report_that_a_pulse_is_about_asks_for_it() -> None:
    check(
        ready(2),
        """
        > 1 has 5a
          1 tells 2: named 5a
        > 1 waits
          1 tells 2: named 5a but promised 1
        > 1 waits little
        > 1 waits little
          1 asks for the witness
          1 tells 2: as before, knows up to 0
        > 2 hears 1
          2 tells 1: knows up to 0?
        > 1 hears 2
          1 tells 2: named 5a but promised 1
        > 2 hears 1
          2 tells 1: promised 1 after 0
        """,
    )


def test_the_next_coordinator_proposes_what_may_have_been_chosen() -> None:
    # 1, 2, 3: a (accepted in ballot 1)   4, 5: b
    #   1 has heard of all three, and is lost, as is 2; 4 hears of 3 and 5, and b is more common there
    check(
        ready(5),
        """
        > 1 has 5a
          1 tells 2 3 4 5: named 5a
        > 2 has 5a
          2 tells 1 3 4 5: named 5a
        > 3 has 5a
          3 tells 1 2 4 5: named 5a
        > 4 has 5b
          4 tells 1 2 3 5: named 5b
        > 5 has 5b
          5 tells 1 2 3 4: named 5b
        > 1 hears 2
        > 1 hears 4
        > 1 waits
          1 tells 2 3 4 5: accepted 5a in 1
        > 2 hears 1
          2 tells 1 3 4 5: accepted 5a in 1
        > 3 hears 1
          3 tells 1 2 4 5: accepted 5a in 1
        > 1 hears 2
        > 1 hears 3
          1 processes 5a
        > 4 waits long
          4 tells 1 2 3 5: named 5b but promised 4
        > 3 hears 4
          3 tells 1 2 4 5: accepted 5a in 1 but promised 4
        > 5 hears 4
          5 tells 1 2 3 4: named 5b but promised 4
        > 3 pauses
          3 tells 1 2 4 5: paused, accepted 5a in 1 but promised 4
        > 4 hears 5
        > 4 hears 3
          4 fetches 5a from 3
        """,
    )


def test_who_has_promised_a_higher_ballot_refuses_a_lower_one() -> None:
    # 1 leads ballot 1, until 2 thinks that it is lost and leads ballot 2
    check(
        ready(3),
        """
        > 1 has 5a
          1 tells 2 3: named 5a
        > 2 has 5b
          2 tells 1 3: named 5b
        > 1 hears 2
        > 1 waits
          1 tells 2 3: accepted 5a in 1
        > 2 waits long
          2 tells 1 3: named 5b but promised 2
        > 3 hears 2
          3 tells 1 2: promised 2 after 0
        > 3 hears 1
        > 2 hears 3
          2 tells 1 3: accepted 5b in 2
        > 3 hears 2
          3 fetches 5b from 2
        > 3 holds 5b
          3 processes 5b
          3 tells 1 2: accepted 5b in 2
        > 1 hears 2
          1 fetches 5b from 2
          1 tells 2 3: accepted 5a in 1 but promised 2
        > 1 holds 5b
          1 processes 5b
          1 tells 2 3: accepted 5b in 2
        """,
    )
