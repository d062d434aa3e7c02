"""The header of a frame: what is written is read, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import ProtocolError
from streammine.model.frames import CHECKPOINT, ENDS_EPOCH, FrameHeader, FrameKind

UINT32 = st.integers(0, 2**32 - 1)
INT64 = st.integers(BEGINNING, INFINITY)
HEADERS = st.builds(
    FrameHeader,
    job=UINT32,
    channel=UINT32,
    sender=UINT32,
    receiver=UINT32,
    epoch=INT64,
    round=UINT32,
    sequence=st.integers(0, 2**64 - 1),
    rows=UINT32,
    kind=st.sampled_from(FrameKind),
    flags=st.sampled_from([0, ENDS_EPOCH, CHECKPOINT, ENDS_EPOCH | CHECKPOINT]),
    watermark=INT64,
)
HEADER = FrameHeader(1, 2, 3, 4, -5, 0, 6, 7, FrameKind.DATA)


@settings(deadline=None)
@given(HEADERS)
def test_what_is_written_is_read(header: FrameHeader) -> None:
    data = header.encode()
    assert len(data) == FrameHeader.SIZE
    assert FrameHeader.decode(data) == header
    assert FrameHeader.decode(memoryview(data)) == header


@pytest.mark.parametrize(
    ("kind", "flags", "ends"),
    [
        (FrameKind.DATA, 0, False),
        (FrameKind.DATA, ENDS_EPOCH, True),
        (FrameKind.DATA, ENDS_EPOCH | CHECKPOINT, True),
        (FrameKind.EPOCH_END, 0, True),
        (FrameKind.EPOCH_END, CHECKPOINT, True),
    ],
)
def test_a_frame_ends_its_epoch_by_its_kind_or_by_a_flag(
    kind: FrameKind, flags: int, ends: bool
) -> None:
    assert FrameHeader(1, 2, 3, 4, 5, 0, 6, 7, kind, flags).ends is ends


@pytest.mark.parametrize("length", [0, 1, FrameHeader.SIZE - 1, FrameHeader.SIZE + 1])
def test_a_header_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"frame header of {length} bytes"):
        FrameHeader.decode(bytes(length))


def test_a_header_of_another_version_or_kind_is_refused() -> None:
    data = bytearray(HEADER.encode())
    with pytest.raises(ProtocolError, match="starts with"):
        FrameHeader.decode(b"SM\x01\x00" + data[4:])
    other = replace(HEADER, kind=FrameKind.EPOCH_END).encode()
    (place,) = [at for at in range(FrameHeader.SIZE) if data[at] != other[at]]
    data[place] = 9
    with pytest.raises(ProtocolError, match="unknown kind 9"):
        FrameHeader.decode(bytes(data))
