"""Proves the exceptions right: looks at every order and payment in plain Python, and compares.

``python -m apps.equijoin.check_exceptions [--input FOLDER] [--output FOLDER]``, for the folder of orders.csv
and payments.csv and the output that ``exceptions.yaml`` was run with.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from pathlib import Path

import streammine

FOLDER = Path(__file__).parent
SECONDS = 60
"""As in the topology."""

Exceptions = Counter[tuple[int, int, str, int]]
"""How often there is each (second, order, what, cents)."""


def rows_of(path: Path) -> list[tuple[int, ...]]:
    with open(path, newline="") as file:
        return [tuple(map(int, row)) for row in list(csv.reader(file))[1:]]


def exceptions(folder: Path) -> Exceptions:
    """Each order with all payments, and each payment with all orders."""
    orders, payments = rows_of(folder / "orders.csv"), rows_of(folder / "payments.csv")
    ordered = {order: ts for ts, order, _ in orders}
    in_time = [
        order in ordered and 0 <= ts - ordered[order] <= SECONDS for ts, order, _ in payments
    ]
    paid = {order for (_, order, _), good in zip(payments, in_time, strict=True) if good}
    found = Exceptions(
        (ts, order, "unpaid", cents) for ts, order, cents in orders if order not in paid
    )
    found.update(
        (ts, order, "belated", cents)
        for (ts, order, cents), good in zip(payments, in_time, strict=True)
        if not good
    )
    return found


def committed(folder: str) -> Exceptions:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    found: Exceptions = Counter()
    for _, table in streammine.read_output(folder):
        found.update(
            (row["ts"], row["order"], row["what"], row["cents"]) for row in table.to_pylist()
        )
    return found


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare exceptions with those of plain Python.")
    parser.add_argument("--input", type=Path, default=FOLDER / "data", metavar="FOLDER")
    parser.add_argument("--output", default=str(FOLDER / "out-exceptions"), metavar="FOLDER")
    arguments = parser.parse_args()
    expected = exceptions(arguments.input)
    try:
        found = committed(arguments.output)
    except streammine.OutputError as error:
        print(error, file=sys.stderr)
        return 1
    for what in ("unpaid", "belated"):
        print(f"{what:9} {sum(count for row, count in found.items() if row[2] == what):,}")
    if found == expected:
        print("equal     yes: every row is that of plain Python")
        return 0
    print(
        f"equal     NO: {min({*found.items()} ^ {*expected.items()})[0]} is the first that differs"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
