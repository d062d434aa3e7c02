"""Decompressed bytes of a stream, up to the very byte where a damaged one breaks off."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from streammine.model.formats import ByteStream
from streammine.model.locations import without_options

COMPRESSION_SUFFIXES = (".gz", ".zst", ".bz2")
_RAW_READ_BYTES = 2**20
_STARTS = {
    b"\x1f\x8b\x08": (".gz", "gzip"),
    b"\x28\xb5\x2f\xfd": (".zst", "zstd"),
    **{b"BZh%d1AY&SY" % level: (".bz2", "bzip2") for level in range(1, 10)},
}
"""What compressed files start with (RFC 1952, RFC 8878, bzip2's magic numbers): none of it begins a text."""
LONGEST_START_BYTES = max(map(len, _STARTS))


class _Member(Protocol):
    """One gzip member or bzip2 stream; a file may hold several, one after the other."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _GzipMember:
    """zlib's decompressor with the interface that bz2's has."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _MemberStream:
    """The members of a compressed stream as one stream of bytes.

    `read` raises EOFError when the last member is not complete, and what the decompressor raises
    for damaged bytes, but only after everything before the damage was handed out.
    """

    def __init__(self, raw: ByteStream, member: Callable[[], _Member]) -> None:
        self._raw = raw
        self._make_member = member
        self._member: _Member | None = None
        self._input = b""
        self._raw_over = False

    def read(self, size: int, /) -> bytes:
        while True:
            self._refill()
            if self._member is None:
                if not self._input:
                    return b""
                self._member = self._make_member()
            given, self._input = self._input, b""
            output = self._member.decompress(given, size)
            if self._member.eof:
                # Some writers fill the last block up with zeros.
                self._input = self._member.unused_data.lstrip(b"\0")
                self._member = None
            elif not output and self._raw_over:
                raise EOFError("the compressed file ends before its end mark")
            if output:
                return output

    def _refill(self) -> None:
        wants = self._member is None or self._member.needs_input
        while wants and not self._input and not self._raw_over:
            data = bytes(self._raw.read(_RAW_READ_BYTES))
            self._raw_over = not data
            self._input = data if self._member is not None else data.lstrip(b"\0")


def has_compression_suffix(path: str) -> bool:
    return without_options(path)[0].lower().endswith(COMPRESSION_SUFFIXES)


def compression_of(start: bytes) -> tuple[str, str] | None:
    """(suffix, program) of compressed bytes that begin so; None: they are not compressed."""
    return next((found for mark, found in _STARTS.items() if start.startswith(mark)), None)


def decompressed(raw: pa.NativeFile, path: str) -> ByteStream:
    """The stream's bytes, decompressed as the path's suffix says (.gz, .zst, .bz2)."""
    name = without_options(path)[0].lower()
    if name.endswith(".gz"):
        return _MemberStream(raw, _GzipMember)
    if name.endswith(".bz2"):
        return _MemberStream(raw, bz2.BZ2Decompressor)
    if name.endswith(".zst"):
        stream: ByteStream = pa.CompressedInputStream(raw, "zstd")
        return stream
    return raw  # type: ignore[no-any-return]
