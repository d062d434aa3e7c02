"""Slices of a loop, played from transcripts: a member, or a slice of the head.

As in tests/unit/transcripts.py, but ``5/2`` is the stamp (5, 2) and ``5/f`` the final one of epoch 5; an end
``says`` a total or a next epoch. Channel 0 enters from outside, 1 comes from inside the loop (to a
head: back); 8 goes on inside, 9 leads back, 10 leaves the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from streammine.engine import stimuli
from streammine.engine.input_channel import InputChannel
from streammine.engine.loop_slice import LoopHeadSlice, LoopSlice
from streammine.engine.output_channel import OutputChannel
from streammine.engine.slice_settings import LoopPlace, RestoredTo, SliceSettings
from streammine.model.contracts import Carried
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.ids import SliceId
from streammine.model.job import EdgeKind
from streammine.model.stamps import covered, epoch_of, final, is_final, round_of, stamp
from tests.unit.transcripts import SlicePlayer, effect_text, played, tidy

ROWS = pa.record_batch({"x": [1]})


def _number(found: re.Match[str]) -> str:
    epoch = int(found[1])
    return str(final(epoch) if found[2] == "f" else stamp(epoch, int(found[2])))


def _stamp(found: re.Match[str]) -> str:
    at = int(found[0])
    return f"{epoch_of(at)}/{'f' if is_final(at) else round_of(at)}"


class LoopPlayer(SlicePlayer):
    def __call__(self, line: str) -> list[str]:
        return list(self._texts(self.effects(line)))

    def effects(self, line: str) -> list[stimuli.Effect]:
        line, _, said = re.sub(r"(\d+)/(\d+|f)", _number, line).partition(" says ")
        stimulus = self._stimulus(line)
        if isinstance(stimulus, stimuli.FrameArrived) and said:
            watermark = INFINITY if said == "inf" else int(said)
            header = replace(stimulus.header, watermark=watermark)
            stimulus = replace(stimulus, header=header)
        return self.machine.handle(stimulus)

    @staticmethod
    def _texts(effects: Iterable[stimuli.Effect]) -> Iterable[str]:
        for effect in effects:
            text = re.sub(r"\d{6,}", _stamp, effect_text(effect))
            if isinstance(effect, stimuli.SendFrame) and effect.frame.header.ends:
                header = effect.frame.header
                if header.channel in (8, 9) and header.epoch != INFINITY:
                    said = "inf" if header.watermark == INFINITY else header.watermark
                    text += f" says {said}"
            yield text


def player(
    head: bool,
    max_rounds: int = 10,
    restored: RestoredTo | None = None,
    outer: bool = True,
    kinds: dict[int, EdgeKind] | None = None,
) -> LoopPlayer:
    """`outer`: it has an entry of its own. `kinds`: of its channels in, where they are others."""
    if kinds is None:
        kinds = {1: "back" if head else "inside"}
        if outer:
            kinds[0] = "entry"
    outputs: dict[int, EdgeKind] = {8: "inside", 10: "exit"} if head else {9: "back", 10: "exit"}
    peers = (1,) if restored is None else ()
    begin = BEGINNING if restored is None else restored.epoch
    done = INFINITY if restored is not None and restored.finished else begin
    build = LoopHeadSlice if head else LoopSlice
    return LoopPlayer(
        build(
            SliceId("member", 0),
            1 if restored is None else 2,
            tuple(
                InputChannel(
                    number, 0, 1 if restored is None else 2, peers, covered(kinds[number], done)
                )
                for number in sorted(kinds)
            ),
            tuple(
                OutputChannel(
                    1,
                    number,
                    1 if restored is None else 2,
                    1000,
                    (1,),
                    covered(kind, begin),
                    True,
                )
                for number, kind in outputs.items()
            ),
            SliceSettings(EpochDefinition("count", 100), 64, "asynchronous"),
            LoopPlace({**kinds, **outputs}, False, max_rounds),
            restored,
        )
    )


def check(machine: LoopPlayer, script: str) -> None:
    text, expected = played(script, machine), tidy(script)
    assert text == expected, f"the machine did\n{text}\nand not\n{expected}"


def after(epoch: int, next_epoch: int | None = None, rows: int = 0) -> RestoredTo:
    carried = None if next_epoch is None else Carried(next_epoch, ((0, ROWS),) * rows)
    return RestoredTo(epoch, epoch, carried=carried)
