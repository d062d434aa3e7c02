"""Any operator: which one it is follows from the one of its fields that says what it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Discriminator, Tag

from streammine.model.suggestions import listed, nearest
from streammine.model.topology.aggregating import AggregateOperator
from streammine.model.topology.distinct import ChangesOperator, DeduplicateOperator
from streammine.model.topology.either import EitherOperator
from streammine.model.topology.joining import JoinOperator
from streammine.model.topology.leading import LeadersOperator
from streammine.model.topology.merging import SplitOperator, UnionOperator
from streammine.model.topology.own_code import UserOperator
from streammine.model.topology.patterning import PatternOperator
from streammine.model.topology.problems import TAG_MARK, shown, wrong_value
from streammine.model.topology.quantile import QuantileOperator
from streammine.model.topology.ranking import RankOperator, TopOperator
from streammine.model.topology.recent import LatestOperator, RecentOperator
from streammine.model.topology.shaping import EnrichOperator, UnnestOperator
from streammine.model.topology.stateless import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    OperatorBase,
)

OPERATOR_KINDS = (
    "map",
    "filter",
    "flat_map",
    "enrich",
    "unnest",
    "split",
    "union",
    "either",
    "aggregate",
    "join",
    "top",
    "rank",
    "deduplicate",
    "changes",
    "pattern",
    "recent",
    "latest",
    "leaders",
    "quantile",
    "operator",
)

_ELSEWHERE = {
    "select": "map",
    "where": "filter",
    "group_by": "aggregate",
    "distinct": "deduplicate",
    "limit": "top",
    "class": "operator",
    "function": "operator",
    "use": "operator",
}
"""What other systems and languages call our kinds."""


def _operator_tag(value: Any) -> str | None:
    if isinstance(value, Mapping):
        found = [kind for kind in OPERATOR_KINDS if kind in value]
        return TAG_MARK + found[0] if found else None
    return TAG_MARK + getattr(value, "kind", "")


def _one_kind_of_operator(value: object) -> object:
    if isinstance(value, OperatorBase):
        return value
    choice = f"exactly one of {listed(OPERATOR_KINDS)}"
    if not isinstance(value, Mapping):
        raise wrong_value(
            f"an operator is a mapping with {choice}, like "
            f"{{input: words, filter: 'length(word) > 3'}}, not {shown(value)}"
        )
    found = [kind for kind in OPERATOR_KINDS if kind in value]
    if len(found) == 1:
        return value
    if found:
        raise wrong_value(
            f"has {'both' if len(found) == 2 else 'all of'} {' and '.join(found)}; an operator "
            f"has {choice}: make it several operators, one reading from the other"
        )
    for name in value:
        right = _ELSEWHERE.get(str(name)) or nearest(str(name), _FIELDS)
        if right in OPERATOR_KINDS:
            raise wrong_value(
                f"unknown field '{name}'; did you mean '{right}'? An operator has {choice}"
            )
    raise wrong_value(f"this operator says not what it does: give it {choice}")


Operator = Annotated[
    Annotated[MapOperator, Tag(TAG_MARK + "map")]
    | Annotated[FilterOperator, Tag(TAG_MARK + "filter")]
    | Annotated[FlatMapOperator, Tag(TAG_MARK + "flat_map")]
    | Annotated[EnrichOperator, Tag(TAG_MARK + "enrich")]
    | Annotated[UnnestOperator, Tag(TAG_MARK + "unnest")]
    | Annotated[SplitOperator, Tag(TAG_MARK + "split")]
    | Annotated[UnionOperator, Tag(TAG_MARK + "union")]
    | Annotated[EitherOperator, Tag(TAG_MARK + "either")]
    | Annotated[AggregateOperator, Tag(TAG_MARK + "aggregate")]
    | Annotated[JoinOperator, Tag(TAG_MARK + "join")]
    | Annotated[TopOperator, Tag(TAG_MARK + "top")]
    | Annotated[RankOperator, Tag(TAG_MARK + "rank")]
    | Annotated[DeduplicateOperator, Tag(TAG_MARK + "deduplicate")]
    | Annotated[ChangesOperator, Tag(TAG_MARK + "changes")]
    | Annotated[PatternOperator, Tag(TAG_MARK + "pattern")]
    | Annotated[RecentOperator, Tag(TAG_MARK + "recent")]
    | Annotated[LatestOperator, Tag(TAG_MARK + "latest")]
    | Annotated[LeadersOperator, Tag(TAG_MARK + "leaders")]
    | Annotated[QuantileOperator, Tag(TAG_MARK + "quantile")]
    | Annotated[UserOperator, Tag(TAG_MARK + "operator")],
    Discriminator(_operator_tag),
    BeforeValidator(_one_kind_of_operator),
]

_FIELDS = tuple(
    dict.fromkeys(
        name
        for member in get_args(get_args(Operator)[0])
        for name in (*OPERATOR_KINDS, *get_args(member)[0].field_descriptions())
    )
)
"""All that an operator of any kind may have, kinds first."""
