"""Events/s of each of several sides over the numbers of nodes: a row per workload, in total and per node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from streammine.runtime.workers import usable_cores

BAR_WIDTH = 0.8
"""Of all bars of one number of nodes together."""


class Measured(Protocol):
    """What a workload took on a number of nodes; `events` in all, and seconds by side."""

    workload: str
    nodes: int
    events: int

    @property
    def medians(self) -> dict[str, float]: ...


def draw(figure: Any, results: Sequence[Measured], title: str) -> None:
    """Fill a matplotlib figure."""
    workloads = list(dict.fromkeys(each.workload for each in results))
    figure.set_size_inches(9, 0.8 + 3 * len(workloads))
    cores = usable_cores()
    figure.suptitle(
        f"{title}, on one machine with {cores} cores: beyond {cores} nodes this is overhead"
    )
    axes = figure.subplots(len(workloads), 2, squeeze=False)
    for row, workload in zip(axes, workloads, strict=True):
        mine = [each for each in results if each.workload == workload]
        _bars(row[0], mine, f"{workload}: in total", per_node=False)
        _bars(row[1], mine, f"{workload}: per node", per_node=True)
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize="small")


def _bars(axis: Any, results: Sequence[Measured], title: str, per_node: bool) -> None:
    names = list(results[0].medians)
    width = BAR_WIDTH / len(names)
    for place, name in enumerate(names):
        speeds = [
            each.events / each.medians[name] / (each.nodes if per_node else 1) / 1e6
            for each in results
        ]
        middle = (place - (len(names) - 1) / 2) * width
        axis.bar([at + middle for at in range(len(results))], speeds, width, label=name)
    axis.set_xticks(range(len(results)), [str(each.nodes) for each in results])
    axis.set_xlabel("nodes")
    axis.set_ylabel("million events/s")
    axis.set_title(title, fontsize="medium")
