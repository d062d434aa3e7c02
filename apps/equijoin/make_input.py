"""Writes the small input of the join: an hour of orders, and the payments for most of them.

The same call writes the same bytes everywhere: ``python -m apps.equijoin.make_input [FOLDER]``.
Both files are in the order of their times, so the topology reads them directly.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "data"
ORDERS = 3_600
START = 1_700_000_040
"""A whole minute, in seconds of the Unix epoch."""
SECONDS = 3_600
SEED = 2015


def orders_and_payments(seed: int = SEED) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Orders (ts, order, cents) and payments (ts, order, paid), each in the order of time.

    One order in ten is never paid, one in ten in two parts; payments come up to 90 s later.
    """
    chance = random.Random(seed)

    def below(bound: int) -> int:
        # random() gives the same numbers in every Python; randrange() does not promise it.
        return int(chance.random() * bound)

    orders: list[tuple[int, ...]] = []
    payments: list[tuple[int, ...]] = []
    for number in range(ORDERS):
        ts = START + number * SECONDS // ORDERS
        cents = 100 + below(50_000)
        orders.append((ts, number, cents))
        kind = below(10)
        first = cents // 2 if kind == 1 else cents
        for paid in [] if kind == 0 else [first, cents - first]:
            if paid:
                payments.append((ts + below(90), number, paid))
    return orders, sorted(payments)


def write_input(folder: Path) -> list[Path]:
    """Write both files, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    orders, payments = orders_and_payments()
    written = []
    for name, header, rows in (
        ("orders.csv", "ts,order,cents", orders),
        ("payments.csv", "ts,order,paid", payments),
    ):
        lines = [header, *(",".join(map(str, row)) for row in rows)]
        path = folder / name
        path.write_bytes(("\n".join(lines) + "\n").encode())
        written.append(path)
    return written


if __name__ == "__main__":
    for path in write_input(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        print(f"{path}: {path.stat().st_size:,} bytes")
