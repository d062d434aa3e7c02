"""`streammine savepoint`: a checkpoint, and the end of a job that is to go on later."""

from __future__ import annotations

from pathlib import Path

import click

from streammine.cli.clusters import cluster_options, connected, running_job, timeout_option
from streammine.cli.watching import SAVEPOINTED
from streammine.model.errors import ClusterError


@click.command()
@click.argument("job", type=click.IntRange(min=0), required=False)
@cluster_options
@timeout_option
def savepoint(
    job: int | None, name: str | None, folder: Path | None, timeout_seconds: float
) -> None:
    """Save JOB, a number that `streammine status` shows, and stop it; default: the one that runs.

    Open windows are not flushed: they are part of what is saved. `--resume` of `run` or `submit` goes on.
    """
    with connected(name, folder) as client:
        wanted = running_job(job, client.jobs())
        recovery = wanted.spec.recovery
        if recovery.mode == "none":
            raise ClusterError(
                f"job {wanted.number} makes no snapshots (snapshot: none), so it can't be saved; "
                "`streammine stop` ends it"
            )
        outcome = client.savepoint(wanted.number, timeout_seconds)
    if outcome.status != SAVEPOINTED:
        reason = f": {outcome.reason}" if outcome.reason else ""
        raise ClusterError(f"job {wanted.number} ended by itself: it {outcome.status}{reason}")
    click.echo(
        f"job {wanted.number} is saved and stopped; go on with it: "
        f"streammine run TOPOLOGY --resume {recovery.store}"
    )
