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

_LAYOUT = struct.Struct("<4sIIIIqIQIBBqq")
_MAGIC = b"SM\x03\x00"


ENDS_EPOCH = 1
"""Flag of a data frame that is the last of its epoch: it closes all epochs up to its own, too."""

CHECKPOINT = 2
"""Flag of a frame that ends an epoch: a snapshot is to be made between that epoch and the next."""


RESUMES = 4
"""Flag of a frame that is sent again: those before it that the receiver misses are kept no more, for their
epochs were processed by all that live."""


LOST = 8
"""Flag of a frame that ends an epoch: all that it closes is lost, by gap recovery somewhere upstream."""


class FrameKind(IntEnum):
    DATA = 0
    EPOCH_END = 1


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """What a receiver must know of a frame before it touches the body.

    `sender` and `receiver` are the generations of the replicas at the two ends: with the channel they name
    the *link*, and `sequence` counts the frames of one link from 0. `round` is 0 outside loops. `watermark`
    (int64 microseconds) is meaningful where `ends` only; on the end of the input (epoch INFINITY) it is the
    last epoch that held data upstream instead. `flags`: ENDS_EPOCH, CHECKPOINT, RESUMES, LOST.
    `read_at`: when the epoch's oldest row was read, as far as the sending node knows, in microseconds of the
    system clock; 0 where it does not. A measurement: nothing follows from it but what a sink tells of delays.
    """

    job: int
    channel: int
    sender: int
    receiver: int
    epoch: int
    round: int
    sequence: int
    rows: int
    kind: FrameKind
    flags: int = 0
    watermark: int = 0
    read_at: int = 0

    SIZE = _LAYOUT.size

    @property
    def ends(self) -> bool:
        """Whether the frame closes all epochs up to its own, with `watermark`."""
        return self.kind is FrameKind.EPOCH_END or bool(self.flags & ENDS_EPOCH)

    def encode(self, read_at: int = 0) -> bytes:
        """The frame's bytes, with this time of reading."""
        return _LAYOUT.pack(
            _MAGIC,
            self.job,
            self.channel,
            self.sender,
            self.receiver,
            self.epoch,
            self.round,
            self.sequence,
            self.rows,
            self.kind,
            self.flags,
            self.watermark,
            read_at or self.read_at,
        )

    @classmethod
    def decode(cls, data: bytes | memoryview) -> FrameHeader:
        """Raises ProtocolError when the bytes are no header of this version."""
        if len(data) != _LAYOUT.size:
            raise ProtocolError(f"frame header of {len(data)} bytes, expected {_LAYOUT.size}")
        magic, *fields = _LAYOUT.unpack(data)
        if magic != _MAGIC:
            raise ProtocolError(f"frame header starts with {magic!r}, expected {_MAGIC!r}")
        job, channel, sender, receiver, epoch, round_, sequence, rows, kind, *rest = fields
        try:
            known = FrameKind(kind)
        except ValueError:
            raise ProtocolError(f"frame of unknown kind {kind}") from None
        return cls(job, channel, sender, receiver, epoch, round_, sequence, rows, known, *rest)
