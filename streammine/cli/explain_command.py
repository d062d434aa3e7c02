"""`streammine explain`: what a topology comes to, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa

from streammine.assembly import CompiledJob, reason_to_keep
from streammine.cli.options import topology_argument
from streammine.cli.topologies import read_topology
from streammine.model.durations import Interval
from streammine.model.epochs import EpochDefinition
from streammine.model.job import Edge, ResolvedSource, Vertex
from streammine.model.recovery_policy import wants_gap
from streammine.model.topology import (
    AggregateOperator,
    AggregateWindow,
    FilesSource,
    OperatorLoop,
    RowWindowed,
    Session,
    Sliding,
    Topology,
    Tumbling,
    Windowed,
    interval_epochs,
)
from streammine.runtime.submission import compile_topology


@click.command()
@topology_argument
def explain(topology: Path, overrides: tuple[str, ...]) -> None:
    """Show TOPOLOGY's graph without running it.

    Slices, channels, what runs where, and the ordering discipline of each operator with the reason.
    """
    definition = read_topology(topology, overrides)
    compiled, sources = compile_topology(definition, topology.absolute().parent)
    for line in explanation(definition, compiled, sources):
        click.echo(line)


def explanation(
    topology: Topology, compiled: CompiledJob, sources: list[ResolvedSource]
) -> Iterator[str]:
    """The lines of the explanation."""
    epoch = topology.epoch_definition()
    if epoch.kind == "count":
        yield f"{topology.name}: an epoch is {epoch.length:,} rows of a source"
    else:
        yield f"{topology.name}: an epoch is {epoch.length / 1e6:g} s of column {epoch.column!r}"
    resolved = {source.name: source for source in sources}
    for vertex in compiled.graph.vertices:
        yield ""
        yield from _vertex_lines(vertex, topology, compiled, resolved)
    for loop in topology.graph().loops:
        yield ""
        yield from _loop_lines(loop)
    graph = compiled.graph
    yield ""
    yield (
        f"{len(graph.slices)} slices and {len(graph.channels)} channels on {topology.nodes} nodes"
    )
    yield f"snapshots: {topology.snapshot}"
    for warning in topology.warnings():
        yield f"note: {warning}"


def _vertex_lines(
    vertex: Vertex,
    topology: Topology,
    compiled: CompiledJob,
    resolved: dict[str, ResolvedSource],
) -> Iterator[str]:
    count = "1 slice" if vertex.slices == 1 else f"{vertex.slices} slices"
    yield f"{vertex.kind} {vertex.name} ({count})"
    if vertex.replicas > 1:
        rung = compiled.graph.rung_of(vertex.name, vertex.scheme)
        stands = "" if rung is vertex.scheme else f", which is {rung} here"
        yield f"  {vertex.replicas} replicas of each, on different nodes: {vertex.scheme}{stands}"
    if vertex.kind == "source":
        yield from _source_lines(vertex.name, topology, compiled, resolved[vertex.name])
    else:
        yield f"  discipline {vertex.discipline}: {vertex.reason}"
    operator = topology.operators.get(vertex.name)
    if isinstance(operator, AggregateOperator | RowWindowed | Windowed) and operator.window:
        yield f"  window: {_window_line(operator.window, topology.epoch_definition())}"
    if vertex.kind == "stateful" and wants_gap(topology.recovery_goal):
        yield f"  {_losing_line(vertex, compiled)}"
    if vertex.name in compiled.streams and vertex.kind == "stateful":
        yield f"  output: {_columns(compiled.streams[vertex.name].schema)}"
    for edge in compiled.graph.edges:
        if edge.source == vertex.name:
            yield f"  → {_edge_line(edge, compiled)}"


def _window_line(window: AggregateWindow, epoch: EpochDefinition) -> str:
    match window:
        case Tumbling(length):
            return f"tumbling, {length}{_in_epochs(length, epoch)}"
        case Sliding(length, slide):
            length_epochs, slide_epochs = _in_epochs(length, epoch), _in_epochs(slide, epoch)
            return f"sliding, {length}{length_epochs} every {slide}{slide_epochs}"
        case Session(gap):
            return f"sessions of each key, which {gap} of silence end; late rows go to the dead letters"
        case _:
            return "all rows, until the input is over"


def _in_epochs(interval: Interval, epoch: EpochDefinition) -> str:
    if interval.epochs is not None:
        return ""
    count = interval_epochs(interval, epoch)
    return " (1 epoch)" if count == 1 else f" ({count:,} epochs)"


def _losing_line(vertex: Vertex, compiled: CompiledJob) -> str:
    graph = compiled.graph
    if vertex.name not in graph.may_lose:
        return f"loses nothing in a recovery: {reason_to_keep(graph, vertex.name)}"
    epochs = vertex.window_epochs
    slides = vertex.slide_epochs not in (None, epochs)
    every = "all the windows" if slides else "the windows"
    window = "" if epochs == 1 else f", with {every} of {epochs} epochs that they lie in"
    return f"may lose epochs in a recovery, which are reported{window}"


def _loop_lines(loop: OperatorLoop) -> Iterator[str]:
    count = "1 operator" if len(loop.members) == 1 else f"{len(loop.members)} operators"
    yield f"loop ({count})"
    yield f"  head: {loop.head}"
    yield f"  members: {', '.join(loop.members)}"
    yield f"  back-edges: {', '.join(f'{name} → {loop.head}' for name in loop.back)}"
    yield (
        f"  max_rounds: {loop.max_rounds:,}; what still goes round then waits for the next epoch"
    )


def _source_lines(
    name: str, topology: Topology, compiled: CompiledJob, source: ResolvedSource
) -> Iterator[str]:
    settings = topology.sources[name]
    rows = "" if source.rows is None else f", {source.rows:,} row{'s' * (source.rows != 1)}"
    if source.kind == "files":
        files = "1 file" if len(source.files) == 1 else f"{len(source.files):,} files"
        how = "read directly"
        if isinstance(settings, FilesSource) and settings.prepare is not None:
            how = "prepared by Spark into an epoch log"
        if isinstance(settings, FilesSource) and settings.static:
            how += ", all before the first row of any other source"
        yield f"  {files}{rows}, {how}"
    else:
        yield f"  {source.kind}{rows}"
    if settings.rate is not None:
        yield f"  paced: {settings.rate}"
    elif settings.speed is not None:
        yield f"  paced: event time runs {settings.speed:g} times as fast as the clock"
    wanted = compiled.columns.get(name)
    schema = compiled.streams[name].schema
    yield f"  reads {'all columns' if wanted is None else 'only'}: {_columns(schema)}"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema) or "no columns"


def _edge_line(edge: Edge, compiled: CompiledJob) -> str:
    number = compiled.graph.edges.index(edge)
    channels = sum(channel.edge == number for channel in compiled.graph.channels)
    text = "dead letters to " if edge.dead else ""
    for stage in edge.stages:
        text += f"{stage} (runs here) → "
    text += edge.target
    if edge.port:
        text += f", port {edge.port}"
    how = {"partition": "by key", "broadcast": "to all", "forward": "one to one"}[edge.routing]
    details = [f"{channels} channels {how}" if channels > 1 else "1 channel"]
    if edge.combined:
        details.append("combined before it is sent")
    if edge.carries_order:
        details.append("positions travel along")
    if edge.sequenced:
        details.append("an epoch's rows in one sequence")
    if edge.either:
        details.append("one of those who receive the feed")
    if edge.kind == "back":
        details.append("back-edge of a loop")
    return f"{text} ({', '.join(details)})"
