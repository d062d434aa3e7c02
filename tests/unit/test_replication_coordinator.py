"""The checkpoint coordinator: what it names, when it is content, and when it gives up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replication import Coordinator
from replication.checkpointing import LARGEST_MARGIN, PATIENCE_SECONDS, Phase
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.recovery import (
    Checkpoint,
    CollectSnapshots,
    Propose,
    PruneTo,
    PublishCheckpoint,
    SliceStanding,
)
from streammine.model.snapshots import RecoverySettings, Restore
from tests.unit.coordinator_standings import (
    EVERY_HUNDRED_EPOCHS,
    EVERY_TEN_SECONDS,
    GRAPH,
    S,
    T,
    X,
    Y,
    at,
    at_epochs,
    collecting,
    complete,
    everywhere,
    finished,
    frozen,
    record,
)

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


def test_who_has_frozen_there_is_waited_for_though_it_agreed_to_nothing() -> None:
    # only sources are asked; the others freeze where the sources' flagged ends say
    coordinator = collecting(101)
    writing = replace(frozen(101, written=False), accepted=BEGINNING)
    assert coordinator.observe(11.0, {**everywhere(frozen(101)), X: writing}) == []
    assert coordinator.phase is Phase.COLLECTING


def test_a_source_restored_from_the_epochs_own_snapshot_has_not_refused_it() -> None:
    coordinator = collecting(101)
    restored = replace(at(102, generation=2), frozen=101, skipped=101)
    standings = {**everywhere(frozen(101)), S: restored}
    assert coordinator.observe(11.0, standings) == [Propose(103)]
    assert coordinator.margin == 1


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
    rebuilt = replace(at(91, generation=2), frozen=90, skipped=90)
    assert coordinator.observe(12.0, {**standings, X: rebuilt}) == []
    writing = frozen(101, written=False, generation=2)
    assert coordinator.observe(13.0, {**standings, X: writing}) == []
    (effect,) = coordinator.observe(14.0, {**standings, X: frozen(101, generation=2)})
    assert isinstance(effect, PublishCheckpoint)


def test_a_replica_restored_from_the_epochs_own_snapshot_ends_it() -> None:
    coordinator = collecting(101)
    restored = replace(at(102, generation=2), frozen=101, skipped=101)
    standings = {**everywhere(frozen(101)), Y: at(101), X: restored}
    assert coordinator.observe(11.0, standings) == [Propose(103)]


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
    rebuilt = replace(at(91, generation=2), frozen=90, skipped=90)
    assert coordinator.observe(12.0, {**standings, X: rebuilt}) == []
    writing = {**standings, X: frozen(101, written=False, generation=2)}
    assert coordinator.observe(12.0 + PATIENCE_SECONDS, writing) == []
    assert coordinator.phase is Phase.COLLECTING


# --- replicas ----------------------------------------------------------------------------------


def beside(standing: SliceStanding, *others: SliceStanding) -> SliceStanding:
    """Who leads, and its slice's other replicas."""
    return replace(standing, others=others)


def agreed(epoch: int, frontier: int, generation: int = 1) -> SliceStanding:
    return replace(at(frontier, generation), accepted=epoch)


def test_the_epoch_lies_beyond_the_fastest_replica_of_a_source() -> None:
    coordinator = Coordinator(GRAPH, EVERY_TEN_SECONDS)
    coordinator.observe(0.0, {})
    standings = at_epochs(40, 50) | {S: beside(at(40), at(70, 2), at(60, 3))}
    assert coordinator.observe(10.0, standings) == [Propose(71)]


def test_nothing_is_named_by_a_replica_that_has_only_just_begun() -> None:
    coordinator = Coordinator(GRAPH, EVERY_TEN_SECONDS)
    coordinator.observe(0.0, {})
    standings = at_epochs(40, 50) | {S: beside(at(40), at(BEGINNING, 2))}
    assert coordinator.observe(10.0, standings) == [Propose(51)]


def test_a_source_of_which_one_replica_has_ended_the_epoch_unheard_has_refused_it() -> None:
    # whoever takes that end from the second replica freezes nothing
    coordinator = collecting(101)
    standings = everywhere(at(100)) | {S: beside(agreed(101, 100), at(102, 2))}
    assert coordinator.observe(11.0, standings) == [Propose(104)]
    assert coordinator.margin == 2


def test_replicas_that_have_agreed_or_passed_the_barrier_are_no_refusal() -> None:
    coordinator = collecting(101)
    heeds = agreed(101, 105, 2)
    passed = replace(at(105, 3), frozen=101)
    standings = everywhere(at(100)) | {S: beside(agreed(101, 100), heeds, passed)}
    assert coordinator.observe(11.0, standings) == []
    assert coordinator.making == 101


def test_a_replica_that_is_over_by_then_is_no_refusal() -> None:
    coordinator = collecting(101)
    standings = everywhere(at(100)) | {S: beside(agreed(101, 100), finished(99, 2))}
    assert coordinator.observe(11.0, standings) == []
    assert coordinator.making == 101


def test_what_other_replicas_of_an_operator_do_holds_no_checkpoint_up() -> None:
    coordinator = collecting(101)
    standings = everywhere(frozen(101)) | {X: beside(frozen(101), at(50, 2), at(300, 3))}
    (effect,) = coordinator.observe(11.0, standings)
    assert isinstance(effect, PublishCheckpoint)
    assert effect.checkpoint.slices["x/0"].record == record(101)


def test_a_new_leader_that_has_passed_the_barrier_ends_the_checkpoint() -> None:
    # the one that led is lost before its snapshot was durable; the next one froze nothing there
    coordinator = collecting(101)
    coordinator.observe(11.0, everywhere(at(100)))
    passed = replace(at(103, 2), frozen=101, skipped=101)
    standings = everywhere(frozen(101)) | {X: passed}
    assert coordinator.observe(12.0, standings) == [Propose(103)]
    assert coordinator.making == 103


def test_a_new_leader_may_pass_the_barrier_before_it_hears_that_it_leads() -> None:
    # so it is heard of from before the barrier, and makes no snapshot there all the same
    coordinator = collecting(101)
    coordinator.observe(11.0, everywhere(at(100)))
    standings = everywhere(frozen(101)) | {S: agreed(101, 101, 2)}
    assert coordinator.observe(12.0, standings) == []
    passed = replace(frozen(101, written=False, generation=2), skipped=101)
    assert coordinator.observe(13.0, standings | {S: passed}) == [Propose(103)]
    assert coordinator.margin == 1, "it has not refused"


def test_a_new_leader_that_is_still_before_the_barrier_freezes_there() -> None:
    coordinator = collecting(101)
    coordinator.observe(11.0, everywhere(at(100)))
    standings = everywhere(frozen(101)) | {X: at(99, 2)}
    assert coordinator.observe(12.0, standings) == []
    done = everywhere(frozen(101)) | {X: frozen(101, generation=2)}
    (effect,) = coordinator.observe(13.0, done)
    assert isinstance(effect, PublishCheckpoint)
