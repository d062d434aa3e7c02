"""Figures for people out of a status answer: rates from two looks, progress against the input's size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streammine.engine.planner import COMMITTER_SUFFIX, DEAD_LETTERS
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.job import JobSpec


@dataclass(frozen=True)
class OperatorFigures:
    """Sums over a vertex's slices. `places`: how many slices on which node."""

    name: str
    epoch: str
    rows_in: int
    rows_per_second: float
    waiting_bytes: float
    places: str


@dataclass(frozen=True)
class NodeFigures:
    """A node's load; `cpu_share` in cores, `clock` the seconds of its own clock at that time."""

    name: str
    cpu_share: float
    cpu_seconds: float
    clock: float
    memory_bytes: float
    queued_tasks: float


@dataclass(frozen=True)
class JobFigures:
    """One look at a running job; `seen_at` in seconds of a monotonic clock."""

    seen_at: float
    rows_read: int
    rows_per_second: float
    progress: float | None
    epoch: str
    operators: tuple[OperatorFigures, ...] = ()
    nodes: tuple[NodeFigures, ...] = ()
    counted: dict[str, float] = field(default_factory=dict)

    @property
    def shown(self) -> list[OperatorFigures]:
        """What a person asks about: not the committers, nor dead letters as long as there are none."""
        return [
            each
            for each in self.operators
            if not each.name.endswith(COMMITTER_SUFFIX)
            and (each.name != DEAD_LETTERS or each.rows_in)
        ]

    def line(self) -> str:
        share = "" if self.progress is None else f", {self.progress:.0%} of the input"
        return (
            f"epoch {self.epoch}, {self.rows_read:,} events, {self.rows_per_second:,.0f}/s{share}"
        )


def figures(
    spec: JobSpec, status: dict[str, Any], before: JobFigures | None, now: float
) -> JobFigures:
    """`status` is a StatusAnswer's payload about one job; `before` the last look."""
    slices: dict[str, Any] = {}
    for job in status["jobs"].values():
        slices |= job["slices"]
    elapsed = now - before.seen_at if before is not None else 0.0
    kinds = {vertex.name: vertex.kind for vertex in spec.graph.vertices}
    operators = [
        _operator(name, slices, before, elapsed)
        for name in kinds
        if any(each.rpartition("/")[0] == name for each in slices)
    ]
    read = sum(each.rows_in for each in operators if kinds[each.name] == "source")
    rate = sum(each.rows_per_second for each in operators if kinds[each.name] == "source")
    totals = [source.rows for source in spec.sources]
    total = None if None in totals else sum(rows for rows in totals if rows is not None)
    committed = [each.epoch for each in operators if kinds[each.name] == "committer"]
    return JobFigures(
        seen_at=now,
        rows_read=read,
        rows_per_second=rate,
        progress=None if not total else min(1.0, read / total),
        epoch=committed[0] if committed else "-",
        operators=tuple(operators),
        nodes=node_figures(status, before.nodes if before is not None else ()),
        counted={each.name: float(each.rows_in) for each in operators},
    )


def _operator(
    name: str, slices: dict[str, Any], before: JobFigures | None, elapsed: float
) -> OperatorFigures:
    own = [each for key, each in slices.items() if key.rpartition("/")[0] == name]
    rows = int(sum(each["counters"].get("rows_in", 0) for each in own))
    last = before.counted.get(name, 0.0) if before is not None else 0.0
    places: dict[str, int] = {}
    for each in own:
        places[each["node"]] = places.get(each["node"], 0) + 1
    return OperatorFigures(
        name=name,
        epoch=_epoch(min(each["frontier"] for each in own)),
        rows_in=rows,
        rows_per_second=max(0.0, rows - last) / elapsed if elapsed > 0 else 0.0,
        waiting_bytes=sum(each["counters"].get("waiting_bytes", 0.0) for each in own),
        places=", ".join(f"{node}: {count}" for node, count in sorted(places.items())),
    )


def _epoch(frontier: int) -> str:
    if frontier == BEGINNING:
        return "-"
    return "end" if frontier == INFINITY else f"{frontier:,}"


def node_figures(
    status: dict[str, Any], before: tuple[NodeFigures, ...] = ()
) -> tuple[NodeFigures, ...]:
    """The nodes in a StatusAnswer's payload; shares of a core need an earlier look at them."""
    known = {node.name: node for node in before}
    return tuple(
        _node(name, node["load"], known.get(name)) for name, node in status["nodes"].items()
    )


def _node(name: str, load: dict[str, float], before: NodeFigures | None) -> NodeFigures:
    seconds, clock = load.get("cpu_seconds", 0.0), load.get("clock", 0.0)
    share = before.cpu_share if before is not None else 0.0
    # Between two heartbeats a look shows what the one before showed.
    if before is not None and clock > before.clock:
        share = max(0.0, (seconds - before.cpu_seconds) / (clock - before.clock))
    return NodeFigures(
        name,
        share,
        seconds,
        clock,
        load.get("memory_bytes", 0.0),
        load.get("queued_tasks", 0.0),
    )
