"""Joins in plain Python: every left row with every right one, as slowly and plainly as can be.

Rows are tuples (key, time, value) of both sides, times in seconds, and come by epoch. What leaves is told by
epoch, as rows of the operator's output: ``epoch, key, ts, value, ts_right, value_right``, or the first four
where left rows leave alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from streammine.operators.windows import AlignedWindows
from tests.property.window_reference import epochs_by_window

Row = tuple[Any, ...]
Epochs = Mapping[int, tuple[Sequence[Row], Sequence[Row]]]
Output = dict[int, list[Row]]

PAIRS = ("inner", "left", "right", "full")


def same_key(left: Row, right: Row) -> bool:
    """Nulls equal nothing, NaN equals NaN, -0.0 equals 0.0."""
    one, other = left[0], right[0]
    if one is None or other is None:
        return False
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


def pair(left: Row, right: Row) -> Row:
    return (*left, *right[1:])


def alone_left(left: Row, kind: str) -> Row:
    return (*left, None, None) if kind in PAIRS else left


def alone_right(right: Row) -> Row:
    return (right[0], None, None, *right[1:])


def windowed(kind: str, epochs: Epochs, window: AlignedWindows) -> Output:
    """The join inside each window."""
    output: Output = {}
    for last, inside in epochs_by_window(epochs, window).items():
        lefts, rights = (
            [row for epoch in inside for row in epochs[epoch][port]] for port in (0, 1)
        )
        rows: list[Row] = []
        for left in lefts:
            partners = [right for right in rights if same_key(left, right)]
            rows += [pair(left, right) for right in partners if kind in PAIRS]
            if (kind == "semi" and partners) or (kind in ("left", "full", "anti") and not partners):
                rows.append(alone_left(left, kind))
        if kind in ("right", "full"):
            rows += [
                alone_right(right)
                for right in rights
                if not any(same_key(left, right) for left in lefts)
            ]
        output[last] = [(last, *row) for row in rows]
    return output


def in_interval(
    kind: str, epochs: Epochs, lowest: int, highest: int, seconds: int
) -> tuple[Output, int]:
    """The join of rows where the left time is more than the right one by `lowest` to `highest`; and how many
    rows are set aside. `seconds`: length of an epoch."""
    sides: tuple[list[tuple[int, Row]], list[tuple[int, Row]]] = ([], [])
    dead = 0
    for epoch, ports in epochs.items():
        for port in (0, 1):
            for row in ports[port]:
                if row[1] is None or row[1] < epoch * seconds:
                    dead += 1
                else:
                    sides[port].append((epoch, row))

    def partners(one: Row, others: list[tuple[int, Row]], sign: int) -> list[tuple[int, Row]]:
        return [
            (epoch, other)
            for epoch, other in others
            if same_key(one, other) and lowest <= sign * (one[1] - other[1]) <= highest
        ]

    output: Output = {}

    def leave(epoch: int, row: Row) -> None:
        output.setdefault(epoch, []).append((epoch, *row))

    def leave_alone(epoch: int, row: Row, last_time: int, shown: Row) -> None:
        leave(epoch if row[0] is None else max(epoch, last_time // seconds), shown)

    lefts, rights = sides
    for epoch, left in lefts:
        met = partners(left, rights, 1)
        if kind in PAIRS:
            for other, right in met:
                leave(max(epoch, other), pair(left, right))
        elif kind == "semi" and met:
            leave(max(epoch, min(other for other, _ in met)), left)
        if kind in ("left", "full", "anti") and not met:
            leave_alone(epoch, left, left[1] - lowest, alone_left(left, kind))
    for epoch, right in rights if kind in ("right", "full") else ():
        if not partners(right, lefts, -1):
            leave_alone(epoch, right, right[1] + highest, alone_right(right))
    return output, dead


def with_table(
    kind: str, epochs: Epochs, seconds: int, as_of: bool, timed: bool
) -> tuple[Output, int]:
    """The join with a table, whose rows are (key, time, value, gone); and how many rows are set aside.

    `as_of`: left rows meet the table as it was at their time. `timed`: inside an epoch a later time wins.
    """
    table: dict[Any, Row] = {}
    waiting: list[Row] = []
    output: Output = {}
    dead = 0
    for epoch, (lefts, changes) in epochs.items():
        usable = [row for row in changes if row[0] is not None and not (timed and row[1] is None)]
        dead += len(changes) - len(usable)
        start, end = epoch * seconds, (epoch + 1) * seconds
        # whether an epoch between had rows makes no difference to those that waited for it
        for row in sorted(waiting, key=_version):
            if row[1] < start:
                table[_hashed(row[0])] = row
        waiting = [row for row in waiting if row[1] >= start]
        due = [row for row in waiting + usable if not as_of or row[1] < end]
        waiting = [row for row in waiting + usable if as_of and row[1] >= end]
        due.sort(key=_version if timed else _content)
        after = dict(table)
        for row in due:
            after[_hashed(row[0])] = row
        rows: list[Row] = []
        for left in lefts:
            found = after.get(_hashed(left[0]))
            if as_of:
                if left[1] is None or not start <= left[1] < end:
                    dead += 1
                    continue
                held = [row for row in due if same_key(left, row) and row[1] <= left[1]]
                found = held[-1] if held else table.get(_hashed(left[0]))
            met = found is not None and left[0] is not None and not found[3]
            if met and kind in ("inner", "left"):
                assert found is not None
                rows.append((*left, *found[1:3]))
            elif (met and kind == "semi") or (not met and kind in ("left", "anti")):
                rows.append(alone_left(left, kind))
        table = after
        output[epoch] = [(epoch, *row) for row in rows]
    return output, dead


def _version(row: Row) -> Any:
    return (row[1], *_content(row))


def _content(row: Row) -> Any:
    return tuple(map(_canonical, row))


def _hashed(key: Any) -> Any:
    if isinstance(key, float):
        return "NaN" if math.isnan(key) else key + 0.0
    return key


def _canonical(value: Any) -> tuple[Any, ...]:
    """A value's place in the canonical order: null after everything, NaN after all numbers."""
    if value is None:
        return (2,)
    if isinstance(value, float):
        return (1,) if math.isnan(value) else (0, value, math.copysign(1.0, value))
    return (0, value)
