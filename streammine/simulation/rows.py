"""The rows of the pure machines' transition tables, as data: what a simulation can and must go through.

Where a machine dispatches on types, the rows are taken from those types: a stimulus, an effect or a verdict
that is added to a machine adds its row here by itself. A row is (machine, what happens to it, and where).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from streammine.engine import manager_stimuli, node_stimuli, stimuli
from streammine.engine.slice_settings import Phase
from streammine.model import control

Row = tuple[str, str]

ANSWERED_BY_SHELLS = (control.StatusRequest, control.StatusAnswer, control.ErrorAnswer)

SITUATIONS = (
    "checkpoint published",
    "checkpoint not published",
    "snapshot written",
    "snapshot not written",
    "snapshot found damaged",
    "replica restored from a full snapshot",
    "replica restored from a chain of snapshots",
    "replica rebuilt from nothing",
    "finished replica restored",
    "replica withdrawn",
)
"""Outcomes that show in a node's stimuli and effects."""

JOB = (
    "submitted: first plan declared",
    "deploying: all deployed, plan to run declared",
    "deploying: what is lost is made up for",
    "running: what is lost is made up for",
    "running: a live move begins",
    "running: a move by state transfer begins",
    "running: a node is to be emptied",
    "running: an emptied node's slices move",
    "running: one more replica is made of a slice that has too few",
    "running: a new replica has caught up, the old one goes",
    "running: replicas that agree are listed anew",
    "running: ended, finished",
    "deploying: ended, failed",
    "running: ended, failed",
    "plan refused: back to what stands",
    "wish refused",
    "elected",
    "deposed",
)
"""What the manager's machine makes of a job: the transitions of its phases, and what else it decides."""

CHECKPOINTING = {
    ("idle", "name"): "idle: name",
    ("collecting", "give up"): "collecting: give up",
    ("collecting", "complete"): "collecting: complete",
    ("publishing", "published"): "publishing: published",
    ("publishing", "failed"): "publishing: failed",
}
"""The coordinator's table, by phase and event; and why it gives up:"""

GIVEN_UP = (
    "given up: a source ended the epoch unheard",
    "given up: a slice will not make its snapshot, or is taking too long",
)

INPUT = (
    "taken from the leader",
    "waits for its feed to lead",
    "its feed takes over the lead",
    "early: a gap before it",
    "dropped: of a generation that is not listed",
    "dropped: it came before",
    "dropped: its epoch is complete",
    "announced: nothing is missing",
    "announced: a tail is on its way",
    "announced: a tail is missing",
    "announced: by a generation that is not listed",
    "rewired: a feed comes",
    "rewired: a feed goes, the leader stays",
    "rewired: the leader goes between two epochs",
    "rewired: the leader goes in an open epoch",
    "elected: it goes on where it is",
    "elected: it must send again",
)

OUTPUT = (
    "subscribed: a new link",
    "subscribed: the link stands",
    "subscribed: what is asked for is kept no more",
    "resend: from the log",
    "resend: the link is gone, or has sent nothing",
    "credit: a frontier moves",
    "credit: an old one",
    "credit: of a link that is gone",
    "rewired: a link goes",
    "rewired: all links stay",
    "end of an epoch on the last frame",
    "end of an epoch as a frame of its own",
    "pruned",
    "nothing to prune",
    "the oldest entries go to disk",
)

CHAIN = (
    "full snapshot durable",
    "increment durable",
    "write failed",
)

_SLICE = {
    Phase.DEPLOYED: (
        stimuli.Start,
        stimuli.FrameArrived,
        stimuli.CreditArrived,
        stimuli.UnwantedTold,
        stimuli.Subscribed,
        stimuli.ResendAsked,
        stimuli.Announced,
        stimuli.Rewired,
        stimuli.Led,
        stimuli.Stand,
        stimuli.StateOffered,
        stimuli.Directed,
        stimuli.Beat,
        stimuli.Agreeing,
    ),
    Phase.RUNNING: tuple(each for each in get_args(stimuli.Stimulus) if each is not stimuli.Start),
    Phase.FINISHED: tuple(
        each for each in get_args(stimuli.Stimulus) if each not in (stimuli.Start, stimuli.WorkDone)
    ),
}
"""What a slice's machine takes in each phase. One that has not started has done no work, and of what it
passes on, the ends of empty epochs, some may get lost; one that has finished is not started again."""

_WORK_RESULTS = ("read", "an epoch closed", "epochs closed", "nothing closed", "frozen", "finished")

_NO_LIVE_CODE = "the virtual cluster hands on whole batches only, and sampled user code that works"
_ENDS_EARLY = "it ends the job before its output is whole, so there is no digest to compare"
_FAILS = "only a manager whose place was taken while it stood still may believe so"

UNREACHED: dict[Row, str] = {
    ("node", "JobBroken"): _NO_LIVE_CODE,
    ("node", "StopRequest"): _ENDS_EARLY,
    ("node", "SavepointRequest"): _ENDS_EARLY,
    ("manager", "StopAsked"): _ENDS_EARLY,
    ("manager", "SavepointAsked"): _ENDS_EARLY,
    ("job", "deposed"): "who has lost its session hears of no members any more; its process ends",
    ("job", "deploying: ended, failed"): _FAILS,
    ("job", "running: ended, failed"): _FAILS,
}
"""Rows of the tables that no seed goes through, and why."""


def _names(union: object) -> Iterator[str]:
    for kind in get_args(union):
        yield kind.__name__


def _all() -> Iterator[Row]:
    for name in _names(node_stimuli.NodeStimulus):
        if name != "ControlReceived":
            yield "node", name
    for kind in control.MESSAGES:
        if kind not in ANSWERED_BY_SHELLS:
            yield "node", kind.__name__
    for name in _names(node_stimuli.NodeEffect):
        yield "node effects", name
    for name in _names(manager_stimuli.ManagerStimulus):
        yield "manager", name
    for name in _names(manager_stimuli.ManagerEffect):
        yield "manager effects", name
    for what in JOB:
        yield "job", what
    for what in (*CHECKPOINTING.values(), *GIVEN_UP):
        yield "checkpointing", what
    for phase, kinds in _SLICE.items():
        for kind in kinds:
            yield "slice", f"{phase.value}: {kind.__name__}"
    for what in _WORK_RESULTS:
        yield "slice", f"running: WorkDone, {what}"
    for name in _names(stimuli.Effect):
        yield "slice effects", name
    for name in _names(stimuli.Work):
        yield "work", name
    for machine, table in (("input", INPUT), ("output", OUTPUT), ("snapshots", CHAIN)):
        for what in table:
            yield machine, what
    for what in SITUATIONS:
        yield "recovery", what


ROWS: tuple[Row, ...] = tuple(row for row in _all() if row not in UNREACHED)
"""What a simulation goes through, in the order in which it is shown."""
