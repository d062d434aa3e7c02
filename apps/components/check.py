"""Proves the components right: finds them again by union-find, and compares every epoch.

``python -m apps.components.check [--edges GLOB] [--output FOLDER] [--epoch EDGES]``, for the edges, the
output and the length of an epoch that the topology was run with. Nothing here is the engine's but the
reading of its committed output. Decisions are those of the package.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path

import streammine
from apps import reading

FOLDER = Path(__file__).parent
EPOCH_EDGES = 25
"""As in the topology."""

Edge = tuple[int, int]
Changes = dict[int, dict[int, int]]
"""Per epoch, the nodes whose component has changed in it, with the component: its least node."""


class UnionFind:
    """Sets of nodes, each named by its least member, as slow and plain as can be."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def find(self, node: int) -> int:
        """The least node of the set that `node` is in; alone in one at first."""
        parent = self._parents.setdefault(node, node)
        while parent != node:
            node, parent = parent, self._parents[parent]
        return node

    def join(self, u: int, v: int) -> None:
        first, second = sorted((self.find(u), self.find(v)))
        self._parents[second] = first

    def components(self) -> dict[int, int]:
        return {node: self.find(node) for node in self._parents}


def edges_of(pattern: str | Path) -> Iterator[Edge | None]:
    """The edges of all files, one file after the other; None for a dead letter."""
    for path in reading.paths(pattern):
        for record in reading.records(path, 2, " "):
            try:
                u, v = map(reading.whole_number, record or ())
            except ValueError:
                u = v = None
            yield None if u is None or v is None else (u, v)


def changes_by_epoch(edges: Iterable[Edge | None], epoch_edges: int) -> Changes:
    """What each epoch changes, found anew from all edges up to its end."""
    changes: Changes = {}
    sets = UnionFind()
    before: dict[int, int] = {}
    arriving = iter(edges)
    for epoch in count():
        some = list(islice(arriving, epoch_edges))
        if not some:
            return changes
        for u, v in filter(None, some):
            sets.join(u, v)
        after = sets.components()
        if after != before:
            changes[epoch] = dict(after.items() - before.items())
        before = after
    raise AssertionError("edges end")


def committed(folder: str) -> Changes:
    """What the engine committed. Raises streammine.OutputError when there is nothing."""
    changes: Changes = {}
    for epoch, rows in reading.committed(folder, ("epoch", "node", "component")):
        changed = {node: component for of_epoch, node, component in rows if of_epoch == epoch}
        if len(changed) < len(rows):
            raise streammine.OutputError(
                f"{folder}: a node of epoch {epoch} is twice, or a row is of another epoch"
            )
        if changed:
            changes[epoch] = changed
    return changes


def final(changes: Changes) -> dict[int, int]:
    """Component by node, after the last epoch."""
    components: dict[int, int] = {}
    for epoch in sorted(changes):
        components |= changes[epoch]
    return components


def main() -> int:
    """0 when both are equal, else 1."""
    parser = argparse.ArgumentParser(description="Compare components with a plain union-find's.")
    parser.add_argument("--edges", default=str(FOLDER / "data" / "edges.txt"), metavar="GLOB")
    parser.add_argument("--output", default=str(FOLDER / "out"), metavar="FOLDER")
    parser.add_argument("--epoch", type=int, default=EPOCH_EDGES, metavar="EDGES")
    arguments = parser.parse_args()
    found = committed(arguments.output)
    expected = changes_by_epoch(edges_of(arguments.edges), arguments.epoch)
    components = final(found)
    print(f"nodes       {len(components):,}")
    print(f"components  {len(set(components.values())):,}")
    print(f"epochs      {len(found):,}")
    if found == expected:
        print("equal       yes: every change of every epoch is that of plain Python")
        return 0
    epoch = min(each for each in {*found, *expected} if found.get(each) != expected.get(each))
    wrong = found.get(epoch, {}).items() ^ expected.get(epoch, {}).items()
    print(f"equal       NO: epoch {epoch} is the first that differs, in {sorted(wrong)[0]}")
    return 1


if __name__ == "__main__":
    sys.exit(reading.exit_status(main))
