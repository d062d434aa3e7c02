"""Proves the pairs right: looks at every order with every payment in plain Python, and compares.

``python -m apps.equijoin.check [--orders GLOB] [--payments GLOB] [--output FOLDER]``, for the orders, the
payments and the output that ``topology.yaml`` was run with. Nothing here is the engine's but the reading of
its committed output. Decisions are those of the package.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import streammine
from apps import reading

FOLDER = Path(__file__).parent
SECONDS = 60
"""As in the topologies."""

Event = tuple[int, int | None, int | None]
"""Second, order, cents."""

Row = TypeVar("Row")

Pairs = Counter[tuple[int | None, ...]]
"""How often there is each (minute, order, cents, paid, seconds)."""


def events_of(pattern: str | Path, cents: str) -> Iterator[Event]:
    """The orders or payments of all files that count, without late ones. `cents`: their column's name."""
    for path in reading.paths(pattern):
        records = reading.named_records(path, ("ts", "order", cents))
        parsed = filter(None, map(_event, records))
        yield from reading.in_time(parsed, lambda event: event[0], SECONDS)


def _event(record: list[reading.Value] | None) -> Event | None:
    if record is None:
        return None
    try:
        ts, order, cents = map(reading.whole_number, record)
    except ValueError:
        return None
    return None if ts is None else (ts, order, cents)


def pairs(orders: Iterable[Event], payments: Iterable[Event]) -> Pairs:
    """Each order with each payment of its minute and number."""
    ordered: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in orders:
        ts, order, _ = event
        if order is not None:
            ordered[ts // SECONDS, order].append(event)
    found: Pairs = Counter()
    for ts, order, paid in payments:
        if order is not None:
            for ordered_at, _, cents in ordered.get((ts // SECONDS, order), []):
                found[ts // SECONDS, order, cents, paid, ts - ordered_at] += 1
    return found


def committed(folder: str | Path) -> Pairs:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    found: Pairs = Counter()
    columns = ("minute", "order", "cents", "paid", "seconds")
    for epoch, rows in reading.committed(folder, columns):
        if any(row[0] != epoch for row in rows):
            raise streammine.OutputError(f"{folder}: a row of another minute is in epoch {epoch}")
        found.update(rows)
    return found


def compared(found: Counter[Row], expected: Counter[Row], what: str) -> int:
    """Tell whether both are equal: 0 or 1, for the command to return."""
    if found == expected:
        print(f"equal     yes: every {what} is that of plain Python")
        return 0
    row, _ = min(found.items() ^ expected.items(), key=repr)
    print(f"equal     NO: {row} is there {found[row]} times instead of {expected[row]}")
    return 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those that tell which orders and payments."""
    for name in ("orders", "payments"):
        default = FOLDER / "data" / f"{name}.csv"
        parser.add_argument(f"--{name}", default=str(default), metavar="GLOB")


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare paid orders with those of plain Python.")
    add_arguments(parser)
    parser.add_argument("--output", type=Path, default=FOLDER / "out", metavar="FOLDER")
    arguments = parser.parse_args()
    found = committed(arguments.output)
    orders = events_of(arguments.orders, "cents")
    expected = pairs(orders, events_of(arguments.payments, "paid"))
    print(f"minutes   {len({row[0] for row in found}):,}")
    print(f"pairs     {found.total():,}")
    return compared(found, expected, "pair")


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
