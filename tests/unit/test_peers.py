"""What a replica makes of the signs of life that it hears."""

from __future__ import annotations

from replication.peers import Peers
from streammine.model.agreement import Pulse, ReplicaPlan, Report
from streammine.model.epochs import BEGINNING

PLAN = ReplicaPlan(1, (1, 2))


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
