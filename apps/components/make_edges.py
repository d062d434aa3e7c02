"""Writes the small graph that the components start with: a random one, and a long chain in it.

The same call writes the same bytes everywhere: ``python -m apps.components.make_edges [FOLDER]``.

As in Erdős and Rényi, "On the evolution of random graphs" (1960), the edges join any two nodes with
equal chance. So small components grow slowly, until, when there are about half as many edges as nodes,
one of them swallows most others. Some edges lead from a node to itself.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "data"
NODES = 500
EDGES = 600
CHAIN = 1_000
"""The first of the nodes of a chain, whose edges follow each other: labels need many rounds to its end."""
CHAIN_AT = range(225, 245)
CHAIN_JOINED_AT = 330
SEED = 2015


def edges(seed: int = SEED) -> Iterator[tuple[int, int]]:
    """The edges, in the order in which they arrive."""
    chance = random.Random(seed)
    for number in range(EDGES):
        # random() gives the same numbers in every Python; randrange() does not promise it.
        u, v = (int(chance.random() * NODES) for _ in range(2))
        if number in CHAIN_AT:
            node = CHAIN + number - CHAIN_AT.start
            yield node + 1, node
        elif number == CHAIN_JOINED_AT:
            yield u, CHAIN
        elif number % 97 == 0:
            yield u, u
        else:
            yield u, v


def write_edges(folder: Path) -> Path:
    """Write the file, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "edges.txt"
    path.write_bytes("".join(f"{u} {v}\n" for u, v in edges()).encode())
    return path


if __name__ == "__main__":
    written = write_edges(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    print(f"{written}: {written.stat().st_size:,} bytes")
