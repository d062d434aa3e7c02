"""The hidden columns by which the rows of a stream are ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from streammine.engine.union_order import UnionOrder, union_orders
from streammine.model.errors import TopologyError
from streammine.model.ids import (
    FILE_COLUMN,
    KEY_COLUMN_PREFIX,
    ROW_COLUMN,
    TIME_COLUMN,
    next_index_column,
)
from streammine.model.topology import UnionOperator
from streammine.model.topology.recent import InEventOrder

if TYPE_CHECKING:
    from streammine.assembly.compiled import CompiledJob


def stream_order(job: CompiledJob, name: str) -> tuple[pa.Field, ...]:
    """The columns that order the rows of a source or an operator, most significant first."""
    if any(vertex.name == name for vertex in job.graph.vertices):
        return _vertex_order(job, name)
    settings = job.operators[name]
    first, *_ = settings.input_names
    if isinstance(settings, UnionOperator):
        return union_order(job, name, first).fields
    # what is behind an either is ordered as any of its sources is
    fields = stream_order(job, first)
    if not getattr(job.streams[name].operator, "one_to_many", False):
        return fields
    column = next_index_column(field.name for field in fields)
    return (*fields, pa.field(column, pa.int32()))


def union_order(job: CompiledJob, name: str, stream: str) -> UnionOrder:
    """How the rows of a stream are ordered in a union that reads it."""
    names = job.operators[name].input_names
    return union_orders([stream_order(job, each) for each in names])[names.index(stream)]


def _vertex_order(job: CompiledJob, name: str) -> tuple[pa.Field, ...]:
    if job.graph.vertex(name).kind == "source":
        position = (pa.field(FILE_COLUMN, pa.int32()), pa.field(ROW_COLUMN, pa.int64()))
        time = (pa.field(TIME_COLUMN, pa.int64()),) if job.epoch.kind == "time" else ()
        return (*time, *position)
    operator = job.vertex_operator(name)
    hidden: tuple[pa.Field, ...] = getattr(operator, "hidden", ())
    return hidden or tuple(
        pa.field(f"{KEY_COLUMN_PREFIX}{number}", operator.output.field(each).type)
        for number, each in enumerate(operator.output_order)
    )


def check_orders(job: CompiledJob) -> None:
    """Refuse operators in event order whose input has none, which is known once all is planned.

    Raises TopologyError.
    """
    for vertex in job.graph.vertices:
        if isinstance(job.operators.get(vertex.name), InEventOrder):
            with job.topology.places.of(vertex.name):
                job.vertex_operator(vertex.name)
                for name in job.operators[vertex.name].input_names:
                    _check_times(job, vertex.name, name, set())


def _check_times(job: CompiledJob, reader: str, name: str, seen: set[str]) -> None:
    """Refuse a union with rows that have no event time, which its order columns hide, as do those of a
    user's operator behind it."""
    settings = job.operators.get(name)
    if settings is None or name in seen or stream_order(job, name)[0].name != TIME_COLUMN:
        return
    seen.add(name)
    for each in settings.input_names:
        if isinstance(settings, UnionOperator) and stream_order(job, each)[0].name != TIME_COLUMN:
            raise TopologyError(
                f"operator {reader!r} takes events one after the other, each with its event time, and of "
                f"those that {name!r} unites the rows of {each!r} have none"
            )
        _check_times(job, reader, each, seen)
