"""When a replica tells the others all of itself, and when a pulse will do."""

from __future__ import annotations

from replication.ballots import WINDOW, Ballots
from replication.chain import Bags
from replication.peers import Peers
from replication.telling import MOST_PULSES, Telling
from streammine.model.agreement import AgreementSettings, BagSet, ReplicaPlan


def test_a_report_is_due_when_there_is_news_and_a_pulse_when_time_has_passed() -> None:
    telling = Telling()
    telling.look(0.01, 0.02)
    assert not telling.is_wanted(changes=0)
    telling.has_news = True
    assert telling.must_report(changes=0)
    telling.told(0.01)
    assert telling.number() == 1
    telling.reported(changes=0)
    assert not telling.is_wanted(changes=0)
    assert telling.must_report(changes=1)
    telling.look(0.02, 0.02)
    assert not telling.is_wanted(changes=0)
    telling.look(0.04, 0.02)
    assert telling.is_wanted(changes=0)
    assert not telling.must_report(changes=0)


def test_a_pulse_is_about_the_report_that_all_were_sent() -> None:
    telling = Telling()
    telling.number()
    telling.reported(changes=0)
    assert telling.number() == 2, "one of them has asked"
    pulse = telling.pulse(7, decided=5)
    assert (pulse.sender, pulse.sequence, pulse.report, pulse.decided) == (7, 3, 1, 5)


def test_pulses_do_not_go_on_for_ever() -> None:
    telling = Telling()
    for _ in range(MOST_PULSES):
        assert not telling.is_old
        telling.pulse(7, decided=5)
    assert telling.is_old
    telling.reported(changes=0)
    assert not telling.is_old


def test_what_a_report_leaves_out_is_known_to_be_left_out() -> None:
    brought = {after: BagSet(after + 1) for after in range(3 * WINDOW)}
    settings = AgreementSettings(every_decision_stored=True)
    ballots = Ballots(ReplicaPlan(2, (1, 2)), 1, brought, Peers(), Bags(0), settings)
    assert len(ballots.entries()) == 2 * WINDOW
    assert not ballots.tells_all
    ballots.forget(WINDOW)
    assert len(ballots.entries()) == 2 * WINDOW
    assert ballots.tells_all
