"""Windows are whole numbers of time epochs."""

from __future__ import annotations

from streammine.model.durations import Duration
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology.epoch import Epoch
from streammine.model.topology.keyed import Windowed
from streammine.model.topology.stateless import OperatorBase


def whole_epochs(window: Duration, epoch: Epoch | EpochDefinition) -> int | str:
    """Epochs per window, or a text that says why the window can't be."""
    definition = epoch.definition if isinstance(epoch, Epoch) else epoch
    if definition.kind == "count":
        return (
            "a window of time needs time epochs, and this topology counts; "
            "write epoch: {time: 60s, column: ts}, or take the window out for one epoch"
        )
    count, rest = divmod(window.microseconds, definition.length)
    if rest == 0 and count > 0:
        return count
    length = Duration(definition.length)
    near = [Duration(definition.length * n) for n in (count, count + 1) if n > 0]
    return (
        f"window {window} is no whole multiple of the epoch, {length}; "
        f"write {' or '.join(str(one) for one in near)}"
    )


def window_epochs(operator: OperatorBase, epoch: Epoch | EpochDefinition) -> int:
    """Length of an operator's window in epochs; 1 where it has none of its own.

    Raises TopologyError when the window is no whole multiple of the epoch, or epochs count rows.
    """
    if not isinstance(operator, Windowed) or operator.window is None:
        return 1
    count = whole_epochs(operator.window, epoch)
    if isinstance(count, str):
        raise TopologyError(count)
    return count
