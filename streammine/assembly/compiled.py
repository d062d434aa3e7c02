"""A topology compiled: operators checked against their inputs, the graph, and slices built from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from replication import Consensus, FirstBags
from streammine.assembly.environment import (
    DEAD_LETTERS_COMMIT_EVERY,
    BuiltSlice,
    Environment,
    StateLoader,
    channel_budget,
    loaded_snapshot,
    restored_to,
    taken_from,
)
from streammine.assembly.losing import check_may_lose, window_epochs
from streammine.assembly.sending import chosen_among, outgoing_edges
from streammine.assembly.stream_order import check_orders, stream_order
from streammine.assembly.streams import Operator, Stream, probed
from streammine.engine.agreeing_slice import PATIENCE_TICKS, AgreeingSlice
from streammine.engine.bag import BagMemory
from streammine.engine.input_channel import InputChannel
from streammine.engine.loop_processor import LoopProcessor
from streammine.engine.loop_slice import LoopHeadSlice, LoopSlice
from streammine.engine.node_stimuli import NewReplica
from streammine.engine.output_channel import OutputChannel
from streammine.engine.planner import LogicalNode, plan
from streammine.engine.processor import OperatorProcessor, Processor
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import LoopPlace, RestoredTo, SliceSettings
from streammine.engine.source_processor import SourceProcessor
from streammine.model.agreement import AgreementSettings, NewAgreement
from streammine.model.contracts import (
    DEAD_SCHEMA,
    BatchSpill,
    Forgets,
    Position,
    SequentialOperator,
    StatefulOperator,
    Traits,
)
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.model.job import DEAD_LETTERS, Edge, EdgeKind, JobGraph, Vertex
from streammine.model.manifest import SinkDescription
from streammine.model.recovery_policy import wants_gap
from streammine.model.stamps import covered
from streammine.model.topology import (
    BroadcastPartition,
    KeyedFields,
    Redundancy,
    Sink,
    SourceBase,
    Topology,
    redundancy,
    topology_graph,
)
from streammine.operators.catalog import build_operator, declared_output
from streammine.operators.committer import CommitOperator
from streammine.operators.loading import Loader
from streammine.operators.needed_columns import needed_columns
from streammine.operators.sinks import FILE_RECORD, SinkOperator, SinkSettings
from streammine.operators.site import Site


class CompiledJob:
    """A topology checked and planned. Raises TopologyError for whatever can't run.

    `schemas` gives each source's columns. `base` is the folder that user modules are found
    from; `load_value` gives operators that were submitted by value.
    """

    def __init__(
        self,
        topology: Topology,
        schemas: Mapping[str, pa.Schema],
        base: str,
        load_value: Loader,
        graph: JobGraph | None = None,
    ) -> None:
        self.topology = topology
        self.epoch = topology.epoch_definition()
        self.base = base
        self._load_value = load_value
        self._order = topology_graph(topology).order
        self.operators = topology.every_operator
        probes = self._probe(schemas)
        self.columns = needed_columns(topology, self._order, probes)
        pruned = {
            name: schema if (wanted := self.columns[name]) is None else _select(schema, wanted)
            for name, schema in schemas.items()
            if name in self.columns
        }
        self.streams = self._probe(pruned)
        planned = graph is None
        if graph is None:
            with topology.places.of():
                graph = plan(self._logical_nodes())
                if wants_gap(topology.recovery_goal):
                    check_may_lose(graph)
        self.graph = graph
        if planned:
            check_orders(self)

    def _probe(self, schemas: Mapping[str, pa.Schema]) -> dict[str, Stream]:
        return probed(
            self.topology,
            self._order,
            schemas,
            self._build,
            lambda name: declared_output(name, self.operators[name], self.base, self._load_value),
        )

    def _build(
        self,
        name: str,
        inputs: list[pa.Schema],
        combined: bool = False,
        ordered: bool = False,
        carries_order: bool = False,
        orders: Sequence[tuple[pa.Field, ...]] = (),
    ) -> Operator:
        site = Site(
            name,
            inputs,
            self.epoch,
            combined=combined,
            ordered=ordered,
            carries_order=carries_order,
            orders=orders,
            base=self.base,
            loader=self._load_value,
            job=self.topology.name,
        )
        return build_operator(self.operators[name], site)

    def _logical_nodes(self) -> list[LogicalNode]:
        nodes = []
        for name in self._order:
            if name in self.topology.sources:
                source = self.topology.sources[name]
                node = LogicalNode(name, "source", slices=source.slices, may_die=True)
                if isinstance(source, SourceBase):
                    node = replace(node, **self._redundancy(source))
                else:
                    # clients send to one receiver
                    node = replace(node, replicable=False)
                nodes.append(node)
            elif name in self.operators:
                nodes.append(self._logical_operator(name))
            else:
                sink = self.topology.sinks[name]
                copies = self._redundancy(sink)
                nodes.append(
                    LogicalNode(
                        name, "sink", (sink.input,), sink.slices, ordered=sink.ordered, **copies
                    )
                )
        return nodes

    def _logical_operator(self, name: str) -> LogicalNode:
        settings = self.operators[name]
        operator = self.streams[name].operator
        if not isinstance(operator, StatefulOperator | SequentialOperator):
            return LogicalNode(
                name,
                settings.stateless_kind,
                settings.input_names,
                traits=Traits(deterministic=operator is None or operator.deterministic),
                max_rounds=getattr(settings, "max_rounds", None),
                may_die=settings.sets_aside,
            )
        assert isinstance(settings, KeyedFields)
        return LogicalNode(
            name,
            "stateful",
            settings.input_names,
            slices=settings.slices,
            traits=operator.traits,
            discipline=settings.discipline,
            combine=getattr(settings, "combine", None),
            broadcast=isinstance(settings.partition, BroadcastPartition),
            keyed=any(operator.keys),
            positioned=bool(getattr(operator, "hidden", ())),
            may_die=settings.sets_aside,
            every_key=getattr(operator, "every_key", False),
            ends_input=getattr(operator, "ends_input", False),
            max_rounds=getattr(settings, "max_rounds", None),
            window_epochs=operator.window_epochs if isinstance(operator, Forgets) else None,
            slide_epochs=getattr(operator, "slide_epochs", None),
            **self._redundancy(settings),
        )

    def _redundancy(self, part: SourceBase | KeyedFields | Sink) -> Redundancy:
        return redundancy(part.replicas, part.scheme, self.topology)

    # --- what travels ---------------------------------------------------------------------------

    def edge_schema(self, edge: Edge) -> pa.Schema:
        """Schema of the batches on an edge, hidden columns included."""
        if edge.dead:
            return DEAD_SCHEMA
        if self.graph.vertex(edge.target).kind == "committer":
            return FILE_RECORD
        if edge.combined:
            partial = self.bare_operator(edge.target, combined=True)
            assert isinstance(partial, StatefulOperator)
            assert partial.partial_schema is not None
            return partial.partial_schema
        visible = self.streams[edge.stages[-1] if edge.stages else edge.source].schema
        if not edge.carries_order:
            return visible
        return pa.schema([*visible, *self.order_fields(edge)])

    def order_fields(self, edge: Edge) -> tuple[pa.Field, ...]:
        """The columns that order an edge's rows, most significant first; () where it carries none."""
        if not edge.carries_order:
            return ()
        return stream_order(self, edge.stages[-1] if edge.stages else edge.source)

    # --- slices ---------------------------------------------------------------------------------

    def slice(
        self,
        job: int,
        replica: NewReplica,
        environment: Environment,
        seat: BuiltSlice | None = None,
    ) -> BuiltSlice:
        """Build one replica of a slice; `BuiltSlice.prepare` makes it ready. One that stood by on the node,
        on a `seat`, is used where its operator can be; else it is closed.

        Raises SnapshotDamagedError when the snapshot that it is restored from can't be read.
        """
        built = None
        try:
            built = self._slice(job, replica, environment, seat)
        finally:
            if seat is not None and (built is None or built.processor is not seat.processor):
                seat.close()
        return built

    def _slice(
        self,
        job: int,
        replica: NewReplica,
        environment: Environment,
        seat: BuiltSlice | None,
    ) -> BuiltSlice:
        slice_id, generation = replica.slice, replica.generation
        vertex = self.graph.vertex(slice_id.vertex)
        snapshot = loaded_snapshot(replica.slice, replica.restore, environment)
        restored = restored_to(replica.restore, snapshot)
        begin = BEGINNING if restored is None else restored.epoch
        done = begin
        if restored is not None:
            done = INFINITY if restored.finished else max(begin, restored.left_out_until)
        checkpointed = environment.snapshot_mode != "none"
        kinds = self._kinds(slice_id)
        machine = self._machine(
            slice_id,
            generation,
            tuple(
                InputChannel(
                    each.number,
                    each.port,
                    generation,
                    replica.links.get(each.number, ()),
                    covered(kinds[each.number], done),
                )
                for each in self.graph.inputs[slice_id]
            ),
            tuple(
                OutputChannel(
                    job,
                    each.number,
                    generation,
                    self._budget_bytes(each.target, environment),
                    replica.links.get(each.number, ()),
                    covered(kinds[each.number], begin),
                    checkpointed,
                )
                for each in self.graph.outputs[slice_id]
            ),
            SliceSettings(
                self.epoch,
                environment.read_rows,
                environment.snapshot_mode,
                environment.waiting_bytes,
                environment.retained_bytes,
                window_epochs(vertex, self.commit_every(vertex.name)),
                chosen_among(self, slice_id),
                vertex.slide_epochs,
            ),
            kinds,
            restored,
            environment.agreement,
        )
        if seat is not None:
            taken = taken_from(seat, vertex, replica.restore, snapshot)
            if taken is not None:
                return BuiltSlice(
                    machine, seat.processor, seat.spill, prepared=True, taken_bytes=taken
                )
        spill = environment.open_spill()
        position = None if snapshot is None else snapshot.position
        processor = self._processor(vertex, replica, environment, spill, begin, position)
        return BuiltSlice(machine, processor, spill, replica.restore, snapshot)

    def _kinds(self, slice_id: SliceId) -> dict[int, EdgeKind]:
        """By channel of a slice, what its edge is to the slice."""
        return {
            each.number: self.graph.kind_at(slice_id.vertex, self.graph.edges[each.edge])
            for each in (*self.graph.inputs[slice_id], *self.graph.outputs[slice_id])
        }

    def _machine(
        self,
        slice_id: SliceId,
        generation: int,
        inputs: tuple[InputChannel, ...],
        outputs: tuple[OutputChannel, ...],
        settings: SliceSettings,
        kinds: dict[int, EdgeKind],
        restored: RestoredTo | None,
        patience: AgreementSettings,
    ) -> SliceMachine:
        if slice_id.vertex in self.graph.choosing:
            assert patience.bags_come, "no replica hands bags to another one"
            assert patience.every_decision_stored, "who is outvoted in memory alone could forget it"
            begin = BEGINNING if restored is None else restored.epoch
            agrees = slice_id.vertex in self.graph.agreeing
            new_agreement: NewAgreement = Consensus if agrees else FirstBags
            return AgreeingSlice(
                slice_id,
                generation,
                self._feeds(inputs),
                outputs,
                settings,
                new_agreement(generation, patience, begin, begin),
                patience.patience_seconds / PATIENCE_TICKS,
                restored,
            )
        loop = self.graph.loop(slice_id.vertex)
        if loop is None:
            return SliceMachine(slice_id, generation, inputs, outputs, settings, restored)
        folds = isinstance(self.streams[slice_id.vertex].operator, StatefulOperator)
        place = LoopPlace(kinds, folds, loop.max_rounds)
        if loop.head == slice_id.vertex:
            return LoopHeadSlice(slice_id, generation, inputs, outputs, settings, place, restored)
        return LoopSlice(slice_id, generation, inputs, outputs, settings, place, restored)

    def _feeds(self, inputs: Sequence[InputChannel]) -> list[tuple[InputChannel, ...]]:
        """Channels by what they bring: the same slice of all sources of which either will do, or one."""
        feeds: dict[tuple[int, str, int], list[InputChannel]] = {}
        for each in inputs:
            channel = self.graph.channels[each.number]
            edge = self.graph.edges[channel.edge]
            brings = (
                (each.port, edge.chooser, channel.source.index)
                if edge.either
                else (-1, "", each.number)
            )
            feeds.setdefault(brings, []).append(each)
        return [tuple(channels) for channels in feeds.values()]

    def _budget_bytes(self, target: SliceId, environment: Environment) -> int:
        """The credit of one channel into a slice."""
        if environment.channel_budget_bytes is not None:
            return environment.channel_budget_bytes
        return channel_budget(len(self.graph.inputs[target]))

    def _processor(
        self,
        vertex: Vertex,
        replica: NewReplica,
        environment: Environment,
        spill: BatchSpill,
        restored_after: int,
        position: Position | None,
    ) -> Processor:
        slice_id = replica.slice
        edges, carries_order = outgoing_edges(self, slice_id)
        if vertex.kind == "source":
            columns = self.columns[vertex.name]
            return SourceProcessor(
                slice_id,
                lambda place: environment.open_reader(vertex.name, slice_id.index, columns, place),
                edges,
                carries_order,
                self.epoch.kind == "time",
                position,
                restored_after,
                environment.snapshot_mode != "none",
            )
        incoming = [edge for edge in self.graph.edges if edge.target == vertex.name]
        operator = self._slice_operator(vertex, replica, incoming, environment)
        hidden = getattr(operator, "hidden", ())
        parts = (
            slice_id,
            operator,
            vertex.discipline,
            self._port_orders(incoming),
            edges,
            BagMemory(environment.bag_memory_bytes, spill),
            self.epoch,
            () if hidden or not carries_order else operator.output_order,
            StateLoader(
                slice_id,
                environment,
                lambda: self._slice_operator(vertex, replica, incoming, environment),
            ),
            restored_after,
        )
        in_loop = self.graph.loop(vertex.name) is not None
        return LoopProcessor(*parts) if in_loop else OperatorProcessor(*parts)

    def _slice_operator(
        self,
        vertex: Vertex,
        replica: NewReplica,
        incoming: list[Edge],
        environment: Environment,
    ) -> StatefulOperator | SequentialOperator:
        if vertex.kind == "stateful":
            return self.vertex_operator(vertex.name)
        if vertex.kind == "sink":
            return self._sink(vertex, replica, environment)
        (edge,) = incoming
        return self._committer(edge.source, replica, environment)

    def vertex_operator(self, name: str) -> StatefulOperator | SequentialOperator:
        """A new instance of a stateful vertex's operator, as its edges need it."""
        incoming = [edge for edge in self.graph.edges if edge.target == name]
        leaving = [edge for edge in self.graph.edges if edge.source == name]
        operator = self.bare_operator(
            name,
            combined=any(edge.combined for edge in incoming),
            ordered=any(edge.carries_order or edge.sequenced for edge in leaving),
            carries_order=any(edge.carries_order for edge in leaving),
            # all edges into a port bring rows of one order
            orders=[
                self.order_fields(next(edge for edge in incoming if edge.port == port))
                for port in sorted({edge.port for edge in incoming})
            ],
        )
        assert isinstance(operator, StatefulOperator | SequentialOperator)
        return operator

    def _port_orders(self, incoming: list[Edge]) -> list[tuple[str, ...]]:
        ports = 1 + max(edge.port for edge in incoming)
        orders: list[tuple[str, ...]] = [()] * ports
        for edge in incoming:
            orders[edge.port] = tuple(field.name for field in self.order_fields(edge))
        return orders

    def bare_operator(self, name: str, **needs: Any) -> Operator:
        """`needs`: as of `_build`."""
        inputs = [self.streams[each].schema for each in self.operators[name].input_names]
        return self._build(name, inputs, **needs)

    # --- sinks ----------------------------------------------------------------------------------

    def _sink(self, vertex: Vertex, replica: NewReplica, environment: Environment) -> SinkOperator:
        target = environment.targets[vertex.name]
        settings = SinkSettings(
            name=vertex.name,
            format=target.format,
            columns=self.sink_schema(vertex.name),
            run=target.run,
            every=self.commit_every(vertex.name),
        )
        store = environment.open_store(target.location)
        place = (replica.slice.index, replica.generation)
        return SinkOperator(settings, store, *place, environment.delay_of)

    def _committer(
        self, sink: str, replica: NewReplica, environment: Environment
    ) -> CommitOperator:
        target = environment.targets[sink]
        settings = self.topology.sinks.get(sink)
        description = SinkDescription(
            job=self.topology.name,
            sink=sink,
            format=target.format,
            schema=self.sink_schema(sink),
            ordered=settings is not None and settings.ordered,
            volatile=settings.all_volatile if settings is not None else (),
        )
        store = environment.open_store(target.location)
        every = self.commit_every(sink)
        return CommitOperator(
            description, store, target.run, replica.generation, every, replica.beside
        )

    def sink_schema(self, sink: str) -> pa.Schema:
        """The columns that a sink writes."""
        if sink == DEAD_LETTERS:
            return DEAD_SCHEMA
        settings = self.topology.sinks[sink]
        return settings.columns(sink, self.streams[settings.input].schema)

    def commit_every(self, sink: str) -> int:
        """How many epochs are committed together."""
        settings = self.topology.sinks.get(sink)
        return DEAD_LETTERS_COMMIT_EVERY if settings is None else settings.commit.every


def _select(schema: pa.Schema, wanted: tuple[str, ...]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in wanted])
