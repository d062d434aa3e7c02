"""Protocols that are broken on purpose: the simulation notices each within a few seeds.

A handful of the mutants of `scripts/mutate`, kept because these are the mistakes that would lose or double
output without a word.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from streammine.engine.frontier import Frontier
from streammine.engine.input_channel import InputChannel, Verdict
from streammine.engine.node import NodeMachine
from streammine.engine.output_channel import OutputChannel
from streammine.engine.processor import OperatorProcessor
from streammine.engine.run_output import RunOutput
from streammine.engine.slice import SliceMachine
from streammine.engine.stimuli import CloseEpoch, FrameArrived, Work
from streammine.simulation.faults import FaultKind
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from tests.simulation import workloads

MOST_SEEDS = 8
ALL = tuple(FaultKind)


@functools.cache
def trials(kinds: tuple[FaultKind, ...] = ALL) -> Trials:
    lines = pa.table({"line": workloads.text(160)})
    return Trials(Workload(workloads.word_count(3), {"lines": lines}), kinds)


@pytest.fixture(autouse=True, scope="module")
def _right_answers() -> None:
    """They are found while nothing is broken."""
    trials()


def problem() -> str:
    """What the first failing seed fails with."""
    for seed in range(MOST_SEEDS):
        found = trials().run(seed).problem
        if found is not None:
            return found
    pytest.fail(f"{MOST_SEEDS} seeds have not noticed it")


def test_nothing_is_noticed_where_nothing_is_broken() -> None:
    assert [trials().run(seed).problem for seed in range(MOST_SEEDS)] == [None] * MOST_SEEDS


def test_a_frontier_that_is_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_to_close(self: Frontier) -> int | None:
        candidate = self.waiting()
        return candidate if candidate is not None and candidate <= self.complete_below else None

    monkeypatch.setattr(Frontier, "next_to_close", next_to_close)
    assert problem()


def test_an_epoch_that_is_closed_with_others_before_it_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def complete_behind(self: Frontier, epoch: int, most: int) -> Sequence[int]:
        return [each for each in self._open if each > epoch][:most]

    monkeypatch.setattr(Frontier, "complete_behind", complete_behind)
    assert problem()


def test_epochs_that_go_beyond_a_barrier_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    close_more = SliceMachine._close_more

    def blindly(self: SliceMachine, closing: int, waited_bytes: int, work: list[Work]) -> None:
        barriers, self.barriers = self.barriers, []
        close_more(self, closing, waited_bytes, work)
        self.barriers = barriers

    monkeypatch.setattr(SliceMachine, "_close_more", blindly)
    assert problem()


def test_an_epoch_that_is_left_open_between_two_that_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close = OperatorProcessor._close

    def gaps(
        self: OperatorProcessor, item: CloseEpoch, closed: list[int], leaving: RunOutput
    ) -> bool:
        return bool(closed and item.epoch % 2) or close(self, item, closed, leaving)

    monkeypatch.setattr(OperatorProcessor, "_close", gaps)
    assert problem()


def test_retention_that_is_pruned_before_a_checkpoint_covers_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prune = OutputChannel.prune
    monkeypatch.setattr(
        OutputChannel, "prune", lambda self, retain_after: prune(self, self.ended - 1)
    )
    assert problem()


def test_frames_that_are_taken_as_often_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = InputChannel.receive

    def again(self: InputChannel, frame: FrameArrived) -> Verdict:
        feed = self.feeds.get(frame.header.sender)
        if feed is not None:
            feed.expected = min(feed.expected, frame.header.sequence)
        return receive(self, frame)

    monkeypatch.setattr(InputChannel, "receive", again)
    assert problem()


def test_a_node_that_takes_what_was_given_to_its_former_self(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mine(self: NodeMachine, job: object, slice_id: object) -> object:
        placed: Callable[[object], tuple] = job.placed  # type: ignore[attr-defined, type-arg]
        return next((each for each in placed(slice_id) if each.node == self.name), None)

    monkeypatch.setattr(NodeMachine, "_mine", mine)
    assert problem()


def test_a_snapshot_that_is_taken_before_its_epoch_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    next_work = SliceMachine._next_work

    def early(self: SliceMachine) -> tuple[Work, ...]:
        work = next_work(self)
        closes = [each.epoch for each in work if isinstance(each, CloseEpoch)]
        barrier = self.barriers[0] if self.barriers else None
        if closes and closes[0] == barrier and not self.snapshots.writing:
            return self._freeze(barrier)
        return work

    monkeypatch.setattr(SliceMachine, "_next_work", early)
    assert problem()
