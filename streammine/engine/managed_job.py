"""What the manager knows of one job: its plan, what nodes report of it, and its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from streammine.engine.placement import Node, node_of
from streammine.engine.remembering import Remembering
from streammine.model.control import Directive, JobReport, SeatReport, SliceReport
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Placement, Plan
from streammine.model.lacking import Lack, lacks
from streammine.model.recovery import (
    Checkpoint,
    CheckpointCoordinator,
    LineStanding,
    RecoveryLine,
    SliceStanding,
)
from streammine.model.schemes import Scheme, SchemeOrigin
from streammine.model.snapshots import RecoverySettings, Restore, SnapshotRecord

if TYPE_CHECKING:
    from streammine.engine.scheme_control import SchemeControl


class JobPhase(StrEnum):
    SUBMITTED = "submitted"
    DEPLOYING = "deploying"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class Look:
    """What the store held: of complete checkpoints the ones that the coordinator keeps, `kept`, and those
    before them, `older`; decisions up to `removed_until` may have been gone. `damaged`: the snapshots that
    were known to be so when it was asked for."""

    damaged: frozenset[str] = frozenset()
    kept: tuple[Checkpoint, ...] = ()
    older: tuple[Checkpoint, ...] = ()
    removed_until: int = BEGINNING


@dataclass
class ManagedJob:
    """A job, its plan, and what nodes report of it. The plan may be newer than the one that is `standing` in
    the coordination service: it is on its way there, in a `series` of plans that build on each other.

    `ready`: the store's checkpoints are known; `asked`: somebody looks for them, for this term; `looks`: how
    many looks are under way, those of earlier terms included; `look_at_seconds`: when the next one, after one
    that failed, is due; `look`: what the last one has shown. `snapshots`: durable snapshots by slice and
    epoch, whichever replica made them. `damaged`: names of those that could not be read, `broken`: replicas
    that are none because of it, or can't go on. `offered`: the epoch whose state a replica that stands by may
    have taken in. `retain_after`: slices are told that nobody asks for epochs up to it. `publishing`: the
    checkpoint epoch whose manifest is being written. `whole`: a plan's placements, and since when all of them
    have been there. `control`: where schemes are chosen, that of this term; `remembering`: what of it is to
    outlive the term. `lacked`: replicas that had no place when that was last told.
    """

    number: int
    graph: JobGraph
    nodes: int
    recovery: RecoverySettings
    coordinator: CheckpointCoordinator
    line: RecoveryLine
    phase: JobPhase = JobPhase.SUBMITTED
    plan: Plan | None = None
    standing: Plan | None = None
    series: int = 0
    ready: bool = False
    asked: bool = False
    looks: int = 0
    look_at_seconds: float = 0.0
    reports: dict[Node, JobReport] = field(default_factory=dict)
    snapshots: dict[SliceId, dict[int, SnapshotRecord]] = field(default_factory=dict)
    look: Look = field(default_factory=Look)
    damaged: set[str] = field(default_factory=set)
    directive: Directive | None = None
    retain_after: int = BEGINNING
    offered: dict[tuple[SliceId, int], int] = field(default_factory=dict)
    broken: set[tuple[SliceId, int]] = field(default_factory=set)
    publishing: int | None = None
    whole: tuple[dict[SliceId, tuple[Placement, ...]], float] | None = None
    control: SchemeControl | None = None
    remembering: Remembering = field(default_factory=Remembering)
    lacked: tuple[Lack, ...] = ()
    _replicas: dict[Node, dict[tuple[SliceId, int], SliceReport]] = field(default_factory=dict)

    @property
    def placed(self) -> set[Node]:
        """Nodes that the plan puts slices on."""
        assert self.plan is not None
        return {node_of(each) for group in self.plan.placements.values() for each in group}

    # --- reports --------------------------------------------------------------------------------

    def heard(self, node: Node, report: JobReport) -> None:
        self.reports[node] = report
        replicas = {(SliceId.parse(each.slice), each.generation): each for each in report.slices}
        self._replicas[node] = replicas
        for (slice_id, generation), each in replicas.items():
            if not self._lives(slice_id, generation):
                # one that hears of the plan late has gone on alone; what it knows is not the job's state
                continue
            if each.outrun:
                self.broken.add((slice_id, generation))
            known = self.snapshots.setdefault(slice_id, {})
            for record in each.snapshots:
                known[record.epoch] = record
            for epoch in sorted(known)[:-8]:
                del known[epoch]
        for found in report.damaged:
            self.damaged.add(found.name)
            self.broken.add((SliceId.parse(found.slice), found.generation))

    def _lives(self, slice_id: SliceId, generation: int) -> bool:
        """Whether the plan lists the replica, as far as a plan is known."""
        if self.plan is None:
            return True
        group = self.plan.placements.get(slice_id, ())
        return any(each.generation == generation for each in group)

    def report_of(self, slice_id: SliceId, placement: Placement) -> SliceReport | None:
        """The latest report of a replica, if there was one."""
        replicas = self._replicas.get(node_of(placement), {})
        return replicas.get((slice_id, placement.generation))

    def in_charge(self) -> Iterator[tuple[SliceId, Placement, SliceReport]]:
        """Of each slice the replica that speaks for it: one that has finished, else the oldest in the plan
        that has reported."""
        assert self.plan is not None
        for slice_id, group in self.plan.placements.items():
            told = [
                (each, report)
                for each in group
                if (report := self.report_of(slice_id, each)) is not None
            ]
            if told:
                placement, report = max(told, key=lambda each: each[1].finished)
                yield slice_id, placement, report

    def lost(self, now_seconds: float, gone: Sequence[Node]) -> None:
        """These nodes are lost: they are no members any more, or have been silent for too long."""
        if self.control is not None:
            for node in gone:
                self.control.lost(now_seconds, node, self)

    def forget_reports(self) -> None:
        """A new term begins: what was heard before may be old."""
        self.reports.clear()
        self._replicas.clear()
        self.ready = self.asked = False
        self.look_at_seconds = 0.0
        self.publishing = None

    def standings(self) -> dict[SliceId, SliceStanding]:
        """The replica that leads of each slice, as far as it has reported, and the others with it."""
        assert self.plan is not None
        found: dict[SliceId, SliceStanding] = {}
        for slice_id, group in self.plan.placements.items():
            report = self.report_of(slice_id, group[0]) if group else None
            if report is not None:
                told = (self.report_of(slice_id, each) for each in group[1:] if each.rung.processes)
                others = tuple(_standing(each) for each in told if each is not None)
                found[slice_id] = replace(_standing(report), others=others)
        return found

    def all_deployed(self) -> bool:
        assert self.plan is not None
        return all(
            (report := self.reports.get(node)) is not None
            and report.deployed
            and report.plan_version == self.plan.version
            for node in self.placed
        )

    def all_finished(self) -> bool:
        assert self.plan is not None
        return all(
            any(
                (report := self.report_of(slice_id, each)) is not None and report.finished
                for each in group
            )
            for slice_id, group in self.plan.placements.items()
        )

    def unreported(self, nodes: Sequence[Node]) -> bool:
        """Some live node that hosts slices has not told this manager of the job."""
        return any(node not in self.reports for node in self.placed & set(nodes))

    @property
    def known(self) -> bool:
        """This term knows the store's checkpoints and has heard from every node of the plan. Before that, a
        replica of which nothing was heard may hold much less than one that is only being built."""
        return self.ready and self.placed <= self.reports.keys()

    # --- the ladder ---------------------------------------------------------------------------------

    def scheme_of(self, slice_id: SliceId) -> Scheme:
        """What the slice's further replicas are to be."""
        if self.plan is not None and slice_id in self.plan.schemes:
            return self.plan.schemes[slice_id]
        vertex = self.graph.vertex(slice_id.vertex)
        return vertex.scheme if vertex.replicas > 1 else Scheme.PASSIVE_REPLICATION

    def scheme_set_by(self, slice_id: SliceId) -> SchemeOrigin:
        if self.plan is not None and slice_id in self.plan.fixed:
            return SchemeOrigin.PERSON
        chooses = self.recovery.goal is not None and self.graph.vertex(slice_id.vertex).replicable
        return SchemeOrigin.CONTROLLER if chooses else SchemeOrigin.TOPOLOGY

    def rung_of(self, slice_id: SliceId, node: str | None = None) -> Scheme:
        """Where they stand, so that it is what it is to be, as far as their node has room."""
        crowded = self.plan is not None and node in self.plan.crowded
        # without checkpoints nothing could make a queue shorter
        crowded = crowded and self.recovery.mode != "none"
        return self.graph.rung_of(slice_id.vertex, self.scheme_of(slice_id), crowded)

    def wanted_replicas(self, slice_id: SliceId) -> int:
        """The first one counted."""
        return self.graph.replicas_under(slice_id.vertex, self.scheme_of(slice_id))

    @property
    def replicated(self) -> bool:
        """Some slice has more than one replica."""
        assert self.plan is not None
        return any(len(group) > 1 for group in self.plan.placements.values())

    def lacking(self, nodes: Sequence[Node]) -> tuple[Lack, ...]:
        """Replicas that no node is left for, of these nodes."""
        usable = {name for name, _ in self.usable_nodes(nodes)}
        if not usable:
            return ()
        assert self.plan is not None
        wanted, placed = dict[str, int](), dict[str, int]()
        for slice_id, group in self.plan.placements.items():
            name, here = slice_id.vertex, sum(not each.leaving for each in group)
            wanted[name] = max(self.wanted_replicas(slice_id), wanted.get(name, 0))
            placed[name] = min(here, placed.get(name, here))
        rows = ((each, wanted[each.name], placed[each.name]) for each in self.graph.vertices)
        return lacks(rows, len(usable))

    def seat_epoch(self, slice_id: SliceId, placement: Placement) -> int:
        """A replica without links holds the state after this epoch; INFINITY where nothing is known of it."""
        seat = self.seat_of(slice_id, placement)
        return INFINITY if seat is None else seat.epoch

    def seat_of(self, slice_id: SliceId, placement: Placement) -> SeatReport | None:
        """What was told of a replica without links."""
        report = self.reports.get(node_of(placement))
        for seat in () if report is None else report.seats:
            if (seat.slice, seat.generation) == (str(slice_id), placement.generation):
                return seat
        return None

    # --- plans ----------------------------------------------------------------------------------

    def next_plan(self, **changes: object) -> Plan:
        assert self.plan is not None
        return replace(self.plan, version=self.plan.version + 1, **changes)  # type: ignore[arg-type]

    @property
    def next_generation(self) -> int:
        """Above every generation so far."""
        assert self.plan is not None
        return self.generation_in(self.plan.version + 1)

    def generation_in(self, version: int) -> int:
        """Of the replicas that a plan adds: the first plan makes all of a slice, any other one at most."""
        first = self.recovery.first_generation
        return first if version == 1 else self.graph.newest_generation(version, first)

    def drains(self, node: str) -> bool:
        return self.plan is not None and node in self.plan.draining

    def usable_nodes(self, nodes: Sequence[Node]) -> list[Node]:
        assert self.plan is not None
        return [node for node in nodes if node[0] not in self.plan.draining]

    def note_whole(self, now_seconds: float) -> None:
        """Remember since when all replicas that the plan wants are there."""
        assert self.plan is not None
        placements = self.plan.placements
        if (self.whole is None or self.whole[0] != placements) and self.all_deployed():
            self.whole = (placements, now_seconds)

    def usable(self, slice_id: SliceId) -> dict[int, Restore]:
        """What a slice can be restored from, by epoch."""
        complete = self.coordinator.complete
        newest = complete[-1].epoch if complete else BEGINNING
        # older ones that no checkpoint needs may be removed already
        found = {
            record.epoch: Restore(record.epoch, record)
            for record in self.snapshots.get(slice_id, {}).values()
            if record.name not in self.damaged and record.epoch > newest
        }
        resumed = self.recovery.resume.get(str(slice_id))
        older = self.look.older if self.damaged and self.look_is_current else ()
        known = [each.slices[str(slice_id)] for each in (*older, *complete)]
        for restore in (*([resumed] if resumed is not None else []), *known):
            if restore.record is None or restore.record.name not in self.damaged:
                found[restore.epoch] = restore
        return found

    def line_standing(
        self, slice_id: SliceId, group: tuple[Placement, ...], usable: dict[int, Restore]
    ) -> LineStanding:
        snapshots = tuple(sorted(usable))
        lacks: list[int] = []
        retained: list[int] = []
        published: list[int] = []
        for each in group:
            if not each.rung.queues:
                continue
            report = self.report_of(slice_id, each)
            if report is not None:
                lacks.append(report.received)
                # what it was told to forget may be gone before it says so
                offered = self.offered.get((slice_id, each.generation), BEGINNING)
                taken = BEGINNING if Scheme(report.rung).processes else offered
                retained.append(max(report.retained_after, self.retain_after, taken))
            else:
                # it is being built: it stands where it will begin
                lacks.append(each.begin if each.begin == BEGINNING else each.begin + 1)
                retained.append(each.begin)
            if each.rung.publishes:
                published.append(retained[-1])
        if not published:
            return LineStanding(False, snapshots=snapshots)
        # who comes to life takes from all of a sender's replicas, so each must hold what is asked for
        return LineStanding(True, min(lacks), max(retained), snapshots, min(published))

    @property
    def forgotten(self) -> int:
        """What replicas agreed on up to that epoch may be in the store no more: nobody goes back there."""
        if not self.graph.agreeing:
            return BEGINNING
        complete = self.coordinator.complete
        covered = complete[0].epoch if len(complete) > 1 else BEGINNING
        return max(covered, self.look.removed_until)

    @property
    def look_is_current(self) -> bool:
        """Nothing was found damaged since then, and nothing removed from the store."""
        return self.damaged <= self.look.damaged and self.look.kept == self.coordinator.complete

    def found(self, checkpoints: tuple[Checkpoint, ...], removed_until: int) -> None:
        """What stands in the store, oldest first, and up to which epoch decisions may not."""
        if not self.ready:
            self.ready = True
            self.coordinator.adopt(checkpoints)
        kept = self.coordinator.complete
        older = tuple(each for each in checkpoints if kept and each.epoch < kept[0].epoch)
        self.look = Look(self.look.damaged, kept, older, removed_until)

    def begins_after(self, plan: Plan) -> dict[SliceId, int]:
        """The epoch that each replica which a plan adds is built from, BEGINNING for nothing."""
        added = self.generation_in(plan.version)
        return {
            slice_id: each.begin
            for slice_id, group in plan.placements.items()
            for each in group
            if each.generation == added
        }

    # --- moves and further replicas -------------------------------------------------------------

    def origins(
        self, slices: Sequence[SliceId], planned: Plan | None = None
    ) -> dict[SliceId, Restore | None] | None:
        """What second replicas of these slices are built from, all at one epoch; None: not possible now.
        They come beside those of the plan in force, or of one that is `planned`.

        Nobody who takes from them may lack anything up to that epoch, and who sends to them must hold all
        that comes after it; replicas of other origins keep only that. Who agrees with others on what comes
        next begins where all of them have been: those that began later can't tell what was decided before.
        Nobody begins before what his slice has left out.
        """
        if planned is None:
            assert self.plan is not None
            planned = self.plan
        nodes = {node_of(each) for group in planned.placements.values() for each in group}
        # as `known`, but for nodes that the plan gives up: a new manager may never hear of these
        if not self.ready or not self.placed & nodes <= self.reports.keys():
            return None
        found: list[dict[SliceId, Restore | None]] = [
            {slice_id: checkpoint.slices[str(slice_id)] for slice_id in slices}
            for checkpoint in reversed(self.coordinator.complete)
        ]
        begin = {slice_id: self.recovery.resume.get(str(slice_id)) for slice_id in slices}
        for origins in (*found, begin):
            if all(
                self._begins_well(slice_id, origin, planned.placements)
                for slice_id, origin in origins.items()
            ):
                return origins
        return None

    def _begins_well(
        self,
        slice_id: SliceId,
        origin: Restore | None,
        placements: dict[SliceId, tuple[Placement, ...]],
    ) -> bool:
        epoch = BEGINNING if origin is None else origin.epoch
        if origin is not None and origin.record is not None and origin.record.name in self.damaged:
            return False
        if epoch < self.forgotten:
            return False
        if any(
            each.restore and each.restore.left_out_until > epoch for each in placements[slice_id]
        ):
            return False
        senders = {channel.source for channel in self.graph.inputs[slice_id]}
        takers = {channel.target for channel in self.graph.outputs[slice_id]}
        if slice_id.vertex in self.graph.agreeing:
            if any(each.begin > epoch for each in placements[slice_id] if each.rung.queues):
                return False
            takers.add(slice_id)
        return all(
            self.line_standing(each, placements[each], {}).retained_after <= epoch
            for each in senders
        ) and all(
            epoch == BEGINNING or self.line_standing(each, placements[each], {}).lacks_from > epoch
            for each in takers
        )

    def lowest_needed(self) -> int:
        """Replicas may ask for what comes after this epoch. Who leads now may be behind the one that made the
        snapshots of a complete checkpoint."""
        assert self.plan is not None
        epochs = [
            self._stands_after(slice_id, each)
            for slice_id, group in self.plan.placements.items()
            for each in group
            if each.rung.queues
        ]
        return min(epochs)

    def all_received(self, epoch: int) -> bool:
        """Nobody will ask for that epoch, or for one before it, once more."""
        assert self.plan is not None
        return all(
            self._stands_after(slice_id, each) >= epoch
            for slice_id, group in self.plan.placements.items()
            for each in group
            if each.rung.queues
        )

    def all_followed(self, epoch: int) -> bool:
        """All replicas that agree on their input have processed what was decided up to that epoch."""
        assert self.plan is not None
        return all(
            self._processed_until(slice_id, each) >= epoch
            for slice_id, group in self.plan.placements.items()
            if slice_id.vertex in self.graph.agreeing
            for each in group
            if each.rung.queues
        )

    def _processed_until(self, slice_id: SliceId, placement: Placement) -> int:
        report = self.report_of(slice_id, placement)
        return placement.begin if report is None else max(placement.begin, report.frontier - 1)

    def _stands_after(self, slice_id: SliceId, placement: Placement) -> int:
        """A replica has every epoch up to this one behind it."""
        report = self.report_of(slice_id, placement)
        if report is None or report.received == BEGINNING:
            return placement.begin
        return report.received - 1


def _standing(report: SliceReport) -> SliceStanding:
    return SliceStanding(
        report.generation,
        report.frontier,
        report.retained_after,
        report.accepted,
        report.frozen,
        report.skipped,
        report.final_epoch if report.finished else None,
        report.last_epoch,
        report.snapshots,
    )
