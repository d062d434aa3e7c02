"""What a node knows of one job: the plan, its replicas, and who lives at the other ends of their channels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from streammine.engine import stimuli
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import Phase
from streammine.model import control
from streammine.model.agreement import ReplicaPlan
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Channel, JobGraph, Placement, Plan
from streammine.model.snapshots import RecoverySettings


@dataclass
class Seat:
    """An operator that is deployed and takes no part yet. It holds the state after `epoch`, BEGINNING for
    none; the shell is at `work` on it."""

    generation: int
    epoch: int = BEGINNING
    state_bytes: int = 0
    at_work: bool = True


@dataclass
class HostedJob:
    """A job as this node sees it. `wired`: what each slice was told of the other ends of its channels;
    `queueing`: which of its receivers, as it was told, only queue what comes; `agreeing`: the version of
    those that it agrees with on its input; `steps` are those that the shell has measured here."""

    number: int
    graph: JobGraph
    recovery: RecoverySettings
    channels: tuple[Channel, ...]
    plan: Plan | None = None
    deploying: int | None = None
    deployed: int = 0
    started: bool = False
    failed: str | None = None
    directed: stimuli.Directed = field(
        default_factory=lambda: stimuli.Directed(BEGINNING, BEGINNING, BEGINNING)
    )
    slices: dict[SliceId, SliceMachine] = field(default_factory=dict)
    seats: dict[SliceId, Seat] = field(default_factory=dict)
    counters: dict[SliceId, dict[str, float]] = field(default_factory=dict)
    damaged: dict[tuple[SliceId, int], control.DamagedSnapshot] = field(default_factory=dict)
    wired: dict[SliceId, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    queueing: dict[SliceId, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    agreeing: dict[SliceId, int] = field(default_factory=dict)
    steps: tuple[control.StepReport, ...] = ()
    nodes: dict[tuple[SliceId, int], str] = field(default_factory=dict)

    def placed(self, slice_id: SliceId) -> tuple[Placement, ...]:
        assert self.plan is not None
        return self.plan.placements.get(slice_id, ())

    def linked(self, slice_id: SliceId) -> tuple[Placement, ...]:
        """The slice's replicas that take what is sent to it."""
        return tuple(each for each in self.placed(slice_id) if each.rung.queues)

    def led_by(self, machine: SliceMachine) -> bool:
        """Whether the replica is the first that the plan lists of its slice."""
        group = self.placed(machine.slice_id)
        return not group or group[0].generation == machine.generation

    def stands_behind(self, machine: SliceMachine) -> bool:
        """Another replica of the slice leads, and goes on doing so."""
        group = self.placed(machine.slice_id)
        return not self.led_by(machine) and not any(each.leaving for each in group)

    def beside(self, slice_id: SliceId, mine: Placement) -> tuple[int, ...]:
        """The generations of the slice's other replicas."""
        return tuple(each.generation for each in self.linked(slice_id) if each != mine)

    def doubled(self, slice_id: SliceId) -> bool:
        """Another replica of the slice publishes beside the one here."""
        return sum(each.rung.publishes for each in self.placed(slice_id)) > 1

    def follow(self, plan: Plan) -> None:
        """What may be forgotten is said anew under each plan."""
        self.plan = plan
        self.directed = replace(self.directed, retain_after=BEGINNING)
        self.nodes = {
            (slice_id, each.generation): each.node
            for slice_id, group in plan.placements.items()
            for each in group
        }

    def replica(self, slice_id: SliceId, generation: int) -> SliceMachine | None:
        """The replica, if it is here and of that generation."""
        machine = self.slices.get(slice_id)
        return machine if machine is not None and machine.generation == generation else None

    def links(self, slice_id: SliceId, mine: Placement) -> dict[int, tuple[int, ...]]:
        """By channel, the generations at its other end that begin the job together with `mine`.

        Both ends come to the same answer, whichever version of the plan they see first.
        """
        if not self._first(mine):
            return {}
        return {
            number: tuple(each.generation for each in self.linked(other) if self._first(each))
            for number, other in self._ends(slice_id).items()
        }

    def _first(self, placement: Placement) -> bool:
        first = self.recovery.first_generation
        added = placement.generation >= first + self.graph.most_replicas
        return not added and placement.restore is None

    def _ends(self, slice_id: SliceId) -> dict[int, SliceId]:
        """By channel of a slice, the slice at its other end."""
        ends = {each.number: each.source for each in self.graph.inputs[slice_id]}
        return ends | {each.number: each.target for each in self.graph.outputs[slice_id]}

    def wiring(self, slice_id: SliceId) -> dict[int, tuple[int, ...]]:
        """By channel, the generations that live at its other end; outputs and inputs alike."""
        return {
            number: tuple(placement.generation for placement in self.linked(other))
            for number, other in self._ends(slice_id).items()
        }

    def only_queue(self, slice_id: SliceId) -> dict[int, tuple[int, ...]]:
        """By outgoing channel, the generations of receivers that do no work."""
        return {
            each.number: tuple(
                placement.generation
                for placement in self.linked(each.target)
                if not placement.rung.processes
            )
            for each in self.graph.outputs[slice_id]
        }

    def rewired(self, slice_id: SliceId) -> stimuli.Rewired | None:
        """What has changed at the other ends of a slice's channels since it was last told, if anything."""
        ends = _changed(self.wired, slice_id, self.wiring(slice_id))
        queueing = _changed(self.queueing, slice_id, self.only_queue(slice_id), ())
        if not ends and not queueing:
            return None
        inputs = {channel.number for channel in self.graph.inputs[slice_id]}
        return stimuli.Rewired(
            {number: each for number, each in ends.items() if number in inputs},
            {number: each for number, each in ends.items() if number not in inputs},
            queueing,
        )

    def newly_agreeing(self, slice_id: SliceId) -> ReplicaPlan | None:
        """With whom a replica agrees on its input, where that has changed since it was told. No former plans
        are named, for every decision is stored."""
        assert self.plan is not None
        now = self.plan.agreeing.get(slice_id)
        if now is None or self.agreeing.get(slice_id) == now.version:
            return None
        self.agreeing[slice_id] = now.version
        return ReplicaPlan(now.version, now.replicas)

    def forget(self, slice_id: SliceId) -> None:
        """A replica is no more."""
        del self.slices[slice_id]
        for known in (self.counters, self.wired, self.queueing, self.agreeing):
            known.pop(slice_id, None)


def _changed(
    told: dict[SliceId, dict[int, tuple[int, ...]]],
    slice_id: SliceId,
    now: dict[int, tuple[int, ...]],
    untold: tuple[int, ...] | None = None,
) -> dict[int, tuple[int, ...]]:
    """By channel, what a slice has not been told yet; it counts as told from here on."""
    known = told.get(slice_id, {})
    told[slice_id] = now
    return {number: each for number, each in now.items() if known.get(number, untold) != each}


def seat_report(slice_id: SliceId, seat: Seat) -> control.SeatReport:
    """What a heartbeat says of an operator that is only deployed."""
    return control.SeatReport(str(slice_id), seat.generation, seat.epoch, seat.state_bytes)


def _bytes_of(machine: SliceMachine) -> dict[str, float]:
    """What went in, waits, was made, and was sent."""
    outputs = machine.outputs.values()
    return {
        "bytes_in": float(machine.waiting.added_bytes),
        "bytes_waiting": float(machine.waiting.nbytes),
        "bytes_out": float(sum(each.made_bytes for each in outputs)),
        "rows_sent": float(sum(each.sent_rows for each in outputs)),
    }


def slice_report(machine: SliceMachine, counters: dict[str, float]) -> control.SliceReport:
    """What a heartbeat says of a replica."""
    final = machine.final_epoch
    return control.SliceReport(
        str(machine.slice_id),
        machine.generation,
        machine.phase.value,
        machine.processed_epoch,
        machine.phase is Phase.FINISHED,
        machine.retained_after,
        machine.accepted,
        machine.frozen,
        machine.skipped,
        machine.last_epoch,
        BEGINNING if final is None else final,
        tuple(machine.snapshots.records),
        counters | _bytes_of(machine),
        machine.rung.value,
        machine.received_below,
        machine.spent_plan,
        machine.outrun,
    )
