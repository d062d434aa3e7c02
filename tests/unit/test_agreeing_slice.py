"""A slice that processes what its replicas agreed on: what it names, and what a decision comes to."""

from __future__ import annotations

import pytest

from streammine.engine.agreeing_slice import PATIENCE_TICKS, AgreeingSlice
from streammine.engine.input_channel import InputChannel
from streammine.engine.output_channel import OutputChannel
from streammine.engine.slice_settings import RestoredTo, SliceSettings
from streammine.engine.stimuli import (
    Accumulate,
    Agreeing,
    CloseEpoch,
    Directed,
    Effect,
    Finish,
    FrameArrived,
    Freeze,
    GrantCredit,
    MakeSure,
    Output,
    Run,
    Start,
    Stimulus,
    TellReplicas,
    TellUnwanted,
    ToDisk,
    WakeAfter,
    Woken,
    WorkDone,
    WorkResult,
)
from streammine.model import agreement as words
from streammine.model.agreement import Bag, BagSet, Ballot, Decision
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.frames import CHECKPOINT, ENDS_EPOCH, FrameHeader, FrameKind
from streammine.model.ids import SliceId

EAST, WEST, OTHER, OUT = 0, 1, 2, 8
SETTINGS = SliceSettings(EpochDefinition("count", 100), 64, "asynchronous", waiting_bytes=100)


class Notes:
    """An agreement that notes what it is told, and says what it is to say next."""

    def __init__(self, decided: int, binds_all: bool) -> None:
        self.binds_all = binds_all
        self.spent_plan = 0
        self.decided = decided
        self.steps = 0
        self.told: list[words.AgreementStimulus] = []
        self.says: list[words.AgreementEffect] = []

    def handle(self, stimulus: words.AgreementStimulus) -> list[words.AgreementEffect]:
        self.steps += not isinstance(stimulus, words.Tick)
        self.told += stimulus.parts if isinstance(stimulus, words.Together) else (stimulus,)
        says, self.says = self.says, []
        return says

    def take(self) -> list[words.AgreementStimulus]:
        told, self.told = self.told, []
        return [each for each in told if not isinstance(each, words.Tick)]


class Bench:
    """East and west bring one input, and a third channel another one."""

    def __init__(
        self, other: bool = False, restored: RestoredTo | None = None, binds_all: bool = True
    ) -> None:
        begin = BEGINNING if restored is None else restored.epoch
        inputs = [InputChannel(each, 0, 1, (1,), begin) for each in (EAST, WEST)]
        feeds: list[tuple[InputChannel, ...]] = [tuple(inputs)]
        if other:
            feeds.append((InputChannel(OTHER, 1, 1, (1,), begin),))
        self.notes = Notes(begin, binds_all)
        output = OutputChannel(1, OUT, 1, 1000, (1,), begin, True)
        self.machine = AgreeingSlice(
            SliceId("counts", 0), 1, feeds, (output,), SETTINGS, self.notes, 0.01, restored
        )
        self.sequences: dict[int, int] = {}
        self.take(Start())

    def take(self, stimulus: Stimulus) -> list[Effect]:
        return self.machine.handle(stimulus)

    def frame(
        self, channel: int, epoch: int, rows: int = 0, ends: bool = True, checkpoint: bool = False
    ) -> list[Effect]:
        kind = FrameKind.DATA if rows else FrameKind.EPOCH_END
        flags = (ENDS_EPOCH if rows and ends else 0) | (CHECKPOINT if checkpoint else 0)
        sequence = self.sequences.get(channel, 0)
        self.sequences[channel] = sequence + 1
        last = epoch
        header = FrameHeader(1, channel, 1, 1, epoch, 0, sequence, rows, kind, flags, last)
        body = f"{channel}:{epoch}" if rows else None
        return self.take(FrameArrived(header, body, rows * 10))

    def over(self, channel: int, last_epoch: int) -> list[Effect]:
        sequence = self.sequences.get(channel, 0)
        kind = FrameKind.EPOCH_END
        header = FrameHeader(1, channel, 1, 1, INFINITY, 0, sequence, 0, kind, 0, last_epoch)
        return self.take(FrameArrived(header, None, 0))

    def decide(self, after: int, epoch: int, *bags: tuple[int, int]) -> list[Effect]:
        chosen = BagSet(epoch, tuple((number, Bag(str(channel))) for number, channel in bags))
        decision = Decision(after, chosen)
        self.notes.says = [words.Decided(decision), words.Process(decision)]
        self.notes.decided = epoch
        return self.take(Agreeing(words.WitnessAnswered(1, None)))

    def closed(self, *epochs: int) -> list[Effect]:
        """What was decided was processed."""
        return self.take(WorkDone(WorkResult(closed=epochs)))

    def named(self) -> list[tuple[str, int] | int]:
        """Epochs, behind the bags that are told with them."""
        found: list[tuple[str, int] | int] = []
        for each in self.notes.take():
            if isinstance(each, words.BagHeld):
                found.append((each.bag.digest, each.epoch))
            elif isinstance(each, words.EpochEnded):
                found.append(each.epoch)
        return found


def work(effects: list[Effect]) -> list[object]:
    runs = [each.work for each in effects if isinstance(each, Run)]
    return [
        (item.channel, item.epoch) if isinstance(item, Accumulate) else type(item)
        for run in runs
        for item in run
    ]


def credit(effects: list[Effect]) -> set[tuple[int, int]]:
    return {(each.channel, each.frontier) for each in effects if isinstance(each, GrantCredit)}


def test_the_end_of_input_comes_behind_every_epoch_that_was_named() -> None:
    """Here or for another slice the last epochs held something; what is made of the end comes after them."""
    bench = Bench()
    for channel in (EAST, WEST):
        bench.frame(channel, 1, rows=1)
    bench.decide(BEGINNING, 1, (0, EAST))
    bench.closed(1)
    for channel in (EAST, WEST):
        bench.frame(channel, 3)
    bench.decide(1, 3)
    bench.over(EAST, 3)
    bench.over(WEST, 2)
    runs = [each for each in bench.decide(3, INFINITY) if isinstance(each, Run)]
    assert runs == [Run((Finish(4),))]
    made = Output(OUT, 4, 1, 10, "rows")
    bench.take(WorkDone(WorkResult((made,), finished=True)))


def test_nothing_is_processed_before_it_is_decided() -> None:
    bench = Bench()
    assert work(bench.frame(EAST, 5, rows=2)) == []
    assert bench.named() == [("0", 5), 5]
    assert work(bench.frame(WEST, 5, rows=3)) == []
    assert bench.named() == [("1", 5)]
    done = bench.decide(BEGINNING, 5, (EAST, WEST))
    assert work(done) == [(WEST, 5), CloseEpoch]


def test_the_receiver_that_was_chosen_last_is_named_first() -> None:
    bench = Bench()
    bench.frame(EAST, 1, rows=1)
    bench.frame(WEST, 1, rows=1)
    bench.decide(BEGINNING, 1, (EAST, WEST))
    bench.named()
    bench.frame(EAST, 2, rows=1)
    assert bench.named() == []
    bench.frame(WEST, 2, rows=1)
    assert bench.named() == [("1", 2), ("0", 2), 2]


def test_a_slower_receiver_is_waited_for_and_not_for_long() -> None:
    bench = Bench()
    bench.frame(WEST, 1, rows=1)
    for _ in range(PATIENCE_TICKS - 1):
        assert bench.take(Woken())[0] == WakeAfter(0.01, ticks=True)
    assert bench.named() == []
    bench.take(Woken())
    assert bench.named() == [("1", 1), 1]
    # what comes later may still be what others choose
    bench.frame(EAST, 1, rows=1)
    assert bench.named() == [("0", 1)]


def test_what_was_not_chosen_is_forgotten_and_comes_to_nothing() -> None:
    bench = Bench()
    bench.frame(EAST, 1, rows=1)
    bench.frame(WEST, 1, rows=1, ends=False)
    bench.decide(BEGINNING, 1, (EAST, EAST))
    assert bench.machine.bags.nbytes == 0
    bench.named()
    assert work(bench.frame(WEST, 1, rows=1)) == []
    assert bench.named() == []
    assert bench.machine.bags.nbytes == 0
    assert bench.machine.inputs[WEST].open_epoch == 2


def test_a_decision_waits_until_its_epoch_is_over_here() -> None:
    bench = Bench(other=True)
    bench.frame(EAST, 3, rows=1)
    assert work(bench.decide(BEGINNING, 3, (EAST, EAST))) == []
    assert work(bench.frame(OTHER, 3)) == [(EAST, 3), CloseEpoch]


def test_a_named_checkpoint_is_named_though_nothing_is_in_it() -> None:
    bench = Bench()
    bench.frame(EAST, 2, checkpoint=True)
    bench.frame(EAST, 4, rows=1)
    assert bench.named() == [2]
    # nothing above the barrier is closed before the state is frozen
    assert work(bench.decide(BEGINNING, 2)) == [Freeze]
    assert bench.named() == [("0", 4), 4]
    assert work(bench.decide(2, 4, (EAST, EAST))) == []


def test_a_barrier_that_the_decisions_pass_over_is_none() -> None:
    bench = Bench()
    bench.frame(EAST, 2, checkpoint=True)
    bench.frame(EAST, 4, rows=1)
    done = bench.decide(BEGINNING, 4, (EAST, EAST))
    assert work(done) == [(EAST, 4), CloseEpoch]


def test_epochs_go_on_where_nothing_comes() -> None:
    bench = Bench()
    bench.frame(EAST, 7)
    assert bench.named() == [7]
    bench.frame(EAST, 9)
    assert bench.named() == [], "the last one is not decided yet"
    done = bench.decide(BEGINNING, 7)
    assert credit(done) == {(EAST, 8), (WEST, 8)}
    assert bench.named() == [9]


def test_the_input_is_over_when_it_is_at_all_receivers() -> None:
    bench = Bench()
    bench.frame(EAST, 1, rows=1)
    bench.over(EAST, 1)
    assert bench.named() == [("0", 1), 1]
    bench.decide(BEGINNING, 1, (EAST, EAST))
    bench.closed(1)
    bench.frame(WEST, 3, rows=1)
    for _ in range(PATIENCE_TICKS):
        bench.take(Woken())
    assert bench.named() == [("1", 3), 3]
    bench.decide(1, 3, (EAST, WEST))
    bench.over(WEST, 3)
    assert bench.named() == [INFINITY]


def test_nothing_more_is_named_before_that_is_decided() -> None:
    bench = Bench()
    bench.frame(EAST, 1, rows=1)
    assert bench.named() == [("0", 1), 1]
    bench.frame(EAST, 2, rows=1)
    bench.frame(EAST, 3, rows=1)
    assert bench.named() == []
    bench.decide(BEGINNING, 1, (EAST, EAST))
    assert bench.named() == [("0", 2), 2, ("0", 3), 3]


def test_more_is_named_where_nothing_is_decided_for_long() -> None:
    bench = Bench()
    bench.frame(EAST, 1, rows=1)
    bench.frame(EAST, 2, rows=1)
    assert bench.named() == [("0", 1), 1]
    for _ in range(PATIENCE_TICKS - 1):
        bench.take(Woken())
        assert bench.named() == []
    bench.take(Woken())
    assert bench.named() == [("0", 2), 2]


def test_who_always_has_something_to_process_says_that_it_is_behind() -> None:
    bench = Bench()
    bench.frame(EAST, 1, rows=1)
    bench.decide(BEGINNING, 1, (EAST, EAST))
    for _ in range(PATIENCE_TICKS):
        assert words.Behind(True) not in bench.notes.take()
        bench.take(Woken())
    assert words.Behind(True) in bench.notes.take()
    bench.closed(1)
    bench.take(Woken())
    assert words.Behind(False) in bench.notes.take()


def test_nothing_more_is_named_while_enough_waits_to_be_processed() -> None:
    bench = Bench()
    bench.frame(EAST, 1, rows=1)
    bench.frame(EAST, 2, rows=1)
    bench.decide(BEGINNING, 1, (EAST, EAST))
    bench.decide(1, 2, (EAST, EAST))
    bench.named()
    bench.frame(EAST, 3, rows=1)
    assert bench.named() == []
    bench.closed(1)
    assert bench.named() == [("0", 3), 3]


def test_of_the_reports_of_one_step_the_last_one_leaves_behind_all_else() -> None:
    bench = Bench()
    reports = [words.Report(1, number, 1, 1, BEGINNING) for number in (1, 2)]
    sure = words.AskWitness(1)
    decisions = words.Decisions(1, ())
    bench.notes.says = [
        words.Tell((2,), reports[0]),
        sure,
        words.Tell((2,), decisions),
        words.Tell((2,), reports[1]),
        words.Tell((3,), reports[1]),
    ]
    effects = bench.take(Agreeing(words.Paused()))
    assert effects == [
        MakeSure(sure),
        TellReplicas((2,), decisions),
        TellReplicas((2,), reports[1]),
        TellReplicas((3,), reports[1]),
    ]


def test_what_a_checkpoint_covers_is_told_by_the_epochs_that_were_decided() -> None:
    bench = Bench()
    for after, epoch in ((BEGINNING, 2), (2, 5), (5, 6)):
        bench.frame(EAST, epoch, rows=1)
        bench.decide(after, epoch, (EAST, EAST))
    bench.notes.take()
    bench.take(Directed(6, 6, 1))
    assert bench.notes.take() == []
    bench.take(Directed(6, 6, 5))
    assert bench.notes.take() == [words.Covered(5)]
    bench.take(Directed(7, 7, 5))
    assert bench.notes.take() == []


def test_a_restored_replica_names_what_follows_its_snapshot() -> None:
    bench = Bench(restored=RestoredTo(4, 4))
    bench.frame(EAST, 4, rows=1)
    assert bench.named() == []
    bench.frame(EAST, 5, rows=1)
    assert bench.named() == [("0", 5), 5]


def test_what_waits_for_a_decision_goes_to_disk_where_it_is_much() -> None:
    bench = Bench()
    assert not any(isinstance(each, ToDisk) for each in bench.frame(EAST, 1, rows=9))
    assert not any(isinstance(each, ToDisk) for each in bench.frame(WEST, 1, rows=9))
    (to_disk,) = [each for each in bench.frame(EAST, 2, rows=1) if isinstance(each, ToDisk)]
    assert [each.body for each in to_disk.bodies] == ["0:2"]


def test_bags_that_nobody_has_are_not_fetched() -> None:
    bench = Bench()
    bench.notes.says = [words.FetchBag(0, 1, Bag("0"), (2,))]
    assert bench.take(Agreeing(words.Heard(words.Report(2, 1, 1, 1, BEGINNING)))) == []
    assert not bench.machine.outrun


def test_that_a_replica_can_not_go_on_is_to_be_reported() -> None:
    bench = Bench()
    bench.notes.says = [words.Outrun(3)]
    assert bench.take(Agreeing(words.Heard(words.Report(2, 1, 1, 1, BEGINNING)))) == []
    assert bench.machine.outrun


def test_ballots_are_ordered_by_plan_and_then_by_attempt() -> None:
    assert Ballot(1, 9) < Ballot(2, 0) < Ballot(2, 1)


def test_bags_that_come_at_once_are_told_together_and_may_settle_their_epochs() -> None:
    """One of them is chosen then, and the other one passed over."""
    bench = Bench()
    for epoch in (4, 5, 6):
        bench.frame(EAST, epoch, rows=1)
    bench.decide(BEGINNING, 4, (EAST, EAST))
    assert bench.named() == [("0", 4), 4, ("0", 5), 5, ("0", 6), 6]
    bench.closed(4)
    bench.frame(WEST, 5, rows=1, ends=False)
    choices = {5: WEST, 6: EAST}
    bench.notes.says = [
        words.Process(Decision(epoch - 1, BagSet(epoch, ((EAST, Bag(str(channel))),))))
        for epoch, channel in choices.items()
    ]
    effects = bench.frame(WEST, 6, rows=1)
    (run,) = [each for each in effects if isinstance(each, Run)]
    assert [(each.channel, each.epoch) for each in run.work if isinstance(each, Accumulate)] == [
        (WEST, 5),
        (EAST, 6),
    ]
    assert bench.named() == [("1", 5), ("1", 6)]


def test_many_bags_may_wait_for_a_decision() -> None:
    bench = Bench()
    for epoch in range(500):
        bench.frame(EAST, epoch, rows=1)
        bench.frame(WEST, epoch, rows=1)
    assert len(bench.named()) == 3
    bench.decide(BEGINNING, 0, (EAST, EAST))
    assert len(bench.named()) == 3 * 499
    bags = bench.machine.bags
    assert bags.between(EAST, 497, 500) == [498, 499]
    assert bags.nbytes == 2 * 499 * 10
    bags.forget(498)
    assert bags.nbytes == 2 * 10
    assert bags.between(WEST, 0, 1000) == [499]


def test_what_comes_at_once_is_one_step_of_the_agreement() -> None:
    """Each step looks at all epochs that are open."""
    bench = Bench()
    bench.machine.feeds[0].prefer(WEST)
    for epoch in (1, 2, 3):
        bench.frame(EAST, epoch, rows=1)
    before = bench.notes.steps
    bench.frame(WEST, 3, rows=1)
    assert bench.named() == [("0", 1), 1, ("0", 2), 2, ("1", 3), ("0", 3), 3]
    assert bench.notes.steps == before + 1


@pytest.mark.parametrize("binds_all", [False, True])
def test_only_who_agrees_with_others_calls_anything_unwanted(binds_all: bool) -> None:
    bench = Bench(binds_all=binds_all)
    for epoch in (1, 2):
        bench.frame(EAST, epoch, rows=1)
        bench.frame(WEST, epoch, rows=1)
    effects = bench.decide(BEGINNING, 1, (EAST, EAST)) + bench.take(Woken())
    told = {each.channel: each.epochs for each in effects if isinstance(each, TellUnwanted)}
    assert told == ({WEST: (BEGINNING + 1, 2, 2)} if binds_all else {})
