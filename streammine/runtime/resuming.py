"""From a run that was interrupted to a job that goes on with it.

Inputs and the numbers of output runs are those of the run; only the number of nodes may be another, and
user code comes from the topology again: nothing that lies in a store is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from streammine.assembly import (
    CompiledJob,
    Term,
    any_checkpoint,
    begin_term,
    first_generation,
    forgotten_until,
    load_run,
    load_snapshot,
    newest_checkpoints,
    next_attempt,
    save_run,
)
from streammine.model.errors import (
    OutputError,
    ProtocolError,
    SnapshotDamagedError,
    TopologyError,
)
from streammine.model.ids import SliceId
from streammine.model.job import JobSpec, SinkTarget
from streammine.model.job_codec import decode_spec, encode_spec
from streammine.model.locations import below, without_options
from streammine.model.recovery import Checkpoint
from streammine.model.suggestions import listed
from streammine.model.topology import Source, Topology
from streammine.runtime.output import begin_run
from streammine.runtime.run_folders import SINKS_FOLDER, Run
from streammine.runtime.signed_code import Sign, pickled, signed_message
from streammine.runtime.sources import schema_of
from streammine.runtime.stores import open_store
from streammine.runtime.submission import Submission, topology_tree, total_rows


def keep_run(run: Run, spec: JobSpec) -> None:
    """Write down what it takes to resume a new run, and claim its first attempt. Raises OutputError."""
    attempt = next_attempt(run.store)
    assert attempt == 0, f"run {run.name} is new, so nobody had attempt {attempt - 1} of it"
    save_run(run.store, encode_spec(replace(spec, code={}, code_signature=b"")))


def resumed_submission(
    topology: Topology,
    run: Run,
    *,
    sign: Sign,
    nodes: int | None = None,
    overwrite: bool = False,
    warn: Callable[[str], None] | None = None,
) -> Submission:
    """The job that continues `run` from its newest complete checkpoint, or else from the beginning.

    Checkpoints that are damaged are passed over and told to `warn`. Raises TopologyError when
    `topology` is not the run's, OutputError when the run can't be read, or its sinks' folders have
    been written by others since.
    """
    saved = _saved(run)
    _require_same(topology, saved, run)
    code = pickled(topology.code)
    schemas = {source.name: schema_of(source) for source in saved.sources}
    compiled = CompiledJob(topology, schemas, saved.base, lambda name: topology.code[name])
    if compiled.graph != saved.graph:
        raise TopologyError(
            f"run {run.name} was made by another version of streammine, or of the operators' code: "
            "its slices and channels differ; go on with that version, or run the topology again"
        )
    targets = _targets(saved, run)
    _require_latest_output(targets, topology.name, overwrite)
    attempt = next_attempt(run.store)
    # a manager of an earlier attempt that wakes up now can neither publish what counts nor remove anything
    begin_term(run.store, Term(attempt), warn)
    checkpoints = newest_checkpoints(run.store, warn=warn)
    newest = max(checkpoints, key=lambda checkpoint: checkpoint.epoch, default=None)
    forgotten = newest is None or newest.epoch < forgotten_until(run.store)
    if forgotten and compiled.graph.agreeing and any_checkpoint(run.store):
        takers = listed(sorted(compiled.graph.agreeing))
        raise OutputError(
            f"run {run.name}: none of its last checkpoints can be read. What {takers} took of its receivers "
            "before them is known no more, and might be other rows than those that were committed; run the "
            "topology again"
        )
    recovery = replace(
        saved.recovery,
        store=run.location,
        first_generation=first_generation(attempt),
        resume={} if newest is None else dict(newest.slices),
        pace_begins=_pace_begins(topology, run, saved.recovery.pace_begins, newest),
        goal=topology.recovery_goal,
        paced=topology.paced_sources,
    )
    spec = replace(
        saved,
        topology=topology_tree(topology),
        nodes=nodes or topology.nodes,
        targets=targets,
        code=code,
        code_signature=sign(signed_message(code)) if code else b"",
        recovery=recovery,
    )
    return Submission(spec, compiled, total_rows(spec.sources))


def _pace_begins(
    topology: Topology, run: Run, first: Mapping[str, int], checkpoint: Checkpoint | None
) -> dict[str, int]:
    """What the pace of each source begins with: of one with a rate, the row that the slice had come to that
    was furthest. Event time goes on, for all sources, where the one was that was furthest from the `first`.
    """
    sources = {
        name: each for name, each in topology.sources.items() if name in topology.paced_sources
    }
    furthest = {} if checkpoint is None else _furthest(sources, run, checkpoint)
    begins = {name: mark for name, mark in furthest.items() if sources[name].rate is not None}
    speeds = {name: each.speed for name, each in sources.items() if each.speed is not None}
    played = max(
        ((furthest[name] - first[name]) / speeds[name] for name in speeds.keys() & furthest.keys()),
        default=0.0,
    )
    return begins | {name: first[name] + round(played * speeds[name]) for name in speeds}


def _furthest(sources: Mapping[str, Source], run: Run, checkpoint: Checkpoint) -> dict[str, int]:
    """The mark (see runtime.sources.pace) that the slice of each source had come to that was furthest.

    Snapshots that are damaged are left to the manager, which does without them.
    """
    marks: dict[str, int] = {}
    for name, source in sources.items():
        for index in range(source.slices):
            slice_id = SliceId(name, index)
            record = checkpoint.slices[str(slice_id)].record
            if record is None:
                continue
            try:
                position = load_snapshot(run.store, record, slice_id).position
            except SnapshotDamagedError:
                continue
            if position is not None:
                mark = position["reader"]["number"]
                marks[name] = max(marks.get(name, mark), mark)
    return marks


def _saved(run: Run) -> JobSpec:
    try:
        return decode_spec(load_run(run.store))
    except (SnapshotDamagedError, ProtocolError) as error:
        raise OutputError(
            f"run {run.name} can't be resumed: {error}. If it was interrupted before its job began, "
            "nothing is lost: run the topology again"
        ) from None


def _require_same(topology: Topology, saved: JobSpec, run: Run) -> None:
    """Raises TopologyError unless it says what the run's topology said, but for the nodes."""
    now = topology_tree(topology)
    parts = [
        f"{name}.{part}" if part else name
        for name in sorted(now.keys() | saved.topology.keys())
        if name != "nodes"
        for part in _differing(now.get(name), saved.topology.get(name))
    ]
    if parts:
        raise TopologyError(
            f"the topology is not that of run {run.name}: {listed(parts)} changed. Undo the change "
            "(only nodes may differ; --set must be given again), or run it without --resume"
        )


def _differing(now: object, before: object) -> list[str]:
    """Names of the entries that differ; [""] where there are none, but the whole differs."""
    if now == before:
        return []
    if isinstance(now, dict) and isinstance(before, dict):
        return [name for name in sorted(now.keys() | before) if now.get(name) != before.get(name)]
    return [""]


def _targets(saved: JobSpec, run: Run) -> dict[str, SinkTarget]:
    """Where sinks write; those without a path in the run's folder, which may have been moved."""
    before, _ = without_options(below(saved.recovery.store, SINKS_FOLDER))
    targets = {}
    for sink, target in saved.targets.items():
        location, _ = without_options(target.location)
        inside = location.removeprefix(f"{before}/")
        moved = replace(target, location=below(run.sinks, inside))
        targets[sink] = target if inside == location else moved
    return targets


def _require_latest_output(targets: Mapping[str, SinkTarget], job: str, overwrite: bool) -> None:
    """Raises OutputError when another run has written into a sink's folder since."""
    for sink, target in targets.items():
        store = open_store(target.location)
        if begin_run(store, job, sink, overwrite=overwrite) > target.run + 1:
            raise OutputError(
                f"sink {sink!r}: a later run has written into {target.location}, so this run can't go "
                "on there; run the topology again"
            )
