"""From an aggregate's settings to the operator for the kind of window that they ask for."""

from __future__ import annotations

from streammine.model.durations import Interval
from streammine.model.errors import TopologyError
from streammine.model.topology import (
    AggregateOperator,
    Global,
    Session,
    Sliding,
    interval_epochs,
)
from streammine.operators.aggregate import AggregateSettings, KeyedAggregate
from streammine.operators.global_aggregate import GlobalAggregate
from streammine.operators.session_aggregate import SessionAggregate
from streammine.operators.site import Site
from streammine.operators.sliding_aggregate import SlidingAggregate
from streammine.operators.windows import OverlappingWindows, TumblingWindow

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
    epochs = _epochs(window.length, site)
    slide = _epochs(window.slide, site) if isinstance(window, Sliding) else epochs
    if slide == epochs:
        tumbling = TumblingWindow(epochs)
        return KeyedAggregate(name, schema, keys, calls, window=tumbling, **shared)
    overlapping = OverlappingWindows(epochs, slide)
    return SlidingAggregate(name, schema, keys, calls, window=overlapping, **shared)


def _epochs(interval: Interval, site: Site) -> int:
    count = interval_epochs(interval, site.epoch)
    if isinstance(count, str):
        raise TopologyError(f"operator {site.name!r}: {count}")
    return count
