"""What must hold after every step of every node, whatever the interleaving.

The monitor keeps books of its own, from the effects and results alone: which batches work produced for a
channel, which of them were handed to an operator, which epochs were closed. It compares them with what
the machines at both ends of each channel believe. A violation is an AssertionError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from streammine.engine import node_stimuli as machine
from streammine.engine.channel import InputChannel, OutputChannel
from streammine.engine.node_stimuli import NodeEffect, NodeStimulus
from streammine.engine.processor import OperatorProcessor, Processor
from streammine.engine.slice import Phase, SliceMachine
from streammine.engine.stimuli import Accumulate, CloseEpoch, Finish, Work, WorkResult
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.frames import FrameKind
from streammine.model.ids import SliceId
from streammine.model.manifest import Manifest

if TYPE_CHECKING:
    from streammine.simulation.node import VirtualNode


@dataclass
class SliceBook:
    """What the monitor knows of a slice by itself."""

    machine: SliceMachine
    processor: Processor
    node: str
    working: bool = False
    finished: bool = False
    closed_up_to: int = BEGINNING
    expected: dict[int, int] = field(default_factory=dict)
    open_epoch: dict[int, int] = field(default_factory=dict)
    processed_below: int = BEGINNING
    owed: dict[int, dict[int, deque[int]]] = field(default_factory=dict)
    """By input channel and epoch: rows of each batch that upstream made and this slice has not yet
    been asked to accumulate, in order."""


class Monitor:
    """Checks invariants. `after_step`, `manifest_written` and `check_end` raise AssertionError.

    `control_loss`: control messages between nodes may get lost, and so may the last credit.
    """

    def __init__(self, control_loss: bool = False) -> None:
        self._control_loss = control_loss
        self.books: dict[SliceId, SliceBook] = {}
        self._targets: dict[int, SliceId] = {}
        self._sources: dict[int, SliceId] = {}
        self._manifests: dict[str, Manifest] = {}

    # --- books ----------------------------------------------------------------------------------

    def after_step(
        self, node: VirtualNode, stimulus: NodeStimulus, effects: Iterable[NodeEffect]
    ) -> None:
        if isinstance(stimulus, machine.Deployed):
            self._deployed(node, stimulus)
        if isinstance(stimulus, machine.WorkFinished) and stimulus.slice in self.books:
            self._work_finished(self.books[stimulus.slice], stimulus.result)
        for effect in effects:
            if isinstance(effect, machine.Perform):
                self._performing(self.books[effect.slice], effect.work)
        for job in node.machine.jobs.values():
            # where a job has failed its slices stand still as they were
            for slice_id in job.slices if job.failed is None else ():
                self._check_slice(self.books[slice_id])

    def _deployed(self, node: VirtualNode, stimulus: machine.Deployed) -> None:
        for each in stimulus.slices:
            assert each.slice_id not in self.books, f"{each.slice_id} was deployed twice"
            processor = node.jobs[stimulus.job].processors[each.slice_id]
            self.books[each.slice_id] = SliceBook(each, processor, node.name)
            self._targets.update(dict.fromkeys(each.inputs, each.slice_id))
            self._sources.update(dict.fromkeys(each.outputs, each.slice_id))

    def _work_finished(self, book: SliceBook, result: WorkResult | None) -> None:
        assert book.working, f"{book.machine.slice_id}: work was done that nobody asked for"
        if result is None:
            # the work failed, and with it the job: the slice does nothing any more
            return
        book.working = False
        for output in result.outputs:
            owed = self.books[self._targets[output.channel]].owed
            epochs = owed.setdefault(output.channel, {})
            epochs.setdefault(output.epoch, deque()).append(output.rows)
        for epoch in result.closed:
            assert epoch > book.closed_up_to, (
                f"{book.machine.slice_id}: epoch {epoch} was closed after {book.closed_up_to}"
            )
            book.closed_up_to = epoch
        book.finished = book.finished or result.finished

    def _performing(self, book: SliceBook, work: tuple[Work, ...]) -> None:
        name = book.machine.slice_id
        assert not book.working, f"{name}: two runs of work at a time"
        assert not book.finished, f"{name}: work after its end"
        book.working = True
        for item in work:
            match item:
                case Accumulate(channel, _, epoch, _, body):
                    assert isinstance(body, pa.RecordBatch)
                    self._accumulating(book, channel, epoch, body.num_rows)
                case CloseEpoch(epoch):
                    self._closing(book, epoch)
                case Finish():
                    self._closing(book, INFINITY)
                case _:
                    continue

    def _accumulating(self, book: SliceBook, channel: int, epoch: int, rows: int) -> None:
        name = book.machine.slice_id
        assert epoch > book.closed_up_to, f"{name}: data of epoch {epoch}, which is closed"
        owed = book.owed.get(channel, {}).get(epoch)
        assert owed, f"{name}: a batch of epoch {epoch} on channel {channel} that nobody sent"
        expected = owed.popleft()
        assert rows == expected, (
            f"{name}: a batch of {rows} rows on channel {channel}, epoch {epoch}; "
            f"the next one sent has {expected}"
        )
        if not owed:
            del book.owed[channel][epoch]

    def _closing(self, book: SliceBook, epoch: int) -> None:
        """All channels have ended the epoch, and everything sent in it was accumulated."""
        name = book.machine.slice_id
        for number in book.machine.inputs:
            source = self.books[self._sources[number]].machine
            ended = source.outputs[number].ended
            assert ended >= epoch, (
                f"{name} closes epoch {epoch}, but {source.slice_id} has ended {ended} only"
            )
            left = [each for each in book.owed.get(number, {}) if each <= epoch]
            assert not left, f"{name} closes epoch {epoch} without all rows of epoch {min(left)}"

    def manifest_written(self, location: str, manifest: Manifest) -> None:
        before = self._manifests.get(location)
        self._manifests[location] = manifest
        assert manifest.sequence == (0 if before is None else before.sequence + 1)
        assert manifest.first_epoch <= manifest.last_epoch
        if before is not None:
            assert not before.finished, f"{location}: a manifest follows the last one"
            assert manifest.previous == before.name
            assert manifest.finished or manifest.first_epoch > before.last_epoch, (
                f"{location}: epochs from {manifest.first_epoch} on were committed after epoch "
                f"{before.last_epoch}"
            )

    # --- slices and channels --------------------------------------------------------------------

    def _check_slice(self, book: SliceBook) -> None:
        slice_machine = book.machine
        name = slice_machine.slice_id
        assert slice_machine.busy == book.working or slice_machine.phase is Phase.FINISHED, name
        assert slice_machine.processed_below >= book.processed_below, f"{name} went back"
        book.processed_below = slice_machine.processed_below
        waiting = slice_machine._waiting
        assert sum(n for each in waiting.values() for _, n in each) == slice_machine.waiting_bytes
        for epoch in waiting:
            assert epoch > book.closed_up_to, f"{name}: batches wait for closed epoch {epoch}"
        if not slice_machine.is_source:
            assert slice_machine.processed_below == slice_machine.frontier.processed_below(), (
                f"{name}: processed below {slice_machine.processed_below}, the frontier says "
                f"{slice_machine.frontier.processed_below()}"
            )
        _check_nothing_open_is_closed(book)
        for output in slice_machine.outputs.values():
            _check_ended(slice_machine, output)
            _check_output(output)
            self._check_ends(output)
        for incoming in slice_machine.inputs.values():
            _check_input(book, incoming)

    def _check_ends(self, output: OutputChannel) -> None:
        """What the sender believes of the receiver."""
        target = self.books.get(self._targets.get(output.number, SliceId("", 0)))
        if target is None:
            return
        incoming = target.machine.inputs[output.number]
        assert output.frontier <= target.machine.processed_below, (
            f"channel {output.number}: credit for epoch {output.frontier}, processed is below "
            f"{target.machine.processed_below}"
        )
        assert incoming.expected <= output.announced(), (
            f"channel {output.number}: {incoming.expected} frames taken, "
            f"{output.announced()} were sent"
        )
        sent = (
            BEGINNING
            if output.ended_sent == BEGINNING
            else min(output.ended_sent, INFINITY - 1) + 1
        )
        assert incoming.open_epoch <= sent, (
            f"channel {output.number}: the receiver has epoch {incoming.open_epoch} open, the end of "
            f"{output.ended_sent} was sent"
        )
        if incoming.expected < output.announced():
            assert output._retained, f"channel {output.number}: an untaken frame is not kept"
            assert output._retained[0].header.sequence <= incoming.expected, (
                f"channel {output.number}: frame {incoming.expected} was not taken and is not kept"
            )

    def check_end(self) -> None:
        """The job is finished and all messages have arrived: nothing is left anywhere."""
        for name, book in self.books.items():
            slice_machine = book.machine
            assert slice_machine.phase is Phase.FINISHED, f"{name} is {slice_machine.phase}"
            assert book.finished, f"{name} never did its last work"
            assert not book.working, f"{name} is still at work"
            assert not slice_machine._waiting, f"{name}: batches wait"
            assert slice_machine.waiting_bytes == 0, f"{name}: bytes wait"
            left = {each: epochs for each, epochs in book.owed.items() if epochs}
            assert not left, f"{name} never got {left}"
            for incoming in slice_machine.inputs.values():
                assert incoming.open_epoch == INFINITY, f"{name}: an input is not over"
            for output in slice_machine.outputs.values():
                assert not output.held, f"{name}: frames wait for credit"
                target = self.books[self._targets[output.number]]
                if self._control_loss and target.node != book.node:
                    # the job may end before a lost credit was repeated
                    continue
                kept = [each for each in output._retained if each.header.epoch != INFINITY]
                assert not kept, f"{name}: {len(kept)} frames are kept for nobody"
                assert output.frontier == INFINITY, f"{name}: the last credit is missing"

    def story(self) -> str:
        """Where every slice stands, a line each."""
        return "\n".join(_story(book) for book in self.books.values())


def _check_ended(slice_machine: SliceMachine, output: OutputChannel) -> None:
    """Processed and ended say the same."""
    processed = slice_machine.processed_below
    where = f"{slice_machine.slice_id}: processed below {processed}, ended {output.ended}"
    if slice_machine.phase is Phase.FINISHED:
        assert output.ended == INFINITY, where
    elif processed == INFINITY:
        assert slice_machine.last_epoch <= output.ended < INFINITY, where
    elif processed != BEGINNING:
        assert output.ended == processed - 1, where
    else:
        assert output.ended == BEGINNING, where


def _check_output(output: OutputChannel) -> None:
    """Frames are in sequence, and credit is kept."""
    frames = [*output._retained, *output._held]
    sequences = [frame.header.sequence for frame in frames]
    assert sequences == list(range(output.next_sequence - len(frames), output.next_sequence)), (
        f"channel {output.number}: kept frames are {sequences}"
    )
    _check_ends_sent(output)
    later = [frame for frame in output._retained if frame.header.epoch > output.frontier]
    used = sum(frame.nbytes for frame in later)
    assert output.later_bytes == used, f"channel {output.number}: {output.later_bytes} != {used}"
    epochs = [frame.header.epoch for frame in frames]
    if epochs == sorted(epochs):
        # a source whose rows are out of order must go past it, or its epoch could never end
        limit = max(output.budget, max((frame.nbytes for frame in later), default=0))
        assert used <= limit, f"channel {output.number}: {used} bytes under way, limit {limit}"


def _check_ends_sent(output: OutputChannel) -> None:
    """Every end is carried by one frame, alone or on the last data before it, and nothing of what it
    closed follows."""
    ended = BEGINNING
    for frame in (*output._retained, *output._held):
        header = frame.header
        where = f"channel {output.number}: frame {header.sequence} of epoch {header.epoch}"
        assert header.epoch > ended, f"{where} follows the end of {ended}"
        assert (header.kind is FrameKind.DATA) == (frame.body is not None), f"{where}: its body"
        if header.ends:
            ended = header.epoch
    assert ended in (BEGINNING, output.ended), (
        f"channel {output.number}: ended {output.ended}, its frames say {ended}"
    )
    sent = [frame.header.epoch for frame in output._retained if frame.header.ends]
    assert not sent or sent[-1] == output.ended_sent, (
        f"channel {output.number}: the end of {output.ended_sent} counts as sent, its frames say "
        f"{sent[-1]}"
    )


def _check_input(book: SliceBook, incoming: InputChannel) -> None:
    number = incoming.number
    assert incoming.expected >= book.expected.get(number, 0), f"channel {number} went back"
    assert incoming.open_epoch >= book.open_epoch.get(number, BEGINNING), (
        f"channel {number} opened an epoch again"
    )
    book.expected[number] = incoming.expected
    book.open_epoch[number] = incoming.open_epoch
    assert book.machine.frontier.complete_below <= incoming.open_epoch, (
        f"{book.machine.slice_id}: complete below {book.machine.frontier.complete_below}, "
        f"channel {number} has ended less"
    )


def _check_nothing_open_is_closed(book: SliceBook) -> None:
    processor = book.processor
    if isinstance(processor, OperatorProcessor):
        for epoch in (*processor._accumulators, *processor._bags):
            assert epoch > book.closed_up_to, (
                f"{book.machine.slice_id}: epoch {epoch} accumulates after its close"
            )
        assert processor.memory.used >= 0


def _story(book: SliceBook) -> str:
    slice_machine = book.machine
    frontier = slice_machine.frontier
    inputs = ", ".join(
        f"{each.number}: expects {each.expected}, open {each.open_epoch}"
        for each in slice_machine.inputs.values()
    )
    outputs = ", ".join(
        f"{each.number}: sent {each.announced()}, held {each.held}, ended {each.ended}, "
        f"credit {each.frontier}"
        for each in slice_machine.outputs.values()
    )
    return (
        f"{slice_machine.slice_id} {slice_machine.phase}{' working' if book.working else ''}: "
        f"processed below {slice_machine.processed_below}, complete below "
        f"{frontier.complete_below}, next {frontier.waiting()}, "
        f"{slice_machine.waiting_bytes} bytes wait | in {inputs} | out {outputs}"
    )
