"""The catalog: settings of a topology become the operators that they name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology import (
    AggregateOperator,
    FilterOperator,
    FlatMapOperator,
    JoinOperator,
    MapOperator,
)
from streammine.operators import filter as filters
from streammine.operators import map as maps
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.catalog import build_operator
from streammine.operators.flat_map import WordSplit
from streammine.operators.join import EquiJoin
from streammine.operators.site import Site

MINUTE = EpochDefinition("time", 60_000_000, "ts")
SCHEMA = pa.schema([("line", pa.string()), ("value", pa.float64())])


@pytest.mark.parametrize(
    ("model", "settings", "kind", "columns"),
    [
        (MapOperator, {"map": {"watts": "value * 1000"}}, maps.MapOperator, ["watts"]),
        (FilterOperator, {"filter": "value > 1"}, filters.FilterOperator, ["line", "value"]),
        (FlatMapOperator, {"flat_map": {"split": "line", "into": "word"}}, WordSplit, ["word"]),
        (
            AggregateOperator,
            {"key": "line", "aggregate": {"n": "count()"}, "window": "5m"},
            KeyedAggregate,
            ["epoch", "window_start", "window_end", "line", "n"],
        ),
    ],
)
def test_settings_become_the_operator(
    model: Any, settings: dict[str, Any], kind: type, columns: list[str]
) -> None:
    operator = build_operator(model(input="lines", **settings), Site("one", [SCHEMA], MINUTE))
    assert isinstance(operator, kind)
    assert operator.name == "one"
    assert operator.output.names == columns


def test_a_join_has_two_inputs() -> None:
    settings = JoinOperator(join={"left": "a", "right": "b", "on": "line"})  # type: ignore[arg-type]
    operator = build_operator(settings, Site("pairs", [SCHEMA, SCHEMA], MINUTE, ordered=True))
    assert isinstance(operator, EquiJoin)
    assert operator.output.names == ["epoch", "line", "value", "value_right"]


def test_a_window_that_is_no_multiple_of_the_epoch_names_the_operator() -> None:
    settings = AggregateOperator.model_validate(
        {"input": "lines", "aggregate": {"n": "count()"}, "window": "90s"}
    )
    with pytest.raises(TopologyError, match=r"operator 'one': window .* no whole multiple"):
        build_operator(settings, Site("one", [SCHEMA], MINUTE))
