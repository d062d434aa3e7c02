"""The streams of a topology: which columns they have, found by building every operator once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from streammine.model.contracts import SequentialOperator, StatefulOperator, StatelessOperator
from streammine.model.digest import check_volatile
from streammine.model.errors import TopologyError
from streammine.model.topology import Topology
from streammine.operators.file_formats import require_writable, stored_format

Operator = StatelessOperator | StatefulOperator | SequentialOperator


@dataclass
class Stream:
    """A named stream: its visible columns, and the operator that makes it, None for a source."""

    schema: pa.Schema
    operator: Operator | None = None


def probed(
    topology: Topology,
    order: tuple[str, ...],
    schemas: Mapping[str, pa.Schema],
    build: Callable[[str, list[pa.Schema]], Operator],
    declared: Callable[[str], pa.Schema | None],
) -> dict[str, Stream]:
    """Every source and operator of `order`, by name.

    `build` makes an operator over its inputs. What a loop's head reads from the loop is not known before the
    head is: there it begins with what an operator's output is whatever it reads, which `declared` tells.
    Raises TopologyError where none tells it, or one makes something else in the end, or a sink's format can't
    hold what it is to write, or its volatile columns are not there.
    """
    known = {name: schemas[name] for name in order if name in topology.sources}
    streams = {name: Stream(schema) for name, schema in known.items()}
    operators = topology.every_operator
    inputs = {name: operators[name].input_names for name in order if name in operators}
    while inputs:
        name = next((one for one, names in inputs.items() if known.keys() >= set(names)), None)
        if name is None:
            with topology.places.of():
                known |= _declared(inputs, known, declared)
            continue
        with topology.places.of(name):
            operator = build(name, [known[each] for each in inputs.pop(name)])
            streams[name] = Stream(operator.output, operator)
            if not known.setdefault(name, operator.output).equals(operator.output):
                raise TopologyError(
                    f"operator {name!r}: its output is {operator.output}, though `output` declares "
                    f"{known[name]}"
                )
    for name, sink in topology.sinks.items():
        with topology.places.of(name):
            columns = sink.columns(name, streams[sink.input].schema)
            require_writable(name, stored_format(sink.format), columns)
            check_volatile(name, columns, sink.all_volatile)
    return streams


def _declared(
    missing: Mapping[str, object],
    known: Mapping[str, pa.Schema],
    declared: Callable[[str], pa.Schema | None],
) -> dict[str, pa.Schema]:
    """The columns of the first operator that tells them whatever it reads."""
    for name in missing:
        schema = None if name in known else declared(name)
        if schema is not None:
            return {name: schema}
    raise TopologyError(
        f"which columns go round in the loop of {', '.join(missing)} can't be told: at least one of "
        "them must be an Operator or Mapper with a fixed `output`",
        part=next(iter(missing)),
    )
