"""A slice and its cluster with round numbers, for tests of the controller. MB is 10**6 bytes."""

from __future__ import annotations

from dataclasses import replace

from replication import Controller
from streammine.model.ids import SliceId
from streammine.model.recovery_assessment import SliceOutlook, StepTimes
from streammine.model.recovery_policy import (
    CheckpointObservation,
    Measurement,
    RecoveryGoal,
    SliceObservation,
    Step,
)
from streammine.model.schemes import Scheme

MB = 1e6
SLICE = SliceId("counts", 0)
CLOCK = 1.7e9
"""What the system's clock shows."""

PASSIVE, DEPLOYED, COLD, HOT, STANDBY, ACTIVE = Scheme

TIMES = StepTimes(
    detect_seconds=0.5,
    switch_seconds=0.1,
    deploy_seconds=0.4,
    loads=((0.0, 0.0), (200 * MB, 2.0)),
)
MEASURED = (
    Measurement(Step.DETECT, 0.5),
    Measurement(Step.SWITCH, 0.1),
    Measurement(Step.DEPLOY, 0.4),
    Measurement(Step.LOAD, 2.0, 200 * MB),
)

OUTLOOK = SliceOutlook(
    further_replicas=1,
    state_bytes=100 * MB,
    load_bytes=100 * MB,
    increment_bytes=10 * MB,
    checkpoint_seconds=1.0,
    input_bytes_per_second=20 * MB,
    output_bytes_per_second=5 * MB,
    processing_bytes_per_second=100 * MB,
    busy_share=0.2,
    queued_bytes=0.0,
    replay_share=0.25,
)


def outlook(**changes: object) -> SliceOutlook:
    return replace(OUTLOOK, **changes)


def seen(
    state_mb: float = 100,
    input_mb: float = 20,
    *,
    age_seconds: float | None = 1.0,
    scheme: Scheme = ACTIVE,
    **changes: object,
) -> SliceObservation:
    checkpoint = None
    if age_seconds is not None:
        checkpoint = CheckpointObservation(state_mb * MB, 10 * MB, age_seconds)
    observation = SliceObservation(
        scheme=scheme,
        replicas=2,
        nodes=4,
        state_bytes=state_mb * MB,
        checkpoint=checkpoint,
        input_bytes_per_second=input_mb * MB,
        output_bytes_per_second=5 * MB,
        processing_bytes_per_second=60 * MB,
        busy_share=0.2,
        queued_bytes=0.0,
        replay_share=0.25,
    )
    return replace(observation, **changes)


def controller(goal: RecoveryGoal) -> Controller:
    """One that knows all steps."""
    made = Controller(goal)
    for measurement in MEASURED:
        made.measured(measurement)
    return made


def settled(goal: RecoveryGoal, observation: SliceObservation) -> Controller:
    """One that has looked at the slice for long enough to choose."""
    made = controller(goal)
    assert observation.checkpoint is not None
    older = replace(observation, checkpoint=replace(observation.checkpoint, age_seconds=1.0))
    newer = replace(observation, checkpoint=replace(observation.checkpoint, age_seconds=0.5))
    for turn, one in enumerate((older, newer, newer)):
        made.observe(0.1 * turn, {SLICE: one}, CLOCK)
    return made
