"""A job as the engine sees it: the resolved topology, the graph of slices and channels, and the plan.

`JobSpec` is what a client submits. Everything else follows from it by pure functions, the same on every
node: `JobGraph` (vertices, slices, channels with globally defined numbers, disciplines) from the
specification, and slices' places from the `Plan`, which alone is decided at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic import ConfigDict

from streammine.model.disciplines import Discipline
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.schemes import Scheme
from streammine.model.snapshots import RecoverySettings, Restore
from streammine.model.suggestions import hint, listed


@dataclass(frozen=True)
class ResolvedSource:
    """What looking at a source once told: its columns, files, size and the log that stands for it.

    `schema` is the Arrow schema's IPC message in hex (see `schema_text`). `kind` is "files", "log",
    "generator" or "live". `files` are absolute paths or URLs in path order. `rows` is the number of raw
    rows where known. `parallel` says whether more than one reader can split it.
    """

    name: str
    kind: Literal["files", "log", "generator", "live"]
    schema: str
    files: tuple[str, ...] = ()
    rows: int | None = None
    parallel: bool = True
    log: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SinkTarget:
    """Where a sink writes: an absolute folder or URL, the file format there ("parquet", "csv", "json" or
    "arrow"), and the number of this run in that folder."""

    location: str
    format: str
    run: int


@dataclass(frozen=True)
class JobSpec:
    """A submitted job: the topology (JSON of the validated model) and its resolved sources.

    `base` is the folder that relative paths and user modules are found from. `code` holds cloudpickled
    operators by name, accepted only with `code_signature` (HMAC-SHA256 with the cluster key). `batch_rows`
    is the most that a source reads at once; it never changes the result.
    """

    topology: dict[str, Any]
    sources: tuple[ResolvedSource, ...]
    base: str
    graph: JobGraph
    nodes: int
    targets: dict[str, SinkTarget]
    code: dict[str, bytes] = field(default_factory=dict)
    code_signature: bytes = b""
    batch_rows: int | None = None
    recovery: RecoverySettings = field(default_factory=RecoverySettings)

    # bytes stand in JSON as base64
    __pydantic_config__ = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


COMMITTER_SUFFIX = ".committer"
"""A sink's committer is the vertex of the sink's name and this."""

DEAD_LETTERS = ".dead-letters"
"""Vertex that takes the rows that could not be used."""

VertexKind = Literal["source", "stateful", "sink", "committer"]
Routing = Literal["partition", "broadcast", "forward"]
EdgeKind = Literal["plain", "entry", "inside", "back", "exit"]


@dataclass(frozen=True)
class Vertex:
    """A vertex of the running graph; `reason` says why it has its discipline. Of each slice there are
    `replicas` where there are as many nodes; all but the first stand as `scheme` says at first.
    `replicable`: there may be several, which make the same. `window_epochs`: the window beyond which it keeps
    nothing of an epoch; None where it may keep it without end. It tumbles, unless `slide_epochs` says how far
    apart windows begin.

    Stateless operators have no vertex of their own: they run in the slices of `host` vertices, see
    `Edge.stages`.
    """

    name: str
    kind: VertexKind
    slices: int
    discipline: Discipline
    reason: str
    replicas: int = 1
    scheme: Scheme = Scheme.ACTIVE_REPLICATION
    replicable: bool = True
    window_epochs: int | None = None
    slide_epochs: int | None = None


@dataclass(frozen=True)
class Edge:
    """All channels from one vertex to one port of another.

    `stages` are the stateless operators applied, in order, on the sending side. `combined`: the target's
    combiner runs on the sending side and the frames carry partials. `routing`: "partition" (by key),
    "broadcast", or "forward" (slice i sends to slice i modulo the target's slices only). `carries_order`:
    frames carry the hidden order columns. `sequenced`: without them, too, the rows of an epoch come in one
    sequence on each channel, however they are cut and however often they are made. `dead`: the edge takes the
    dead rows, not the output. `kind`: where it lies as to a loop (see stamps); "plain" is outside of every
    loop at both ends, and one from a loop to another is an "exit" of the first. `either`: the target gets the
    rows of an epoch from one of all edges with the same `chooser` into the port, which its replicas choose.
    """

    source: str
    target: str
    port: int
    stages: tuple[str, ...]
    combined: bool
    routing: Routing
    carries_order: bool
    dead: bool = False
    kind: EdgeKind = "plain"
    sequenced: bool = False
    either: bool = False

    @property
    def chooser(self) -> str:
        """The either that it is a way of: that reads sources only, so it is the first stage."""
        assert self.either, self
        return self.stages[0]


@dataclass(frozen=True)
class Loop:
    """A strongly connected component of the graph (DESIGN §5, "Loops").

    Every cycle of it leads through the vertex `head`. `members` are its vertices in declared order, the
    head among them; `back` its back-edges, (source vertex, head). An epoch has `max_rounds` rounds at
    most; what is on its way then is carried into the next.
    """

    head: str
    members: tuple[str, ...]
    back: tuple[tuple[str, str], ...]
    max_rounds: int


@dataclass(frozen=True)
class Channel:
    """A FIFO from one slice to one slice. `number` is global: every replica knows it by the same."""

    number: int
    edge: int
    source: SliceId
    target: SliceId
    port: int


_INSTEAD: dict[tuple[VertexKind, Scheme], Scheme] = {
    ("source", Scheme.PASSIVE_STANDBY_HOT): Scheme.PASSIVE_STANDBY_COLD,
    ("committer", Scheme.ACTIVE_STANDBY): Scheme.PASSIVE_STANDBY_HOT,
}


@dataclass(frozen=True)
class JobGraph:
    """Vertices in topological order (but for back-edges), and edges; slices and channels follow from
    them."""

    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    loops: tuple[Loop, ...] = ()

    def vertex(self, name: str) -> Vertex:
        return next(vertex for vertex in self.vertices if vertex.name == name)

    def loop(self, name: str) -> Loop | None:
        """The loop that a vertex is a member of."""
        return next((loop for loop in self.loops if name in loop.members), None)

    def never_forgetting(self, name: str) -> tuple[str, ...]:
        """The vertices, `name` and those that its output leads to, that would miss a lost epoch for ever."""
        reached = [name]
        for each in reached:
            reached += [
                edge.target
                for edge in self.edges
                if edge.source == each and edge.target not in reached
            ]
        return tuple(each for each in reached if not self._forgets(each))

    def _forgets(self, name: str) -> bool:
        vertex = self.vertex(name)
        endless = vertex.window_epochs is None and vertex.kind == "stateful"
        chooses = name in self.choosing or vertex.discipline is Discipline.CONSENSUS
        return not endless and not chooses and self.loop(name) is None

    def slices_named(self, text: str) -> tuple[SliceId, ...]:
        """One slice ("vertex/index"), or all of a vertex; a sink's committer goes with the sink."""
        names = (text, text + COMMITTER_SUFFIX)
        return tuple(each for each in self.slices if str(each) == text or each.vertex in names)

    def misnamed(self, text: str) -> str:
        """What is wrong with a text that names no slice."""
        name, _, _ = text.rpartition("/")
        known = {vertex.name: vertex.slices for vertex in self.vertices}
        if name not in known:
            return (
                f"nothing is called {text!r}{hint(text, known)} There are {listed(known)}; "
                "stateless operators go with what they follow"
            )
        last = known[name] - 1
        whole = f"partitions 0 to {last}" if last else "partition 0 alone"
        return f"there is no {text}: {name} has {whole}"

    def replicas_under(self, name: str, scheme: Scheme) -> int:
        """How many replicas a slice of the vertex is to have under a scheme, the first one counted."""
        return max(2, self.vertex(name).replicas) if scheme.deploys else 1

    def rung_of(self, name: str, scheme: Scheme, crowded: bool = False) -> Scheme:
        """The rung on which the further replicas of a vertex's slices stand under a scheme. On a node that is
        `crowded` they do not process.

        Where it asks for what does not exist there, it is the next that does: a source has no events to
        queue; whatever a committer processes is published; a round of a loop is over only when it was
        processed; and who chooses what to process processes it. The last two do not queue on a crowded node.
        """
        if crowded and scheme.processes:
            scheme = Scheme.PASSIVE_STANDBY_HOT
        if scheme is Scheme.PASSIVE_STANDBY_HOT and name in self.choosing:
            return Scheme.PASSIVE_STANDBY_COLD
        if scheme is Scheme.PASSIVE_STANDBY_HOT and self.loop(name) is not None:
            return Scheme.PASSIVE_STANDBY_COLD if crowded else Scheme.ACTIVE_STANDBY
        return _INSTEAD.get((self.vertex(name).kind, scheme), scheme)

    def newest_generation(self, version: int, first: int) -> int:
        """No plan up to this version has given a higher one: the first plan makes all replicas of a slice,
        any other one at most. `first` is the first generation of this attempt to run the job."""
        return first + version + self.most_replicas - 2

    def kind_at(self, name: str, edge: Edge) -> EdgeKind:
        """What an edge is to a vertex at one of its ends; "plain" for a vertex outside of loops."""
        if self.loop(name) is None:
            return "plain"
        if edge.kind in ("inside", "back"):
            return edge.kind
        return "exit" if edge.source == name else "entry"

    @cached_property
    def slices(self) -> tuple[SliceId, ...]:
        return tuple(
            SliceId(vertex.name, index)
            for vertex in self.vertices
            for index in range(vertex.slices)
        )

    @cached_property
    def choosing(self) -> frozenset[str]:
        """Vertices whose replicas choose one bag of several, epoch by epoch."""
        return frozenset(edge.target for edge in self.edges if edge.either)

    @cached_property
    def agreeing(self) -> frozenset[str]:
        """Vertices whose replicas agree on what they choose."""
        return frozenset(name for name in self.choosing if self.vertex(name).discipline.agrees)

    @cached_property
    def may_lose(self) -> frozenset[str]:
        """Vertices of which gap recovery may leave epochs out: operators that forget them in the end, as does
        all that their output leads to.

        A source reads again, and what a sink or committer was given is not lost any more. Where somebody
        keeps state without end, or goes round in a loop, one lost epoch would make all later ones wrong; and
        replicas that choose their bags must not have lost different ones.
        """
        operators = (vertex.name for vertex in self.vertices if vertex.kind == "stateful")
        return frozenset(name for name in operators if not self.never_forgetting(name))

    @cached_property
    def receivers(self) -> dict[str, int]:
        """Sources that receive one feed, numbered among those that do."""
        numbers: dict[str, int] = {}
        for group in self._feeds:
            for number, name in enumerate(group):
                numbers.setdefault(name, number)
        return numbers

    @cached_property
    def rivals(self) -> dict[str, frozenset[str]]:
        """By source that receives a feed, the others that do."""
        found: dict[str, frozenset[str]] = {}
        for group in self._feeds:
            for name in group:
                found[name] = found.get(name, frozenset()) | set(group) - {name}
        return found

    @cached_property
    def _feeds(self) -> tuple[tuple[str, ...], ...]:
        """The receivers of each, in order."""
        groups: dict[tuple[str, int, str], list[str]] = {}
        for edge in self.edges:
            if edge.either:
                groups.setdefault((edge.target, edge.port, edge.chooser), []).append(edge.source)
        return tuple(map(tuple, groups.values()))

    @cached_property
    def most_replicas(self) -> int:
        """That any slice has."""
        return max((vertex.replicas for vertex in self.vertices), default=1)

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """Numbered edge by edge, then by source slice, then by target slice."""
        channels: list[Channel] = []
        for number, edge in enumerate(self.edges):
            sources = self.vertex(edge.source).slices
            targets = self.vertex(edge.target).slices
            for source in range(sources):
                reached = [source % targets] if edge.routing == "forward" else range(targets)
                for target in reached:
                    source_id = SliceId(edge.source, source)
                    target_id = SliceId(edge.target, target)
                    channels.append(Channel(len(channels), number, source_id, target_id, edge.port))
        return tuple(channels)

    @cached_property
    def inputs(self) -> dict[SliceId, tuple[Channel, ...]]:
        """Channels into each slice, by number."""
        return _grouped(self.slices, self.channels, lambda channel: channel.target)

    @cached_property
    def outputs(self) -> dict[SliceId, tuple[Channel, ...]]:
        """Channels out of each slice, by number."""
        return _grouped(self.slices, self.channels, lambda channel: channel.source)


def _grouped(
    slices: tuple[SliceId, ...],
    channels: tuple[Channel, ...],
    end: Callable[[Channel], SliceId],
) -> dict[SliceId, tuple[Channel, ...]]:
    groups: dict[SliceId, list[Channel]] = {slice_id: [] for slice_id in slices}
    for channel in channels:
        groups[end(channel)].append(channel)
    return {slice_id: tuple(group) for slice_id, group in groups.items()}


@dataclass(frozen=True)
class Placement:
    """One replica's place: the node it runs on and its generation.

    `member` is the node's sequence number among all that ever joined, so that a node that comes back under
    its old name is not taken for the one that was lost. `restore`: what the replica is built from, None for
    nothing. `leaving`: it goes as soon as the newest replica of its slice has caught up with it. `rung`: how
    far up the ladder it stands. What has published does not step back: one that is to stand lower is another
    generation.
    """

    node: str
    generation: int
    member: int = 0
    restore: Restore | None = None
    leaving: bool = False
    rung: Scheme = Scheme.ACTIVE_REPLICATION

    @property
    def begin(self) -> int:
        """The epoch that the replica was, or is, built from, BEGINNING for nothing."""
        return BEGINNING if self.restore is None else self.restore.epoch


@dataclass(frozen=True)
class AgreeingReplicas:
    """Who agrees on what a slice's replicas process: generations, ascending. `version`: of the plan that
    listed just these first, or anew; above all of earlier attempts to run the job."""

    version: int
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The declared assignment of replicas to nodes; nodes reconcile towards it (DESIGN §5).

    `phase`: "deploy" (build slices, connect, load kernels; sources wait), "run", or "stop". Of several
    placements of a slice the first one leads, which alone makes snapshots. No slice is placed on a
    node that is `draining`. `savepoint`: the job ends with the next complete checkpoint. `rebuilt`: how
    many plans in a row made up for losses while the job got no further than the epoch `reached`.
    `began_at`: where the phase is "run", when the pace of its sources began, in seconds of the system clock
    of the node that was manager then. All nodes take it from here, whenever they come: where their clocks
    differ from each other, their slices' rows come apart by as much, and nothing else changes. `schemes`:
    those that were changed at run time. `crowded`: nodes on which replicas behind others do not process.
    `fixed`: slices whose scheme a person has set, and nobody chooses. `agreeing`: of each slice whose
    replicas agree on their input, who they are.
    """

    job: int
    version: int
    phase: Literal["deploy", "run", "stop"]
    placements: dict[SliceId, tuple[Placement, ...]]
    draining: tuple[str, ...] = ()
    savepoint: bool = False
    rebuilt: int = 0
    reached: int = BEGINNING
    began_at: float = 0.0
    schemes: dict[SliceId, Scheme] = field(default_factory=dict)
    crowded: tuple[str, ...] = ()
    fixed: tuple[SliceId, ...] = ()
    agreeing: dict[SliceId, AgreeingReplicas] = field(default_factory=dict)


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended. `status` is "finished", "failed", "stopped" or "savepoint"; `counters` by slice."""

    status: str
    reason: str | None = None
    counters: dict[str, dict[str, float]] = field(default_factory=dict)
