"""Which of a source's columns anything downstream reads, so that no other is read from files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from streammine.model.topology import Topology


class Stream(Protocol):
    """A named stream: its visible columns, and the operator that makes it, None for a source."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def operator(self) -> object | None: ...


def needed_columns(
    topology: Topology, order: tuple[str, ...], streams: Mapping[str, Stream]
) -> dict[str, tuple[str, ...] | None]:
    """Per source, the columns that anything downstream reads, in the source's order; None for all."""
    needed: dict[str, tuple[str, ...] | None] = {}
    for name in order:
        if name not in topology.sources:
            continue
        schema = streams[name].schema
        wanted = _wanted_of(topology, order, streams, name)
        if wanted is None or wanted >= set(schema.names):
            needed[name] = None
        else:
            found = tuple(each for each in schema.names if each in wanted)
            needed[name] = found or (_narrowest(schema),)
    return needed


def _narrowest(schema: pa.Schema) -> str:
    """The column to read where none is needed: a batch without columns has no rows."""

    def width_bits(field: pa.Field) -> int:
        try:
            return int(field.type.bit_width)
        except ValueError:
            return 1 << 31

    return str(min(schema, key=width_bits).name)


def _wanted_of(
    topology: Topology, order: tuple[str, ...], streams: Mapping[str, Stream], source: str
) -> set[str] | None:
    wanted: set[str] = set()
    operators = topology.every_operator
    for name in order:
        if name in topology.sinks and topology.sinks[name].input == source:
            return None
        if name not in operators:
            continue
        operator = streams[name].operator
        for port, each in enumerate(operators[name].input_names):
            if each != source:
                continue
            needs = getattr(operator, "needs")  # noqa: B009 - every kind of operator has it
            of_port = needs[port] if isinstance(needs, tuple) else needs
            if of_port is None:
                return None
            wanted |= of_port
    return wanted
