"""From an operator's settings in the topology to the operator that the engine runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from streammine.model.contracts import SequentialOperator, StatefulOperator, StatelessOperator
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology import (
    AggregateOperator,
    EitherOperator,
    FilterOperator,
    FlatMapOperator,
    JoinOperator,
    MapOperator,
    Operator,
    UserOperator,
    window_epochs,
)
from streammine.operators import either
from streammine.operators import filter as filters
from streammine.operators import map as maps
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.api import Reducer, overrides
from streammine.operators.flat_map import WordSplit
from streammine.operators.join import EquiJoin
from streammine.operators.loading import Loader, load_user_code
from streammine.operators.rows import declared_schema
from streammine.operators.user import adapted
from streammine.operators.windows import TumblingWindow

BuiltOperator = StatelessOperator | StatefulOperator | SequentialOperator


def build_operator(
    name: str,
    settings: Operator,
    inputs: Sequence[pa.Schema],
    epoch: EpochDefinition,
    *,
    combined: bool = False,
    ordered: bool = False,
    carries_order: bool = False,
    base: str | Path = ".",
    loader: Loader | None = None,
    orders: Sequence[Sequence[pa.Field]] = (),
) -> BuiltOperator:
    """The operator `name` over `inputs`, the visible schema of each port.

    One object serves one slice, or one sending slice and edge where it combines or is fused.
    `combined`: the accumulators get partials instead of rows. `ordered`: a consumer downstream
    needs the rows of an epoch in canonical order; `carries_order`: and the columns that order them. `base`
    and `loader` are where user code comes from; `orders` are the fields that order the rows of each port,
    for a user's Operator. Raises
    TopologyError, or UserCodeError for user code that can't be had.
    """
    assert len(inputs) == len(settings.input_names), (name, len(inputs), settings.input_names)
    if isinstance(settings, MapOperator):
        return maps.MapOperator(name, settings.map, inputs[0])
    if isinstance(settings, FilterOperator):
        return filters.FilterOperator(name, settings.filter, inputs[0])
    if isinstance(settings, EitherOperator):
        return either.EitherOperator(name, settings.either, inputs)
    if isinstance(settings, FlatMapOperator):
        split = settings.flat_map
        return WordSplit(
            name,
            inputs[0],
            split=split.split,
            into=split.into,
            on=split.on,
            lower=split.lower,
            keep=split.keep,
        )
    if isinstance(settings, UserOperator):
        code = load_user_code(settings.operator, base, settings.with_, loader)
        return adapted(
            name,
            code,
            inputs,
            settings.key_columns,
            orders,
            dead_letter=settings.on_error == "dead_letter",
            carries_order=carries_order,
        )
    window = TumblingWindow(_window_epochs(name, settings, epoch))
    if isinstance(settings, AggregateOperator):
        return KeyedAggregate(
            name, inputs[0], settings.key, settings.aggregate, window=window, combined=combined
        )
    assert isinstance(settings, JoinOperator), settings
    return EquiJoin(
        name,
        inputs[0],
        inputs[1],
        (settings.join.on.left, settings.join.on.right),
        suffix=settings.join.suffix,
        window=window,
        ordered=ordered,
    )


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


def _window_epochs(
    name: str, settings: AggregateOperator | JoinOperator, epoch: EpochDefinition
) -> int:
    try:
        return window_epochs(settings, epoch)
    except TopologyError as error:
        raise TopologyError(f"operator {name!r}: {error.message}") from error
