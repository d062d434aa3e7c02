"""Watching machines from outside: which row of its table each call of a machine was.

Methods of single objects are wrapped; nothing is changed in what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from streammine.engine import manager_stimuli, node_stimuli, stimuli
from streammine.engine.input_channel import Feed, InputChannel, Verdict
from streammine.engine.manager import ManagerMachine
from streammine.engine.output_channel import OutputChannel
from streammine.engine.placement import Node, node_of
from streammine.engine.slice import SliceMachine
from streammine.engine.snapshot_chain import SnapshotChain
from streammine.model.ids import SliceId
from streammine.model.job import Placement, Plan
from streammine.model.recovery import CheckpointCoordinator, CheckpointEffect, SliceStanding
from streammine.model.snapshots import SnapshotRecord
from streammine.simulation.rows import CHECKPOINTING, GIVEN_UP

Note = Callable[[str, str], None]
"""Told of each row: (machine, what)."""


def _wrap(target: Any, name: str, around: Callable[..., Any]) -> None:
    """Let `around(method, *arguments)` stand in the place of an object's method."""
    method = getattr(target, name)
    setattr(target, name, partial(around, method))


# --- slices -----------------------------------------------------------------------------------


def watch_slice(machine: SliceMachine, note: Note) -> None:
    def handle(method: Callable[..., Any], stimulus: stimuli.Stimulus) -> list[stimuli.Effect]:
        phase = machine.phase.value
        name = type(stimulus).__name__
        effects: list[stimuli.Effect] = method(stimulus)
        note("slice", f"{phase}: {name}")
        if isinstance(stimulus, stimuli.WorkDone):
            note("slice", f"running: WorkDone, {_came_of(stimulus.result)}")
        for effect in effects:
            note("slice effects", type(effect).__name__)
        return effects

    _wrap(machine, "handle", handle)
    for incoming in machine.inputs.values():
        _watch_input(incoming, note)
    for outgoing in machine.outputs.values():
        _watch_output(outgoing, note)
    _watch_chain(machine.snapshots, note)


def _came_of(result: stimuli.WorkResult) -> str:
    if result.frozen is not None:
        return "frozen"
    if result.finished:
        return "finished"
    if result.open_epoch is not None:
        return "read"
    return ("nothing closed", "an epoch closed", "epochs closed")[min(2, len(result.closed))]


def _watch_chain(chain: SnapshotChain, note: Note) -> None:
    def done(method: Callable[..., Any], record: SnapshotRecord | None) -> None:
        method(record)
        if record is None:
            note("snapshots", "write failed")
        else:
            note("snapshots", f"{'full snapshot' if record.full else 'increment'} durable")

    _wrap(chain, "done", done)


def _watch_input(channel: InputChannel, note: Note) -> None:
    def receive(method: Callable[..., Any], frame: stimuli.FrameArrived) -> Verdict:
        feed = channel.feeds.get(frame.header.sender)
        expected = None if feed is None else feed.expected
        verdict: Verdict = method(frame)
        if verdict is not Verdict.DROPPED:
            note("input", _TAKEN[verdict])
        elif expected is None or frame.header.receiver != channel.generation:
            note("input", "dropped: of a generation that is not listed")
        elif frame.header.sequence < expected:
            note("input", "dropped: it came before")
        else:
            note("input", "dropped: its epoch is complete")
        return verdict

    def missing(method: Callable[..., Any], sender: int, announced: int, beat: int) -> int | None:
        feed = channel.feeds.get(sender)
        found: int | None = method(sender, announced, beat)
        if feed is None:
            note("input", "announced: by a generation that is not listed")
        elif found is not None:
            note("input", "announced: a tail is missing")
        else:
            slow = announced > feed.expected
            note("input", f"announced: {'a tail is on its way' if slow else 'nothing is missing'}")
        return found

    def keep_feeds(method: Callable[..., Any], senders: tuple[int, ...]) -> list[int]:
        before, leader = set(channel.feeds), channel.leader
        discarded: list[int] = method(senders)
        if set(channel.feeds) - before:
            note("input", "rewired: a feed comes")
        if before - set(channel.feeds):
            if leader in channel.feeds:
                note("input", "rewired: a feed goes, the leader stays")
            else:
                where = "in an open epoch" if discarded else "between two epochs"
                note("input", f"rewired: the leader goes {where}")
        return discarded

    def elect(method: Callable[..., Any]) -> Feed | None:
        due = channel.leader is None and bool(channel.feeds)
        feed: Feed | None = method()
        if due:
            goes_on = "it goes on where it is" if feed is None else "it must send again"
            note("input", f"elected: {goes_on}")
        return feed

    for name, around in (
        ("receive", receive),
        ("missing", missing),
        ("keep_feeds", keep_feeds),
        ("elect", elect),
    ):
        _wrap(channel, name, around)


_TAKEN = {
    Verdict.TAKE: "taken from the leader",
    Verdict.WAIT: "waits for its feed to lead",
    Verdict.TAKE_OVER: "its feed takes over the lead",
    Verdict.EARLY: "early: a gap before it",
}


def _watch_output(channel: OutputChannel, note: Note) -> None:
    def subscribe(method: Callable[..., Any], receiver: int, from_epoch: int, frontier: int) -> Any:
        known = receiver in channel.links
        stands = method(receiver, from_epoch, frontier)
        said = "a new link" if stands else "what is asked for is kept no more"
        note("output", f"subscribed: {'the link stands' if known else said}")
        return stands

    def resend(method: Callable[..., Any], receiver: int, sequence: int) -> Any:
        frames = method(receiver, sequence)
        said = "from the log" if frames else "the link is gone, or has sent nothing"
        note("output", f"resend: {said}")
        return frames

    def credit(method: Callable[..., Any], receiver: int, frontier: int) -> None:
        link = channel.links.get(receiver)
        if link is None:
            note("output", "credit: of a link that is gone")
        else:
            moves = frontier > link.frontier
            note("output", "credit: a frontier moves" if moves else "credit: an old one")
        method(receiver, frontier)

    def keep_links(method: Callable[..., Any], receivers: tuple[int, ...]) -> None:
        gone = channel.links.keys() - set(receivers)
        note("output", f"rewired: {'a link goes' if gone else 'all links stay'}")
        method(receivers)

    def close(
        method: Callable[..., Any],
        epoch: int,
        watermark: int,
        checkpoint: bool = False,
        lost: bool = False,
    ) -> None:
        ends, end = epoch > channel.ended, channel.end
        method(epoch, watermark, checkpoint, lost)
        if ends:
            how = "as a frame of its own" if channel.end > end else "on the last frame"
            note("output", f"end of an epoch {how}")

    def prune(method: Callable[..., Any], retain_after: int) -> None:
        before = channel.retained_after
        method(retain_after)
        note("output", "pruned" if channel.retained_after > before else "nothing to prune")

    def to_spill(method: Callable[..., Any], limit: int) -> Any:
        chosen = method(limit)
        note("output", "the oldest entries go to disk")
        return chosen

    for name, around in (
        ("subscribe", subscribe),
        ("resend", resend),
        ("credit", credit),
        ("keep_links", keep_links),
        ("close", close),
        ("prune", prune),
        ("to_spill", to_spill),
    ):
        _wrap(channel, name, around)


# --- the manager ------------------------------------------------------------------------------


def watch_manager(machine: ManagerMachine, note: Note) -> None:
    def handle(
        method: Callable[..., Any], stimulus: manager_stimuli.ManagerStimulus
    ) -> list[manager_stimuli.ManagerEffect]:
        led = machine.leading
        before = {number: (job.plan, job.phase.value) for number, job in machine.jobs.items()}
        effects: list[manager_stimuli.ManagerEffect] = method(stimulus)
        note("manager", type(stimulus).__name__)
        if machine.leading != led:
            note("job", "elected" if machine.leading else "deposed")
        if isinstance(stimulus, node_stimuli.PlanRefused) and stimulus.job in machine.jobs:
            standing = machine.jobs[stimulus.job].standing
            plan, phase = before[stimulus.job]
            if plan is not standing:
                note("job", "plan refused: back to what stands")
                before[stimulus.job] = (standing, phase)
        for effect in effects:
            note("manager effects", type(effect).__name__)
            if isinstance(effect, node_stimuli.DeclarePlan):
                plan, phase = before.get(effect.plan.job, (None, ""))
                note("job", _declared(plan, effect.plan, stimulus, machine.live))
                before[effect.plan.job] = (effect.plan, phase)
            elif isinstance(effect, node_stimuli.DeclareEnd):
                _, phase = before.get(effect.job, (None, ""))
                note("job", f"{phase}: ended, {effect.outcome.status}")
        return effects

    def refusal(method: Callable[..., Any], wish: manager_stimuli.Wish) -> str | None:
        reason: str | None = method(wish)
        if reason is not None:
            note("job", "wish refused")
        return reason

    _wrap(machine, "handle", handle)
    _wrap(machine, "refusal", refusal)


_EMPTIED = "an emptied node's slices move"
_REINFORCED = "one more replica is made of a slice that has too few"


def _not_in(group: Iterable[Placement], other: Iterable[Placement]) -> list[Placement]:
    """The replicas of the other group that are not in this one."""
    known = {each.generation for each in group}
    return [each for each in other if each.generation not in known]


def _declared(
    before: Plan | None,
    plan: Plan,
    stimulus: manager_stimuli.ManagerStimulus,
    live: tuple[Node, ...],
) -> str:
    """Which row a plan comes from, by what it changes in the one before."""
    if before is None:
        return "submitted: first plan declared"
    phase = "deploying" if before.phase == "deploy" else "running"
    if plan.phase != before.phase:
        return "deploying: all deployed, plan to run declared"
    if plan.draining != before.draining:
        return "running: a node is to be emptied"
    if isinstance(stimulus, manager_stimuli.MoveAsked):
        kind = "live move" if stimulus.live else "move by state transfer"
        return f"running: a {kind} begins"
    if plan == replace(before, version=plan.version, agreeing=plan.agreeing):
        return "running: replicas that agree are listed anew"
    pairs = [(before.placements[each], group) for each, group in plan.placements.items()]
    gone = [each for old, group in pairs for each in _not_in(group, old)]
    come = [each for old, group in pairs for each in _not_in(old, group)]
    if not come and all(node_of(each) in live for each in gone):
        return "running: a new replica has caught up, the old one goes"
    if not gone:
        leaving = any(each.leaving for _, group in pairs for each in group)
        return f"running: {_EMPTIED if leaving else _REINFORCED}"
    return f"{phase}: what is lost is made up for"


# --- checkpoints ------------------------------------------------------------------------------


def watch_coordinator(coordinator: CheckpointCoordinator, note: Note) -> None:
    """Each transition follows from what is seen before and after a call."""
    watched: Any = coordinator

    def event(name: str, phase: str) -> None:
        note("checkpointing", CHECKPOINTING[phase, name])

    def observe(
        method: Callable[..., Any], now_seconds: float, standings: Mapping[SliceId, SliceStanding]
    ) -> list[CheckpointEffect]:
        phase, proposed, margin = watched.phase.value, watched.proposed, watched.margin
        effects: list[CheckpointEffect] = method(now_seconds, standings)
        named = watched.proposed != proposed
        if phase == "collecting" and (named or watched.phase.value == "idle"):
            event("give up", phase)
            note("checkpointing", GIVEN_UP[0 if watched.margin > margin else 1])
        elif phase == "collecting" and watched.phase.value == "publishing":
            event("complete", phase)
        if named:
            event("name", "idle")
        return effects

    def published(
        method: Callable[..., Any], epoch: int, error: str | None
    ) -> list[CheckpointEffect]:
        phase = watched.phase.value
        effects: list[CheckpointEffect] = method(epoch, error)
        event("published" if error is None else "failed", phase)
        return effects

    _wrap(watched, "observe", observe)
    _wrap(watched, "published", published)
