"""What must hold at every step of every node, whatever the interleaving and the faults.

The monitor keeps books of its own, from the effects and results alone: what each replica was given, made and
closed. It compares them with each other and with what the machines believe. A violation is an
AssertionError.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from streammine.engine import node_stimuli as machine
from streammine.engine.agreeing_slice import AgreeingSlice
from streammine.engine.loop_slice import LoopSlice
from streammine.engine.node_stimuli import NodeEffect, NodeStimulus
from streammine.engine.output_channel import OutputChannel
from streammine.engine.slice import SliceMachine
from streammine.engine.stimuli import CloseEpoch, Finish, Work
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.model.job import JobSpec, Plan
from streammine.model.manifest import decode_manifest, decode_seal
from streammine.model.snapshots import Restore
from streammine.simulation.agreed_books import AgreedBook, Choices
from streammine.simulation.books import Replica, ReplicaBook
from streammine.simulation.contents import BagContents
from streammine.simulation.loop_books import LoopBook, check_loop
from streammine.simulation.losses import LossBook
from streammine.simulation.machine_checks import check_finished, check_plan, check_replica, story_of
from streammine.simulation.manifests import ManifestBook
from streammine.simulation.settings import SimulationSettings

if TYPE_CHECKING:
    from streammine.simulation.node import VirtualNode


class Monitor:
    """Checks invariants. All methods but `story` raise AssertionError.

    `closed`: by slice, the epochs that any of its replicas has closed; `closes` counts them. `choices`: by
    slice, what replicas have agreed on.
    """

    def __init__(self, spec: JobSpec, settings: SimulationSettings) -> None:
        self.books: dict[Replica, ReplicaBook] = {}
        self.contents = BagContents(
            {each.number for each in spec.graph.channels if spec.graph.edges[each.edge].sequenced}
        )
        self.checkpoints: list[int] = []
        self.manifests = ManifestBook()
        self.losses = LossBook()
        self.plans: list[Plan] = []
        self.closed: dict[SliceId, set[int]] = {}
        self.closes = 0
        self._spec = spec
        self._settings = settings
        self._by_slice: dict[SliceId, list[ReplicaBook]] = {}
        self._used: dict[SliceId, dict[int, tuple[str, int]]] = {}
        self.choices: dict[SliceId, Choices] = {}
        self._restores: dict[Replica, Restore | None] = {}
        self._steps = 0

    @property
    def checkpointed(self) -> bool:
        return self._spec.recovery.mode != "none"

    @property
    def prunable_up_to(self) -> int:
        """The older of the last two complete checkpoints: nobody goes back behind it."""
        return self.checkpoints[-2] if len(self.checkpoints) > 1 else BEGINNING

    # --- steps ----------------------------------------------------------------------------------

    def after_step(
        self, node: VirtualNode, stimulus: NodeStimulus, effects: Iterable[NodeEffect]
    ) -> None:
        match stimulus:
            case machine.Deployed():
                self._deployed(node, stimulus)
            case machine.WorkFinished(_, slice_id, generation, result):
                book = self.books[slice_id, generation]
                if result is not None:
                    book.finishes(result, self.contents)
                    if result.closed:
                        self._count(slice_id, result.closed)
                elif not stimulus.replaced:
                    # the work failed, and with it the job: the slice does nothing any more; one that is
                    # replaced stays busy until the plan that withdraws it comes
                    book.working = False
        for effect in effects:
            match effect:
                case machine.Perform(_, slice_id, generation, work, _):
                    self._performing(self.books[slice_id, generation], work)
                case machine.WriteSnapshot(_, slice_id, generation):
                    self._check_leads(slice_id, generation)
                case machine.Deploy():
                    for each in effect.replicas:
                        self._restores[each.slice, each.generation] = each.restore
                case _:
                    continue
        self._steps += 1
        if self._steps % self._settings.check_every == 0:
            self._look_into(node)

    def _check_leads(self, slice_id: SliceId, generation: int) -> None:
        """Only a replica of a slice that leads freezes."""
        groups = [plan.placements[slice_id] for plan in self.plans]
        assert any(group[0].generation == generation for group in groups), (
            f"{slice_id}@{generation} makes a snapshot, though in no plan it leads"
        )

    def _count(self, slice_id: SliceId, epochs: tuple[int, ...]) -> None:
        closed = self.closed.setdefault(slice_id, set())
        before = len(closed)
        closed.update(epochs)
        self.closes += len(closed) - before

    def _deployed(self, node: VirtualNode, stimulus: machine.Deployed) -> None:
        for each in stimulus.slices:
            replica = (each.slice_id, each.generation)
            assert replica not in self.books, f"{each.slice_id}: generation {each.generation} again"
            processor = node.processor(stimulus.job, *replica)
            inputs = self._spec.graph.inputs[each.slice_id]
            sources = {channel.number: channel.source for channel in inputs}
            book = self._book_of(each)(each, processor, node.name, sources)
            if isinstance(book, AgreedBook):
                book.choices = self.choices.setdefault(each.slice_id, {})
            restore = self._restores.get(replica)
            if restore is not None:
                book.begins_after(restore.epoch, restore.finished)
            self.books[replica] = book
            self._by_slice.setdefault(each.slice_id, []).append(book)

    @staticmethod
    def _book_of(replica: SliceMachine) -> type[ReplicaBook]:
        if isinstance(replica, AgreeingSlice):
            return AgreedBook
        return LoopBook if isinstance(replica, LoopSlice) else ReplicaBook

    def _performing(self, book: ReplicaBook, work: tuple[Work, ...]) -> None:
        book.begins(work, self.contents)
        for item in work:
            if isinstance(item, CloseEpoch | Finish):
                self._check_senders(book, item.epoch if isinstance(item, CloseEpoch) else INFINITY)

    def _check_senders(self, book: ReplicaBook, epoch: int) -> None:
        """Some replica of every sender has ended the epoch, unless it is lost: then senders may lack it
        still.
        """
        if epoch in book.lost:
            return
        for channel in self._spec.graph.inputs[book.machine.slice_id]:
            senders = self._by_slice.get(channel.source, ())
            ended = max((each.ended(channel.number) for each in senders), default=BEGINNING)
            assert ended >= book.must_have_ended(channel.number, epoch), (
                f"{book.name} closes epoch {epoch}, but {channel.source} has ended {ended} only"
            )

    def _look_into(self, node: VirtualNode) -> None:
        for job in node.machine.jobs.values():
            if job.failed is not None:
                # its slices stand still as they were
                continue
            for each in job.slices.values():
                book = self.books[each.slice_id, each.generation]
                check_replica(book)
                self._check_unwanted(book)
                if isinstance(book, LoopBook):
                    check_loop(book)
                if job.plan is not None:
                    check_plan(book, job.plan)
                if self.checkpointed:
                    self._check_retention(book)

    def _check_unwanted(self, book: ReplicaBook) -> None:
        """What receivers of a feed were told to pass over, nobody has processed."""
        for channel in book.machine.outputs.values():
            taken = self.choices.get(self._spec.graph.channels[channel.number].target, {})
            for first, below, _ in {link.unwanted for link in channel.links.values()}:
                wrong = [
                    epoch
                    for epoch, chosen in taken.items()
                    if first <= epoch < below and channel.number in chosen.values()
                ]
                assert not wrong, (
                    f"{book.name}: epochs from {first} to below {below} of channel {channel.number} count "
                    f"as unwanted, but {wrong[0]} was processed"
                )

    def _check_retention(self, book: ReplicaBook) -> None:
        allowed = max(book.restored_after, self.prunable_up_to)
        for channel in book.machine.outputs.values():
            assert channel.retained_after <= book.forgettable(channel.number, allowed), (
                f"{book.name}: channel {channel.number} has forgotten epochs up to "
                f"{channel.retained_after}; complete checkpoints cover them up to {allowed}"
            )
            self._check_needed(book, channel)

    def _check_needed(self, book: ReplicaBook, channel: OutputChannel) -> None:
        """No replica that the plan lists is still to ask for what was forgotten."""
        plan, own = self.plans[-1], book.machine
        listed = {each.generation for each in plan.placements[own.slice_id]}
        if book.finished or own.generation not in listed:
            return
        target = self._spec.graph.channels[channel.number].target
        for placement in plan.placements[target]:
            if not placement.rung.queues:
                # it asks for nothing before it is another generation
                continue
            taker = self.books.get((target, placement.generation))
            if taker is not None:
                needed = channel.retained_after < taker.needed_from(channel.number)
            else:
                forgettable = book.forgettable(channel.number, placement.begin)
                needed = channel.retained_after <= forgettable
            assert needed or channel.retained_after == BEGINNING, (
                f"{book.name}: channel {channel.number} has forgotten epochs up to "
                f"{channel.retained_after}, which generation {placement.generation} of {target} lacks"
            )

    # --- what is declared and written --------------------------------------------------------------

    def plan_published(self, plan: Plan) -> None:
        """Nobody but one replica of each slice publishes, and no generation is used twice."""
        self.plans.append(plan)
        self.losses.planned(plan)
        assert plan.placements.keys() == set(self._spec.graph.slices), "the plan forgets a slice"
        for slice_id, group in plan.placements.items():
            most = max(2, self._spec.graph.vertex(slice_id.vertex).replicas) + any(
                each.leaving for each in group
            )
            assert 1 <= len(group) <= most, f"plan {plan.version}: {len(group)} of {slice_id}"
            nodes = {each.node for each in group}
            assert len(nodes) == len(group), f"plan {plan.version}: {slice_id} twice on a node"
            used = self._used.setdefault(slice_id, {})
            highest = max(used, default=0)
            for placement in group:
                where = (placement.node, placement.member)
                if placement.generation in used:
                    assert used[placement.generation] == where, (
                        f"plan {plan.version}: generation {placement.generation} of {slice_id} was on "
                        f"{used[placement.generation]}, now on {where}"
                    )
                    continue
                assert placement.generation > highest, (
                    f"plan {plan.version}: generation {placement.generation} of {slice_id} comes "
                    f"after {highest}"
                )
                used[placement.generation] = where

    def seen_crowded(self, node: str) -> bool:
        """The newest plan leaves no time of the node's to replicas behind others."""
        return bool(self.plans) and node in self.plans[-1].crowded

    def checkpoint_written(self, epoch: int) -> None:
        """The manifest of a complete checkpoint is in the store."""
        if epoch not in self.checkpoints:
            self.checkpoints = sorted([*self.checkpoints, epoch])

    def written(self, location: str, name: str, data: pa.Buffer) -> None:
        if name.startswith("manifests/"):
            self.manifests.written(location, decode_manifest(name, data))
        elif name.startswith("seals/"):
            self.manifests.sealed(location, decode_seal(name, data))

    def crashed(self, node: VirtualNode) -> None:
        """A process is gone; its replicas do nothing more."""
        for book in self.books.values():
            if book.node == node.name:
                book.working = False

    # --- the end --------------------------------------------------------------------------------

    def check_end(self) -> None:
        """The job is finished and all messages have arrived: nothing is left anywhere."""
        plan = self.plans[-1]
        for slice_id, group in plan.placements.items():
            standing = [self.books.get((slice_id, each.generation)) for each in group]
            done = [book for book in standing if book is not None and book.finished]
            assert done, f"{slice_id} never did its last work"
            for book in done:
                check_finished(book)

    def rebuilt(self) -> int:
        """Replicas that the first plan did not know of."""
        first = self.plans[0].placements.items()
        known = {(slice_id, each.generation) for slice_id, group in first for each in group}
        return len(self.books.keys() - known)

    def epochs(self) -> int:
        """The most epochs that the replicas of one slice have closed."""
        return max((len(epochs) for epochs in self.closed.values()), default=0)

    def story(self) -> str:
        """Where every replica of the newest plan stands, a line each."""
        listed = {
            (slice_id, each.generation)
            for slice_id, group in (self.plans[-1].placements.items() if self.plans else ())
            for each in group
        }
        return "\n".join(
            story_of(book) for replica, book in self.books.items() if replica in listed
        )
