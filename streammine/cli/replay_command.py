"""`streammine replay`: a log, pushed into a source of a job that runs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from streammine.cli.clusters import cluster_options, connected
from streammine.model.replay_job import ReplayReport
from streammine.model.spark_job import SparkProgress
from streammine.runtime.replaying import job_named, replay_request, replay_target, run_replay


def _job_and_source(
    context: click.Context, parameter: click.Parameter, value: str
) -> tuple[str, str]:
    job, slash, source = value.rpartition("/")
    if not slash or not job or not source:
        raise click.BadParameter(
            f"'{value}' should be JOB/SOURCE, like 3/readings or load/readings"
        )
    return job, source


@click.command()
@click.argument("log")
@click.option(
    "--into",
    callback=_job_and_source,
    metavar="JOB/SOURCE",
    required=True,
    help="The running job, by number or name, and its source, one of type: replay.",
)
@click.option("--from-epoch", type=int, metavar="N", help="First epoch; default: the log's first.")
@click.option("--to-epoch", type=int, metavar="M", help="Last epoch; default: the log's last.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="X times as fast as the events were, for time epochs; default: as fast as the job takes them.",
)
@click.option(
    "--keep-open",
    is_flag=True,
    help="Leave the source open for what comes next; without it the replay ends the source.",
)
@cluster_options
@click.option("--spark-master", metavar="URL", help="Spark master; default local[*].")
@click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a slice of the source may be out of reach.",
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
def replay(
    log: str,
    into: tuple[str, str],
    from_epoch: int | None,
    to_epoch: int | None,
    speed: float | None,
    keep_open: bool,
    name: str | None,
    folder: Path | None,
    spark_master: str | None,
    timeout_seconds: float,
    as_json: bool,
) -> None:
    """Push LOG, the folder or URL of an epoch log or an ingest log, into a source of a running job.

    Epochs and positions of the log are kept, and each row counts once, whatever fails on the way: run an
    interrupted replay again, and it goes on. Without --keep-open the source is over when all of it has
    arrived.
    """
    with connected(name, folder) as client:
        job = job_named(into[0], client.jobs())
        target = replay_target(job, into[1])
        request = replay_request(
            log, target, from_epoch, to_epoch, speed, keep_open, timeout_seconds, spark_master
        )
        report = run_replay(client, job, request, _Steps())
    if as_json:
        click.echo(json.dumps(report.model_dump()))
    else:
        click.echo(_text(report, "/".join(into)))


class _Steps:
    """Says each step once."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, progress: SparkProgress) -> None:
        if progress.step != self._said:
            self._said = progress.step
            click.echo(f"replay: {progress.step}", err=True)


def _text(report: ReplayReport, into: str) -> str:
    if report.first_epoch is None:
        what = "the log has no rows"
    else:
        what = f"{into} has epochs {report.first_epoch} to {report.last_epoch} of it"
    dead = f" and {report.rows_dead:,} dead ones" if report.rows_dead else ""
    left = "the source is over" if report.ended else "the source stays open"
    return f"{what}: {report.rows_sent:,} rows{dead} sent in {report.seconds:g} s; {left}"
