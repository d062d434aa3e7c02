"""Replaying a log into a running job's source: find it, start the Spark job, look after both."""

from __future__ import annotations

import secrets
from pathlib import Path

from streammine.model.epoch_log import EpochSettings
from streammine.model.errors import ClusterError, InputError
from streammine.model.replay_job import ReplayReport, ReplayRequest, ReplayTarget
from streammine.model.spark_job import SparkProgress
from streammine.model.suggestions import did_you_mean
from streammine.model.topology import Topology
from streammine.model.topology.replay_source import ReplaySource
from streammine.runtime.client import Client, KnownJob
from streammine.runtime.sources.files import absolute
from streammine.runtime.sources.live.opening import slice_log
from streammine.runtime.spark_jobs import ProgressListener, run_spark_job


def job_named(text: str, jobs: list[KnownJob]) -> KnownJob:
    """The running job of that number or name. Raises ClusterError."""
    found = [job for job in jobs if text in (str(job.number), job.name)]
    running = [job for job in found if job.outcome is None]
    if len(running) == 1:
        return running[0]
    if running:
        numbers = ", ".join(str(job.number) for job in running)
        raise ClusterError(f"several jobs called '{text}' run; name one by its number: {numbers}")
    if found:
        raise ClusterError(f"job {found[-1].number} ({found[-1].name}) is over: {found[-1].state}")
    known = [f"{job.number} ({job.name})" for job in jobs if job.outcome is None]
    raise ClusterError(f"the cluster runs no job '{text}'; it runs {', '.join(known) or 'none'}")


def replay_target(job: KnownJob, source: str) -> ReplayTarget:
    """What a replay must know of the job's source. Raises InputError when there is none of that kind."""
    topology = Topology.model_validate(job.spec.topology)
    settings = topology.sources.get(source)
    if settings is None:
        names = sorted(topology.sources)
        raise InputError(
            f"job {job.number} ({job.name}) has no source '{source}'"
            f"{did_you_mean(source, names)}; its sources are {', '.join(names)}"
        )
    if not isinstance(settings, ReplaySource):
        raise InputError(
            f"source '{source}' of job {job.number} ({job.name}) is {settings.label}; a log is "
            "replayed into one of type: replay"
        )
    base = job.spec.base
    return ReplayTarget(
        source=source,
        logs=tuple(slice_log(settings.ingest_log, base, each) for each in range(settings.slices)),
        columns=settings.arrow_schema.serialize().to_pybytes().hex(),
        epoch=EpochSettings.of(topology.epoch_definition()),
        keys=None if settings.keys is None else absolute(settings.keys, base),
    )


def replay_request(
    log: str,
    target: ReplayTarget,
    from_epoch: int | None = None,
    to_epoch: int | None = None,
    speed: float | None = None,
    keep_open: bool = False,
    patience_seconds: float = 120.0,
    master: str | None = None,
) -> ReplayRequest:
    """The request for a log at a path, from the working folder on, or a URL."""
    return ReplayRequest(
        log=absolute(log, str(Path.cwd())),
        target=target,
        replay=secrets.token_hex(8),
        from_epoch=from_epoch,
        to_epoch=to_epoch,
        speed=speed,
        keep_open=keep_open,
        patience_seconds=patience_seconds,
        master=master or "local[*]",
    )


def run_replay(
    client: Client, job: KnownJob, request: ReplayRequest, listener: ProgressListener
) -> ReplayReport:
    """Run the Spark job and wait for it; it is ended when the streaming job ends before its time.

    Raises InputError, OutputError and ClusterError.
    """

    def watching(progress: SparkProgress) -> None:
        listener(progress)
        outcome = client.outcome(job.number)
        if outcome is not None and outcome.status != "finished":
            reason = f": {outcome.reason}" if outcome.reason else ""
            raise ClusterError(
                f"job {job.number} ({job.name}) {outcome.status} while it was replayed into{reason}"
            )

    return run_spark_job("replay", request, ReplayReport, watching)
