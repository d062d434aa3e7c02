"""From a topology to a job: look at its sources, prepare raw ones, check everything, claim the sinks.

All that can be refused is refused here, before anything is started. `runtime.resuming` does the same
for a run that goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from streammine.assembly import CompiledJob
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import OutputError, TopologyError
from streammine.model.job import DEAD_LETTERS, JobSpec, ResolvedSource, SinkTarget
from streammine.model.locations import below
from streammine.model.preparation import request_for
from streammine.model.snapshots import RecoverySettings
from streammine.model.spark_job import SparkProgress
from streammine.model.topology import FilesSource, GeneratorSource, LogSource, Topology
from streammine.operators.file_formats import stored_format
from streammine.runtime.output import begin_run
from streammine.runtime.prepared_logs import ensure_log
from streammine.runtime.signed_code import Sign, pickled, signed_message
from streammine.runtime.sources import (
    first_event_time,
    format_settings,
    prepared_source,
    raw_files,
    resolve_source,
    schema_of,
)
from streammine.runtime.stores import open_store

DEAD_LETTERS_FOLDER = "dead-letters"
DEFAULT_LOG_PARTITIONS = 8
DEFAULT_SPARK_MASTER = "local[*]"
Progress = Callable[[str, SparkProgress], None]


@dataclass(frozen=True)
class Submission:
    """A job that is ready to be submitted, and what was learned on the way."""

    spec: JobSpec
    compiled: CompiledJob
    rows_total: int | None


def sink_location(base: Path, path: str) -> str:
    """A sink's absolute folder or URL; relative paths start at the topology's folder."""
    return path if "://" in path else os.path.abspath(base / path)


def compile_topology(topology: Topology, base: Path) -> tuple[CompiledJob, list[ResolvedSource]]:
    """Look at every source and plan the job. Raises TopologyError, InputError, UserCodeError."""
    topology.check()
    epoch = topology.epoch_definition()
    used = topology.graph().order
    resolved = []
    for name in used:
        if name in topology.sources:
            with topology.places.of(name):
                resolved.append(resolve_source(name, topology.sources[name], epoch, str(base)))
    schemas = {source.name: schema_of(source) for source in resolved}
    code = topology.code
    return CompiledJob(topology, schemas, str(base), lambda name: code[name]), resolved


def prepare_submission(
    topology: Topology,
    base: Path,
    scratch: str,
    *,
    sign: Sign,
    store: str,
    nodes: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    master: str | None = None,
) -> Submission:
    """Make the job that runs `topology`, preparing the logs of its raw sources.

    `base` is the topology's folder; the folder or URL `scratch` takes what no sink path is given for;
    `store` is where snapshots go. Raises the errors of `compile_topology`, and OutputError when a sink's
    folder can't be used.
    """
    base = base.absolute()
    compiled, resolved = compile_topology(topology, base)
    wanted = compiled.graph.most_replicas
    if wanted > (nodes or topology.nodes):
        raise TopologyError(
            f"replicas: {wanted} needs as many nodes, for replicas of a slice are on different ones, and "
            f"the job is to have {nodes or topology.nodes} (nodes: of the topology, or --nodes); give it "
            "more nodes, or fewer replicas"
        )
    targets = _targets(compiled, base, scratch, overwrite)
    sources = []
    for source in resolved:
        settings = topology.sources[source.name]
        if isinstance(settings, FilesSource) and settings.prepare is not None:
            source = prepare_source(source, settings, compiled.epoch, base, master, progress)
        sources.append(source)
    code = pickled(topology.code)
    spec = JobSpec(
        topology=topology_tree(topology),
        sources=tuple(sources),
        base=str(base),
        graph=compiled.graph,
        nodes=nodes or topology.nodes,
        targets=targets,
        code=code,
        code_signature=sign(signed_message(code)) if code else b"",
        recovery=replace(
            recovery_settings(topology, store), pace_begins=pace_begins(topology, sources)
        ),
    )
    return Submission(spec, compiled, total_rows(spec.sources))


def topology_tree(topology: Topology) -> dict[str, Any]:
    """The topology as it travels with a job."""
    return topology.model_dump(mode="json", by_alias=True)


def total_rows(sources: Sequence[ResolvedSource]) -> int | None:
    """Raw rows of all sources, None where one does not say."""
    totals = [source.rows for source in sources]
    return None if None in totals else sum(rows for rows in totals if rows is not None)


def recovery_settings(topology: Topology, store: str) -> RecoverySettings:
    """What the topology says of snapshots, for a new job that keeps them in `store`."""
    snapshot = topology.snapshot
    if snapshot.mode == "none":
        return RecoverySettings()
    interval = snapshot.interval
    return RecoverySettings(
        mode=snapshot.mode,
        every_seconds=None if interval.duration is None else interval.duration.seconds,
        every_epochs=interval.epochs,
        store=store,
        goal=topology.recovery_goal,
        paced=topology.paced_sources,
    )


def pace_begins(topology: Topology, sources: Sequence[ResolvedSource]) -> dict[str, int]:
    """Where event time begins for each source with a speed: with the first row of them all, so that what
    happened together comes together. Raises InputError."""
    epoch = topology.epoch_definition()
    timed = {}
    for source in sources:
        settings = topology.sources[source.name]
        if (
            isinstance(settings, FilesSource | GeneratorSource | LogSource)
            and settings.speed is not None
        ):
            timed[source.name] = first_event_time(source, settings, epoch)
    first = min((each for each in timed.values() if each is not None), default=0)
    return dict.fromkeys(timed, first)


def prepare_source(
    source: ResolvedSource,
    settings: FilesSource,
    epoch: EpochDefinition,
    base: Path,
    master: str | None = None,
    progress: Progress | None = None,
) -> ResolvedSource:
    """The source as it is read from its epoch log, which is prepared now unless it is there."""
    assert settings.prepare is not None
    request = request_for(
        raw_files(source.files),
        format_settings(settings),
        schema_of(source),
        epoch,
        merge_by=settings.merge_by,
        partitions=settings.prepare.partitions or DEFAULT_LOG_PARTITIONS,
        sort=settings.prepare.sort,
        master=master or settings.prepare.master or DEFAULT_SPARK_MASTER,
    )
    listener = None if progress is None else partial(progress, source.name)
    log = ensure_log(source.name, request, base, listener)
    return prepared_source(source, str(log), epoch)


def _targets(
    compiled: CompiledJob, base: Path, scratch: str, overwrite: bool
) -> dict[str, SinkTarget]:
    topology = compiled.topology
    targets: dict[str, SinkTarget] = {}
    for name, sink in topology.sinks.items():
        location = below(scratch, name) if sink.path is None else sink_location(base, sink.path)
        for other, target in targets.items():
            if target.location == location:
                raise TopologyError(
                    f"sinks {other!r} and {name!r} write into the same folder {location}; "
                    "give each a path of its own"
                )
        run = begin_run(open_store(location), topology.name, name, overwrite=overwrite)
        _require_writable(name, location)
        targets[name] = SinkTarget(location, stored_format(sink.format), run)
    if any(vertex.name == DEAD_LETTERS for vertex in compiled.graph.vertices):
        location = _dead_letters_location(targets, topology, scratch)
        run = begin_run(open_store(location), topology.name, DEAD_LETTERS, overwrite=overwrite)
        targets[DEAD_LETTERS] = SinkTarget(location, "json", run)
    return targets


def _require_writable(sink: str, location: str) -> None:
    """Raises OutputError when the folder, or the one it would be made in, may not be written."""
    if "://" in location:
        return
    folder = Path(location)
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        # permissions alone don't tell: a file system may be read-only, or take no files at all
        with TemporaryFile(dir=existing):
            return
    except OSError as error:
        denied = isinstance(error, PermissionError)
        mend = "change that folder's owner or mode, or choose" if denied else "choose"
        raise OutputError(
            f"sink {sink!r} can't write {folder}: {existing} takes no file ({error.strerror}); {mend} "
            "another `path`"
        ) from error


def _dead_letters_location(
    targets: Mapping[str, SinkTarget], topology: Topology, scratch: str
) -> str:
    """Beside the rows of the first sink that keeps files."""
    for name, target in targets.items():
        if topology.sinks[name].path is not None:
            return below(target.location, DEAD_LETTERS_FOLDER)
    return below(scratch, DEAD_LETTERS_FOLDER)
