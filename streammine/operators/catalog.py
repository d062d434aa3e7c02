"""From an operator's settings in the topology to the operator that the engine runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from streammine.model.contracts import SequentialOperator, StatefulOperator, StatelessOperator
from streammine.model.errors import TopologyError
from streammine.model.topology import (
    AggregateOperator,
    ChangesOperator,
    DeduplicateOperator,
    EitherOperator,
    EnrichOperator,
    FilterOperator,
    FlatMapOperator,
    Joining,
    JoinOperator,
    LatestOperator,
    LeadersOperator,
    MapOperator,
    Operator,
    PatternOperator,
    QuantileOperator,
    RankOperator,
    RecentOperator,
    SplitOperator,
    SplitOutput,
    TopOperator,
    UnionOperator,
    UnnestOperator,
    UserOperator,
    whole_epochs,
)
from streammine.operators import either, enrich, split, union, unnest
from streammine.operators import filter as filters
from streammine.operators import map as maps
from streammine.operators.aggregate_windows import built_aggregate
from streammine.operators.api import Reducer, overrides
from streammine.operators.changes import ChangedRows
from streammine.operators.deduplicate import DistinctRows
from streammine.operators.deduplicate_within import DistinctWithin
from streammine.operators.event_order import check_time_epochs
from streammine.operators.flat_map import WordSplit
from streammine.operators.interval_join import IntervalJoin
from streammine.operators.join import EquiJoin
from streammine.operators.latest import Latest
from streammine.operators.leaders import Leaders
from streammine.operators.loading import Loader, load_user_code
from streammine.operators.pattern import PatternMatch
from streammine.operators.recent import Recent
from streammine.operators.rows import declared_schema
from streammine.operators.site import Site
from streammine.operators.sliding_quantile import Slides, SlidingQuantile
from streammine.operators.table_join import TableJoin, TableTimes
from streammine.operators.top import RankedRows
from streammine.operators.user.adapting import adapted

BuiltOperator = StatelessOperator | StatefulOperator | SequentialOperator


def build_operator(settings: Operator | SplitOutput, site: Site) -> BuiltOperator:
    """An operator at its place in a job. One object serves one slice, or one sending slice and edge where
    it combines or is fused.

    Raises TopologyError, or UserCodeError for user code that can't be had.
    """
    assert len(site.inputs) == len(settings.input_names), (site, settings.input_names)
    return _BUILDERS[type(settings)](settings, site)


def _map(settings: MapOperator, site: Site) -> BuiltOperator:
    return maps.MapOperator(
        site.name, settings.map, site.input, dead_letter=settings.on_error == "dead_letter"
    )


def _filter(settings: FilterOperator, site: Site) -> BuiltOperator:
    return filters.FilterOperator(
        site.name, settings.filter, site.input, dead_letter=settings.on_error == "dead_letter"
    )


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
        window_epochs=site.tumbling(settings.window).epochs,
        carries_order=site.carries_order,
        job=site.job,
    )


def _join(settings: JoinOperator, site: Site) -> BuiltOperator:
    if settings.join.when is not None:
        return _interval_join(settings.join, site)
    if settings.join.table is not None:
        return _table_join(settings.join, site)
    left, right = site.inputs
    return EquiJoin(
        site.name,
        left,
        right,
        settings.join.keys,
        kind=settings.join.kind,
        suffix=settings.join.suffix,
        window=site.windows(settings.window),
        spans=site.epoch if settings.window is not None and site.epoch.kind == "time" else None,
        ordered=site.ordered,
    )


def _enrich(settings: EnrichOperator, site: Site) -> BuiltOperator:
    return enrich.EnrichOperator(
        site.name,
        settings.enrich,
        site.input,
        replace=settings.replace,
        drop=settings.drop,
        dead_letter=settings.on_error == "dead_letter",
    )


def _unnest(settings: UnnestOperator, site: Site) -> BuiltOperator:
    wanted = settings.unnest
    return unnest.UnnestOperator(
        site.name,
        site.input,
        wanted.column,
        into=wanted.into,
        position=wanted.position,
        keep_empty=wanted.empty == "keep",
    )


def _split(settings: SplitOperator, site: Site) -> BuiltOperator:
    return split.SplitOperator(
        site.name, settings.split, site.input, dead_letter=settings.on_error == "dead_letter"
    )


def _output(settings: SplitOutput, site: Site) -> BuiltOperator:
    return split.SplitOutput(site.name, settings.number, site.input)


def _union(settings: UnionOperator, site: Site) -> BuiltOperator:
    return union.UnionOperator(site.name, settings.union, site.inputs)


def _top(settings: TopOperator, site: Site) -> BuiltOperator:
    return RankedRows(
        site.name,
        site.input,
        settings.key,
        settings.top.by,
        count=settings.top.count,
        into=settings.top.into,
        window=site.windows(settings.window),
    )


def _rank(settings: RankOperator, site: Site) -> BuiltOperator:
    return RankedRows(
        site.name,
        site.input,
        settings.key,
        settings.rank.by,
        into=settings.rank.into,
        method=settings.rank.method,
        window=site.windows(settings.window),
    )


def _deduplicate(settings: DeduplicateOperator, site: Site) -> BuiltOperator:
    wanted = settings.deduplicate
    last = wanted.keep == "last"
    if wanted.within is None:
        by = wanted.by
        if by is None:
            by = site.event_time(settings.time).column
        window = site.tumbling(settings.window)
        return DistinctRows(site.name, site.input, settings.key, by, last=last, window=window)
    if site.epoch.kind == "count":
        raise TopologyError(
            f"operator {site.name!r}: within is a length of event time, and epochs of rows know none; write "
            "epoch: {time: 60s, column: ts}, or take within out for the rows of one epoch"
        )
    return DistinctWithin(
        site.name,
        site.input,
        settings.key,
        site.event_time(settings.time),
        site.epoch,
        wanted.within.microseconds,
        last=last,
    )


def _changes(settings: ChangesOperator, site: Site) -> BuiltOperator:
    wanted = settings.changes
    window = site.tumbling(settings.window)
    by = wanted.by
    if by is None and site.epoch.column in site.input.names:
        by = site.epoch.column
    forget_windows = None
    if wanted.forget_after is not None:
        epochs = whole_epochs(wanted.forget_after, site.epoch, "forget_after")
        if isinstance(epochs, str) or epochs % window.epochs:
            why = (
                epochs if isinstance(epochs, str) else "forget_after is no whole number of windows"
            )
            raise TopologyError(f"operator {site.name!r}: {why}")
        forget_windows = epochs // window.epochs
    return ChangedRows(
        site.name,
        site.input,
        settings.key,
        of=wanted.of,
        ignore=wanted.ignore,
        by=by,
        gone=wanted.gone,
        forget_windows=forget_windows,
        window=window,
    )


def _interval_join(join: Joining, site: Site) -> BuiltOperator:
    distance = join.distance
    left, right = site.inputs
    return IntervalJoin(
        site.name,
        (left, right),
        join.keys,
        (
            site.event_time(distance.left_column, 0, "when, left"),
            site.event_time(distance.right_column, 1, "when, right"),
        ),
        (distance.lowest, distance.highest),
        site.epoch,
        kind=join.kind,
        suffix=join.suffix,
        ordered=site.ordered,
    )


def _table_join(join: Joining, site: Site) -> BuiltOperator:
    left, table = site.inputs
    if join.as_of is not None:
        times = TableTimes(
            site.event_time(join.as_of.right, 1, "as_of, table"),
            site.event_time(join.as_of.left, 0, "as_of, left"),
        )
    elif site.epoch.column in table.names:
        times = TableTimes(site.event_time(None, 1, "table"))
    else:
        times = TableTimes()
    return TableJoin(
        site.name,
        (left, table),
        join.keys,
        times,
        kind=join.kind,
        suffix=join.suffix,
        delete=join.delete,
        ordered=site.ordered,
    )


def _pattern(settings: PatternOperator, site: Site) -> BuiltOperator:
    return PatternMatch(
        site.name,
        site.input,
        settings.key,
        settings.pattern,
        site.event_time(settings.time),
        site.epoch,
    )


def _recent(settings: RecentOperator, site: Site) -> BuiltOperator:
    return Recent(
        site.name,
        site.input,
        settings.key,
        settings.recent,
        settings.within.microseconds,
        settings.keep,
        site.epoch,
        order=site.orders[0] if site.orders else (),
        carries_order=site.carries_order,
    )


def _latest(settings: LatestOperator, site: Site) -> BuiltOperator:
    return Latest(
        site.name,
        site.input,
        settings.key,
        settings.latest,
        settings.within.microseconds,
        settings.keep,
        site.epoch,
        order=site.orders[0] if site.orders else (),
        carries_order=site.carries_order,
    )


def _leaders(settings: LeadersOperator, site: Site) -> BuiltOperator:
    check_time_epochs(site.name, site.epoch)
    return Leaders(
        site.name,
        site.inputs,
        settings.key,
        settings.leaders,
        orders=site.orders,
        carries_order=site.carries_order,
    )


def _quantile(settings: QuantileOperator, site: Site) -> BuiltOperator:
    quantile = settings.quantile
    found = quantile.lengths(site.epoch)
    if isinstance(found, str):
        raise TopologyError(f"operator {site.name!r}: quantile: {found}")
    lengths, slide = found
    return SlidingQuantile(
        site.name,
        site.input,
        settings.key,
        quantile.of,
        Slides(lengths, slide, site.epoch.length),
        at=quantile.fraction,
        into=quantile.into,
        every_slide=quantile.emit == "every_slide",
    )


_BUILDERS: dict[type[Any], Callable[[Any, Site], BuiltOperator]] = {
    MapOperator: _map,
    FilterOperator: _filter,
    FlatMapOperator: _flat_map,
    EnrichOperator: _enrich,
    UnnestOperator: _unnest,
    SplitOperator: _split,
    SplitOutput: _output,
    UnionOperator: _union,
    EitherOperator: _either,
    AggregateOperator: built_aggregate,
    JoinOperator: _join,
    TopOperator: _top,
    RankOperator: _rank,
    DeduplicateOperator: _deduplicate,
    ChangesOperator: _changes,
    PatternOperator: _pattern,
    RecentOperator: _recent,
    LatestOperator: _latest,
    LeadersOperator: _leaders,
    QuantileOperator: _quantile,
    UserOperator: _user,
}


def declared_output(
    name: str, settings: Operator | SplitOutput, base: str | Path, loader: Loader | None
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
