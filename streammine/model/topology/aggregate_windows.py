"""The windows that an aggregate can have, and those that joins and rankings can, as a topology says them.

====================================  ==================================================================
``5m``, ``10 epochs``                 tumbling: one window behind the other
``{length: 10m, slide: 1s}``          sliding: a window of this length begins with every slide
``{session: 30s}``                    session: per key, rows that lie less than the gap apart
``global``                            all rows; leaves when the input is over
====================================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from streammine.model.durations import Duration, Interval
from streammine.model.suggestions import hint
from streammine.model.topology.problems import wrong_key, wrong_value


@dataclass(frozen=True)
class Tumbling:
    """Windows of this length, one behind the other."""

    length: Interval

    def __str__(self) -> str:
        return str(self.length)


@dataclass(frozen=True)
class Sliding:
    """A window of this length begins with every slide, which is no longer."""

    length: Interval
    slide: Interval

    def __str__(self) -> str:
        return f"{{length: {self.length}, slide: {self.slide}}}"


@dataclass(frozen=True)
class Session:
    """Per key, rows that lie less than the gap apart."""

    gap: Duration

    def __str__(self) -> str:
        return f"{{session: {self.gap}}}"


@dataclass(frozen=True)
class Global:
    """All rows of the input."""

    def __str__(self) -> str:
        return "global"


AggregateWindow = Tumbling | Sliding | Session | Global
RowWindow = Tumbling | Sliding
"""What joins and rankings can have: windows of the same epochs for all keys."""

_FIELDS = ("length", "slide", "session")
_CHOICE = "5m, 10 epochs, {length: 10m, slide: 1s}, {session: 30s} or global"
_TUMBLING_CHOICE = "5m or 10 epochs"
_ROW_CHOICE = "5m, 10 epochs or {length: 10m, slide: 1s}"


def parsed_row_window(value: object) -> RowWindow:
    """From a length, or a length and a slide. Raises a wrong-value error, or ValueError."""
    if value == "global" or (isinstance(value, Mapping) and "session" in value):
        raise wrong_value(
            f"sessions and global windows are those of an aggregate; here a window is {_ROW_CHOICE}"
        )
    window = parsed_window(value, _ROW_CHOICE)
    assert isinstance(window, Tumbling | Sliding), window
    return window


def parsed_tumbling(value: object) -> Tumbling:
    """From a length. Raises a wrong-value error, or ValueError."""
    if value == "global" or isinstance(value, Mapping | Sliding | Session | Global):
        raise wrong_value(
            f"it takes tumbling windows only, by their length: {_TUMBLING_CHOICE}. Windows that slide are "
            "those of an aggregate, a join, a top and a rank, sessions and global ones those of an aggregate"
        )
    window = parsed_window(value, _TUMBLING_CHOICE)
    assert isinstance(window, Tumbling), window
    return window


def parsed_window(value: object, choice: str = _CHOICE) -> AggregateWindow:
    """From any of the forms above, or a timedelta; `choice` shows those that are right. Raises a wrong-value
    error, or ValueError."""
    if isinstance(value, Tumbling | Sliding | Session | Global):
        return value
    if value == "global":
        return Global()
    if isinstance(value, Mapping):
        return _parsed_mapping({str(name): each for name, each in value.items()}, choice)
    if isinstance(value, Duration):
        value = Interval(value)
    try:
        return Tumbling(Interval.parse(value))
    except ValueError as error:
        raise ValueError(f"{error}. A window is {choice}") from None


def _parsed_mapping(fields: Mapping[str, object], choice: str) -> AggregateWindow:
    for name in fields:
        if name not in _FIELDS:
            raise wrong_key(f"unknown field '{name}'{hint(name, _FIELDS)} A window is {choice}")
    if "session" in fields:
        if len(fields) > 1:
            raise wrong_value(
                "a session ends when its key is silent for the gap, it has no length or slide; write "
                "{session: 30s}"
            )
        gap = Duration.parse(fields["session"])
        if gap.microseconds == 0:
            raise wrong_value("a session's gap is more than 0s, like {session: 30s}")
        return Session(gap)
    if "length" not in fields:
        raise wrong_value(f"a window that slides needs a length: {choice}")
    length = Interval.parse(fields["length"])
    if "slide" not in fields:
        return Tumbling(length)
    slide = Interval.parse(fields["slide"])
    if (length.epochs is None) != (slide.epochs is None):
        raise wrong_value(
            f"the length is {length} and the slide {slide}; give both as time or both in epochs"
        )
    if _amount(slide) > _amount(length):
        raise wrong_value(
            f"the slide, {slide}, is longer than the window, {length}, so that rows between two windows "
            "would be in none; write a slide of at most the length"
        )
    return Sliding(length, slide)


def _amount(interval: Interval) -> int:
    return interval.epochs or (interval.duration.microseconds if interval.duration else 0)


def document_form(window: AggregateWindow) -> Any:
    """The form in which a document says it."""
    if isinstance(window, Sliding):
        return {"length": str(window.length), "slide": str(window.slide)}
    return {"session": str(window.gap)} if isinstance(window, Session) else str(window)


_INTERVAL_SCHEMA = {
    "type": "string",
    "pattern": r"^([0-9]+(\.[0-9]+)?\s*(us|ms|s|m|h|d)|[0-9]+\s*epochs?)$",
}

_SLIDING_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["length"],
    "properties": {"length": _INTERVAL_SCHEMA, "slide": _INTERVAL_SCHEMA},
}

TumblingField = Annotated[
    Tumbling,
    PlainValidator(parsed_tumbling),
    PlainSerializer(document_form),
    WithJsonSchema(_INTERVAL_SCHEMA),
]

RowWindowField = Annotated[
    RowWindow,
    PlainValidator(parsed_row_window),
    PlainSerializer(document_form),
    WithJsonSchema({"anyOf": [_INTERVAL_SCHEMA, _SLIDING_SCHEMA]}),
]

AggregateWindowField = Annotated[
    AggregateWindow,
    PlainValidator(parsed_window),
    PlainSerializer(document_form),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["global"]},
                _INTERVAL_SCHEMA,
                _SLIDING_SCHEMA,
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["session"],
                    "properties": {
                        "session": {
                            "type": "string",
                            "pattern": r"^[0-9]+(\.[0-9]+)?\s*(us|ms|s|m|h|d)$",
                        }
                    },
                },
            ]
        }
    ),
]
