"""What a person is told when user code fails, and the dead letters of events it failed on."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from streammine.model.contracts import DeadRows
from streammine.model.errors import UserCodeError
from streammine.operators.api import Context, UserCode

_OWN_FOLDER = str(Path(__file__).parents[1])
_FRAMES = 4
_EVENT_CHARACTERS = 400
_VALUE_CHARACTERS = 120
_REASON_CHARACTERS = 400
_ERROR_CHARACTERS = 4_000


def shortened(text: str, characters: int) -> str:
    """The text, cut in the end when it is longer than that, and with nothing UTF-8 can't hold."""
    if len(text) > characters:
        text = f"{text[:characters]}… ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()


def event_text(event: Any) -> str:
    """An event's columns and values as text, long ones cut."""
    names = getattr(event, "_fields", None)
    if names is None:
        return shortened(repr(event), _EVENT_CHARACTERS)
    values = [
        f"{name}={shortened(repr(value), _VALUE_CHARACTERS)}"
        for name, value in zip(names, event, strict=True)
    ]
    return shortened(", ".join(values), _EVENT_CHARACTERS)


def user_frames(error: BaseException) -> str:
    """The last frames of the user's code, one per two lines, or nothing when there are none."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_OWN_FOLDER)
    ]
    lines = [
        f'\n    File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        + (f"\n      {frame.line}" if frame.line else "")
        for frame in frames[-_FRAMES:]
    ]
    return "".join(lines)


class Failures:
    """Makes the errors of one operator; with `dead_letter` it collects failed events instead."""

    def __init__(self, code: UserCode, context: Context, dead_letter: bool) -> None:
        self._class_name = type(code).__name__
        self._context = context
        self.dead_letter = dead_letter
        self.dead = DeadLetters()

    def raised(self, method: str, error: Exception, content: str, hint: str = "") -> UserCodeError:
        """The error for an exception out of a user's method; `content` tells the event or key."""
        what = f"{self._class_name}.{method} raised {_named(error)}{hint}"
        return UserCodeError(f"{self._place()}: {what}\n  {content}{user_frames(error)}")

    def wrong(self, method: str, message: str, content: str) -> UserCodeError:
        """The error for a result that a user's method may not return."""
        return UserCodeError(f"{self._place()}: {self._class_name}.{method} {message}\n  {content}")

    def event_raised(
        self,
        method: str,
        error: Exception,
        event: Any,
        hint: str = "",
        dead: DeadLetters | None = None,
    ) -> None:
        """An event failed: raises UserCodeError, or keeps the event as a dead letter."""
        if not self.dead_letter:
            raise self.raised(method, error, f"event: {event_text(event)}", hint) from error
        letters = self.dead if dead is None else dead
        letters.add(f"{self._class_name}.{method} raised {_named(error)}", event_text(event))

    def event_wrong(
        self, method: str, message: str, event: Any, dead: DeadLetters | None = None
    ) -> None:
        """An event's result is wrong: raises UserCodeError, or keeps the event as a dead letter."""
        if not self.dead_letter:
            raise self.wrong(method, message, f"event: {event_text(event)}")
        letters = self.dead if dead is None else dead
        letters.add(f"{self._class_name}.{method} {message}", event_text(event))

    def _place(self) -> str:
        slice_index, epoch = self._context.place
        parts = [f"operator '{self._context.operator}'"]
        if slice_index is not None:
            parts.append(f"slice {slice_index}")
        if epoch is not None:
            parts.append(f"epoch {epoch}")
        return ", ".join(parts)


def _named(error: Exception) -> str:
    text = shortened(str(error), _ERROR_CHARACTERS)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class DeadLetters:
    """Events that user code failed on, with reasons, until they are taken."""

    def __init__(self) -> None:
        self._reasons: list[str] = []
        self._texts: list[str] = []

    def add(self, reason: str, text: str) -> None:
        self._reasons.append(shortened(reason, _REASON_CHARACTERS))
        self._texts.append(text)

    def absorb(self, other: DeadLetters) -> None:
        """Take over the letters of another collection."""
        self._reasons += other._reasons
        self._texts += other._texts

    def take(self) -> DeadRows | None:
        """What was collected since the last call, or None."""
        if not self._texts:
            return None
        nothing = (None,) * len(self._texts)
        taken = DeadRows(tuple(self._reasons), tuple(self._texts), nothing, nothing)
        self._reasons, self._texts = [], []
        return taken
