"""`streammine status`: what a cluster that is up is doing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from streammine.cli.clusters import cluster_options
from streammine.cli.figures import JobFigures, NodeFigures, epochs_lost, figures, node_figures
from streammine.cli.schemes_shown import SchemesShown
from streammine.cli.tables import text_table
from streammine.model.errors import ClusterError
from streammine.runtime.client import Client, KnownJob
from streammine.runtime.standing import StandingCluster, cluster_folder


@click.command()
@click.argument("job", type=click.IntRange(min=0), required=False)
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
def status(job: int | None, name: str | None, folder: Path | None, as_json: bool) -> None:
    """Show a cluster's nodes and jobs; with JOB, a number, that job's operators as well, and how
    ready the replicas of its slices stand."""
    cluster = StandingCluster(cluster_folder(name, folder))
    with Client(cluster.address) as client:
        client.wait_for_members(1, cluster.check)
        jobs = client.jobs()
        shown = _wanted(job, jobs)
        # rates are those between two heartbeats
        first = client.status(job)
        second = client.later_status(job, first)
    before = {each.number: _figures(each, first, None) for each in shown}
    after = {each.number: _figures(each, second, before[each.number]) for each in shown}
    nodes = node_figures(second, node_figures(first))
    if as_json:
        click.echo(json.dumps(_tree(cluster, second, nodes, jobs, after)))
        return
    click.echo(f"cluster in {cluster.folder}, ZooKeeper at {cluster.state.zookeeper}\n")
    click.echo(_nodes_table(nodes, second["manager"]))
    click.echo()
    for line in _job_lines(jobs if job is None else shown, after):
        click.echo(line)
    if job is not None and (told := second["jobs"].get(str(job))) is not None:
        click.echo()
        for line in SchemesShown(told).lines():
            click.echo(line)
    warnings = cluster.warnings()
    if warnings:
        click.echo(f"\nwhat happened to its processes:\n{warnings}")


def _wanted(job: int | None, jobs: list[KnownJob]) -> list[KnownJob]:
    """The jobs whose operators are shown. Raises ClusterError when the one asked for isn't there."""
    if job is None:
        return [each for each in jobs if each.outcome is None]
    found = [each for each in jobs if each.number == job]
    if not found:
        numbers = ", ".join(str(each.number) for each in jobs) or "none"
        raise ClusterError(f"the cluster knows no job {job}; it knows: {numbers}")
    return found


def _figures(job: KnownJob, status: dict[str, Any], before: JobFigures | None) -> JobFigures:
    own = status["jobs"].get(str(job.number))
    if own is None:
        own = {"slices": {}}
    return figures(job.spec, {**status, "jobs": {str(job.number): own}}, before)


def _nodes_table(nodes: tuple[NodeFigures, ...], manager: str | None) -> str:
    rows: list[dict[str, object]] = [
        {
            "node": node.name,
            "role": "manager" if node.name == manager else "",
            "CPU": f"{node.cpu_share:.0%}",
            "memory": f"{node.memory_bytes / 1e6:,.0f} MB",
            "queued": f"{node.queued_tasks:.0f}",
        }
        for node in nodes
    ]
    return text_table(rows, ["node", "role", "CPU", "memory", "queued"]) if rows else "no nodes"


def _job_lines(jobs: list[KnownJob], shown: dict[int, JobFigures]) -> Iterator[str]:
    if not jobs:
        yield "no jobs yet"
    for job in jobs:
        current = shown.get(job.number)
        line = f"job {job.number} {job.name}: {job.state}"
        if job.outcome is None and current is not None:
            line += f", {current.line()}"
        elif job.outcome is not None:
            lost = _lost(job, shown)
            line += f", {lost:,} epochs lost" if lost else ""
            line += f": {job.outcome.reason}" if job.outcome.reason else ""
        yield line
        if current is not None and current.shown:
            yield _operators_table(current)


def _lost(job: KnownJob, shown: dict[int, JobFigures]) -> int:
    """Of how many epochs the output may lack rows: as of now, or as the job ended."""
    if job.outcome is not None:
        return epochs_lost(job.outcome.counters)
    return shown[job.number].epochs_lost if job.number in shown else 0


def _operators_table(current: JobFigures) -> str:
    rows: list[dict[str, object]] = [
        {
            "operator": each.name,
            "epoch": each.epoch,
            "events in": f"{each.rows_in:,}",
            "since": each.counted_from,
            "events/s": f"{each.rows_per_second:,.0f}",
            "buffered": f"{each.buffered_bytes / 1e6:,.1f} MB",
            "slices": each.places,
        }
        for each in current.shown
    ]
    columns = ["operator", "epoch", "events in", "since", "events/s", "buffered", "slices"]
    return text_table(rows, columns)


def _tree(
    cluster: StandingCluster,
    status: dict[str, Any],
    nodes: tuple[NodeFigures, ...],
    jobs: list[KnownJob],
    shown: dict[int, JobFigures],
) -> dict[str, object]:
    return {
        "folder": str(cluster.folder),
        "zookeeper": cluster.state.zookeeper,
        "manager": status["manager"],
        "nodes": [asdict(node) for node in nodes],
        "jobs": [
            {
                "job": job.number,
                "name": job.name,
                "state": job.state,
                "reason": job.outcome.reason if job.outcome is not None else None,
                "epochs_lost": _lost(job, shown),
                "operators": [asdict(each) for each in shown[job.number].operators]
                if job.number in shown
                else [],
                **_schemes(status["jobs"].get(str(job.number))),
            }
            for job in jobs
        ],
    }


def _schemes(told: dict[str, Any] | None) -> dict[str, Any]:
    return (
        {"slices": {}, "lacking": [], "decisions": []}
        if told is None
        else SchemesShown(told).tree()
    )
