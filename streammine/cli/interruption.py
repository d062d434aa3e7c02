"""Ctrl-C and SIGTERM end a command in the same orderly way, with exit codes as shells expect them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

INTERRUPTED_CODE = 128 + signal.SIGINT
TERMINATED_CODE = 128 + signal.SIGTERM


class Terminated(BaseException):
    """SIGTERM came. No KeyboardInterrupt, which the command line library takes for a Ctrl-C."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM raises as Ctrl-C does, so that everything is tidied up on the way out."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
