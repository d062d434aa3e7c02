"""A job's controller at work: what nodes report becomes observations, and what it decides becomes plans.

House rules
-----------
* The controller has to choose for every slice that runs and may have further replicas, but for those whose
  scheme a person has set (`Plan.fixed`): these it only looks at, until that person hands them back. Of a job
  without a goal it only looks at all of them, more seldom, for who asks for the status.
* A slice that is being rebuilt is seen as it was before, so that nothing is forgotten of it.
* A decision stands until it is in the plan, however often plans are refused.
* What comes while slices catch up after a loss says nothing of how fast it will come: it counts as before.
* Who becomes the manager has a controller that knows nothing but what an earlier one left in the job's store
  (`ControlMemory`). Nodes repeat what they have measured, and what was chosen before stands while it looks.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from streammine.engine.managed_job import ManagedJob
from streammine.engine.placement import Node, node_of
from streammine.engine.replay_meter import ReplayMeter
from streammine.engine.slice_meter import WINDOW_SECONDS, Rates, SliceMeter
from streammine.model.control import JobReport, SliceReport, StepReport
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Placement, Plan
from streammine.model.recovery_assessment import NO_OTHERS, Decision, SharedLoss, size_class
from streammine.model.recovery_policy import (
    CheckpointObservation,
    Measurement,
    SchemeController,
    SliceObservation,
    Step,
)
from streammine.model.schemes import Scheme
from streammine.model.snapshots import SnapshotRecord

FROZEN_KEPT = 8
"""Checkpoints of a slice of which it is known when they were frozen."""

SELDOM_SECONDS = 1.0
"""Between two looks where there is nothing to choose."""

HEARD_KEPT = 8
"""Times at which a node was heard of. It speaks in a steady beat, and besides when it has news."""


class _Heard(NamedTuple):
    """When a node was heard of lately, newest last; its workers."""

    at_seconds: tuple[float, ...]
    workers: float

    @property
    def beat_seconds(self) -> float:
        """How long it is silent at most while it lives."""
        return max((after - before for before, after in pairwise(self.at_seconds)), default=0.0)


class SchemeControl:
    """Of one job, for one term of its manager. `chooses`: it has a goal."""

    def __init__(
        self, controller: SchemeController, graph: JobGraph, paced: Sequence[str], chooses: bool
    ) -> None:
        self.controller = controller
        self._chooses = chooses
        self._next_look_seconds = -math.inf
        self._graph = graph
        self._paced = frozenset(paced)
        self._meters: dict[tuple[SliceId, int], SliceMeter] = {}
        self._replays = defaultdict[str, ReplayMeter](ReplayMeter)
        self._seen: dict[SliceId, SliceObservation] = {}
        self._steps: dict[Node, frozenset[StepReport]] = {}
        self._heard: dict[Node, _Heard] = {}
        self._frozen_at: dict[SliceId, dict[int, float]] = {}
        self._complete = (BEGINNING, 0.0)
        """The newest complete checkpoint, and since when it is."""
        self._calm_after: int | None = None
        self._calm_from_seconds = -math.inf

    # --- what is seen ---------------------------------------------------------------------------

    def heard(
        self, now_seconds: float, node: Node, load: Mapping[str, float], report: JobReport
    ) -> None:
        """A node's report. `load`: the node's own figures; of them `clock` says when its counters were read,
        by its own clock, and `workers` how many slices work there at the same time."""
        clock_seconds = load.get("clock")
        before = self._heard[node].at_seconds if node in self._heard else ()
        at_seconds = (*before[1 - HEARD_KEPT :], now_seconds)
        self._heard[node] = _Heard(at_seconds, load.get("workers", 1.0))
        known = self._steps.get(node, frozenset())
        for step in report.steps:
            if step not in known:
                self.controller.measured(Measurement(Step(step.step), step.seconds, step.nbytes))
        self._steps[node] = frozenset(report.steps)
        for each in report.slices:
            slice_id = SliceId.parse(each.slice)
            frozen_at = self._frozen_at.setdefault(slice_id, {})
            frozen_at.setdefault(each.frozen, now_seconds)
            for epoch in sorted(frozen_at)[:-FROZEN_KEPT]:
                del frozen_at[epoch]
            if clock_seconds is not None:
                self._meter(slice_id, each.generation).note(clock_seconds, each.counters)
            self._replays[slice_id.vertex].note((slice_id, each.generation), each.counters)

    def lost(self, now_seconds: float, node: Node, job: ManagedJob) -> None:
        """It is known from now on that a node is gone, which lived when it was last heard of, and may have
        lived until it was to be heard of again: half of that time is taken for lived. One that was to be
        emptied went on purpose, and says nothing of how losses are noticed."""
        heard = self._heard.pop(node, None)
        self._steps.pop(node, None)
        self._calm_after = job.coordinator.proposed
        if heard is not None and not job.drains(node[0]):
            silent_seconds = now_seconds - heard.at_seconds[-1]
            lived_seconds = min(silent_seconds, heard.beat_seconds) / 2
            self.controller.measured(Measurement(Step.DETECT, silent_seconds - lived_seconds))

    # --- what follows ---------------------------------------------------------------------------

    def look(
        self, now_seconds: float, job: ManagedJob, nodes: Sequence[Node], clock_seconds: float
    ) -> list[Decision]:
        """What changes from now on. `nodes`: those that may host replicas; see `Ticked` for the clocks."""
        complete = job.coordinator.complete
        if complete and complete[-1].epoch != self._complete[0]:
            self._complete = (complete[-1].epoch, now_seconds)
        if not self._chooses:
            if now_seconds < self._next_look_seconds:
                return []
            self._next_look_seconds = now_seconds + SELDOM_SECONDS
        self._note_calm(now_seconds)
        self._seen = dict(self._observations(now_seconds, job, len(nodes)))
        return self.controller.observe(now_seconds, self._seen, clock_seconds)

    def plan(self, job: ManagedJob) -> Plan | None:
        """The plan that wants what was decided, unless the present one does."""
        assert job.plan is not None
        if not self._chooses:
            return None
        changed = {
            slice_id: stance.scheme
            for slice_id, stance in self.controller.stances.items()
            if slice_id not in job.plan.fixed and stance.scheme is not job.scheme_of(slice_id)
        }
        return job.next_plan(schemes=job.plan.schemes | changed) if changed else None

    # --- observations ---------------------------------------------------------------------------

    def _observations(
        self, now_seconds: float, job: ManagedJob, nodes: int
    ) -> Iterator[tuple[SliceId, SliceObservation]]:
        assert job.plan is not None
        placements = job.plan.placements
        living = {
            (slice_id, each.generation) for slice_id in placements for each in placements[slice_id]
        }
        self._meters = {key: meter for key, meter in self._meters.items() if key in living}
        for meter in self._replays.values():
            meter.forget(living)
        lost = self._lost_with_nodes(now_seconds, job, max(1, nodes - 1))
        for slice_id, group in placements.items():
            vertex = self._graph.vertex(slice_id.vertex)
            if not vertex.replicable:
                continue
            report = job.report_of(slice_id, group[0]) if group else None
            if report is not None and report.finished:
                continue
            before = self._seen.get(slice_id)
            if report is not None:
                shared = lost.get(node_of(group[0]), NO_OTHERS)
                before = self._observed(now_seconds, job, slice_id, report, shared)
            if before is not None:
                queued = _standby_queued_bytes(job, slice_id, group[1:])
                yield (
                    slice_id,
                    replace(
                        before,
                        scheme=job.scheme_of(slice_id),
                        fixed=not self._chooses or slice_id in job.plan.fixed,
                        nodes=nodes,
                        standby_queued_bytes=queued,
                    ),
                )

    def _note_calm(self, now_seconds: float) -> None:
        """After a loss slices catch up, until a checkpoint is complete that was named after it."""
        if self._calm_after is not None and self._complete[0] > self._calm_after:
            self._calm_after = None
            # what was counted before is in rates for so long
            self._calm_from_seconds = now_seconds + WINDOW_SECONDS

    def _is_calm(self, now_seconds: float) -> bool:
        return self._calm_after is None and now_seconds >= self._calm_from_seconds

    def _lost_with_nodes(
        self, now_seconds: float, job: ManagedJob, others: int
    ) -> Mapping[Node, SharedLoss]:
        """What one of so many other nodes makes up for when a node is lost, by that node."""
        assert job.plan is not None
        led = defaultdict[Node, list[tuple[float, float]]](list)
        for slice_id, group in job.plan.placements.items():
            report = job.report_of(slice_id, group[0]) if group else None
            if report is not None and not report.finished:
                checkpoint = self._checkpoint(now_seconds, job, slice_id)
                snapshot_bytes = 0.0 if checkpoint is None else checkpoint.snapshot_bytes
                load_bytes = max(snapshot_bytes, report.counters.get("state_bytes", 0.0))
                rates = self._meter(slice_id, report.generation).rates
                replay_share = _replay_share(rates, self._catching_up(slice_id.vertex, rates))
                led[node_of(group[0])].append((load_bytes, replay_share))
        lost = {}
        for node in led.keys() & self._heard.keys():
            sizes, replay_shares = zip(*led[node], strict=True)
            # who makes up for it is taken to have as many workers
            replay_share = sum(replay_shares) / self._heard[node].workers
            slices = max(1.0, len(led[node]) / others)
            lost[node] = SharedLoss(slices, _by_size(sizes, others), replay_share / others)
        return lost

    def _catching_up(self, vertex: str, rates: Rates) -> float | None:
        """Bytes of input per second of work. Who is late may be so because it had to wait, for a store or
        for the interpreter, and measures that, too: the rate of keeping up is one that it was capable of."""
        known = (self._replays[vertex].bytes_per_second, rates.processing)
        return max((rate for rate in known if rate is not None), default=None)

    def _observed(
        self,
        now_seconds: float,
        job: ManagedJob,
        slice_id: SliceId,
        report: SliceReport,
        shared: SharedLoss,
    ) -> SliceObservation:
        assert job.plan is not None
        rates = self._meter(slice_id, report.generation).rates
        processing = self._catching_up(slice_id.vertex, rates)
        before = self._seen.get(slice_id)
        came, made = rates.input, rates.output
        if before is not None and not self._is_calm(now_seconds):
            came, made = before.input_bytes_per_second, before.output_bytes_per_second
        return SliceObservation(
            scheme=job.scheme_of(slice_id),
            chosen=slice_id in job.plan.schemes,
            replicas=self._graph.replicas_under(slice_id.vertex, Scheme.ACTIVE_REPLICATION),
            nodes=1,
            state_bytes=report.counters.get("state_bytes", 0.0),
            checkpoint=self._checkpoint(now_seconds, job, slice_id),
            input_bytes_per_second=came,
            output_bytes_per_second=made,
            processing_bytes_per_second=processing,
            busy_share=rates.busy_share,
            replay_share=_replay_share(rates, processing),
            queued_bytes=report.counters.get("bytes_waiting", 0.0),
            input_waits=slice_id.vertex in self._waiting,
            may_lose=slice_id.vertex in self._graph.may_lose
            and _goes_on(job.plan, self._graph, slice_id),
            shared=shared,
        )

    def _meter(self, slice_id: SliceId, generation: int) -> SliceMeter:
        key = slice_id, generation
        if key not in self._meters:
            is_source = self._graph.vertex(slice_id.vertex).kind == "source"
            self._meters[key] = SliceMeter(is_source)
        return self._meters[key]

    def _checkpoint(
        self, now_seconds: float, job: ManagedJob, slice_id: SliceId
    ) -> CheckpointObservation | None:
        complete = job.coordinator.complete
        record = complete[-1].slices[str(slice_id)].record if complete else None
        if record is None:
            return None
        frozen_at = self._frozen_at.setdefault(slice_id, {})
        age_seconds = now_seconds - frozen_at.setdefault(record.epoch, now_seconds)
        chain_bytes = sum(each.nbytes for each in _chain(job, slice_id, record))
        replaced_seconds = None
        if not self._chooses and len(complete) > 1:
            frozen_before = frozen_at.get(complete[-2].epoch)
            if frozen_before is not None:
                replaced_seconds = max(0.0, self._complete[1] - frozen_before)
        return CheckpointObservation(
            chain_bytes, record.nbytes, age_seconds, record.name, replaced_seconds
        )

    @cached_property
    def _waiting(self) -> frozenset[str]:
        """The vertices all of whose sources wait for them."""
        going_on = set(self._paced)
        reached = set[str]()
        while going_on > reached:
            reached = set(going_on)
            going_on |= {each.target for each in self._graph.edges if each.source in reached}
        return frozenset(vertex.name for vertex in self._graph.vertices) - going_on


def _goes_on(plan: Plan, graph: JobGraph, slice_id: SliceId) -> bool:
    """Where the node is lost that the slice is led on, those that send to it go on: without that nothing is
    left out, but made up for (see `leaving_out`)."""
    node = plan.placements[slice_id][0].node
    elsewhere = (
        [each for each in plan.placements[sender] if each.node != node and each.rung.queues]
        for sender in {channel.source for channel in graph.inputs[slice_id]}
    )
    living = [group for group in elsewhere if group]
    return bool(living) and all(any(each.rung.publishes for each in group) for group in living)


def _replay_share(rates: Rates, processing: float | None) -> float:
    """Of one core that its input takes where it is worked off as fast as when it catches up."""
    return rates.input / processing if processing else rates.busy_share


def _by_size(sizes: Sequence[float], nodes: int) -> tuple[tuple[float, float], ...]:
    """One node's share: how many there are of each size, and how large they are together."""
    classes = defaultdict[int, list[float]](list)
    for nbytes in sizes:
        classes[size_class(nbytes)].append(nbytes)
    return tuple((len(each) / nodes, sum(each) / nodes) for _, each in sorted(classes.items()))


def _chain(job: ManagedJob, slice_id: SliceId, newest: SnapshotRecord) -> Iterator[SnapshotRecord]:
    """The snapshots that are read to restore one, newest first, as far as their sizes are known."""
    yield newest
    earlier = job.snapshots.get(slice_id, {})
    record = newest
    for epoch in sorted((each for each in earlier if each < newest.epoch), reverse=True):
        if record.full:
            return
        record = earlier[epoch]
        yield record


def _standby_queued_bytes(
    job: ManagedJob, slice_id: SliceId, further: Sequence[Placement]
) -> float:
    """What waits at the further replica that has least, of those that process."""
    told = (job.report_of(slice_id, each) for each in further if each.rung.processes)
    queued = (each.counters.get("bytes_waiting", 0.0) for each in told if each is not None)
    return min(queued, default=0.0)
