"""From an operator's settings in the topology to the operator that the engine runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from streammine.model.contracts import SequentialOperator, StatefulOperator, StatelessOperator
from streammine.model.topology import (
    AggregateOperator,
    EitherOperator,
    FilterOperator,
    FlatMapOperator,
    JoinOperator,
    MapOperator,
    Operator,
    UserOperator,
)
from streammine.operators import either
from streammine.operators import filter as filters
from streammine.operators import map as maps
from streammine.operators.aggregate_windows import built_aggregate
from streammine.operators.api import Reducer, overrides
from streammine.operators.flat_map import WordSplit
from streammine.operators.join import EquiJoin
from streammine.operators.loading import Loader, load_user_code
from streammine.operators.rows import declared_schema
from streammine.operators.site import Site
from streammine.operators.user import adapted

BuiltOperator = StatelessOperator | StatefulOperator | SequentialOperator


def build_operator(settings: Operator, site: Site) -> BuiltOperator:
    """An operator at its place in a job. One object serves one slice, or one sending slice and edge where
    it combines or is fused.

    Raises TopologyError, or UserCodeError for user code that can't be had.
    """
    assert len(site.inputs) == len(settings.input_names), (site, settings.input_names)
    return _BUILDERS[type(settings)](settings, site)


def _map(settings: MapOperator, site: Site) -> BuiltOperator:
    return maps.MapOperator(site.name, settings.map, site.input)


def _filter(settings: FilterOperator, site: Site) -> BuiltOperator:
    return filters.FilterOperator(site.name, settings.filter, site.input)


def _either(settings: EitherOperator, site: Site) -> BuiltOperator:
    return either.EitherOperator(site.name, settings.either, site.inputs)


def _flat_map(settings: FlatMapOperator, site: Site) -> BuiltOperator:
    split = settings.flat_map
    return WordSplit(
        site.name,
        site.input,
        split=split.split,
        into=split.into,
        on=split.on,
        lower=split.lower,
        keep=split.keep,
    )


def _user(settings: UserOperator, site: Site) -> BuiltOperator:
    code = load_user_code(settings.operator, site.base, settings.with_, site.loader)
    return adapted(
        site.name,
        code,
        site.inputs,
        settings.key_columns,
        site.orders,
        dead_letter=settings.on_error == "dead_letter",
        carries_order=site.carries_order,
    )


def _join(settings: JoinOperator, site: Site) -> BuiltOperator:
    left, right = site.inputs
    return EquiJoin(
        site.name,
        left,
        right,
        (settings.join.on.left, settings.join.on.right),
        suffix=settings.join.suffix,
        window=site.window(settings),
        ordered=site.ordered,
    )


_BUILDERS: dict[type[Any], Callable[[Any, Site], BuiltOperator]] = {
    MapOperator: _map,
    FilterOperator: _filter,
    FlatMapOperator: _flat_map,
    EitherOperator: _either,
    AggregateOperator: built_aggregate,
    JoinOperator: _join,
    UserOperator: _user,
}


def declared_output(
    name: str, settings: Operator, base: str | Path, loader: Loader | None
) -> pa.Schema | None:
    """The columns that leave operator `name` whatever it reads; None where they depend on its input.

    Raises TopologyError, or UserCodeError for user code that can't be had.
    """
    if not isinstance(settings, UserOperator):
        return None
    code = load_user_code(settings.operator, base, settings.with_, loader)
    if isinstance(code, Reducer) or overrides(code, "output_schema"):
        return None
    return declared_schema(code.output, f"operator '{name}' ({type(code).__name__})")
