"""The node and the ladder: seats, rungs that change, and states that are offered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammine.engine import node_stimuli as node
from streammine.engine.node import NodeMachine
from streammine.engine.node_stimuli import NewReplica
from streammine.engine.slice_settings import RestoredTo
from streammine.engine.stimuli import WorkResult
from streammine.model import control
from streammine.model.epochs import BEGINNING
from streammine.model.frames import FrameKind
from streammine.model.ids import SliceId
from streammine.model.job import Placement
from streammine.model.schemes import Scheme
from streammine.model.snapshots import Restore
from tests.unit.small_job import machine, record
from tests.unit.test_node import JOB, NODES, frame, plan, running_b, seen, told

COUNTS = SliceId("counts", 0)
ON_A = Placement("a", 1, 1)
COLD, HOT = Scheme.PASSIVE_STANDBY_COLD, Scheme.PASSIVE_STANDBY_HOT


def state(epoch: int) -> Restore:
    return Restore(epoch, record("counts/0", epoch))


def counts(
    version: int, rung: Scheme, generation: int = 3, restore: Restore | None = None
) -> node.PlanSeen:
    """Besides counts/0 on a there is a second replica of it on b."""
    return plan(version, counts_0=(ON_A, Placement("b", generation, 2, restore, rung=rung)))


def seated(generation: int = 3, epoch: int = BEGINNING, damaged: bool = False) -> node.Seated:
    bad = control.DamagedSnapshot("counts/0", generation, "name", "checksum") if damaged else None
    return node.Seated(JOB, COUNTS, generation, epoch, 7, damaged=bad)


def offers(
    epoch: int, generation: int = 3, version: int = 3, sender: str = "a"
) -> node.ControlReceived:
    offer = control.StateOffer("counts/0", generation, state(epoch))
    return node.ControlReceived(sender, control.StateOffers(JOB, version, (offer,)))


def done(taken: int) -> node.WorkFinished:
    result = WorkResult(taken=RestoredTo(taken, taken))
    return node.WorkFinished(JOB, COUNTS, 3, result)


def seats(player: NodeMachine) -> list[tuple[str, int, int]]:
    """What a heartbeat says of them."""
    report = player._job_report(player.jobs[JOB])
    return [(each.slice, each.generation, each.epoch) for each in report.seats]


def hot() -> NodeMachine:
    """b, where counts/0's second replica is a hot standby of generation 3 that has epochs 4 to 7."""
    player = running_b()
    told(player, counts(3, HOT, restore=state(3)))
    built = machine(NewReplica(COUNTS, 3, state(3)))
    told(player, node.Deployed(JOB, 3, (built,)))
    for channel in (0, 2):
        built.inputs[channel].feeds[1].confirmed = True
        for epoch in (4, 5, 6, 7):
            received = frame(channel, FrameKind.EPOCH_END, epoch, epoch - 4)
            header = replace(received.header, receiver=3)
            told(player, node.FrameReceived(header, None, 0))
    return player


# --- seats ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rung", [Scheme.DEPLOYED, COLD])
def test_below_hot_standby_an_operator_sits_and_nothing_is_linked(rung: Scheme) -> None:
    player = running_b()
    assert told(player, counts(3, rung)) == ["sit counts/0@3", "to a: report [(3, None)]"]
    assert seats(player) == [("counts/0", 3, BEGINNING)]
    assert COUNTS not in player.jobs[JOB].slices
    assert told(player, plan(4)) == ["unseat counts/0", "to a: report [(4, None)]"]
    assert seats(player) == []


def test_a_cold_standby_takes_one_state_after_the_other() -> None:
    player = running_b()
    told(player, counts(3, COLD))
    assert told(player, offers(5)) == [], "it is still being built"
    assert told(player, seated(), offers(5)) == ["sit counts/0@3 after 5"]
    assert told(player, offers(6)) == [], "one at a time"
    assert told(player, seated(epoch=5), offers(5)) == [], "it has that one"
    assert seats(player) == [("counts/0", 3, 5)]
    assert told(player, offers(6)) == ["sit counts/0@3 after 6"]


@pytest.mark.parametrize(
    ("offer", "why"),
    [
        (offers(5, generation=2), "another replica's"),
        (offers(5, version=2), "an older plan's"),
        (offers(5, sender="b"), "not from the manager"),
    ],
)
def test_offers_to_others_change_nothing(offer: node.ControlReceived, why: str) -> None:
    player = running_b()
    told(player, counts(3, COLD), seated())
    assert told(player, offer) == [], why


def test_who_is_only_deployed_takes_no_state() -> None:
    player = running_b()
    told(player, counts(3, Scheme.DEPLOYED), seated())
    assert told(player, offers(5)) == []


def test_a_seat_of_another_generation_is_the_same_one() -> None:
    player = running_b()
    told(player, counts(3, COLD), seated(epoch=5))
    assert told(player, counts(4, Scheme.DEPLOYED, 6)) == ["to a: report [(4, None)]"]
    assert seats(player) == [("counts/0", 6, 5)]


def test_whoever_is_promoted_takes_the_seat_over() -> None:
    player = running_b()
    told(player, counts(3, COLD), seated(epoch=5))
    promoted = plan(4, counts_0=(Placement("b", 5, 2, state(5)),))
    assert told(player, promoted) == ["deploy counts/0@5 from 5 for plan 4"]
    assert seats(player) == []


def test_a_damaged_snapshot_is_told_of_and_the_seat_is_empty_until_a_plan_fills_it() -> None:
    player = running_b()
    told(player, counts(3, COLD), seated(), offers(5))
    assert told(player, seated(damaged=True)) == ["unseat counts/0", "to a: report [(3, None)]"]
    assert seats(player) == []
    (found,) = player._job_report(player.jobs[JOB]).damaged
    assert (found.slice, found.generation, found.name) == ("counts/0", 3, "name")
    assert told(player, offers(5), seen(player, NODES)) == ["to a: report [(3, None)]"]
    assert told(player, counts(4, COLD, 4))[0] == "sit counts/0@4"


def test_an_operator_that_can_not_be_built_ends_the_job() -> None:
    player = running_b()
    told(player, counts(3, COLD))
    failed = node.Seated(JOB, COUNTS, 3, BEGINNING, 0, failure="no module named taxi")
    assert told(player, failed) == ["to a: report [(3, 'no module named taxi')]"]


# --- hot standbys -----------------------------------------------------------------------------------


def test_a_hot_standby_that_steps_down_to_a_seat_is_withdrawn() -> None:
    player = hot()
    assert told(player, counts(4, COLD, 6)) == [
        "withdraw counts/0@3",
        "sit counts/0@6",
        "to a: report [(4, None)]",
    ]


def test_state_that_is_taken_in_while_the_plan_promotes_it_is_held_first() -> None:
    player = hot()
    assert "counts/0: run take state 5" in told(player, offers(5))
    standby = player.jobs[JOB].slices[COUNTS]
    told(player, plan(4, counts_0=(Placement("b", 3, 2, state(3)),)))
    assert standby.rung is HOT
    told(player, done(5))
    assert standby.rung is Scheme.ACTIVE_REPLICATION
    assert standby.processed_epoch == 8


def test_two_plans_while_state_is_taken_in_leave_it_on_the_last_one_s_rung() -> None:
    player = hot()
    told(player, offers(5))
    standby = player.jobs[JOB].slices[COUNTS]
    told(player, counts(4, Scheme.ACTIVE_STANDBY, restore=state(3)))
    told(player, counts(5, HOT, restore=state(3)), done(5))
    assert standby.rung is HOT


def test_one_that_is_withdrawn_while_it_takes_state_in_is_not_missed() -> None:
    player = hot()
    told(player, offers(5))
    told(player, plan(4))
    assert told(player, done(5)) == []


def test_one_whose_state_is_damaged_is_no_more_and_the_manager_hears_of_it() -> None:
    player = hot()
    told(player, offers(5))
    bad = control.DamagedSnapshot("counts/0", 3, "name", "checksum")
    lost = node.WorkFinished(JOB, COUNTS, 3, None, damaged=bad)
    assert told(player, lost) == ["withdraw counts/0@3", "to a: report [(3, None)]"]
    assert player._job_report(player.jobs[JOB]).damaged == (bad,)
    assert told(player, seen(player, NODES)) == ["to a: report [(3, None)]"], (
        "it is not built again"
    )


def test_senders_are_told_who_only_queues() -> None:
    player = running_b()
    told(player, counts(3, HOT))
    source = player.jobs[JOB].slices[SliceId("source", 1)]
    assert {number: each.queueing for number, each in source.outputs.items()} == {2: (3,), 3: ()}
    told(player, counts(4, Scheme.ACTIVE_STANDBY))
    assert source.outputs[2].queueing == ()
