"""The data plane's wire format: one fixed header frame, then the Arrow body (DESIGN §4).

The body of a DATA frame is the Arrow IPC record-batch message without its schema, which both ends
know from the plan. An EPOCH_END has no body; it closes all epochs up to its own. Where an epoch's end
directly follows its data, the last data frame carries it as a flag, which saves a frame.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from streammine.model.errors import ProtocolError

_LAYOUT = struct.Struct("<4sIIIqIQIBBq")
_MAGIC = b"SM\x01\x00"


ENDS_EPOCH = 1
"""Flag of a data frame that is the last of its epoch: it closes all epochs up to its own, too."""


class FrameKind(IntEnum):
    DATA = 0
    EPOCH_END = 1


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """What a receiver must know of a frame before it touches the body.

    `sequence` counts the frames of one channel within one generation, from 0. `round` is 0 outside
    loops. `watermark` (int64 microseconds) is meaningful where `ends` only; on the end of the input (epoch
    INFINITY) it is the last epoch that held data upstream instead. `flags`: ENDS_EPOCH.
    """

    job: int
    channel: int
    generation: int
    epoch: int
    round: int
    sequence: int
    rows: int
    kind: FrameKind
    flags: int = 0
    watermark: int = 0

    SIZE = _LAYOUT.size

    @property
    def ends(self) -> bool:
        """Whether the frame closes all epochs up to its own, with `watermark`."""
        return self.kind is FrameKind.EPOCH_END or bool(self.flags & ENDS_EPOCH)

    def encode(self) -> bytes:
        return _LAYOUT.pack(
            _MAGIC,
            self.job,
            self.channel,
            self.generation,
            self.epoch,
            self.round,
            self.sequence,
            self.rows,
            self.kind,
            self.flags,
            self.watermark,
        )

    @classmethod
    def decode(cls, data: bytes | memoryview) -> FrameHeader:
        """Raises ProtocolError when the bytes are no header of this version."""
        if len(data) != _LAYOUT.size:
            raise ProtocolError(f"frame header of {len(data)} bytes, expected {_LAYOUT.size}")
        magic, *fields = _LAYOUT.unpack(data)
        if magic != _MAGIC:
            raise ProtocolError(f"frame header starts with {magic!r}, expected {_MAGIC!r}")
        job, channel, generation, epoch, round_, sequence, rows, kind, flags, watermark = fields
        try:
            known = FrameKind(kind)
        except ValueError:
            raise ProtocolError(f"frame of unknown kind {kind}") from None
        return cls(job, channel, generation, epoch, round_, sequence, rows, known, flags, watermark)
