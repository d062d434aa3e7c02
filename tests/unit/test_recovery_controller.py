"""The controller over time: it measures, chooses, cools down, and puts safety first."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from replication import Controller
from replication.controller import DECISIONS_KEPT
from replication.recovery_history import RecoveryHistory
from replication.slice_controller import SliceController, _Event
from replication.slice_history import INCREMENTS, SliceHistory
from streammine.model.ids import SliceId
from streammine.model.recovery_assessment import ControlPhase, SharedLoss
from streammine.model.recovery_policy import (
    CheckpointObservation,
    RecoveryGoal,
)
from tests.unit.recovery_cases import (
    ACTIVE,
    CLOCK,
    COLD,
    DEPLOYED,
    HOT,
    MB,
    MEASURED,
    PASSIVE,
    SLICE,
    controller,
    seen,
    settled,
)
from tests.unit.transcripts import played, tidy

TWO_SECONDS = RecoveryGoal(2.0)


# --- over time ------------------------------------------------------------------------------------


class ControllerPlayer:
    """Plays a controller with one slice, whose checkpoints get 1 s old.

    ==============================  =======================================================
    0.5 state 40 input 20           at that time; MB and MB/s
    0.5 state 40 input 20 queue 10  10 MB wait
    0.5 nothing                     nobody knows how old checkpoints are any more
    detect, switch, …               that step was measured
    ==============================  =======================================================

    Below a line stands what is decided, or the phase in brackets where it is another one than before.
    """

    def __init__(self, goal: RecoveryGoal) -> None:
        self.controller = Controller(goal)
        self.looks = 0
        self.phase: ControlPhase | None = None

    def __call__(self, line: str) -> Iterator[str]:
        words = line.split()
        steps = [each for each in MEASURED if each.step.value in line.replace(",", "").split()]
        if steps:
            for each in steps:
                self.controller.measured(each)
            return
        values = dict(zip(words[1::2], map(float, words[2::2]), strict=False))
        self.looks += 1
        observation = seen(
            values.get("state", 0.0),
            values.get("input", 0.0),
            age_seconds=None if "nothing" in words else 1.0 if self.looks == 1 else 0.5,
            queued_bytes=values.get("queue", 0.0) * MB,
        )
        decisions = self.controller.observe(float(words[0]), {SLICE: observation}, CLOCK)
        yield from (f"{each.chosen}: {each.reason}" for each in decisions)
        phase = self.controller.stances[SLICE].phase
        if phase is not self.phase and not decisions:
            yield f"[{phase.value}]"
        self.phase = phase


def transcript(script: str, goal: RecoveryGoal = TWO_SECONDS) -> None:
    assert played(script, ControllerPlayer(goal)) == tidy(script)


def test_it_starts_with_active_replication_until_it_has_measured_enough() -> None:
    transcript("""
        > 0.0 state 5 input 10
          [measuring]
        > 1.0 state 5 input 10
        > 2.0 state 5 input 10
        > detect, switch, deploy
        > 3.0 state 5 input 10
        > load
        > 4.0 state 5 input 10
          passive-replication: the cheapest within 1.6 s
    """)


def test_the_scheme_climbs_and_descends_with_the_load() -> None:
    transcript("""
        > detect, switch, deploy, load
        > 0.0 state 5 input 10
          [measuring]
        > 1.0 state 5 input 10
        > 2.0 state 5 input 10
          passive-replication: the cheapest within 1.6 s
        > 3.0 state 5 input 20
          deployed: passive-replication would take 2.08 s of 2 s; the cheapest within 1.6 s
        > 4.0 state 39 input 20
        > 4.5 state 42 input 20
          passive-standby-cold: deployed would take 2.03 s of 2 s; the cheapest within 1.6 s
        > 5.0 state 100 input 70
          active-standby: passive-standby-cold would take inf s of 2 s; the cheapest within 1.6 s
        > 6.0 state 100 input 20
        > 8.0 state 40 input 10
        > 9.9 state 5 input 10
        > 10.0 state 5 input 10
          passive-replication: the cheapest within 1.6 s
        > 12.0 state 40 input 10
        > 15.0 state 40 input 10
          [settled]
        > 16.0 state 40 input 20
          passive-standby-cold: passive-replication would take 2.6 s of 2 s; the cheapest within 1.6 s
        > 20.9 state 5 input 5
        > 21.0 state 5 input 5
          passive-replication: the cheapest within 1.6 s
    """)


def test_a_spike_of_the_input_counts_for_as_long_as_a_replay_reaches_back() -> None:
    # at 9.0 the spike at 8.0 is still part of what would be replayed, at 9.1 no longer
    transcript("""
        > detect, switch, deploy, load
        > 0.0 state 5 input 20
          [measuring]
        > 1.0 state 5 input 20
        > 2.0 state 5 input 20
          deployed: the cheapest within 1.6 s
        > 8.0 state 5 input 20
          [settled]
        > 9.0 state 5 input 10
        > 9.1 state 5 input 10
          passive-replication: the cheapest within 1.6 s
    """)


def test_a_queue_makes_it_climb() -> None:
    transcript("""
        > detect, switch, deploy, load
        > 0.0 state 5 input 10
          [measuring]
        > 1.0 state 5 input 10
        > 2.0 state 5 input 10
          passive-replication: the cheapest within 1.6 s
        > 3.0 state 5 input 10 queue 20
        > 4.0 state 5 input 10 queue 30
          deployed: passive-replication would take 2.06 s of 2 s; the cheapest within 1.6 s
    """)


def test_what_is_no_longer_known_brings_it_back_and_the_cool_down_is_kept() -> None:
    transcript("""
        > detect, switch, deploy, load
        > 0.0 state 5 input 10
          [measuring]
        > 1.0 state 5 input 10
        > 2.0 state 5 input 10
          passive-replication: the cheapest within 1.6 s
        > 3.0 nothing
          active-replication: not measured yet: a complete checkpoint
        > 4.0 state 5 input 10
          [cooling]
        > 7.9 state 5 input 10
        > 8.0 state 5 input 10
          passive-replication: the cheapest within 1.6 s
    """)


# --- measuring ------------------------------------------------------------------------------------


def test_what_is_missing_is_said() -> None:
    fresh = Controller(TWO_SECONDS)
    (decision,) = fresh.observe(0.0, {SLICE: seen(scheme=PASSIVE, age_seconds=None)}, CLOCK)
    assert (decision.previous, decision.chosen) == (PASSIVE, ACTIVE)
    assert decision.reason == (
        "not measured yet: detect, switch, deploy, load, a complete checkpoint, how fast it processes"
    )
    assert (
        str(decision) == f"counts/0: passive-replication -> active-replication: {decision.reason}"
    )
    for measurement in MEASURED:
        fresh.measured(measurement)
    assert fresh.observe(1.0, {SLICE: seen()}, CLOCK) == []
    assert fresh.stances[SLICE].reason == (
        "not measured yet: how old checkpoints get, how fast it processes"
    )


def test_who_has_no_input_need_not_show_how_fast_it_is() -> None:
    idle = seen(input_mb=0, processing_bytes_per_second=None)
    made = settled(TWO_SECONDS, idle)
    assert made.stances[SLICE].assessment.estimates[HOT].catch_up_seconds == 0.0
    made.observe(10.0, {SLICE: replace(idle, input_bytes_per_second=1.0)}, CLOCK)
    assert "how fast it processes" in made.stances[SLICE].reason


def test_an_earlier_manager_s_choice_stands_while_this_one_measures() -> None:
    fresh = Controller(TWO_SECONDS)
    found = seen(scheme=COLD, chosen=True, age_seconds=None)
    assert fresh.observe(5.0, {SLICE: found}, CLOCK) == []
    assert fresh.observe(34.9, {SLICE: found}, CLOCK) == []
    assert fresh.stances[SLICE].reason.startswith("chosen before; not measured yet: ")
    (decision,) = fresh.observe(35.0, {SLICE: found}, CLOCK)
    assert (decision.previous, decision.chosen) == (COLD, ACTIVE)


def test_what_is_measured_in_time_begins_with_an_earlier_manager_s_choice() -> None:
    fresh = controller(TWO_SECONDS)
    found = seen(scheme=HOT, chosen=True)
    for turn, age_seconds in enumerate((1.0, 0.5, 0.6)):
        checkpoint = replace(found.checkpoint, age_seconds=age_seconds)
        assert fresh.observe(turn, {SLICE: replace(found, checkpoint=checkpoint)}, CLOCK) == []
    assert fresh.stances[SLICE].scheme is HOT
    assert fresh.stances[SLICE].phase is ControlPhase.COOLING


def test_the_outlook_is_that_of_the_worst_moment() -> None:
    history = SliceHistory()
    for now, age, rate, processing in (
        (0.0, 0.4, 10, 90 * MB),
        (1.0, 1.4, 20, 100 * MB),
        (2.0, 0.3, 10, None),
        (2.4, 0.7, 5, 0.0),
        (2.5, 0.8, 5, 300 * MB),
    ):
        assert now == 0.0 or history.missing
        history.observe(
            now,
            seen(30, rate, age_seconds=age, processing_bytes_per_second=processing),
        )
    assert history.missing == ()
    found = history.outlook
    assert found.checkpoint_seconds == 1.4
    assert found.input_bytes_per_second == 10 * MB, (
        "1.4 s ago it was 20 MB/s, 1.5 s ago that counted"
    )
    assert found.processing_bytes_per_second == 100 * MB
    assert found.replay_bytes == pytest.approx(14 * MB)


def test_who_looks_seldom_is_told_how_old_checkpoints_got() -> None:
    history = SliceHistory()
    for turn in range(4):
        checkpoint = CheckpointObservation(30 * MB, 10 * MB, 0.5, f"{turn}", 0.9 if turn else None)
        history.observe(turn, replace(seen(30), checkpoint=checkpoint))
    assert history.missing == ()
    assert history.outlook.checkpoint_seconds == 0.9


def test_checkpoints_at_one_moment_of_the_clock_cost_no_end_of_work_and_no_failure() -> None:
    made = controller(RecoveryGoal(2.0))
    for turn in range(3):
        checkpoint = CheckpointObservation(30 * MB, 10 * MB, 0.0, f"{turn}", 0.0 if turn else None)
        made.observe(1.0, {SLICE: seen(30, checkpoint=checkpoint)}, CLOCK)
    stance = made.stances[SLICE]
    assert stance.assessment.missing == ()
    assert all(math.isfinite(cost) for cost in stance.assessment.costs.values())


def test_one_odd_look_does_not_change_the_shares_of_work() -> None:
    history = SliceHistory()
    for now, own, shared in ((0.0, 0.2, 0.5), (1.0, 0.1, 0.4), (2.0, 0.3, 0.9)):
        others = SharedLoss(3.0, ((3.0, 30 * MB),), shared)
        history.observe(now, seen(age_seconds=1.0 - now / 4, replay_share=own, shared=others))
    assert history.outlook.replay_share == 0.2
    assert history.outlook.shared == SharedLoss(3.0, ((3.0, 30 * MB),), 0.5)


def test_what_a_checkpoint_adds_is_the_mean_of_the_newest() -> None:
    history = SliceHistory()
    found = seen(30)
    sizes = [90.0] + [8.0] * (INCREMENTS - 1) + [40.0]
    for turn, megabytes in enumerate(sizes):
        checkpoint = CheckpointObservation(30 * MB, megabytes * MB, 0.1)
        for age_seconds in (0.1, 0.6):
            newer = replace(checkpoint, age_seconds=age_seconds)
            history.observe(turn + age_seconds, replace(found, checkpoint=newer))
    assert history.outlook.increment_bytes == pytest.approx(10 * MB)


def test_the_larger_of_snapshot_and_state_is_loaded() -> None:
    for state_mb, expected in ((20, 30), (40, 40)):
        history = SliceHistory()
        history.observe(0.0, replace(seen(30), state_bytes=state_mb * MB))
        history.observe(1.0, seen(30, age_seconds=0.0, state_bytes=state_mb * MB))
        history.observe(2.0, seen(30, age_seconds=0.0, state_bytes=state_mb * MB))
        assert history.outlook.load_bytes == expected * MB


# --- slices, nodes, records -----------------------------------------------------------------------


@pytest.mark.parametrize("alone", [{"nodes": 1}, {"replicas": 1}])
def test_where_no_further_replica_has_a_place_nothing_is_decided(alone: dict[str, int]) -> None:
    made = controller(TWO_SECONDS)
    for now in range(20):
        heavy = seen(500, 90, scheme=PASSIVE, age_seconds=1.0 + now % 2, **alone)
        assert made.observe(float(now), {SLICE: heavy}, CLOCK) == []
    assert made.stances[SLICE].scheme is PASSIVE
    assert made.stances[SLICE].reason == "there is no second node for a further replica"
    assert made.observe(20.0, {SLICE: seen(500, 90)}, CLOCK) != []


def test_each_slice_has_its_own_scheme() -> None:
    other = SliceId("counts", 1)
    made = controller(TWO_SECONDS)
    for now in range(10):
        age = 1.0 - 0.5 * (now % 2)
        both = {other: seen(5, 10, age_seconds=age), SLICE: seen(100, 10, age_seconds=age)}
        made.observe(float(now), both, CLOCK)
    assert {each: stance.scheme for each, stance in made.stances.items()} == {
        SLICE: COLD,
        other: PASSIVE,
    }
    assert [each.slice for each in made.decisions] == [SLICE, other]


def test_a_decision_is_said_once_however_long_the_plan_takes() -> None:
    made = settled(TWO_SECONDS, seen(5, 10))
    (decision,) = made.decisions
    assert (decision.previous, decision.chosen) == (ACTIVE, PASSIVE)
    for now in range(1, 20):
        assert (
            made.observe(float(now), {SLICE: seen(5, 10, scheme=ACTIVE, age_seconds=0.5)}, CLOCK)
            == []
        )
    assert made.stances[SLICE].scheme is PASSIVE


def test_what_a_person_has_set_stands_and_cools_down_when_it_is_handed_back() -> None:
    used = settled(TWO_SECONDS, seen(1, 1))
    used.observe(10.0, {SLICE: seen(1, 1, age_seconds=0.5)}, CLOCK)
    before = used.stances[SLICE]
    assert before.phase is ControlPhase.SETTLED
    fixed = replace(seen(1, 1), scheme=HOT, fixed=True)
    for at in range(100, 110):
        assert used.observe(float(at), {SLICE: fixed}, CLOCK) == []
    stance = used.stances[SLICE]
    assert (stance.scheme, stance.reason) == (HOT, "a person has set it")
    assert stance.assessment.estimates[HOT].seconds > 0
    back = replace(fixed, fixed=False)
    assert used.observe(110.0, {SLICE: back}, CLOCK) == []
    assert used.observe(113.0, {SLICE: back}, CLOCK) == [], "it cools down"
    (decision,) = used.observe(114.5, {SLICE: back}, CLOCK)
    assert decision.previous is HOT


def test_what_a_person_has_set_before_anything_was_measured_stands_too() -> None:
    used = Controller(TWO_SECONDS)
    fixed = replace(seen(1, 1, age_seconds=None), scheme=HOT, fixed=True)
    assert used.observe(0.0, {SLICE: fixed}, CLOCK) == []
    stance = used.stances[SLICE]
    assert (stance.phase, stance.scheme) == (ControlPhase.MEASURING, HOT)
    (decision,) = used.observe(1.0, {SLICE: replace(fixed, fixed=False)}, CLOCK)
    assert decision.chosen is ACTIVE


def test_a_slice_that_is_not_named_is_forgotten() -> None:
    made = settled(TWO_SECONDS, seen(5, 10))
    assert made.observe(1.0, {}, CLOCK) == []
    assert made.stances == {}
    (decision,) = made.observe(2.0, {SLICE: seen(5, 10, scheme=DEPLOYED)}, CLOCK)
    assert (decision.previous, decision.chosen) == (DEPLOYED, ACTIVE)


def test_decisions_are_kept_with_their_numbers_as_plain_data() -> None:
    made = settled(TWO_SECONDS, seen(100, 70))
    (decision,) = made.decisions
    figures = json.loads(json.dumps(decision.figures(), allow_nan=False))
    assert figures["slice"] == "counts/0"
    assert (figures["previous"], figures["chosen"]) == ("active-replication", "active-standby")
    assert figures["at_seconds"] == CLOCK, "that of the system, not of one node alone"
    assert figures["outlook"]["input_bytes_per_second"] == 70 * MB
    schemes = figures["schemes"]
    assert list(schemes) == [
        "passive-replication",
        "deployed",
        "passive-standby-cold",
        "passive-standby-hot",
        "active-standby",
        "active-replication",
    ]
    assert schemes["passive-replication"]["seconds"] is None, "it would never catch up"
    assert schemes["passive-replication"]["load_seconds"] == 1.0
    assert schemes["active-standby"]["seconds"] == pytest.approx(0.6)
    assert schemes["active-standby"]["cost"] == pytest.approx(0.2 + 0.11 + 0.56 + 1)
    assert str(decision) == (
        "counts/0: active-replication -> active-standby: the cheapest within 1.6 s "
        "(passive-replication inf s cost 0, deployed inf s cost 1, passive-standby-cold inf s cost "
        "1.28, passive-standby-hot inf s cost 1.91, active-standby 0.6 s cost 1.87, "
        "active-replication 0 s cost 1.91)"
    )


def test_the_newest_decisions_are_kept() -> None:
    made = settled(RecoveryGoal(2.0, cool_down_seconds=0.0), seen(5, 10))
    for turn in range(1, DECISIONS_KEPT + 10):
        state_mb = 100 if turn % 2 else 5
        observation = seen(state_mb, 10, age_seconds=0.5)
        assert len(made.observe(float(turn), {SLICE: observation}, CLOCK + turn)) == 1
    assert len(made.decisions) == DECISIONS_KEPT
    assert made.decisions[-1].at_seconds == CLOCK + DECISIONS_KEPT + 9


def test_our_own_mistakes_are_noticed() -> None:
    made = settled(TWO_SECONDS, seen(5, 10))
    with pytest.raises(AssertionError, match="time does not go back"):
        made.observe(0.1, {}, CLOCK)
    with pytest.raises(AssertionError, match="queued_bytes is -1"):
        seen(queued_bytes=-1)
    with pytest.raises(AssertionError, match="age_seconds is nan"):
        seen(age_seconds=float("nan"))
    with pytest.raises(AssertionError, match="not measured yet: detect"):
        _ = RecoveryHistory().times
    with pytest.raises(AssertionError, match="counts/0 can't be cooled while measuring"):
        SliceController(SLICE, TWO_SECONDS, seen())._enter(_Event.COOLED)
