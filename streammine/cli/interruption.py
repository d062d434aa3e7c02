"""Ctrl-C and SIGTERM end a command in the same orderly way, with exit codes as shells expect them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

INTERRUPTED_CODE = 128 + signal.SIGINT
TERMINATED_CODE = 128 + signal.SIGTERM


_came: list[int] = []


class Terminated(BaseException):
    """SIGTERM came. No KeyboardInterrupt, which the command line library takes for a Ctrl-C."""


def first_interruption() -> int | None:
    """The signal that first interrupted this process, if one has.

    It raises wherever the process is at that moment; a library may make an error of its own of it.
    """
    return _came[0] if _came else None


def require_uninterrupted() -> None:
    """Raise once more what the first interruption raised, if there was one.

    Python drops what is raised while it finalizes an object or calls back from a library, so a command that
    goes on for long asks now and then.
    """
    number = first_interruption()
    if number is not None:
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def note_interruptions() -> None:
    """Have Ctrl-C noted before it raises, unless it is ignored."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        _came.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM raises as Ctrl-C does, so that everything is tidied up on the way out."""

    def terminate(number: int, frame: FrameType | None) -> None:
        _came.append(number)
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
