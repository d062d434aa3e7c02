"""What receivers of a feed are told that nobody needs, and what a source makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from streammine.engine.feed_bags import Feeds
from streammine.engine.input_channel import InputChannel
from streammine.engine.output_channel import OutputChannel, UnwantedRange
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import SliceSettings
from streammine.engine.stimuli import (
    Effect,
    Read,
    Run,
    Start,
    TellUnwanted,
    UnwantedTold,
    WorkDone,
    WorkResult,
)
from streammine.engine.unwanted import UnwantedEpochs, UnwantedFeeds
from streammine.model.agreement import Bag, BagSet, Decision
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.ids import SliceId

EAST, WEST, OTHER = 0, 1, 2
NOTHING = UnwantedRange()
NO_EPOCHS = (BEGINNING, BEGINNING)


class Chooser:
    """East and west bring one input, of which a slice chooses; a third channel has no rival."""

    def __init__(self, decided: int = 0, agrees: bool = True) -> None:
        channels = [InputChannel(each, 0, 1, (7, 8)) for each in (EAST, WEST)]
        self.feeds = [Feeds(tuple(channels)), Feeds((InputChannel(OTHER, 1, 1, (9,)),))]
        self.unwanted = UnwantedFeeds(1, self.feeds, decided, agrees)
        self.last = decided

    def decide(self, epoch: int, chosen: int, after: int | None = None) -> None:
        bags = ((EAST, Bag(str(chosen))), (OTHER, Bag(str(OTHER))))
        self.feeds[0].prefer(chosen)
        self.unwanted.decided(Decision(self.last if after is None else after, BagSet(epoch, bags)))
        self.last = epoch

    def pass_over(self, epoch: int) -> None:
        """In a pause an epoch is decided that is empty."""
        self.unwanted.goes_on = False
        self.unwanted.decided(Decision(self.last, BagSet(epoch, ((OTHER, Bag(str(OTHER))),))))
        self.unwanted.goes_on = False
        self.last = epoch

    def busy(self) -> list[Effect]:
        self.unwanted.goes_on = True
        return self.unwanted.news()


def told(effects: Sequence[Effect]) -> dict[int, tuple[int, int, int]]:
    """By channel; every one of its senders is told the same."""
    found = {}
    for each in effects:
        assert isinstance(each, TellUnwanted)
        found[each.channel] = each.epochs
    return found


def test_before_anything_is_decided_the_others_give_one_epoch() -> None:
    assert told(Chooser().unwanted.news()) == {WEST: (1, 1, 2)}


def test_who_agrees_with_nobody_has_everybody_give_what_it_has() -> None:
    chooser = Chooser(agrees=False)
    chooser.decide(5, EAST)
    assert chooser.busy() == []


def test_who_was_not_chosen_is_told_what_was_decided_and_all_its_replicas_are() -> None:
    chooser = Chooser()
    chooser.decide(5, EAST)
    news = chooser.busy()
    assert told(news) == {WEST: (1, 6, 6)}
    assert [each.sender for each in news if isinstance(each, TellUnwanted)] == [7, 8]


def test_what_was_told_is_not_news_and_is_repeated_when_asked_for() -> None:
    chooser = Chooser()
    chooser.decide(5, EAST)
    chooser.busy()
    assert chooser.busy() == []
    assert told(chooser.unwanted.again()) == {WEST: (1, 6, 6)}


def test_an_epoch_that_a_receiver_was_chosen_for_is_wanted_of_it() -> None:
    chooser = Chooser()
    chooser.decide(5, EAST)
    chooser.decide(6, WEST)
    chooser.decide(7, EAST)
    assert told(chooser.busy()) == {WEST: (7, 8, 8)}


def test_of_who_is_chosen_now_all_is_wanted() -> None:
    chooser = Chooser()
    chooser.decide(5, EAST)
    chooser.busy()
    chooser.decide(6, WEST)
    assert told(chooser.busy()) == {EAST: (6, 7, 7), WEST: NOTHING}


def test_where_nothing_is_left_to_do_the_others_are_to_give_one_epoch_more() -> None:
    chooser = Chooser()
    chooser.decide(5, EAST)
    chooser.busy()
    chooser.unwanted.goes_on = False
    assert told(chooser.unwanted.news()) == {WEST: (1, 6, 7)}


def test_where_who_was_chosen_is_overtaken_by_empty_epochs_the_others_give_more_and_more() -> None:
    chooser = Chooser()
    chooser.decide(5, EAST)
    for epoch, until in ((6, 9), (7, 12), (8, 17)):
        chooser.pass_over(epoch)
        assert told(chooser.unwanted.news()) == {WEST: (1, epoch + 1, until)}
    chooser.decide(20, EAST)
    chooser.unwanted.goes_on = False
    assert told(chooser.unwanted.news()) == {WEST: (1, 21, 22)}, "it goes on"


def test_who_has_ended_empty_epochs_is_not_overtaken_by_them() -> None:
    chooser = Chooser()
    chooser.decide(5, EAST)
    chooser.feeds[0].preferred.open_epoch = 9
    for epoch in (6, 7, 8):
        chooser.pass_over(epoch)
        assert told(chooser.unwanted.news()) == {WEST: (1, epoch + 1, epoch + 2)}
    chooser.pass_over(9)
    assert told(chooser.unwanted.news()) == {WEST: (1, 10, 12)}


def test_however_long_it_is_overtaken_an_epoch_is_named() -> None:
    chooser = Chooser()
    for epoch in range(1, 100):
        chooser.pass_over(epoch)
    assert told(chooser.unwanted.news()) == {WEST: (1, 100, INFINITY)}


def test_a_choice_ends_a_pause() -> None:
    chooser = Chooser()
    chooser.unwanted.goes_on = False
    chooser.decide(5, EAST)
    assert told(chooser.unwanted.news()) == {WEST: (1, 6, 6)}


def test_nothing_is_said_of_what_was_decided_unheard() -> None:
    chooser = Chooser()
    chooser.decide(5, EAST)
    chooser.decide(9, EAST, after=8)
    assert told(chooser.busy()) == {WEST: (9, 10, 10)}


def test_the_end_of_the_input_is_the_last_there_is() -> None:
    chooser = Chooser()
    chooser.decide(INFINITY, EAST)
    assert told(chooser.busy()) == {WEST: (1, INFINITY, INFINITY)}


# --- the source's end ---------------------------------------------------------------------------


def outputs(*numbers: int) -> list[OutputChannel]:
    return [OutputChannel(1, number, 1, 1000, (5, 6), checkpointed=True) for number in numbers]


def test_what_one_channel_wants_is_made() -> None:
    channels = outputs(3, 4)
    unwanted = UnwantedEpochs(channels)
    channels[0].unwanted(5, UnwantedRange(2, 9, 9))
    assert unwanted.epochs[0] == unwanted.epochs[1], "nobody has told of the other one"
    channels[1].unwanted(5, UnwantedRange(4, 7, 7))
    assert unwanted.epochs == (4, 7)


def test_of_a_channels_receivers_the_one_that_knows_most_is_believed() -> None:
    (channel,) = channels = outputs(3)
    channel.unwanted(5, UnwantedRange(1, 4, 4))
    channel.unwanted(6, UnwantedRange(6, 9, 9))
    assert UnwantedEpochs(channels).epochs == (6, 9)


def test_a_source_that_somebody_else_reads_passes_over_nothing() -> None:
    unwanted = UnwantedEpochs([])
    assert not unwanted.held
    assert not unwanted.holds_back(10)
    assert unwanted.epochs[0] == unwanted.epochs[1]


def test_it_reads_on_as_soon_as_one_receiver_wants_it() -> None:
    (channel,) = channels = outputs(3)
    unwanted = UnwantedEpochs(channels)
    channel.unwanted(5, UnwantedRange(1, 4, 4))
    assert not unwanted.held, "the other replica has not said anything"
    channel.unwanted(6, UnwantedRange(1, 4, 4))
    assert unwanted.held
    assert not unwanted.holds_back(3)
    assert unwanted.holds_back(4)
    channel.unwanted(5, NOTHING)
    assert not unwanted.held


def test_it_gives_as_much_more_as_any_receiver_wants() -> None:
    first, second = channels = outputs(3, 4)
    unwanted = UnwantedEpochs(channels)
    for channel in channels:
        for receiver in (5, 6):
            channel.unwanted(receiver, UnwantedRange(1, 4, 4))
    first.unwanted(5, UnwantedRange(1, 4, 5))
    assert not unwanted.holds_back(4)
    assert unwanted.holds_back(5)
    assert unwanted.epochs == (1, 4), "what is decided stays so"
    second.unwanted(5, UnwantedRange(1, 9, 9))
    assert unwanted.holds_back(5), "what one channel has not decided is not read ahead for another"


class Source:
    """A source's machine, whose one channel leads to a slice that chooses."""

    def __init__(self) -> None:
        settings = SliceSettings(EpochDefinition("count", 100), 64, chosen_among=(3,))
        output = OutputChannel(1, 3, 1, 1000, (5,), checkpointed=True)
        self.machine = SliceMachine(SliceId("west", 0), 1, (), (output,), settings)

    def told(self, first: int, below: int, until: int) -> list[Read]:
        epochs = UnwantedRange(first, below, until)
        return reads(self.machine.handle(UnwantedTold(3, 1, 5, epochs)))

    def read(self, open_epoch: int) -> list[Read]:
        return reads(self.machine.handle(WorkDone(WorkResult(open_epoch=open_epoch))))


def reads(effects: list[Effect]) -> list[Read]:
    runs = [each.work for each in effects if isinstance(each, Run)]
    return [work for run in runs for work in run if isinstance(work, Read)]


def test_a_source_reads_as_far_as_is_decided_and_then_waits() -> None:
    source = Source()
    assert [each.unwanted for each in reads(source.machine.handle(Start()))] == [NO_EPOCHS]
    assert source.told(1, 6, 6) == [], "it is at work"
    (read,) = source.read(open_epoch=4)
    assert read.unwanted == (1, 6)
    assert read.times == 1
    assert source.read(open_epoch=7) == []
    assert source.told(1, 7, 7) == []
    (read,) = source.told(1, 9, 9)
    assert read.unwanted == (1, 9)


def test_a_source_that_waits_reads_on_when_it_is_wanted() -> None:
    source = Source()
    source.machine.handle(Start())
    source.told(1, 6, 6)
    assert source.read(open_epoch=7) == []
    (read,) = source.told(*NOTHING)
    assert read.unwanted[0] == read.unwanted[1]
    assert read.times > 1


def test_word_of_another_generation_changes_nothing() -> None:
    source = Source()
    source.machine.handle(UnwantedTold(3, 2, 5, UnwantedRange(1, 6, 6)))
    source.machine.handle(UnwantedTold(3, 1, 9, UnwantedRange(1, 6, 6)))
    assert source.machine.outputs[3].links[5].unwanted == NOTHING
