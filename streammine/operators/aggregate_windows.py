"""From an aggregate's settings to the operator for the kind of window that they ask for."""

from __future__ import annotations

from streammine.model.topology import (
    AggregateOperator,
    Global,
    Session,
    Sliding,
)
from streammine.operators.aggregate import AggregateSettings, KeyedAggregate
from streammine.operators.global_aggregate import GlobalAggregate
from streammine.operators.session_aggregate import SessionAggregate
from streammine.operators.site import Site
from streammine.operators.sliding_aggregate import SlidingAggregate
from streammine.operators.windows import AlignedWindows, TumblingWindow

WindowedAggregate = KeyedAggregate | SlidingAggregate | SessionAggregate | GlobalAggregate


def built_aggregate(settings: AggregateOperator, site: Site) -> WindowedAggregate:
    """The operator for an aggregate. Raises TopologyError."""
    name, schema, keys, calls = site.name, site.input, settings.key, settings.aggregate
    window = settings.window
    shared: AggregateSettings = {
        "combined": site.combined,
        "having": settings.having,
        "time": settings.time or site.epoch.column,
    }
    if window is None:
        return KeyedAggregate(name, schema, keys, calls, **shared)
    if isinstance(window, Global):
        return GlobalAggregate(name, schema, keys, calls, **shared)
    shared["spans"] = site.epoch.kind == "time"
    if isinstance(window, Session):
        time = site.event_time(settings.time)
        gap = window.gap
        return SessionAggregate(name, schema, keys, calls, event_time=time, gap=gap, **shared)
    epochs = site.epochs_of(window.length)
    slide = site.epochs_of(window.slide) if isinstance(window, Sliding) else epochs
    if slide == epochs:
        tumbling = TumblingWindow(epochs)
        return KeyedAggregate(name, schema, keys, calls, window=tumbling, **shared)
    sliding = AlignedWindows(epochs, slide)
    return SlidingAggregate(name, schema, keys, calls, window=sliding, **shared)
