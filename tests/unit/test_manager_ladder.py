"""The manager and the ladder: where further replicas stand, which state they are offered, who is promoted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from streammine.engine.ladder import promoted
from streammine.engine.manager import ManagerMachine
from streammine.engine.manager_stimuli import (
    DrainAsked,
    Elected,
    ManagerStimulus,
    MoveAsked,
    NodesChanged,
    Offer,
    Reported,
    SchemeAsked,
    Ticked,
)
from streammine.engine.node_stimuli import CheckpointsFound
from streammine.model.control import DamagedSnapshot, Heartbeat, SeatReport, SliceReport
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Placement
from streammine.model.schemes import Scheme
from tests.unit.managing import ON_A, ON_B, checkpoint, checkpointed, plan_of, told
from tests.unit.small_job import record, report, told_by
from tests.unit.test_manager_recovery import A, B, hear

COUNTS = SliceId("counts", 1)
HOT = Scheme.PASSIVE_STANDBY_HOT


def settled(*nodes: str, frontier: int = 25) -> ManagerMachine:
    """Complete checkpoints 10 and 20; a and b host the job and have reported."""
    manager = checkpointed(*nodes)
    hear(manager, "a", *ON_A, frontier=frontier)
    hear(manager, "b", *ON_B, frontier=frontier)
    return manager


def heard(
    node: str,
    version: int,
    slices: Iterable[SliceReport],
    seats: Iterable[SeatReport] = (),
    damaged: Iterable[DamagedSnapshot] = (),
) -> Reported:
    beat = told_by(node, version, slices, damaged=damaged)
    (job,) = beat.jobs
    return Reported(replace(beat, jobs=(replace(job, seats=tuple(seats)),)))


def ask(manager: ManagerMachine, scheme: Scheme, slices: str = "counts/1") -> None:
    """Also lets what follows from it be declared."""
    told(manager, SchemeAsked(1, slices, scheme.value))
    told(manager, Ticked(1.0, 1001.0))


def group(manager: ManagerMachine, slice_id: SliceId = COUNTS) -> list[str]:
    """``node generation rung``, with ``from epoch`` and ``leaving``."""
    return [
        f"{each.node} {each.generation} {each.rung.value}"
        + (f" from {each.restore.epoch}" if each.restore is not None else "")
        + (" leaving" if each.leaving else "")
        for each in plan_of(manager).placements[slice_id]
    ]


def offered(manager: ManagerMachine, *happened: ManagerStimulus) -> list[str]:
    """What is offered with the next beat."""
    for stimulus in happened:
        manager.handle(stimulus)
    seconds = manager.now_seconds + 1.0
    found = [each for each in manager.handle(Ticked(seconds, 1000.0)) if isinstance(each, Offer)]
    return [
        f"{each.node}: {offer.slice}@{offer.generation} {offer.restore.epoch}"
        for each in found
        for offer in each.offers.offers
    ]


def hot(
    manager: ManagerMachine,
    received: int,
    retained_after: int = BEGINNING,
    rung: Scheme = HOT,
) -> Heartbeat:
    """Node a tells of its own replicas and of the one of counts/1 that stands by there."""
    version = plan_of(manager).version
    generation = plan_of(manager).placements[COUNTS][-1].generation
    standby = report("counts/1", generation, 21, retained_after=retained_after, rung=rung)
    reports = [report(name, frontier=25) for name in ON_A]
    return told_by("a", version, [*reports, replace(standby, received=received)])


# --- schemes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "second"),
    [
        (Scheme.DEPLOYED, "a 4 deployed"),
        (Scheme.PASSIVE_STANDBY_COLD, "a 4 passive-standby-cold"),
        (HOT, "a 4 passive-standby-hot from 20"),
        (Scheme.ACTIVE_STANDBY, "a 4 active-standby from 20"),
        (Scheme.ACTIVE_REPLICATION, "a 4 active-replication from 20"),
    ],
)
def test_a_scheme_places_a_second_replica_on_its_rung(scheme: Scheme, second: str) -> None:
    manager = settled()
    ask(manager, scheme)
    assert group(manager) == ["b 1 active-replication", second]
    assert group(manager, SliceId("counts", 0)) == ["a 1 active-replication"]


def test_what_is_linked_and_has_not_published_changes_its_rung_where_it_is() -> None:
    manager = settled()
    ask(manager, HOT)
    told(manager, Reported(hot(manager, 25)))
    ask(manager, Scheme.ACTIVE_STANDBY)
    assert group(manager)[1] == "a 4 active-standby from 20"
    ask(manager, HOT)
    assert group(manager)[1] == "a 4 passive-standby-hot from 20"
    ask(manager, Scheme.ACTIVE_REPLICATION)
    assert group(manager)[1] == "a 4 active-replication from 20"


@pytest.mark.parametrize("scheme", [HOT, Scheme.ACTIVE_STANDBY])
def test_what_has_published_steps_down_as_another_generation(scheme: Scheme) -> None:
    manager = settled()
    ask(manager, Scheme.ACTIVE_REPLICATION)
    ask(manager, scheme)
    assert group(manager)[1] == f"a 6 {scheme.value} from 20"


@pytest.mark.parametrize("scheme", [HOT, Scheme.ACTIVE_STANDBY, Scheme.ACTIVE_REPLICATION])
def test_what_gives_up_its_links_and_takes_them_again_is_made_anew(scheme: Scheme) -> None:
    manager = settled()
    ask(manager, scheme)
    ask(manager, Scheme.PASSIVE_STANDBY_COLD)
    assert group(manager)[1] == "a 6 passive-standby-cold"
    ask(manager, scheme)
    assert group(manager)[1] == f"a 8 {scheme.value} from 20"
    ask(manager, Scheme.PASSIVE_REPLICATION)
    assert group(manager) == ["b 1 active-replication"]


def test_a_seat_gets_links_once_those_who_send_to_it_hold_what_it_lacks() -> None:
    # what comes after checkpoint 20 is gone at the sources, until there is a newer one
    manager = settled()
    ask(manager, Scheme.PASSIVE_STANDBY_COLD)

    def hold(retained_after: int) -> None:
        version = plan_of(manager).version
        for node, names in (("a", ON_A), ("b", ON_B)):
            told_all = [report(each, 1, 25, retained_after=retained_after) for each in names]
            told(manager, heard(node, version, told_all))

    hold(24)
    ask(manager, HOT)
    assert group(manager)[1] == "a 4 passive-standby-cold"
    hold(20)
    told(manager, Ticked(2.0, 1002.0))
    assert group(manager)[1].endswith("passive-standby-hot from 20")


def test_a_source_stands_cold_where_hot_is_asked_for() -> None:
    manager = settled()
    ask(manager, HOT, "source/1")
    assert group(manager, SliceId("source", 1))[1] == "a 4 passive-standby-cold"


def test_the_second_replica_comes_once_there_is_a_node_for_it() -> None:
    manager = settled("a", "b", "c")
    ask(manager, Scheme.DEPLOYED)
    told(manager, NodesChanged((B,)), Ticked(2.0, 1002.0))
    assert [each.split()[0] for each in group(manager)] == ["b"]
    told(manager, NodesChanged((B, ("d", 4))), Ticked(3.0, 1003.0))
    assert [each.split()[0] for each in group(manager)] == ["b", "d"]


@pytest.mark.parametrize(
    ("slices", "scheme", "why"),
    [
        ("counts/1", "hot", "there is no scheme 'hot'"),
        ("count", "deployed", "nothing is called 'count'; did you mean 'counts'?"),
        ("counts/2", "deployed", "there is no counts/2: counts has partitions 0 to 1"),
        ("counts/one", "deployed", "there is no counts/one: counts has partitions 0 to 1"),
    ],
)
def test_what_can_not_be_is_refused(slices: str, scheme: str, why: str) -> None:
    manager = settled()
    version = plan_of(manager).version
    assert why in (manager.refusal(SchemeAsked(1, slices, scheme)) or "")
    told(manager, SchemeAsked(1, slices, scheme))
    assert plan_of(manager).version == version


def test_a_second_replica_needs_a_second_node_and_none_needs_none() -> None:
    manager = settled()
    told(manager, NodesChanged((A,)))
    refusal = manager.refusal(SchemeAsked(1, "counts", "deployed"))
    assert refusal == "deployed needs a second node; start another one first"
    assert manager.refusal(SchemeAsked(1, "counts", "passive-replication")) is None


def test_a_node_that_is_to_be_emptied_is_no_second_node() -> None:
    manager = settled()
    told(manager, DrainAsked("b"))
    refusal = manager.refusal(SchemeAsked(1, "counts", "deployed"))
    assert refusal == (
        "deployed needs a second node beside b (to be emptied); start another one first"
    )
    manager = settled("a", "b", "c")
    told(manager, DrainAsked("b"))
    assert manager.refusal(SchemeAsked(1, "counts", "deployed")) is None


# --- states -----------------------------------------------------------------------------------------


def test_a_hot_standby_is_offered_the_newest_state_until_it_has_it() -> None:
    manager = settled()
    ask(manager, HOT)
    told(manager, Reported(hot(manager, 25)))
    told(manager, CheckpointsFound(1, (checkpoint(20),)))
    assert offered(manager) == ["a: counts/1@4 20"]
    assert offered(manager) == ["a: counts/1@4 20"], "it may have got lost"
    assert offered(manager, Reported(hot(manager, 25, retained_after=20))) == []


@pytest.mark.parametrize("received", [10, 20])
def test_it_is_offered_no_state_that_somebody_is_still_behind(received: int) -> None:
    manager = settled()
    ask(manager, HOT)
    assert offered(manager, Reported(hot(manager, received))) == []


def test_nor_one_that_somebody_who_leads_is_still_behind() -> None:
    # one that leads may have been restored from an older snapshot than the newest checkpoint names
    manager = settled()
    ask(manager, HOT)
    assert offered(manager, Reported(hot(manager, 25))) == ["a: counts/1@4 20"]
    hear(manager, "b", *ON_B, frontier=15)
    assert offered(manager) == []


def test_an_operator_on_a_seat_is_offered_the_newest_state() -> None:
    manager = settled()
    ask(manager, Scheme.PASSIVE_STANDBY_COLD)
    version = plan_of(manager).version
    reports = [report(name, frontier=25) for name in ON_A]

    def seat(epoch: int) -> Reported:
        return heard("a", version, reports, [SeatReport("counts/1", 4, epoch, 7)])

    assert offered(manager, heard("a", version, reports)) == [], "it is not there yet"
    assert offered(manager, seat(BEGINNING)) == ["a: counts/1@4 20"]
    assert offered(manager, seat(20)) == []


def test_a_seat_whose_snapshot_is_damaged_is_made_anew_and_not_offered_it_again() -> None:
    manager = settled()
    ask(manager, Scheme.PASSIVE_STANDBY_COLD)
    reports = [report(name, frontier=25) for name in ON_A]
    bad = DamagedSnapshot("counts/1", 4, record("counts/1", 20).name, "checksum")
    told(manager, heard("a", plan_of(manager).version, reports, damaged=[bad]))
    told(manager, Ticked(2.0, 1002.0))
    assert group(manager) == ["b 1 active-replication", "a 5 passive-standby-cold"]
    seats = [SeatReport("counts/1", 5, BEGINNING, 0)]
    assert offered(manager, heard("a", plan_of(manager).version, reports, seats)) == []


# --- promotion --------------------------------------------------------------------------------------


def test_of_those_who_are_left_the_one_that_stands_highest_is_promoted() -> None:
    manager = settled()
    ask(manager, HOT)
    told(manager, Reported(hot(manager, 25)))
    told(manager, NodesChanged((A,)))
    assert group(manager)[0] == "a 4 active-replication from 20"


def test_who_stands_higher_or_else_has_come_further_is_the_first_to_be_promoted() -> None:
    manager = settled("a", "b", "c")
    lower, higher = Placement("a", 4, 1, rung=HOT), Placement("c", 5, 3, rung=Scheme.ACTIVE_STANDBY)
    seat, further = Placement("d", 6, 4, rung=Scheme.DEPLOYED), replace(lower, node="c", member=3)
    for node, frontier in (("a", 21), ("c", 24)):
        standby = report("counts/1", 4, frontier, rung=HOT)
        told(manager, Reported(told_by(node, 2, [standby])))
    job = manager.jobs[1]

    def first(*group: Placement) -> Placement:
        return promoted(job, COUNTS, group)[0]

    leads = replace(higher, rung=Scheme.ACTIVE_REPLICATION)
    assert first(lower, higher, seat) == first(seat, higher, lower) == leads
    assert first(lower, further) == replace(further, rung=Scheme.ACTIVE_REPLICATION)
    assert promoted(job, COUNTS, (seat,)) == (seat,), "nobody is linked: it is rebuilt"


def test_where_an_operator_stands_ready_the_slice_is_rebuilt() -> None:
    manager = settled("a", "b", "c")
    ask(manager, Scheme.PASSIVE_STANDBY_COLD)
    (seat,) = [each.split()[0] for each in group(manager)[1:]]
    version = plan_of(manager).version
    told(manager, Reported(told_by("c", version)))
    told(manager, NodesChanged((A, ("c", 3))))
    assert group(manager)[0] == f"{seat} 5 active-replication from 20"


def sent_on_by(manager: ManagerMachine, taken: bool) -> int:
    """What counts/1 holds, once it is promoted, after which it makes all."""
    job = manager.jobs[1]
    (placement,) = plan_of(manager).placements[COUNTS][-1:]
    leads = replace(placement, rung=Scheme.ACTIVE_REPLICATION)
    rung = HOT if taken else Scheme.ACTIVE_STANDBY
    manager.handle(Reported(hot(manager, 25, rung=rung)))
    return job.line_standing(COUNTS, (leads,), {}).held_after


def test_whoever_may_be_taking_state_in_counts_as_holding_no_more_than_it() -> None:
    # its last report is older than the offer: it still said that it keeps everything
    manager = settled()
    ask(manager, HOT)
    assert offered(manager, Reported(hot(manager, 25))) == ["a: counts/1@4 20"]
    assert sent_on_by(manager, taken=True) == 20
    assert sent_on_by(manager, taken=False) == BEGINNING, "it has climbed since, and took nothing"


def test_what_was_offered_counts_until_it_is_taken_though_it_is_not_offered_again() -> None:
    manager = settled()
    ask(manager, HOT)
    assert offered(manager, Reported(hot(manager, 25))) == ["a: counts/1@4 20"]
    hear(manager, "b", *ON_B, frontier=15)
    assert offered(manager) == []
    assert sent_on_by(manager, taken=True) == 20


def test_a_new_manager_offers_nothing_before_it_has_heard_from_all() -> None:
    manager = settled()
    ask(manager, HOT)
    assert offered(manager, Reported(hot(manager, 25))) == ["a: counts/1@4 20"]
    told(manager, Elected(False), Elected(True), CheckpointsFound(1, (checkpoint(20),)))
    assert offered(manager, Reported(hot(manager, 25))) == []
    hear(manager, "b", *ON_B, frontier=25)
    assert offered(manager) == ["a: counts/1@4 20"]


# --- moves and drains -------------------------------------------------------------------------------


def test_a_slice_moves_onto_the_seat_that_stands_ready_for_it() -> None:
    manager = settled()
    ask(manager, Scheme.DEPLOYED)
    told(
        manager, heard("a", plan_of(manager).version, [report(each, frontier=25) for each in ON_A])
    )
    wish = MoveAsked(1, COUNTS, "a", True)
    assert manager.refusal(wish) is None
    told(manager, wish)
    assert group(manager) == [
        "b 1 active-replication leaving",
        "a 5 active-replication from 20",
    ]


def test_a_slice_does_not_move_to_where_a_linked_replica_is() -> None:
    manager = settled()
    ask(manager, HOT)
    refusal = manager.refusal(MoveAsked(1, COUNTS, "a", True))
    assert refusal == "counts/1 is on a already"


@pytest.mark.parametrize("scheme", [Scheme.DEPLOYED, Scheme.PASSIVE_STANDBY_COLD])
def test_a_seat_goes_at_once_from_a_node_that_is_drained(scheme: Scheme) -> None:
    manager = settled("a", "b", "c")
    ask(manager, scheme)
    (seat,) = [each.split()[0] for each in group(manager)[1:]]
    told(manager, Reported(told_by("c", plan_of(manager).version)))
    told(manager, DrainAsked(seat), Ticked(2.0, 1002.0))
    assert seat not in [each.split()[0] for each in group(manager)]
    assert len(group(manager)) == 2


# --- crowding ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "steps_down"), [(Scheme.ACTIVE_STANDBY, True), (HOT, False)])
def test_on_a_node_whose_queues_of_standbys_grow_they_step_down(
    scheme: Scheme, steps_down: bool
) -> None:
    manager = settled()
    ask(manager, scheme)
    for beat in range(1, 40):
        came = 1e6 * beat
        counters = {"bytes_in": came, "bytes_waiting": 0.6 * came}
        heartbeat = hot(manager, received=30, rung=scheme)
        (job,) = heartbeat.jobs
        # those who lead on that node have queues that grow as well, and are no sign of it
        slices = tuple(replace(each, counters=counters) for each in job.slices)
        load = {"idle_share": 0.1, "spare_wait_seconds": 0.0}
        heartbeat = replace(heartbeat, load=load, jobs=(replace(job, slices=slices),))
        told(manager, Ticked(1.0 + 0.2 * beat, 1001.0), Reported(heartbeat))
    told(manager, Ticked(manager.now_seconds, 1001.0))
    assert plan_of(manager).crowded == (("a",) if steps_down else ())
    assert group(manager)[1].split()[2] == HOT.value
