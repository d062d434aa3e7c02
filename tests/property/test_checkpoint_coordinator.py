"""The checkpoint coordinator in a world in which replicas die, dawdle and come back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from replication import Coordinator
from replication.checkpointing import Phase
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.model.recovery import (
    Checkpoint,
    CollectSnapshots,
    Propose,
    PruneTo,
    PublishCheckpoint,
    SliceStanding,
)
from streammine.model.snapshots import RecoverySettings, SnapshotRecord
from tests.unit.coordinator_standings import (
    GRAPH,
    S,
    Standings,
    T,
    X,
    Y,
    record,
)


@dataclass
class Replica:
    """A slice as the engine runs it, as far as checkpoints go."""

    standing: SliceStanding
    barriers: set[int] = field(default_factory=set)
    writing: int | None = None


class World:
    """Two sources, an operator, a sink; reports arrive late, writes fail, slices die and come back."""

    def __init__(self, coordinator: Coordinator, ends: tuple[int, int]) -> None:
        self.coordinator = coordinator
        self.ends = dict(zip((S, T), ends, strict=True))
        self.replicas = {one: Replica(SliceStanding(1)) for one in (S, T, X, Y)}
        self.reported: Standings = {}
        self.flags: set[int] = set()
        self.durable: dict[SliceId, list[SnapshotRecord]] = {one: [] for one in self.replicas}
        self.now = 0.0
        self.named: list[int] = []
        self.publishing: Checkpoint | None = None

    def set(self, one: SliceId, **changes: object) -> None:
        replica = self.replicas[one]
        replica.standing = replace(replica.standing, **changes)

    def report(self, one: SliceId) -> None:
        self.reported[one] = self.replicas[one].standing

    def hear(self, one: SliceId) -> None:
        """A source hears the directive."""
        standing, proposed = self.replicas[one].standing, self.coordinator.proposed
        closed = standing.frontier == INFINITY or proposed < standing.frontier
        if one in self.ends and proposed > standing.accepted and not closed:
            self.set(one, accepted=proposed)
            self.replicas[one].barriers.add(proposed)

    def advance(self, one: SliceId, by: int) -> None:
        replica = self.replicas[one]
        frontier = replica.standing.frontier
        if one in self.ends:
            frontier = max(frontier, 0) + by
            frontier = INFINITY if frontier > self.ends[one] else frontier
            self.flags |= {barrier for barrier in replica.barriers if barrier < frontier}
        else:
            upstream = (S, T) if one == X else (X,)
            frontier = min(self.replicas[each].standing.frontier for each in upstream)
            frozen_at = replica.standing.frozen
            replica.barriers |= {flag for flag in self.flags if frozen_at < flag < frontier}
            frontier = min([frontier, *(flag for flag in replica.barriers if flag > frozen_at)])
        self.set(one, frontier=max(frontier, replica.standing.frontier))
        self.freeze(one)
        done = not replica.barriers and replica.writing is None
        if replica.standing.frontier == INFINITY and done:
            last = self.ends.get(one, max(self.ends.values()) + 1)
            self.set(one, final_epoch=last, last_epoch=last)

    def freeze(self, one: SliceId) -> None:
        replica = self.replicas[one]
        frontier = replica.standing.frontier
        reached = frontier if one in self.ends else frontier + 1
        barrier = min(replica.barriers, default=None)
        if barrier is not None and barrier < reached and replica.writing is None:
            replica.barriers.remove(barrier)
            replica.writing = barrier
            self.set(one, frozen=barrier)

    def write(self, one: SliceId, succeeds: bool) -> None:
        replica = self.replicas[one]
        if replica.writing is not None and succeeds:
            made = record(replica.writing, replica.standing.generation)
            self.durable[one].append(made)
            self.set(one, snapshots=(*replica.standing.snapshots, made))
        replica.writing = None

    def crash(self, one: SliceId, choice: int) -> None:
        generation = self.replicas[one].standing.generation + 1
        possible = [BEGINNING, *(each.epoch for each in self.durable[one])]
        start = possible[choice % len(possible)]
        frontier = BEGINNING if start == BEGINNING else start + 1
        self.replicas[one] = Replica(
            SliceStanding(generation, frontier, frozen=start, skipped=start)
        )
        self.reported.pop(one, None)

    def look(self) -> None:
        self.now += 1
        running = any(
            standing.final_epoch is None
            for one, standing in self.reported.items()
            if one in self.ends
        )
        making = self.coordinator.phase
        for effect in self.coordinator.observe(self.now, self.reported):
            if isinstance(effect, Propose):
                assert set(self.reported) == set(self.replicas)
                assert running
                assert making is not Phase.PUBLISHING
                assert effect.epoch == self.coordinator.proposed
                assert not self.named or effect.epoch > self.named[-1]
                for one in self.ends:
                    standing = self.reported[one]
                    assert standing.final_epoch is not None or effect.epoch > standing.frontier
                self.named.append(effect.epoch)
            else:
                assert isinstance(effect, PublishCheckpoint)
                self.check(effect.checkpoint)
                self.publishing = effect.checkpoint

    def check(self, checkpoint: Checkpoint) -> None:
        assert self.publishing is None
        assert checkpoint.epoch == self.named[-1]
        assert set(checkpoint.slices) == set(map(str, self.replicas))
        for one, standing in self.reported.items():
            restore = checkpoint.slices[str(one)]
            assert restore.epoch == checkpoint.epoch
            if restore.record is None:
                assert restore.finished
                assert standing.final_epoch is not None
                assert standing.final_epoch <= checkpoint.epoch
            else:
                assert not restore.finished
                assert restore.record in self.durable[one]
                assert restore.record.epoch == checkpoint.epoch
                assert restore.record.generation == standing.generation

    def answer(self, error: str | None) -> None:
        if self.publishing is None:
            return
        checkpoint, self.publishing = self.publishing, None
        before = self.coordinator.complete
        effects = self.coordinator.published(checkpoint.epoch, error)
        if error is not None:
            assert (effects, self.coordinator.complete) == ([], before)
            return
        kept = (*before, checkpoint)[-2:]
        assert self.coordinator.complete == kept
        assert [one.epoch for one in kept] == sorted({one.epoch for one in kept})
        expected = [PruneTo(kept[0].epoch), CollectSnapshots(kept)] if len(kept) == 2 else []
        assert effects == expected


PLACES = st.sampled_from([S, T, X, Y])
ACTIONS = st.one_of(
    st.tuples(st.just("advance"), PLACES, st.sampled_from([0, 1, 1, 2, 3, 10, 500])),
    st.tuples(st.sampled_from(["hear", "report", "write", "fail", "look"]), PLACES, st.just(0)),
    st.tuples(st.just("crash"), PLACES, st.integers(0, 3)),
    st.tuples(st.sampled_from(["publish", "publish", "lose"]), PLACES, st.just(0)),
)
HOW = st.one_of(
    st.builds(RecoverySettings, st.just("asynchronous"), every_seconds=st.sampled_from([1.0, 5.0])),
    st.builds(RecoverySettings, st.just("asynchronous"), every_epochs=st.sampled_from([1, 3, 50])),
)


def act(world: World, action: str, one: SliceId, amount: int) -> None:
    match action:
        case "advance":
            world.advance(one, amount)
        case "hear":
            world.hear(one)
        case "report":
            world.report(one)
        case "write" | "fail":
            world.write(one, action == "write")
        case "look":
            world.look()
        case "crash":
            world.crash(one, amount)
        case _:
            world.answer(None if action == "publish" else "the disk is full")


@example(
    how=RecoverySettings("asynchronous", every_seconds=1.0),
    ends=(0, 5),
    actions=[("advance", S, 1), ("advance", T, 10), ("advance", X, 0)],
)
@settings(max_examples=150, deadline=None)
@given(
    HOW,
    st.tuples(st.integers(0, 2000), st.sampled_from([5, 700, 10**6])),
    st.lists(ACTIONS, max_size=120),
)
def test_whatever_happens_each_checkpoint_is_whole_and_another_one_comes(
    how: RecoverySettings, ends: tuple[int, int], actions: list[tuple[str, SliceId, int]]
) -> None:
    coordinator = Coordinator(GRAPH, how)
    world = World(coordinator, ends)
    for action, one, amount in actions:
        act(world, action, one, amount)
    # Now everything works, and one source goes on for ever: a checkpoint gets complete.
    world.ends[S] = 10**9
    for slice_id in (S, T, X, Y):
        if world.replicas[slice_id].standing.final_epoch is not None:
            world.crash(slice_id, 0)
    world.answer(None)
    complete_before = coordinator.complete
    for _ in range(400):
        for slice_id in (S, T, X, Y):
            world.hear(slice_id)
            world.advance(slice_id, 5)
            world.write(slice_id, True)
            world.report(slice_id)
        world.look()
        world.answer(None)
        if coordinator.complete != complete_before:
            return
    raise AssertionError(f"no checkpoint became complete; named were {world.named}")
