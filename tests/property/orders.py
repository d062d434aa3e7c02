"""The order of rows, as plain Python sees it: for the references of operators that put rows in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Key = tuple[Any, ...]


def in_order(value: Any, signed: bool = False) -> Key:
    """Orders as the values do: NaN after all numbers. `signed`: -0.0 comes before 0.0."""
    if isinstance(value, float):
        if math.isnan(value):
            return (1, 0.0, 0)
        return (0, value, math.copysign(1, value) if signed and value == 0 else 0)
    return (0, value.encode() if isinstance(value, str) else value, 0)


def canonical(row: Sequence[Any]) -> Key:
    """Orders as canonical order does: column by column, null last."""
    return tuple((value is None, () if value is None else in_order(value, True)) for value in row)


def group_of(values: Sequence[Any]) -> Key:
    """Equal where keys are: -0.0 is 0.0, NaN is NaN, null is null."""
    return tuple((value is None, () if value is None else in_order(value)) for value in values)


def normal(value: Any) -> Any:
    """A value of a key as it leaves: 0.0 for -0.0."""
    return value + 0.0 if isinstance(value, float) else value
