"""Slices with one vertex's channels, played from transcripts."""

from __future__ import annotations

from streammine.engine.input_channel import InputChannel
from streammine.engine.output_channel import OutputChannel
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import RETAINED_BYTES_IN_MEMORY, RestoredTo, SliceSettings
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.ids import SliceId
from streammine.model.snapshots import SnapshotMode
from tests.unit.transcripts import SlicePlayer, played, tidy

EPOCH = EpochDefinition("count", 100)


def operator(
    inputs: int = 2,
    outputs: int = 1,
    budget: int = 1000,
    generation: int = 1,
    mode: SnapshotMode = "none",
    restored: RestoredTo | None = None,
    retained_bytes: int = RETAINED_BYTES_IN_MEMORY,
    window_epochs: int = 1,
) -> SlicePlayer:
    """Channels 0 … come in, channels 8 … go out. A replica of the first generation begins the job with
    its peers, so its links stand; any other has to make them."""
    peers = (1,) if generation == 1 and restored is None else ()
    begin = BEGINNING if restored is None else restored.epoch
    done = begin
    if restored is not None:
        done = INFINITY if restored.finished else max(begin, restored.left_out_until)
    return SlicePlayer(
        SliceMachine(
            SliceId("counts", 0),
            generation,
            tuple(InputChannel(each, 0, generation, peers, done) for each in range(inputs)),
            tuple(
                OutputChannel(1, 8 + each, generation, budget, peers, begin, mode != "none")
                for each in range(outputs)
            ),
            SliceSettings(
                EPOCH, 64, mode, retained_bytes=retained_bytes, window_epochs=window_epochs
            ),
            restored,
        )
    )


def source(
    outputs: int = 1,
    budget: int = 1000,
    generation: int = 1,
    mode: SnapshotMode = "none",
    restored: RestoredTo | None = None,
    retained_bytes: int = RETAINED_BYTES_IN_MEMORY,
) -> SlicePlayer:
    return operator(0, outputs, budget, generation, mode, restored, retained_bytes)


def check(player: SlicePlayer, script: str) -> None:
    text, expected = played(script, player), tidy(script)
    assert text == expected, f"the machine did\n{text}\nand not\n{expected}"
