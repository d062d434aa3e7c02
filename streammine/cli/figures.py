"""Figures for people out of a status answer: rates from two looks, progress against the input's size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.job import COMMITTER_SUFFIX, DEAD_LETTERS, JobSpec


@dataclass(frozen=True)
class OperatorFigures:
    """Sums over a vertex's slices. `places`: how many replicas of them on which node. `rows_in` are those
    of epochs from `counted_from` on: of an operator that was moved or rebuilt somebody else has counted what
    came before. `buffered_bytes` are in operators, for epochs that are not over.
    """

    name: str
    epoch: str
    rows_in: int
    counted_from: str
    rows_per_second: float
    buffered_bytes: float
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
class SliceFigures:
    """What a slice had read when its node's clock showed `clock` seconds, and how fast it read."""

    rows: float
    clock: float
    rows_per_second: float = 0.0


@dataclass(frozen=True)
class JobFigures:
    """One look at a running job. `epochs_lost`: committed ones of which the sink that has most may lack
    rows.
    """

    rows_read: int
    rows_per_second: float
    progress: float | None
    epoch: str
    operators: tuple[OperatorFigures, ...] = ()
    nodes: tuple[NodeFigures, ...] = ()
    slices: dict[str, SliceFigures] = field(default_factory=dict)
    epochs_lost: int = 0

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
        lost = f", {self.epochs_lost:,} epochs lost" if self.epochs_lost else ""
        return f"epoch {self.epoch}, {self.rows_read:,} events, {self.rows_per_second:,.0f}/s{share}{lost}"


def figures(spec: JobSpec, status: dict[str, Any], before: JobFigures | None) -> JobFigures:
    """`status` is a StatusAnswer's payload about one job; `before` the last look."""
    reports: dict[str, Any] = {}
    for job in status["jobs"].values():
        reports |= job["slices"]
    clocks = {name: node["load"].get("clock", 0.0) for name, node in status["nodes"].items()}
    slices = {
        name: _slice(
            report["counters"].get("rows_in", 0.0),
            clocks.get(report["node"], 0.0),
            before.slices.get(name) if before is not None else None,
        )
        for name, report in reports.items()
    }
    kinds = {vertex.name: vertex.kind for vertex in spec.graph.vertices}
    operators = [
        _operator(name, own, slices)
        for name in kinds
        if (own := {key: each for key, each in reports.items() if key.rpartition("/")[0] == name})
    ]
    read = sum(each.rows_in for each in operators if kinds[each.name] == "source")
    rate = sum(each.rows_per_second for each in operators if kinds[each.name] == "source")
    totals = [source.rows for source in spec.sources]
    total = None if None in totals else sum(rows for rows in totals if rows is not None)
    committed = [each.epoch for each in operators if kinds[each.name] == "committer"]
    return JobFigures(
        rows_read=read,
        rows_per_second=rate,
        progress=None if not total else min(1.0, read / total),
        epoch=committed[0] if committed else "-",
        operators=tuple(operators),
        nodes=node_figures(status, before.nodes if before is not None else ()),
        slices=slices,
        epochs_lost=epochs_lost({name: report["counters"] for name, report in reports.items()}),
    )


def epochs_lost(counters: Mapping[str, Mapping[str, float]]) -> int:
    """What the slices tell that commit; of `counters` by slice. Dead letters are another matter than
    output.
    """
    dead = DEAD_LETTERS + COMMITTER_SUFFIX
    told = (
        each.get("epochs_lost", 0) for name, each in counters.items() if not name.startswith(dead)
    )
    return int(max(told, default=0))


def _slice(rows: float, clock: float, before: SliceFigures | None) -> SliceFigures:
    """The rate is that between two heartbeats of the slice's node, by its own clock."""
    if before is None:
        return SliceFigures(rows, clock)
    # Between two heartbeats a look shows what the one before showed.
    if clock <= before.clock:
        return before
    # A slice that came to life again elsewhere counts from the start.
    return SliceFigures(rows, clock, max(0.0, rows - before.rows) / (clock - before.clock))


def _operator(
    name: str, reports: dict[str, Any], slices: dict[str, SliceFigures]
) -> OperatorFigures:
    places: dict[str, int] = {}
    for node in (each["node"] for report in reports.values() for each in report["replicas"]):
        places[node] = places.get(node, 0) + 1
    return OperatorFigures(
        name=name,
        epoch=epoch_text(min(each["frontier"] for each in reports.values())),
        rows_in=int(sum(each["counters"].get("rows_in", 0) for each in reports.values())),
        counted_from=_range_text(each["counters"] for each in reports.values()),
        rows_per_second=sum(slices[key].rows_per_second for key in reports),
        buffered_bytes=sum(
            each["counters"].get("buffered_bytes", 0.0) for each in reports.values()
        ),
        places=", ".join(f"{node}: {count}" for node, count in sorted(places.items())),
    )


def counted_from(counters: Mapping[str, float]) -> str:
    """The epoch with which a replica began to count the rows that come in."""
    return _from_text(int(counters.get("counted_after", BEGINNING)))


def _range_text(counters: Iterable[Mapping[str, float]]) -> str:
    after = [int(each.get("counted_after", BEGINNING)) for each in counters]
    first, last = _from_text(min(after)), _from_text(max(after))
    return first if first == last else f"{first} to {last}"


def _from_text(counted_after: int) -> str:
    if counted_after == BEGINNING:
        return "start"
    return epoch_text(counted_after if counted_after == INFINITY else counted_after + 1)


def epoch_text(frontier: int) -> str:
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
