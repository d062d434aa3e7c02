"""Replicas that a job is to have and that have no place, for there are too few nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streammine.model.job import JobGraph, Vertex
from streammine.model.suggestions import listed


@dataclass(frozen=True)
class Lack:
    """Of each slice of these vertices so many replicas are `wanted`, and no more than `placed`, for replicas
    are on different nodes, and there are `nodes`."""

    vertices: tuple[str, ...]
    wanted: int
    placed: int
    nodes: int

    def __str__(self) -> str:
        there = "1 node is" if self.nodes == 1 else f"{self.nodes} nodes are"
        return (
            f"{listed(self.vertices)}: {self.wanted} replicas of each slice wanted, {self.placed} placed: "
            f"only {there} there for them; the others are placed when nodes join"
        )


def lacks(rows: Iterable[tuple[Vertex, int, int]], nodes: int) -> tuple[Lack, ...]:
    """Rows: a vertex, and how many replicas are wanted and placed. A sink's committer goes with its sink."""
    found: dict[tuple[int, int], list[str]] = {}
    for vertex, wanted, placed in rows:
        if placed < wanted and nodes < wanted and vertex.kind != "committer":
            found.setdefault((wanted, placed), []).append(vertex.name)
    return tuple(
        Lack(tuple(names), wanted, placed, nodes) for (wanted, placed), names in found.items()
    )


def lacks_at_first(graph: JobGraph, nodes: int) -> tuple[Lack, ...]:
    """Where a job is about to be placed on so many nodes."""
    rows = ((each, each.replicas, min(each.replicas, nodes)) for each in graph.vertices)
    return lacks(rows, nodes)
