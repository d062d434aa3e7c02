"""Windows are whole numbers of time epochs."""

from __future__ import annotations

from streammine.model.durations import Duration, Interval
from streammine.model.epochs import EpochDefinition
from streammine.model.topology.aggregate_windows import (
    AggregateWindow,
    Session,
    Sliding,
    Tumbling,
)
from streammine.model.topology.epoch import Epoch


def whole_epochs(
    window: Duration, epoch: Epoch | EpochDefinition, what: str = "window"
) -> int | str:
    """Epochs per window, or a text that says why the window can't be. `what`: it, in the text."""
    definition = epoch.definition if isinstance(epoch, Epoch) else epoch
    if definition.kind == "count":
        return (
            f"a {what} of time needs time epochs, and this topology counts; write epoch: {{time: 60s, "
            f"column: ts}}, or take the {what} out{' for one epoch' if what == 'window' else ''}"
        )
    count, rest = divmod(window.microseconds, definition.length)
    if rest == 0 and count > 0:
        return count
    length = Duration(definition.length)
    near = [Duration(definition.length * n) for n in (count, count + 1) if n > 0]
    return (
        f"{what} {window} is no whole multiple of the epoch, {length}; "
        f"write {' or '.join(str(one) for one in near)}"
    )


def window_problem(window: AggregateWindow, epoch: Epoch | EpochDefinition) -> str | None:
    """Why an operator can't have the window, if it can't."""
    definition = epoch.definition if isinstance(epoch, Epoch) else epoch
    if isinstance(window, Session) and definition.kind == "count":
        return (
            "sessions end with event time, and epochs of rows know none; write epoch: {time: 60s, "
            "column: ts}, or a window in epochs, like 10 epochs"
        )
    lengths: dict[str, Interval] = {}
    if isinstance(window, Tumbling | Sliding):
        lengths["window"] = window.length
    if isinstance(window, Sliding):
        lengths["slide"] = window.slide
    for what, length in lengths.items():
        count = interval_epochs(length, definition, what)
        if isinstance(count, str):
            return count
    return None


def interval_epochs(
    interval: Interval, epoch: Epoch | EpochDefinition, what: str = "window"
) -> int | str:
    """How many whole epochs an interval has, or a text that says why it is none. `what`: it, in the text."""
    if interval.epochs is not None:
        return interval.epochs
    assert interval.duration is not None, "an interval is of time or of epochs"
    return whole_epochs(interval.duration, epoch, what)
