"""Reading and writing long files past the page cache.

Snapshots are written once and read back once, to be verified, and the segments of ingest logs are hardly
ever read. A page cache in between takes memory that somebody else could use, costs about as much of the
processor as the encoding, and shows a reader what was meant to be on the disk instead of what is there. Not
every file system can do without one (tmpfs can't); what is left over is for the caller to read or write in
the usual way, from where the file stands.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Callable

DIRECT_BYTES = 1 << 20
"""From this length on it is worth it, and so much goes at once."""

_BLOCK_BYTES = 4096
_FLAG = getattr(os, "O_DIRECT", 0)
_memory = threading.local()


def write_directly(descriptor: int, data: memoryview) -> memoryview:
    """Write bytes from the file's start on; returns those that are still to be written. Raises OSError."""

    def write(staging: memoryview, block: memoryview) -> int:
        staging[:] = block
        return os.write(descriptor, staging)

    return _directly(descriptor, data, write)


def read_directly(descriptor: int, into: memoryview) -> memoryview:
    """Fill `into` from the file's start on; returns the part that is still to be filled. Raises OSError."""

    def read(staging: memoryview, block: memoryview) -> int:
        count = os.readv(descriptor, [staging])
        block[:count] = staging[:count]
        return count

    return _directly(descriptor, into, read)


def _directly(
    descriptor: int, rest: memoryview, move: Callable[[memoryview, memoryview], int]
) -> memoryview:
    """What is left when `move`, given staging memory and as much of `rest`, has moved what it can."""
    if not _direct(descriptor, on=True):
        return rest
    staging = _staging()
    try:
        while len(rest) >= _BLOCK_BYTES:
            count = min(len(rest), DIRECT_BYTES) // _BLOCK_BYTES * _BLOCK_BYTES
            moved = move(staging[:count], rest[:count])
            rest = rest[moved:]
            if moved < count:
                # nothing behind it is aligned
                break
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        _direct(descriptor, on=False)
    return rest


def _staging() -> memoryview:
    """This thread's memory for it: on a page's boundary, as the kernel wants it."""
    if not hasattr(_memory, "staging"):
        _memory.staging = memoryview(mmap.mmap(-1, DIRECT_BYTES))
    staging: memoryview = _memory.staging
    return staging


def _direct(descriptor: int, *, on: bool) -> bool:
    """Whether that could be set."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | _FLAG if on else flags & ~_FLAG)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return bool(_FLAG)
