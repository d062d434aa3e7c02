"""The controller under any history: it is safe first, then cheap, and it does not flutter."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replication import Controller
from replication.costs import resource_use
from replication.estimates import recovery_estimates
from replication.recovery_history import RecoveryHistory
from replication.scheme_choice import SAFETY_SHARE, WORTH_SHARE
from streammine.model.recovery_assessment import (
    NO_OTHERS,
    Decision,
    SharedLoss,
    SliceOutlook,
    SliceStance,
    StepTimes,
)
from streammine.model.recovery_policy import (
    CheckpointObservation,
    CostWeights,
    Measurement,
    RecoveryGoal,
    SliceObservation,
    Step,
)
from streammine.model.schemes import Scheme
from tests.unit.recovery_cases import CLOCK, SLICE

MEGABYTES = st.integers(0, 400).map(lambda each: each * 1e6)
RATES = st.integers(1, 400).map(lambda each: each * 1e6)
SECONDS = st.integers(0, 40).map(lambda each: each / 8)
SHARES = st.integers(0, 8).map(lambda each: each / 8)
SEMANTICS = st.sampled_from(["precise", "gap"])

CHECKPOINTS = st.builds(CheckpointObservation, MEGABYTES, MEGABYTES, SECONDS)
OBSERVATIONS = st.builds(
    SliceObservation,
    scheme=st.sampled_from(Scheme),
    replicas=st.integers(2, 3),
    nodes=st.integers(2, 4),
    state_bytes=MEGABYTES,
    checkpoint=st.one_of(CHECKPOINTS, CHECKPOINTS, CHECKPOINTS, st.none()),
    input_bytes_per_second=st.one_of(st.just(0.0), MEGABYTES),
    output_bytes_per_second=MEGABYTES,
    processing_bytes_per_second=st.one_of(RATES, RATES, st.none()),
    busy_share=SHARES,
    queued_bytes=st.one_of(st.just(0.0), MEGABYTES),
    standby_queued_bytes=st.one_of(st.just(0.0), MEGABYTES),
    input_waits=st.booleans(),
)
MEASUREMENTS = st.builds(Measurement, st.sampled_from(Step), SECONDS, RATES)
GOALS = st.builds(
    RecoveryGoal,
    st.sampled_from([0.2, 1.0, 2.0, 5.5, 20.0]),
    SEMANTICS,
    st.sampled_from([0.0, 1.0, 5.0]),
    st.builds(CostWeights, SHARES, SHARES, SHARES, SHARES),
)
LOOKS = st.tuples(st.integers(0, 16).map(lambda each: each / 8), OBSERVATIONS)
OUTLOOKS = st.builds(
    SliceOutlook,
    further_replicas=st.integers(1, 3),
    state_bytes=MEGABYTES,
    load_bytes=MEGABYTES,
    increment_bytes=MEGABYTES,
    checkpoint_seconds=SECONDS.map(lambda each: each + 0.125),
    input_bytes_per_second=MEGABYTES,
    output_bytes_per_second=MEGABYTES,
    processing_bytes_per_second=RATES,
    busy_share=SHARES,
    queued_bytes=MEGABYTES,
    standby_queued_bytes=MEGABYTES,
    input_waits=st.booleans(),
    replay_share=SHARES,
    shared=st.builds(
        SharedLoss,
        st.integers(2, 8).map(lambda each: each / 2),
        st.lists(
            st.tuples(st.integers(1, 8).map(lambda each: each / 2), MEGABYTES), max_size=3
        ).map(tuple),
        SHARES,
    ),
)
LOADS = st.lists(st.tuples(RATES, SECONDS), min_size=1, max_size=4).map(
    lambda steps: (
        (0.0, steps[0][1] / 2),
        *accumulate(steps, lambda a, b: (a[0] + b[0], a[1] + b[1])),
    )
)
TIMES = st.builds(StepTimes, SECONDS, SECONDS, SECONDS, LOADS)


class Watcher:
    """Holds every look of a controller against what is promised."""

    def __init__(self, goal: RecoveryGoal) -> None:
        self.goal = goal
        self.controller = Controller(goal)
        self.scheme: Scheme | None = None
        self.changed_at = -math.inf

    def look(self, now_seconds: float, observation: SliceObservation) -> None:
        if self.scheme is None:
            self.scheme = observation.scheme
        decisions = self.controller.observe(now_seconds, {SLICE: observation}, CLOCK + now_seconds)
        stance = self.controller.stances[SLICE]
        assert len(decisions) <= 1
        if decisions:
            self.check_change(now_seconds, decisions[0])
        assert stance.scheme is self.scheme
        if stance.assessment.missing:
            assert stance.scheme is Scheme.ACTIVE_REPLICATION
        else:
            self.check_scheme(now_seconds, stance, changed=bool(decisions))

    def check_change(self, now_seconds: float, decision: Decision) -> None:
        assert decision.previous is self.scheme
        assert decision.chosen is not self.scheme
        numbers = decision.assessment
        fitted = (
            not numbers.missing
            and numbers.estimates[decision.previous].seconds <= self.goal.max_seconds
        )
        if fitted:
            assert now_seconds - self.changed_at >= self.goal.cool_down_seconds
            assert numbers.costs[decision.chosen] < numbers.costs[decision.previous]
            safe_seconds = SAFETY_SHARE * self.goal.max_seconds
            assert numbers.estimates[decision.chosen].seconds <= safe_seconds
        self.scheme, self.changed_at = decision.chosen, now_seconds

    def check_scheme(self, now_seconds: float, stance: SliceStance, changed: bool) -> None:
        costs = stance.assessment.costs
        seconds = {each: one.seconds for each, one in stance.assessment.estimates.items()}
        if min(seconds.values()) > self.goal.max_seconds:
            assert stance.scheme is Scheme.ACTIVE_REPLICATION
            return
        assert seconds[stance.scheme] <= self.goal.max_seconds
        cooled = now_seconds - self.changed_at >= self.goal.cool_down_seconds
        if cooled or changed:
            safe_seconds = SAFETY_SHARE * self.goal.max_seconds
            safe = [costs[each] for each in seconds if seconds[each] <= safe_seconds]
            saved = costs[stance.scheme] - min(safe, default=math.inf)
            assert saved <= WORTH_SHARE * costs[stance.scheme]


@settings(max_examples=150)
@given(GOALS, st.lists(st.one_of(LOOKS, LOOKS, LOOKS, MEASUREMENTS), max_size=30))
def test_it_is_safe_first_then_cheap_and_does_not_flutter(
    goal: RecoveryGoal, happenings: list[Measurement | tuple[float, SliceObservation]]
) -> None:
    watcher = Watcher(goal)
    for step in Step:
        watcher.controller.measured(Measurement(step, 0.25, 50e6))
    now_seconds = 0.0
    for happening in happenings:
        if isinstance(happening, Measurement):
            watcher.controller.measured(happening)
        else:
            now_seconds += happening[0]
            watcher.look(now_seconds, happening[1])


@pytest.mark.parametrize(
    "more",
    [
        "state_bytes",
        "load_bytes",
        "increment_bytes",
        "checkpoint_seconds",
        "input_bytes_per_second",
        "queued_bytes",
        "standby_queued_bytes",
        "output_bytes_per_second",
    ],
)
@given(OUTLOOKS, TIMES, SEMANTICS, SECONDS)
def test_more_of_anything_never_makes_a_recovery_quicker(
    more: str, outlook: SliceOutlook, times: StepTimes, semantics: str, amount: float
) -> None:
    if more == "input_bytes_per_second":
        # beside others, a slice with more input gets more of the node's time, too
        outlook = replace(outlook, shared=NO_OTHERS)
    unit = 1.0 if more.endswith("_seconds") else 1e7
    larger = replace(outlook, **{more: getattr(outlook, more) + amount * unit})
    before = recovery_estimates(outlook, times, semantics)
    after = recovery_estimates(larger, times, semantics)
    for scheme in Scheme:
        assert after[scheme].seconds >= before[scheme].seconds * (1 - 1e-9)


@given(OUTLOOKS, TIMES, SEMANTICS, SECONDS)
def test_slower_steps_never_make_a_recovery_quicker(
    outlook: SliceOutlook, times: StepTimes, semantics: str, amount: float
) -> None:
    before = recovery_estimates(outlook, times, semantics)
    for step in ("detect_seconds", "switch_seconds", "deploy_seconds"):
        slower = replace(times, **{step: getattr(times, step) + amount})
        after = recovery_estimates(outlook, slower, semantics)
        assert all(after[each].seconds >= before[each].seconds * (1 - 1e-9) for each in Scheme)
    for loads in (
        tuple((nbytes, each + amount) for nbytes, each in times.loads),
        tuple((nbytes, each * (1 + amount)) for nbytes, each in times.loads),
    ):
        after = recovery_estimates(outlook, replace(times, loads=loads), semantics)
        assert all(after[each].seconds >= before[each].seconds * (1 - 1e-9) for each in Scheme)


@given(OUTLOOKS, TIMES)
def test_a_slice_s_own_snapshot_is_loaded_in_any_case(
    outlook: SliceOutlook, times: StepTimes
) -> None:
    alone = times.loading_seconds(outlook.load_bytes)
    for scheme, estimate in recovery_estimates(outlook, times, "precise").items():
        assert estimate.load_seconds >= (0.0 if scheme.holds_state else alone)


SIZES = st.lists(st.tuples(st.sampled_from([Step.LOAD, Step.SAVE]), SECONDS, st.integers(1, 10**9)))


@given(SIZES, st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 5))
def test_more_bytes_or_more_snapshots_of_a_size_are_never_loaded_in_less_time(
    sizes: list[tuple[Step, float, int]], nbytes: int, more: int, count: int
) -> None:
    history = RecoveryHistory()
    for step in (Step.DETECT, Step.SWITCH, Step.DEPLOY):
        history.add(Measurement(step, 0.25))
    history.add(Measurement(Step.LOAD, 0.25, 5e6))
    for step, seconds, size in sizes:
        history.add(Measurement(step, seconds, size))
    times = history.times
    one = times.loading_seconds(nbytes)
    assert 0 < one < math.inf
    assert times.loading_seconds(nbytes + more) >= one * (1 - 1e-9)
    assert times.loading_seconds(nbytes * count, count) == pytest.approx(one * count)


@given(OUTLOOKS, TIMES, SEMANTICS)
def test_the_higher_the_rung_the_quicker_the_recovery(
    outlook: SliceOutlook, times: StepTimes, semantics: str
) -> None:
    kept_up = replace(outlook, standby_queued_bytes=0.0)
    estimates = recovery_estimates(kept_up, times, semantics)
    for slower, quicker in pairwise(Scheme):
        if semantics == "gap" and quicker is Scheme.PASSIVE_STANDBY_HOT:
            # what lies in its queue is not left out
            continue
        assert estimates[slower].seconds >= estimates[quicker].seconds * (1 - 1e-9)
    assert estimates[Scheme.ACTIVE_REPLICATION].seconds == 0


@given(OUTLOOKS, TIMES)
def test_gap_recovery_never_takes_longer(outlook: SliceOutlook, times: StepTimes) -> None:
    precise = recovery_estimates(outlook, times, "precise")
    gap = recovery_estimates(outlook, times, "gap")
    assert all(gap[each].seconds <= precise[each].seconds for each in Scheme)


@given(OUTLOOKS, TIMES, st.integers(1, 3))
def test_every_further_replica_uses_as_much_as_the_first(
    outlook: SliceOutlook, times: StepTimes, count: int
) -> None:
    for scheme in Scheme:
        one = resource_use(scheme, replace(outlook, further_replicas=1), times)
        many = resource_use(scheme, replace(outlook, further_replicas=count), times)
        assert many.cores == pytest.approx(count * one.cores)
        assert many.memory_bytes == pytest.approx(count * one.memory_bytes)
        assert many.network_bytes_per_second == pytest.approx(count * one.network_bytes_per_second)
        assert many.nodes == count * one.nodes
