"""The checkpoint coordinator: what it names, when it is content, and when it gives up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replication import Coordinator
from replication.checkpointing import LARGEST_MARGIN, PATIENCE_SECONDS, Phase
from streammine.model.contracts import Discipline
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.model.job import Edge, JobGraph, Vertex
from streammine.model.recovery import (
    Checkpoint,
    CheckpointEffect,
    CollectSnapshots,
    Propose,
    PruneTo,
    PublishCheckpoint,
    SliceStanding,
)
from streammine.model.snapshots import RecoverySettings, Restore, SnapshotRecord

S, T, X, Y = (SliceId(name, 0) for name in ("s", "t", "x", "y"))
GRAPH = JobGraph(
    (
        Vertex("s", "source", 1, Discipline.EPOCH, ""),
        Vertex("t", "source", 1, Discipline.EPOCH, ""),
        Vertex("x", "stateful", 1, Discipline.EPOCH, ""),
        Vertex("y", "sink", 1, Discipline.EPOCH, ""),
    ),
    (
        Edge("s", "x", 0, (), False, "partition", False),
        Edge("t", "x", 1, (), False, "partition", False),
        Edge("x", "y", 0, (), False, "partition", False),
    ),
)
EVERY_TEN_SECONDS = RecoverySettings("asynchronous", every_seconds=10.0)
EVERY_HUNDRED_EPOCHS = RecoverySettings("asynchronous", every_epochs=100)
Standings = dict[SliceId, SliceStanding]


def record(epoch: int, generation: int = 1) -> SnapshotRecord:
    return SnapshotRecord(epoch, generation, f"{epoch}-{generation}", "", 1)


def at(frontier: int, generation: int = 1) -> SliceStanding:
    return SliceStanding(generation, frontier)


def frozen(epoch: int, *, written: bool = True, generation: int = 1) -> SliceStanding:
    records = (record(epoch, generation),) if written else ()
    return SliceStanding(generation, epoch + 1, BEGINNING, epoch, epoch, snapshots=records)


def finished(last: int, generation: int = 1) -> SliceStanding:
    return SliceStanding(generation, INFINITY, final_epoch=last, last_epoch=last)


def everywhere(standing: SliceStanding) -> Standings:
    return dict.fromkeys((S, T, X, Y), standing)


def at_epochs(s: int, t: int) -> Standings:
    return {S: at(s), T: at(t), X: at(min(s, t)), Y: at(min(s, t))}


def collecting(epoch: int = 101, how: RecoverySettings = EVERY_TEN_SECONDS) -> Coordinator:
    """One that has just named an epoch."""
    coordinator = Coordinator(GRAPH, how)
    coordinator.observe(0.0, {})
    assert coordinator.observe(10.0, everywhere(at(epoch - 1))) == [Propose(epoch)]
    return coordinator


def complete(coordinator: Coordinator, now: float, epoch: int) -> list[CheckpointEffect]:
    (effect,) = coordinator.observe(now, everywhere(frozen(epoch)))
    assert isinstance(effect, PublishCheckpoint)
    assert effect.checkpoint.epoch == epoch
    return coordinator.published(epoch, None)


# --- naming ---------------------------------------------------------------------------------------


def test_nothing_is_named_before_all_slices_have_reported() -> None:
    coordinator = Coordinator(GRAPH, EVERY_TEN_SECONDS)
    standings = everywhere(at(5))
    del standings[Y]
    assert coordinator.observe(0.0, {}) == []
    assert coordinator.observe(50.0, standings) == []
    assert coordinator.proposed == BEGINNING
    assert coordinator.observe(51.0, everywhere(at(5))) == [Propose(6)]
    assert coordinator.proposed == 6


def test_nothing_is_named_before_a_source_has_opened_an_epoch() -> None:
    coordinator = Coordinator(GRAPH, EVERY_HUNDRED_EPOCHS)
    assert coordinator.observe(0.0, everywhere(at(BEGINNING))) == []
    assert coordinator.observe(1.0, at_epochs(-5, BEGINNING)) == [Propose(0)]


def test_the_epoch_lies_beyond_the_fastest_source() -> None:
    coordinator = Coordinator(GRAPH, EVERY_TEN_SECONDS)
    coordinator.observe(0.0, {})
    assert coordinator.observe(9.9, at_epochs(-70, -30)) == []
    assert coordinator.observe(10.0, at_epochs(-70, -30)) == [Propose(-29)]


@pytest.mark.parametrize(("open_epoch", "named"), [(0, 100), (99, 100), (100, 200), (-250, -200)])
def test_every_epochs_names_multiples(open_epoch: int, named: int) -> None:
    coordinator = Coordinator(GRAPH, EVERY_HUNDRED_EPOCHS)
    assert coordinator.observe(0.0, everywhere(at(open_epoch))) == [Propose(named)]


def test_without_snapshots_nothing_is_named() -> None:
    coordinator = Coordinator(GRAPH, RecoverySettings())
    for now in range(100):
        assert coordinator.observe(float(now), everywhere(at(now))) == []


def test_nothing_is_named_when_all_sources_are_finished() -> None:
    coordinator = Coordinator(GRAPH, EVERY_HUNDRED_EPOCHS)
    standings = {S: finished(7), T: finished(5), X: at(3), Y: at(3)}
    assert coordinator.observe(0.0, standings) == []


def test_nothing_is_named_while_the_last_epoch_of_an_ending_source_is_unknown() -> None:
    coordinator = Coordinator(GRAPH, EVERY_TEN_SECONDS)
    coordinator.observe(0.0, {})
    assert coordinator.observe(20.0, at_epochs(5, INFINITY)) == []
    standings = {**at_epochs(5, 5), T: finished(40)}
    assert coordinator.observe(21.0, standings) == [Propose(40)]


def test_an_epoch_that_an_earlier_manager_named_is_not_named_again() -> None:
    coordinator = Coordinator(GRAPH, EVERY_TEN_SECONDS)
    coordinator.adopt([Checkpoint(50, {}), Checkpoint(10, {}), Checkpoint(30, {})])
    assert [one.epoch for one in coordinator.complete] == [30, 50]
    coordinator.observe(0.0, {})
    assert coordinator.observe(10.0, everywhere(at(20))) == [Propose(51)]
    standings = {
        **everywhere(at(20)),
        S: replace(at(20), accepted=60),
        X: replace(at(20), frozen=70),
    }
    other = Coordinator(GRAPH, EVERY_TEN_SECONDS)
    other.observe(0.0, {})
    assert other.observe(10.0, standings) == [Propose(71)]


def test_no_epoch_is_named_beyond_the_last_one() -> None:
    coordinator = Coordinator(GRAPH, EVERY_HUNDRED_EPOCHS)
    assert coordinator.observe(0.0, everywhere(at(INFINITY - 1))) == []


# --- completing -----------------------------------------------------------------------------------


def test_a_checkpoint_is_complete_when_the_last_snapshot_is_durable() -> None:
    coordinator = collecting(101)
    standings = everywhere(frozen(101))
    standings[X] = frozen(101, written=False)
    assert coordinator.observe(11.0, standings) == []
    standings[X] = frozen(101)
    expected = {f"{one}": Restore(101, record(101)) for one in (S, T, X, Y)}
    assert coordinator.observe(12.0, standings) == [PublishCheckpoint(Checkpoint(101, expected))]
    assert coordinator.observe(13.0, standings) == [], "it is published once"
    assert coordinator.complete == ()
    assert coordinator.published(101, None) == []
    assert coordinator.complete == (Checkpoint(101, expected),)


def test_finished_slices_are_part_of_it() -> None:
    coordinator = collecting(101)
    standings = {**everywhere(frozen(101)), S: finished(99), Y: finished(101)}
    (effect,) = coordinator.observe(12.0, standings)
    assert isinstance(effect, PublishCheckpoint)
    assert effect.checkpoint.slices["s/0"] == Restore(101, None, True, 99)
    assert effect.checkpoint.slices["x/0"] == Restore(101, record(101))
    assert effect.checkpoint.slices["y/0"] == Restore(101, None, True, 101)


def test_a_snapshot_of_a_lost_generation_does_not_count() -> None:
    coordinator = collecting(101)
    replayed = replace(at(50, generation=2), snapshots=(record(101, 1),))
    assert coordinator.observe(12.0, {**everywhere(frozen(101)), X: replayed}) == []
    again = frozen(101, generation=2)
    (effect,) = coordinator.observe(13.0, {**everywhere(frozen(101)), X: again})
    assert isinstance(effect, PublishCheckpoint)
    assert effect.checkpoint.slices["x/0"].record == record(101, 2)


def test_two_complete_checkpoints_free_what_lies_before_the_older() -> None:
    coordinator = collecting(101)
    assert complete(coordinator, 11.0, 101) == []
    epochs = [101]
    for turn in range(3):
        now = 20.0 + 10 * turn
        (named,) = coordinator.observe(now, everywhere(frozen(epochs[-1])))
        assert isinstance(named, Propose)
        epochs.append(named.epoch)
        effects = complete(coordinator, now + 1, named.epoch)
        assert [one.epoch for one in coordinator.complete] == epochs[-2:]
        assert effects == [PruneTo(epochs[-2]), CollectSnapshots(coordinator.complete)]


def test_a_manifest_that_can_not_be_written_frees_nothing_and_a_later_one_is_tried() -> None:
    coordinator = collecting(101)
    complete(coordinator, 11.0, 101)
    coordinator.observe(20.0, everywhere(frozen(101)))
    coordinator.observe(21.0, everywhere(frozen(103)))
    assert coordinator.published(103, "the disk is full") == []
    assert [one.epoch for one in coordinator.complete] == [101]
    assert coordinator.observe(29.9, everywhere(frozen(103))) == []
    assert coordinator.observe(30.0, everywhere(frozen(103))) == [Propose(105)]


def test_what_was_not_asked_for_can_not_be_published() -> None:
    coordinator = collecting(101)
    with pytest.raises(AssertionError, match="nothing is being published"):
        coordinator.published(101, None)
    coordinator.observe(11.0, everywhere(frozen(101)))
    with pytest.raises(AssertionError, match="101 is being published, not 102"):
        coordinator.published(102, None)


# --- giving up ------------------------------------------------------------------------------------


def test_a_refusal_doubles_the_margin_and_each_success_halves_it() -> None:
    coordinator = collecting(101)
    frontier = 200
    for margin in (2, 4, 8):
        assert coordinator.observe(10.0, at_epochs(frontier, 90)) == [Propose(frontier + margin)]
        frontier += 100
    now, epoch = 10.0, coordinator.proposed
    for margin in (4, 2, 1, 1):
        complete(coordinator, now + 1, epoch)
        assert coordinator.margin == margin
        now += 10
        coordinator.observe(now, everywhere(frozen(epoch)))
        epoch = coordinator.proposed


def test_the_margin_is_bounded() -> None:
    coordinator = collecting(101)
    frontier = 200
    for _ in range(60):
        frontier = coordinator.proposed + 10**9
        coordinator.observe(10.0, at_epochs(frontier, 90))
    assert coordinator.proposed == frontier + LARGEST_MARGIN


def test_a_source_that_agreed_may_read_on() -> None:
    coordinator = collecting(101)
    standings = {**at_epochs(150, 90), S: replace(at(150), accepted=101)}
    assert coordinator.observe(100.0, standings) == []
    assert coordinator.phase is Phase.COLLECTING


def test_an_idle_source_holds_a_checkpoint_up_but_does_not_end_it() -> None:
    coordinator = collecting(101)
    standings = {**everywhere(frozen(101)), T: at(3), X: at(3), Y: at(3)}
    for now in range(11, 1000):
        assert coordinator.observe(float(now), standings) == []


def test_a_slice_that_went_past_without_freezing_ends_it() -> None:
    coordinator = collecting(101)
    standings = {**everywhere(frozen(101)), X: at(102, generation=2)}
    assert coordinator.observe(11.0, standings) == [Propose(103)]
    assert coordinator.margin == 1, "no source refused"


def test_a_source_that_ended_later_than_the_epoch_ends_it() -> None:
    coordinator = collecting(101)
    standings = {**at_epochs(50, 50), S: finished(300)}
    assert coordinator.observe(11.0, standings) == [Propose(300)]


def test_a_source_at_its_end_is_waited_for() -> None:
    coordinator = collecting(101)
    assert coordinator.observe(11.0, {**at_epochs(50, 50), S: at(INFINITY)}) == []
    assert coordinator.phase is Phase.COLLECTING
    assert coordinator.observe(12.0, {**at_epochs(50, 50), S: finished(60)}) == []
    assert coordinator.phase is Phase.COLLECTING


def test_a_crash_alone_ends_nothing() -> None:
    coordinator = collecting(101)
    standings = everywhere(frozen(101))
    assert coordinator.observe(11.0, {one: standings[one] for one in (S, T, Y)}) == []
    rebuilt = replace(at(91, generation=2), frozen=90)
    assert coordinator.observe(12.0, {**standings, X: rebuilt}) == []
    writing = frozen(101, written=False, generation=2)
    assert coordinator.observe(13.0, {**standings, X: writing}) == []
    (effect,) = coordinator.observe(14.0, {**standings, X: frozen(101, generation=2)})
    assert isinstance(effect, PublishCheckpoint)


def test_a_replica_restored_from_the_epochs_own_snapshot_ends_it() -> None:
    coordinator = collecting(101)
    restored = frozen(101, written=False, generation=2)
    standings = {**everywhere(frozen(101)), Y: at(101), X: restored}
    assert coordinator.observe(11.0, standings) == [Propose(103)]


def test_the_first_report_of_a_rebuilt_slice_counts_though_others_are_missing() -> None:
    coordinator = collecting(101)
    standings = {**everywhere(frozen(101)), X: replace(at(91, generation=2), frozen=90)}
    del standings[Y]
    assert coordinator.observe(11.0, standings) == []
    standings = {**everywhere(frozen(101)), X: frozen(101, written=False, generation=2)}
    assert coordinator.observe(12.0, standings) == []
    assert coordinator.phase is Phase.COLLECTING


def test_a_snapshot_that_is_never_written_ends_it_after_a_while_which_doubles() -> None:
    coordinator = collecting(101)
    now, patience = 11.0, PATIENCE_SECONDS
    for _ in range(4):
        epoch = coordinator.proposed
        standings = {**everywhere(frozen(epoch)), X: frozen(epoch, written=False)}
        assert coordinator.observe(now, standings) == []
        assert coordinator.observe(now + patience, standings) == []
        (named,) = coordinator.observe(now + patience + 1, standings)
        assert isinstance(named, Propose)
        now, patience = now + patience + 2, 2 * patience


def test_a_crash_while_snapshots_are_written_gives_the_rebuilt_slice_its_own_time() -> None:
    coordinator = collecting(101)
    standings = {**everywhere(frozen(101)), X: frozen(101, written=False)}
    assert coordinator.observe(11.0, standings) == []
    rebuilt = replace(at(91, generation=2), frozen=90)
    assert coordinator.observe(12.0, {**standings, X: rebuilt}) == []
    writing = {**standings, X: frozen(101, written=False, generation=2)}
    assert coordinator.observe(12.0 + PATIENCE_SECONDS, writing) == []
    assert coordinator.phase is Phase.COLLECTING


# --- a world that behaves at random ---------------------------------------------------------------


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
        barrier = min(replica.barriers, default=INFINITY)
        if barrier < reached and replica.writing is None:
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
        self.replicas[one] = Replica(SliceStanding(generation, frontier, frozen=start))
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
