"""How far two events' times may lie apart: ``clicks.ts between views.ts - 5m and views.ts + 30s``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from streammine.model.durations import Duration
from streammine.model.topology.parts import LONGEST_TEXT
from streammine.model.topology.problems import shown, wrong_value

_EXAMPLE = "clicks.ts between views.ts - 5m and views.ts + 30s"
_COLUMN = r"(\w[\w-]*(?:\.\w[\w-]*)?)\.(\w+)"
_BOUND = _COLUMN + r"(?:\s*([+-])\s*([0-9.]+\s*[a-z]+))?"
_WHOLE = re.compile(rf"\s*{_COLUMN}\s+(?:between|BETWEEN)\s+{_BOUND}\s+(?:and|AND)\s+{_BOUND}\s*")


@dataclass(frozen=True)
class TimeBetween:
    """``INPUT.COLUMN between OTHER.COLUMN - DURATION and OTHER.COLUMN + DURATION``, bounds inclusive.

    `lowest` and `highest`: what the first column may be more than the other, in microseconds.
    """

    input: str
    column: str
    other: str
    other_column: str
    lowest: int
    highest: int

    @classmethod
    def parse(cls, value: object) -> TimeBetween:
        """From text, or from a TimeBetween."""
        if isinstance(value, TimeBetween):
            return value
        found = (
            _WHOLE.fullmatch(value)
            if isinstance(value, str) and len(value) <= LONGEST_TEXT
            else None
        )
        if found is None:
            raise wrong_value(
                f"must be like '{_EXAMPLE}': the time column of one input between two bounds around that "
                f"of the other, not {shown(value)}"
            )
        (
            one,
            column,
            low_input,
            low_column,
            low_sign,
            low,
            high_input,
            high_column,
            high_sign,
            high,
        ) = found.groups()
        if (low_input, low_column) != (high_input, high_column):
            raise wrong_value(
                f"both bounds lie around one column; these are {low_input}.{low_column} and "
                f"{high_input}.{high_column}"
            )
        lowest, highest = _offset(low_sign, low), _offset(high_sign, high)
        if lowest > highest:
            raise wrong_value(
                f"nothing lies between {_bound(low_input, low_column, lowest)} and "
                f"{_bound(low_input, low_column, highest)}; the earlier bound comes first"
            )
        return cls(one, column, low_input, low_column, lowest, highest)

    def __str__(self) -> str:
        low = _bound(self.other, self.other_column, self.lowest)
        high = _bound(self.other, self.other_column, self.highest)
        return f"{self.input}.{self.column} between {low} and {high}"


@dataclass(frozen=True)
class TimeDistance:
    """The time columns of a join's inputs, and what the left time may be more than the right one: at
    least `lowest` and at most `highest` microseconds, either of which may be negative."""

    left_column: str
    right_column: str
    lowest: int
    highest: int


def time_distance(between: TimeBetween, left: str, right: str) -> TimeDistance:
    """The condition, seen from a join's inputs, which it may also call ``left`` and ``right``.

    Raises ValueError, with what would be right, where it names others.
    """
    sides = {"left": "left", "right": "right"}
    if left != right:
        sides |= {left: "left", right: "right"}
    named = [sides.get(between.input), sides.get(between.other)]
    if None in named or named[0] == named[1]:
        raise ValueError(
            f"it compares {between.input}.{between.column} with {between.other}.{between.other_column}, and "
            f"the inputs are {left} (left) and {right} (right); name each of them once"
        )
    if named[0] == "left":
        return TimeDistance(between.column, between.other_column, between.lowest, between.highest)
    return TimeDistance(between.other_column, between.column, -between.highest, -between.lowest)


def _offset(sign: str | None, length: str | None) -> int:
    if sign is None or length is None:
        return 0
    microseconds = Duration.parse(length).microseconds
    return -microseconds if sign == "-" else microseconds


def _bound(name: str, column: str, offset: int) -> str:
    if offset == 0:
        return f"{name}.{column}"
    return f"{name}.{column} {'-' if offset < 0 else '+'} {Duration(abs(offset))}"


TimeBetweenField = Annotated[
    TimeBetween,
    PlainValidator(TimeBetween.parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^.+\..+ (between|BETWEEN) .+ (and|AND) .+$"}),
]
