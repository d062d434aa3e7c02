"""Transcripts: machines played from a script, what they do written down behind each line.

A line of a script that starts with ``>`` is a stimulus; the lines below it, two blanks in, are the
effects that it had to have, in order. `played` returns the script with the effects as they were, so a
test compares two texts that a person can read.

A link is written ``channel`` where the replica at its other end has generation 1, else
``channel@generation``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from textwrap import dedent

from streammine.engine import stimuli
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import RestoredTo
from streammine.model.contracts import FrozenSlice
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.frames import CHECKPOINT, ENDS_EPOCH, LOST, FrameHeader, FrameKind
from streammine.model.schemes import Scheme
from streammine.model.snapshots import Restore, SnapshotRecord

GENERATION = 1
FRAME_BYTES = 10
ARRIVING_BYTES = 1 << 20
"""What arrives is large enough to be handed over at once, even if its epoch can't be closed yet."""


def played(script: str, play: Callable[[str], Iterable[str]]) -> str:
    lines = []
    for line in dedent(script).strip().splitlines():
        if line.startswith(">"):
            lines.append(line)
            lines.extend(f"  {effect}" for effect in play(line[1:].strip()))
    return "\n".join(lines)


def tidy(script: str) -> str:
    return dedent(script).strip()


def number(text: str) -> int:
    return {"inf": INFINITY, "none": BEGINNING}.get(text) or int(text)


def epoch_text(epoch: int) -> str:
    return {INFINITY: "inf", BEGINNING: "none"}.get(epoch) or str(epoch)


class SlicePlayer:
    """Plays a slice's machine.

    ============================  =========================================================
    start, woken, beat            Start, Woken, Beat
    0.3 data 5                    frame 3 of channel 0: a batch of epoch 5
    0@2.3 data 5                  the same from the sender's replica of generation 2
    0.3 data 5, the last          it ends the epoch, too
    0.3 data 5, the last, flagged it ends a checkpoint's epoch
    0.3 little 5                  a batch too small to be worth a run of its own
    0.3 end 5                     the end of epoch 5 (or ``inf``); ``, flagged`` for a checkpoint
    0.3 end 5, lost               the end of epochs up to 5 that are lost
    0.3 end inf after 5           the end of the input; epoch 5 was the last that held data
    8 credit 5                    credit on channel 8
    8 resend 3                    frames from 3 on are asked for
    8@2 subscribe 5               generation 2 wants everything from epoch 5 on; ``at 4``: it stands there
    0 announced 3                 the sender's next frame has number 3
    0 comes from 1 2              the sender's living generations, as the plan has them
    8 goes to 1 2                 the receiver's
    leads, leads not              the slice's replica whose snapshots count is this one, or another
    stands behind                 another one's count, and this one is to take short turns
    8 goes to 1 2, queueing 2     the same; generation 2 only queues what comes
    stands active-standby         the plan puts the replica on this rung
    offered 7                     the state of complete checkpoint 7
    directed 7                    checkpoint 7 is in the making; ``over``: not any more; ``retain 3``
    written 7, written not        a snapshot is durable, or could not be written
    done …                        work is done; ``closed 5``, ``due 7``, ``open 5``, ``last 5``, ``over``,
                                  ``wake``, ``finished``, ``frozen 5``, ``taken 5``, ``out 0:5`` (a batch
                                  on channel 0)
    ============================  =========================================================
    """

    def __init__(self, machine: SliceMachine) -> None:
        self.machine = machine

    def __call__(self, line: str) -> list[str]:
        return [effect_text(effect) for effect in self.effects(line)]

    def effects(self, line: str) -> list[stimuli.Effect]:
        return self.machine.handle(self._stimulus(line))

    def _stimulus(self, line: str) -> stimuli.Stimulus:
        mine = self.machine.generation
        words = line.split()
        match words:
            case ["start"]:
                return stimuli.Start()
            case ["woken"]:
                return stimuli.Woken()
            case ["beat"]:
                return stimuli.Beat()
            case ["leads"]:
                return stimuli.Led(True)
            case ["leads", "not"]:
                return stimuli.Led(False)
            case ["stands", "behind"]:
                return stimuli.Led(False, spare=True)
            case ["done", *what]:
                return stimuli.WorkDone(_result(what))
            case ["directed", *what]:
                return _directed(what)
            case ["written", "not"]:
                return stimuli.SnapshotDone(None)
            case ["written", epoch]:
                return stimuli.SnapshotDone(record(number(epoch), mine))
            case [link, "credit", epoch]:
                return stimuli.CreditArrived(_channel(link), mine, _peer(link), number(epoch))
            case [link, "resend", sequence]:
                return stimuli.ResendAsked(_channel(link), mine, _peer(link), int(sequence))
            case [link, "announced", sequence]:
                return stimuli.Announced(_channel(link), _peer(link), mine, int(sequence))
            case [link, "subscribe", epoch]:
                return _subscribed(link, mine, epoch, epoch)
            case [link, "subscribe", epoch, "at", frontier]:
                return _subscribed(link, mine, epoch, frontier)
            case ["stands", rung]:
                return stimuli.Stand(Scheme(rung))
            case ["offered", epoch]:
                return stimuli.StateOffered(Restore(int(epoch), record(int(epoch))))
            case [channel, "comes", "from", *generations]:
                return stimuli.Rewired({int(channel): tuple(map(int, generations))}, {})
            case [channel, "goes", "to", *generations]:
                linked, _, queueing = " ".join(generations).partition(", queueing")
                receivers = {int(channel): tuple(map(int, linked.split()))}
                only_queue = {int(channel): tuple(map(int, queueing.split()))} if queueing else {}
                return stimuli.Rewired({}, receivers, only_queue)
        return frame_arrived(line, mine)


def _channel(link: str) -> int:
    return int(link.partition("@")[0])


def _peer(link: str) -> int:
    return int(link.partition("@")[2] or GENERATION)


def _subscribed(link: str, mine: int, epoch: str, frontier: str) -> stimuli.Subscribed:
    return stimuli.Subscribed(_channel(link), mine, _peer(link), number(epoch), number(frontier))


def _directed(words: list[str]) -> stimuli.Directed:
    proposed = number(words[0])
    retain_after = number(words[words.index("retain") + 1]) if "retain" in words else BEGINNING
    return stimuli.Directed(proposed, BEGINNING if "over" in words else proposed, retain_after)


def record(epoch: int, generation: int = GENERATION, full: bool = True) -> SnapshotRecord:
    return SnapshotRecord(epoch, generation, f"snapshot-{epoch}-{generation}", "sum", 100, full)


def frame_arrived(line: str, receiver: int = GENERATION) -> stimuli.FrameArrived:
    """A frame as `SlicePlayer` writes it, like ``0@2.3 data 5, the last``."""
    words = [word for word in line.replace(",", "").split() if word not in ("the", "after")]
    link, _, sequence = words[0].partition(".")
    kind, epoch = words[1], words[2]
    data = kind in ("data", "little")
    assert data or kind == "end", f"no such line: {line}"
    named = {"last": ENDS_EPOCH, "flagged": CHECKPOINT, "lost": LOST}
    flags = sum(flag for word, flag in named.items() if word in words)
    header = FrameHeader(
        job=1,
        channel=_channel(link),
        sender=_peer(link),
        receiver=receiver,
        epoch=number(epoch),
        round=0,
        sequence=int(sequence),
        rows=1 if data else 0,
        kind=FrameKind.DATA if data else FrameKind.EPOCH_END,
        flags=flags,
        watermark=int(words[3]) if epoch == "inf" and len(words) > 3 else BEGINNING,
    )
    arrived = stimuli.FrameArrived(header, "batch" if data else None, ARRIVING_BYTES if data else 0)
    return replace(arrived, nbytes=1) if kind == "little" else arrived


def _result(words: list[str]) -> stimuli.WorkResult:
    outputs: list[stimuli.Output] = []
    closed: list[int] = []
    fields: dict[str, object] = {}
    rest = iter(words)
    for word in rest:
        match word:
            case "out":
                channel, _, epoch = next(rest).partition(":")
                outputs.append(
                    stimuli.Output(int(channel), int(epoch), 1, FRAME_BYTES, f"batch of {epoch}")
                )
            case "closed":
                closed.append(int(next(rest)))
            case "due":
                fields["due"] = int(next(rest))
            case "open":
                fields["open_epoch"] = number(next(rest))
            case "last":
                fields["last_epoch"] = int(next(rest))
            case "over":
                fields |= {"open_epoch": INFINITY, "exhausted": True}
            case "wake":
                fields["wake_after_seconds"] = 1.0
            case "finished":
                fields["finished"] = True
            case "frozen":
                fields["frozen"] = FrozenSlice(int(next(rest)), BEGINNING)
            case "taken":
                taken = int(next(rest))
                fields["taken"] = RestoredTo(taken, taken)
            case _:
                raise AssertionError(f"no such result: {word}")
    return stimuli.WorkResult(tuple(outputs), closed=tuple(closed), **fields)  # type: ignore[arg-type]


def frame_text(header: FrameHeader) -> str:
    """``data 3``, ``data 3, the last``, ``end 3`` or ``end 3, flagged``."""
    text = f"{'end' if header.kind is FrameKind.EPOCH_END else 'data'} {epoch_text(header.epoch)}"
    if header.kind is FrameKind.DATA and header.ends:
        text += ", the last"
    if header.flags & CHECKPOINT:
        text += ", flagged"
    return f"{text}, lost" if header.flags & LOST else text


def link_text(channel: int, generation: int) -> str:
    return f"{channel}" if generation == GENERATION else f"{channel}@{generation}"


def effect_text(effect: stimuli.Effect) -> str:
    match effect:
        case stimuli.Run(work, repeats):
            told = "run once more " if repeats else "run "
            return told + ", ".join(map(_work_text, work))
        case stimuli.SendFrame(frame):
            header = frame.header
            link = link_text(header.channel, header.receiver)
            return f"send {link}.{header.sequence} {frame_text(header)}"
        case stimuli.GrantCredit(channel, sender, _, frontier):
            return f"credit on {link_text(channel, sender)} for {epoch_text(frontier)}"
        case stimuli.AskSubscription(channel, sender, _, epoch, frontier):
            text = f"subscribe {link_text(channel, sender)} from {epoch_text(epoch)}"
            return text if frontier == epoch else f"{text}, at {epoch_text(frontier)}"
        case stimuli.AskResend(channel, sender, _, sequence):
            return f"ask {link_text(channel, sender)} for frames from {sequence}"
        case stimuli.Announce(channel, _, receiver, sequence):
            return f"announce on {link_text(channel, receiver)}: next is {sequence}"
        case stimuli.WakeAfter(seconds):
            return f"wake after {seconds:g} s"
        case stimuli.WriteSnapshot(frozen, previous):
            text = f"write snapshot {frozen.epoch}"
            return text if previous is None else f"{text} on top of {previous.epoch}"
        case stimuli.ToDisk(bodies):
            return f"to disk: {len(bodies)}"
        case stimuli.Progressed():
            return "progressed"
        case stimuli.SliceFinished():
            return "finished"


def _work_text(work: stimuli.Work) -> str:
    match work:
        case stimuli.Read(rows):
            return f"read {rows}"
        case stimuli.Accumulate(channel, _, epoch):
            return f"accumulate {epoch} from {channel}"
        case stimuli.CloseEpoch(epoch, _, lost):
            return f"close {epoch}" + "".join(f", lost {first} to {last}" for first, last in lost)
        case stimuli.Finish(epoch):
            return f"finish in {epoch}"
        case stimuli.Discard(channel, epoch):
            return f"discard {epoch} from {channel}"
        case stimuli.TakeState(restore):
            return f"take state {restore.epoch}"
        case stimuli.Freeze(epoch, full, last_epoch, due):
            text = (
                f"freeze {epoch}{' in full' if full else ''}, data up to {epoch_text(last_epoch)}"
            )
            if work.lost_until != BEGINNING:
                text += f", lost up to {work.lost_until}"
            return text if due is None else f"{text}, due {due}"
