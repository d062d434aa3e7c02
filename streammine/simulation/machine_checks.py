"""What must hold inside the machine of a replica, between two steps."""

from __future__ import annotations

from streammine.engine.input_channel import InputChannel
from streammine.engine.output_channel import Link, OutputChannel
from streammine.engine.processor import OperatorProcessor
from streammine.engine.slice_settings import Phase
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.frames import FrameKind
from streammine.model.job import Plan
from streammine.simulation.books import ReplicaBook


def check_replica(book: ReplicaBook) -> None:
    """Raises AssertionError."""
    machine = book.machine
    name = book.name
    assert machine.busy == book.working or machine.phase is Phase.FINISHED, (
        f"{name}: busy {machine.busy}, working {book.working}"
    )
    assert machine.processed_below >= book.processed_below, f"{name} went back"
    book.processed_below = machine.processed_below
    _check_waiting(book)
    _check_processor(book)
    outputs = machine.outputs.values()
    for output in outputs:
        _check_output(name, output)
    assert machine.blocked == any(each.blocked for each in outputs), f"{name}: blocked or not"
    told = max((each.credited for each in outputs), default=BEGINNING)
    assert machine.behind == (told > machine.processed_below), f"{name}: behind or not"
    for incoming in machine.inputs.values():
        _check_input(book, incoming)


def _check_waiting(book: ReplicaBook) -> None:
    waiting = book.machine.waiting
    assert waiting.nbytes >= 0, f"{book.name}: {waiting.nbytes} bytes wait"
    assert len(waiting) or not waiting.nbytes, f"{book.name}: bytes wait, but no work"
    for epoch in waiting.epochs:
        assert epoch > book.closed_up_to, f"{book.name}: work waits for closed epoch {epoch}"


def _check_processor(book: ReplicaBook) -> None:
    processor = book.processor
    if isinstance(processor, OperatorProcessor):
        for epoch in (*processor._accumulators, *processor._bags):
            assert epoch > book.closed_up_to, (
                f"{book.name}: epoch {epoch} accumulates after its close"
            )
        assert processor.memory.used >= 0


def _check_output(name: str, output: OutputChannel) -> None:
    """The log is in order, links point into it, and credit is kept."""
    where = f"{name}: channel {output.number}"
    ended = retained_after = output.retained_after
    for entry in output.entries:
        epoch = entry.epoch
        assert epoch > ended or epoch <= retained_after, (
            f"{where}: a frame of epoch {epoch} follows the end of {ended}"
        )
        assert (entry.kind is FrameKind.DATA) == (entry.body is not None), f"{where}: a body"
        if epoch > ended and entry.ends:
            ended = epoch
    assert ended in (output.ended, output.retained_after) or not output.entries, (
        f"{where}: ended {output.ended}, its log says {ended}"
    )
    first = output.end - len(output.entries)
    for link in output.links.values():
        assert first <= link.cursor <= output.end, f"{where}: a link points out of the log"
        _check_credit(where, output, link, first)
        _check_released(where, output, link, first)


def _check_released(where: str, output: OutputChannel, link: Link, first: int) -> None:
    """What is left on a link waits for credit, or for the replica's turn to speak."""
    if output.silent:
        assert link.base is None, f"{where}: a silent channel has spoken to {link.generation}"
        return
    for entry in output.entries[link.cursor - first :]:
        if link.base is None and entry.epoch < link.from_epoch:
            continue
        later = entry.nbytes > 0 and entry.epoch > link.frontier
        waits = later and output.full(link, entry) and not output._awaited_frames(link)
        assert waits, f"{where}: a frame of {entry.epoch} to {link.generation} has not left"
        return


def _check_credit(where: str, output: OutputChannel, link: Link, first: int) -> None:
    nbytes = sum(nbytes for nbytes, _ in link.later.values())
    frames = sum(frames for _, frames in link.later.values())
    counted = link.later_bytes, link.later_frames
    assert counted == (nbytes, frames), f"{where}: credit is counted wrong"
    assert all(epoch > link.frontier for epoch in link.later), f"{where}: old credit is counted"
    if link.later_bytes <= output.budget:
        return
    base = first if link.base is None else max(first, link.base)
    sent = output.entries[base - first : link.cursor - first]
    later = [entry for entry in sent if entry.epoch > link.frontier]
    epochs = [entry.epoch for entry in sent]
    if epochs == sorted(epochs):
        # a source whose rows are out of order must go past it, or its epoch could never end
        # and what leads up to the end that the receiver waits for leaves at once
        awaited, _ = link.later[min(link.later)]
        limit = awaited + max(output.budget, max((entry.nbytes for entry in later), default=0))
        assert link.later_bytes <= limit, (
            f"{where}: {link.later_bytes} bytes under way to {link.generation}, limit {limit}"
        )


def _check_input(book: ReplicaBook, incoming: InputChannel) -> None:
    where = f"{book.name}: channel {incoming.number}"
    before = book.open_epochs.get(incoming.number, BEGINNING)
    assert incoming.open_epoch >= before, f"{where} opened epoch {incoming.open_epoch} again"
    book.open_epochs[incoming.number] = incoming.open_epoch
    assert incoming.leader is None or incoming.leader in incoming.feeds, (
        f"{where}: led by {incoming.leader}, which feeds nothing"
    )
    for feed in incoming.feeds.values():
        for frame in feed.waiting:
            assert frame.header.sender == feed.generation, f"{where}: frames are mixed up"


def check_plan(book: ReplicaBook, plan: Plan) -> None:
    """A replica takes frames only of generations that the plan its node follows lists."""
    for incoming in book.machine.inputs.values():
        source = book.sources[incoming.number]
        listed = {each.generation for each in plan.placements[source]}
        assert incoming.feeds.keys() <= listed, (
            f"{book.name}: channel {incoming.number} is fed by {sorted(incoming.feeds)}, plan "
            f"{plan.version} lists {sorted(listed)}"
        )


def check_finished(book: ReplicaBook) -> None:
    """Nothing is left in a replica that has done its last work."""
    machine = book.machine
    assert machine.phase is Phase.FINISHED, f"{book.name} is {machine.phase}"
    assert not book.working, f"{book.name} is still at work"
    assert not len(machine.waiting), f"{book.name}: batches wait"
    assert machine.waiting.nbytes == 0, f"{book.name}: bytes wait"
    left = {each: epochs for each, epochs in book.taken.items() if epochs}
    assert not left, f"{book.name} never used {left}"
    for incoming in machine.inputs.values():
        over = not book.must_be_over(incoming.number) or book.restored_after == INFINITY
        assert over or incoming.open_epoch == INFINITY, f"{book.name}: an input is not over"


def story_of(book: ReplicaBook) -> str:
    """Where a replica stands, on one line."""
    machine = book.machine
    inputs = ", ".join(_input_story(each) for each in machine.inputs.values())
    outputs = ", ".join(_output_story(each) for each in machine.outputs.values())
    return (
        f"{book.name} {machine.phase}{' working' if book.working else ''}: processed below "
        f"{machine.processed_below}, complete below {machine.frontier.complete_below}, next "
        f"{machine.frontier.waiting()}, barriers {machine.barriers}, {machine.waiting.nbytes} bytes "
        f"wait | in {inputs} | out {outputs}"
    )


def _input_story(incoming: InputChannel) -> str:
    feeds = ", ".join(
        f"{feed.generation}: expects {feed.expected}{'' if feed.confirmed else ' unconfirmed'}"
        for feed in incoming.feeds.values()
    )
    return f"{incoming.number} led by {incoming.leader} open {incoming.open_epoch} ({feeds})"


def _output_story(output: OutputChannel) -> str:
    links = ", ".join(
        f"{link.generation}: held {output.held(link)}, credit {link.frontier}"
        for link in output.links.values()
    )
    return f"{output.number} ended {output.ended}, retained after {output.retained_after} ({links})"
