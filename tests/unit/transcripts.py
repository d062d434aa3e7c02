"""Transcripts: machines played from a script, what they do written down behind each line.

A line of a script that starts with ``>`` is a stimulus; the lines below it, two blanks in, are the
effects that it had to have, in order. `played` returns the script with the effects as they were, so a
test compares two texts that a person can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from textwrap import dedent

from streammine.engine import stimuli
from streammine.engine.slice import SliceMachine
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.frames import ENDS_EPOCH, FrameHeader, FrameKind

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

    ========================  ===========================================================
    start, woken, beat        Start, Woken, Beat
    0.3 data 5                frame 3 of channel 0: a batch of epoch 5
    0.3 data 5, the last      the same, and it ends the epoch
    0.3 little 5              frame 3 of channel 0: a batch too small to be worth a run of its own
    0.3 end 5                 frame 3 of channel 0: the end of epoch 5 (or inf)
    0 credit 5                credit on channel 0
    0 resend 3                frames from 3 on are asked for
    0 announced 3             the sender's next frame has number 3
    done …                    work is done; ``closed 5``, ``due 7``, ``open 5``, ``over``,
                              ``wake``, ``finished``, ``out 0:5`` (a batch on channel 0)
    ========================  ===========================================================
    """

    def __init__(self, machine: SliceMachine) -> None:
        self.machine = machine

    def __call__(self, line: str) -> list[str]:
        return [effect_text(effect) for effect in self.machine.handle(self._stimulus(line))]

    def _stimulus(self, line: str) -> stimuli.Stimulus:
        words = line.split()
        match words:
            case ["start"]:
                return stimuli.Start()
            case ["woken"]:
                return stimuli.Woken()
            case ["beat"]:
                return stimuli.Beat()
            case ["done", *what]:
                return stimuli.WorkDone(_result(what))
            case [place, "little", epoch]:
                return replace(_frame(place, "data", number(epoch)), nbytes=1)
            case [place, ("data" | "end") as kind, epoch]:
                return _frame(place, kind, number(epoch))
            case [place, "data", epoch, "the", "last"]:
                return _frame(place, "data", number(epoch.rstrip(",")), ENDS_EPOCH)
            case [channel, "credit", epoch]:
                return stimuli.CreditArrived(int(channel), GENERATION, number(epoch))
            case [channel, "resend", sequence]:
                return stimuli.ResendAsked(int(channel), GENERATION, int(sequence))
            case [channel, "announced", sequence]:
                return stimuli.Announced(int(channel), GENERATION, int(sequence))
        raise AssertionError(f"no such line: {line}")


def _frame(place: str, kind: str, epoch: int, flags: int = 0) -> stimuli.FrameArrived:
    channel, _, sequence = place.partition(".")
    data = kind == "data"
    header = FrameHeader(
        job=1,
        channel=int(channel),
        generation=GENERATION,
        epoch=epoch,
        round=0,
        sequence=int(sequence),
        rows=1 if data else 0,
        kind=FrameKind.DATA if data else FrameKind.EPOCH_END,
        flags=flags,
        watermark=BEGINNING,
    )
    return stimuli.FrameArrived(header, "batch" if data else None, ARRIVING_BYTES if data else 0)


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
            case _:
                raise AssertionError(f"no such result: {word}")
    return stimuli.WorkResult(tuple(outputs), closed=tuple(closed), **fields)  # type: ignore[arg-type]


def frame_text(header: FrameHeader) -> str:
    """``data 3``, ``data 3, the last`` or ``end 3``."""
    epoch = epoch_text(header.epoch)
    if header.kind is FrameKind.EPOCH_END:
        return f"end {epoch}"
    return f"data {epoch}, the last" if header.ends else f"data {epoch}"


def effect_text(effect: stimuli.Effect) -> str:
    match effect:
        case stimuli.Run(work):
            return "run " + ", ".join(map(_work_text, work))
        case stimuli.SendFrame(frame):
            header = frame.header
            return f"send {header.channel}.{header.sequence} {frame_text(header)}"
        case stimuli.GrantCredit(channel, _, frontier):
            return f"credit on {channel} for {epoch_text(frontier)}"
        case stimuli.AskResend(channel, _, sequence):
            return f"ask {channel} for frames from {sequence}"
        case stimuli.Announce(channel, _, sequence):
            return f"announce on {channel}: next is {sequence}"
        case stimuli.WakeAfter(seconds):
            return f"wake after {seconds:g} s"
        case stimuli.SliceFinished():
            return "finished"


def _work_text(work: stimuli.Work) -> str:
    match work:
        case stimuli.Read(rows):
            return f"read {rows}"
        case stimuli.Accumulate(channel, _, epoch):
            return f"accumulate {epoch} from {channel}"
        case stimuli.CloseEpoch(epoch):
            return f"close {epoch}"
        case stimuli.Finish(epoch):
            return f"finish in {epoch}"
        case stimuli.Discard(channel, epoch):
            return f"discard {epoch} from {channel}"
