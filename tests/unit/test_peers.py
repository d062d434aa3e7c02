"""What a replica knows of the others of its slice: who lives, and who has yet to be built."""

from __future__ import annotations

from replication.peers import Peers
from streammine.model.agreement import Pulse, ReplicaPlan, Report
from streammine.model.epochs import BEGINNING
from tests.unit.agreement_transcripts import check, ready

PLAN = ReplicaPlan(1, (1, 2))


def report(sender: int, sequence: int, plan_version: int, ready_in: int) -> Report:
    return Report(sender, sequence, plan_version, ready_in, decided=5)


def test_a_replica_is_built_once_it_takes_part_in_its_plan() -> None:
    peers = Peers()
    peers.hear(report(2, 1, 1, 1), 0.0)
    peers.expect({2, 4})
    assert peers.unbuilt == {4}
    peers.hear(report(4, 1, 2, 0), 0.1)
    assert peers.unbuilt == {4}, "it is still learning"
    peers.hear(report(4, 2, 2, 2), 0.2)
    assert peers.unbuilt == set(), "it is waited for from now on, as others are"


def test_who_was_still_learning_under_a_plan_is_so_under_the_next() -> None:
    peers = Peers()
    peers.hear(report(2, 1, 1, 1), 0.0)
    peers.expect({2, 4})
    peers.hear(report(4, 1, 2, 0), 0.1)
    peers.expect({2, 4, 5})
    assert peers.unbuilt == {4, 5}
    peers.expect({2, 5})
    assert peers.unbuilt == {5}


def test_nobody_waits_for_a_replica_that_is_still_being_built() -> None:
    # 4 takes the place of 3, and has yet to be deployed when 1 and 2 could go on
    replicas = ready(3)
    for line in (
        *(f"{one} has 5a" for one in (1, 2, 3)),
        *(f"{one} hears {other}" for one in (1, 2) for other in (1, 2, 3) if one != other),
        "plan 2 of 1 2 4, after 1 of 1 2 3",
        "1 read",
        "2 read",
        "1 hears 2",
        "2 hears 1",
    ):
        replicas(line)
    check(
        replicas,
        """
        > 1 has 6a
          1 tells 2 4: named 6a
        > 2 has 6a
          2 tells 1 4: named 6a
        > 1 hears 2
          1 tells 2 4: accepted 6a in 1
        > 2 hears 1
          2 processes 6a
          2 tells 1 4: accepted 6a in 1
        > 1 hears 2
          1 processes 6a
        """,
    )


def heard(at: float) -> Peers:
    """Replica 2 has said something in its report 4."""
    peers = Peers()
    assert peers.hear(Report(2, 4, 1, 1, decided=7), at)
    return peers


def live(peers: Peers, lost_before: float) -> set[int]:
    found = set[int]()
    peers.note_living(PLAN, lost_before, found)
    return found


def test_a_pulse_says_that_its_sender_lives_and_what_it_knows() -> None:
    peers = heard(at=0.0)
    assert live(peers, lost_before=0.5) == set()
    assert peers.feel(Pulse(2, 5, 4, decided=9), 1.0)
    assert live(peers, lost_before=0.5) == {2}
    assert peers.knows(2) == 9
    assert [each.decided for each in peers.voters(PLAN)] == [9]


def test_a_pulse_that_comes_twice_or_too_late_is_no_sign_of_life() -> None:
    peers = heard(at=0.0)
    assert peers.feel(Pulse(2, 6, 4, decided=9), 1.0)
    assert peers.feel(Pulse(2, 6, 4, decided=9), 2.0)
    assert peers.feel(Pulse(2, 5, 4, decided=8), 2.0)
    assert live(peers, lost_before=1.5) == set()
    assert peers.knows(2) == 9
    assert peers.hear(Report(2, 8, 1, 1, decided=9), 2.0)
    assert peers.feel(Pulse(2, 7, 4, decided=9), 3.0)
    assert live(peers, lost_before=2.5) == set()


def test_whose_report_is_not_known_is_to_be_asked_and_lives() -> None:
    peers = heard(at=0.0)
    assert not peers.feel(Pulse(2, 6, 5, decided=9), 1.0)
    assert live(peers, lost_before=0.5) == {2}
    assert not peers.feel(Pulse(3, 1, 0, BEGINNING), 1.0)
    assert peers.heard_since(0.5) == {2}


def test_a_report_that_a_pulse_has_overtaken_still_counts() -> None:
    peers = heard(at=0.0)
    assert not peers.feel(Pulse(2, 6, 5, decided=9), 1.0)
    assert peers.hear(Report(2, 5, 1, 1, decided=9, votes=False), 1.0)
    assert live(peers, lost_before=0.5) == set(), "it is paused"


def test_who_is_no_longer_of_the_company_is_forgotten_with_its_pulses() -> None:
    peers = heard(at=0.0)
    assert peers.feel(Pulse(2, 6, 4, decided=9), 1.0)
    peers.keep({1})
    assert not peers.feel(Pulse(2, 7, 4, decided=9), 1.0)
    assert peers.hear(Report(2, 8, 1, 1, decided=9), 2.0)
    assert peers.feel(Pulse(2, 9, 8, decided=9), 2.0)
