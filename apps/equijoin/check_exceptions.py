"""Proves the exceptions right: looks at every order and payment in plain Python, and compares.

``python -m apps.equijoin.check_exceptions [--orders GLOB] [--payments GLOB] [--output FOLDER]``, for the
orders, the payments and the output that ``exceptions.yaml`` was run with. Nothing here is the engine's but
the reading of its committed output. Decisions are those of the package.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from apps import reading
from apps.equijoin.check import FOLDER, SECONDS, Event, add_arguments, compared, events_of

Exceptions = Counter[tuple[int, int | None, str, int | None]]
"""How often there is each (second, order, what, cents)."""


def exceptions(orders: Sequence[Event], payments: Sequence[Event]) -> Exceptions:
    """Each order with the payments for it, and each payment with the orders that it is for."""
    ordered_at, paid_at = times(orders), times(payments)
    found: Exceptions = Counter()
    for ts, order, cents in orders:
        if not any(0 <= paid - ts <= SECONDS for paid in paid_at.get(order, [])):
            found[ts, order, "unpaid", cents] += 1
    for ts, order, paid in payments:
        if not any(0 <= ts - ordered <= SECONDS for ordered in ordered_at.get(order, [])):
            found[ts, order, "belated", paid] += 1
    return found


def times(events: Sequence[Event]) -> dict[int | None, list[int]]:
    """When there was something of each order; what has no number is of none."""
    found: dict[int | None, list[int]] = defaultdict(list)
    for ts, order, _ in events:
        if order is not None:
            found[order].append(ts)
    return found


def committed(folder: str | Path) -> Exceptions:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    found: Exceptions = Counter()
    for _, rows in reading.committed(folder, ("ts", "order", "what", "cents")):
        found.update((ts, order, what, cents) for ts, order, what, cents in rows)
    return found


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare exceptions with those of plain Python.")
    add_arguments(parser)
    parser.add_argument("--output", type=Path, default=FOLDER / "out-exceptions", metavar="FOLDER")
    arguments = parser.parse_args()
    found = committed(arguments.output)
    orders = list(events_of(arguments.orders, "cents"))
    expected = exceptions(orders, list(events_of(arguments.payments, "paid")))
    for what in ("unpaid", "belated"):
        print(f"{what:9} {sum(count for row, count in found.items() if row[2] == what):,}")
    return compared(found, expected, "row")


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
