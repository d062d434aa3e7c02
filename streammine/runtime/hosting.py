"""What a node hosts of a job: its compiled topology, the processors of its slices, and their clocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from streammine.assembly import DEFAULT_READ_ROWS, CompiledJob, Environment, Seats, StepTimes
from streammine.engine.node_stimuli import NewReplica, Perform, Seated, Sit, damaged_by
from streammine.engine.processor import Processor
from streammine.engine.replay_meter import ReplayCount
from streammine.engine.slice import SliceMachine
from streammine.engine.source_processor import SourceProcessor
from streammine.engine.stimuli import CloseEpoch, Finish, WorkResult
from streammine.model.contracts import BatchSpill, Position, Store
from streammine.model.control import DamagedSnapshot
from streammine.model.epochs import BEGINNING
from streammine.model.errors import (
    JobFailedError,
    ProtocolError,
    SnapshotDamagedError,
    UserCodeError,
)
from streammine.model.frames import FrameHeader
from streammine.model.ids import SliceId
from streammine.model.job import JobSpec
from streammine.model.source_contracts import SourceReader
from streammine.model.topology import Topology
from streammine.runtime.read_times import ReadTimes
from streammine.runtime.signed_code import value_loader
from streammine.runtime.sources import open_reader, schema_of
from streammine.runtime.spill import FileSpill
from streammine.runtime.stores import open_store
from streammine.runtime.work_clock import work_clock


@dataclass
class HostedSlice:
    """A replica's processor and what its shell measures of it. It is closed when it is withdrawn, or, if
    it is at work then, as soon as that is done."""

    processor: Processor
    spill: BatchSpill
    rank: int
    at_work: bool = False
    withdrawn: bool = False
    busy_seconds: float = 0.0
    replay: ReplayCount = field(default_factory=ReplayCount)
    pace_began_at: float | None = None
    first_read_at: float | None = None
    last_commit_at: float | None = None

    def close(self) -> None:
        self.processor.close()
        self.spill.close()

    def counters(self) -> dict[str, float]:
        """Counters as they travel in heartbeats; times are seconds of the system clock."""
        counted = self.processor.counters
        values: dict[str, float] = {
            "rows_in": counted.rows_in,
            "rows_out": counted.rows_out,
            "rows_dead": counted.rows_dead,
            "batches_in": counted.batches_in,
            "epochs": counted.epochs,
            "state_bytes": counted.state_bytes,
            "buffered_bytes": counted.buffered_bytes,
            "spilled_bytes": counted.spilled_bytes,
            "busy_seconds": self.busy_seconds,
            **self.replay.counters(),
            **counted.extra,
        }
        for name, stage in self.processor.edges.stage_counters().items():
            values[f"stage:{name}:rows_in"] = stage.rows_in
            values[f"stage:{name}:rows_out"] = stage.rows_out
        if counted.counted_after != BEGINNING:
            values["counted_after"] = counted.counted_after
        if self.pace_began_at is not None:
            values["pace_began_at"] = self.pace_began_at
        if self.first_read_at is not None:
            values["first_read_at"] = self.first_read_at
        if self.last_commit_at is not None:
            values["last_commit_at"] = self.last_commit_at
        return values


@dataclass
class HostedJob:
    """One job on this node. Built and used on worker threads.

    Replicas are known by slice and generation. A slice's old replica may still be at work when a new one
    is built. `verified`: snapshots that were read back here; `collects_from`: when old ones may be removed
    again, by the clock that only goes on.
    """

    number: int
    spec: JobSpec
    folder: Path
    sign_check: Callable[[bytes, bytes], bool] | None
    compiled: CompiledJob | None = None
    slices: dict[tuple[SliceId, int], HostedSlice] = field(default_factory=dict)
    schemas: dict[int, pa.Schema] = field(default_factory=dict)
    verified: set[str] = field(default_factory=set)
    collects_from: float = 0.0
    times: StepTimes = field(default_factory=lambda: StepTimes(time.monotonic))
    read_times: ReadTimes = field(default_factory=ReadTimes)
    _began: float = 0.0
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _at_work: int = 0
    _closing: bool = False

    def begin(self, began_at: float) -> None:
        """Its pace began, or begins, at that time of the system clock. That is asked here once: when it is
        set later, the pace does not change."""
        self._began = time.monotonic() - (time.time() - began_at)

    @cached_property
    def seats(self) -> Seats:
        return Seats(self.times)

    @cached_property
    def snapshot_store(self) -> Store:
        """Where this job's snapshots lie; what is put there outlives a power failure."""
        assert self.spec.recovery.store, "a job that makes snapshots has a store for them"
        return open_store(self.spec.recovery.store, durable=True)

    def deploy(
        self, replicas: tuple[NewReplica, ...]
    ) -> tuple[list[SliceMachine], list[DamagedSnapshot]]:
        """Build and prepare replicas; those whose snapshots are damaged are named instead.

        Raises TopologyError, UserCodeError, StateVersionError and the like.
        """
        with self._working():
            if self.compiled is None:
                self.compiled = self._compile()
            machines: list[SliceMachine] = []
            damaged: list[DamagedSnapshot] = []
            environment = self._environment()
            for replica in replicas:
                try:
                    machines.append(self._build(self.compiled, replica, environment))
                except SnapshotDamagedError as error:
                    damaged.append(damaged_by(replica, error))
            return machines, damaged

    def _build(
        self, compiled: CompiledJob, replica: NewReplica, environment: Environment
    ) -> SliceMachine:
        seat = self.seats.give(replica.slice)
        built = self.times.built(compiled, self.number, replica, environment, seat)
        names = [vertex.name for vertex in self.spec.graph.vertices]
        rank = -names.index(replica.slice.vertex)
        with self._guard:
            self.slices[replica.slice, replica.generation] = HostedSlice(
                built.processor, built.spill, rank
            )
        for channel in self.spec.graph.inputs[replica.slice]:
            if channel.number not in self.schemas:
                edge = self.spec.graph.edges[channel.edge]
                self.schemas[channel.number] = compiled.edge_schema(edge)
        return built.machine

    def sit(self, wish: Sit) -> Seated:
        """Have an operator ready. Raises like `deploy`."""
        with self._working():
            if self.compiled is None:
                self.compiled = self._compile()
            return self.seats.sit(self.compiled, wish, self._environment())

    def withdraw(self, slice_id: SliceId, generation: int) -> None:
        """Forget a replica."""
        with self._guard:
            hosted = self.slices.pop((slice_id, generation), None)
            if hosted is None:
                return
            hosted.withdrawn = True
            at_work = hosted.at_work
        if not at_work:
            hosted.close()

    def _compile(self) -> CompiledJob:
        topology = Topology.model_validate(self.spec.topology)
        schemas = {source.name: schema_of(source) for source in self.spec.sources}
        load_value = value_loader(self.spec.code, self.spec.code_signature, self.sign_check)
        return CompiledJob(topology, schemas, self.spec.base, load_value, self.spec.graph)

    def _environment(self) -> Environment:
        assert self.compiled is not None
        topology = self.compiled.topology
        epoch = self.compiled.epoch
        sources = {source.name: source for source in self.spec.sources}

        def reader(
            name: str, index: int, columns: tuple[str, ...] | None, position: Position | None
        ) -> SourceReader:
            settings = topology.sources[name]
            return open_reader(
                sources[name],
                settings,
                epoch,
                index,
                settings.slices,
                columns,
                position,
                self.spec.recovery.pace_begins.get(name, 0),
            )

        return Environment(
            open_reader=reader,
            open_store=open_store,
            targets=self.spec.targets,
            open_spill=lambda: FileSpill(self.folder),
            read_rows=self.spec.batch_rows or DEFAULT_READ_ROWS,
            snapshot_mode=self.spec.recovery.mode,
            snapshots=self.snapshot_store if self.spec.recovery.mode != "none" else None,
            delay_of=self.read_times.delay_milliseconds,
        )

    def decode(self, channel: int, body: pa.Buffer | None) -> pa.RecordBatch | None:
        """A frame's body as a batch. Raises ProtocolError when it is none of the channel's schema."""
        if body is None:
            return None
        try:
            batch = pa.ipc.read_record_batch(body, self.schemas[channel])
            batch.validate()
        except (pa.ArrowInvalid, pa.ArrowIndexError, OSError, KeyError) as error:
            raise ProtocolError(
                f"channel {channel} of job {self.number}: a frame holds no batch: {error}"
            ) from error
        return batch

    def perform(self, hosted: HostedSlice, effect: Perform) -> WorkResult:
        """Run a replica's work on the calling thread."""
        with self._guard:
            if hosted.withdrawn:
                raise JobFailedError(f"{effect.slice} was withdrawn")
            hosted.at_work = True
        try:
            with self._working():
                return self._perform(hosted, effect)
        finally:
            self._rest(hosted)

    def _rest(self, hosted: HostedSlice) -> None:
        """A replica's work is done; if it was withdrawn meanwhile, it is closed."""
        with self._guard:
            hosted.at_work = False
            withdrawn = hosted.withdrawn
        if withdrawn:
            hosted.close()

    def _perform(self, hosted: HostedSlice, effect: Perform) -> WorkResult:
        elapsed_seconds = time.monotonic() - self._began
        if hosted.first_read_at is None and isinstance(hosted.processor, SourceProcessor):
            hosted.first_read_at = time.time()
            # the first row that a paced source gives in this attempt is due then
            hosted.pace_began_at = hosted.first_read_at - elapsed_seconds
        begin = work_clock()
        read_at = int(time.time() * 1e6)
        try:
            result = hosted.processor.perform(effect.work, elapsed_seconds)
        except RecursionError as error:
            raise UserCodeError(f"slice {effect.slice}: {error}") from error
        finally:
            took_seconds = work_clock.since(begin)
            hosted.busy_seconds += took_seconds
            if any(isinstance(item, (CloseEpoch, Finish)) for item in effect.work):
                hosted.last_commit_at = time.time()
        hosted.replay.performed(effect.work, effect.late_bytes, result, took_seconds)
        if isinstance(hosted.processor, SourceProcessor):
            for epoch, seconds in hosted.processor.waited_seconds.items():
                self.read_times.note(epoch, read_at - int(seconds * 1e6))
        return result

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Work and closing exclude each other: whoever is last of them closes."""
        with self._guard:
            if self._closing:
                raise JobFailedError(f"job {self.number} is over")
            self._at_work += 1
        try:
            yield
        finally:
            with self._guard:
                self._at_work -= 1
                last = self._abandoned()
            if last:
                self._close_slices()

    def _abandoned(self) -> bool:
        """Nobody works here and nobody will. The caller holds the guard."""
        return self._closing and self._at_work == 0

    def close(self) -> None:
        """Close readers and spills, now or when the work under way is done. May be said again."""
        with self._guard:
            if self._closing:
                return
            self._closing = True
            last = self._abandoned()
        if last:
            self._close_slices()

    def _close_slices(self) -> None:
        with self._guard:
            slices = list(self.slices.values())
        for hosted in slices:
            hosted.close()
        self.seats.close()


def stamped(header: FrameHeader, jobs: Mapping[int, HostedJob]) -> bytes:
    """The header of a frame that leaves, with what its job knows of when the epoch was read."""
    job = jobs.get(header.job)
    return header.encode(0 if job is None else job.read_times.of(header.epoch))
