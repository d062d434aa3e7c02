"""streammine: an epoch-based, deterministic event-stream processing engine.

The names below are the public ones. They load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streammine.model.errors import (
        ClusterError,
        InputError,
        JobFailedError,
        OutputError,
        StateVersionError,
        StreammineError,
        TopologyError,
        UserCodeError,
    )
    from streammine.model.topology import Topology
    from streammine.operators.api import Context, Mapper, Operator, Reducer
    from streammine.operators.state import List, Map, Queue, Value, Window
    from streammine.operators.timers import Timers
    from streammine.session import Result, output_files, read_output, read_topology, run

_HOMES = {
    "streammine.model.errors": (
        "ClusterError",
        "InputError",
        "JobFailedError",
        "OutputError",
        "StateVersionError",
        "StreammineError",
        "TopologyError",
        "UserCodeError",
    ),
    "streammine.model.topology": ("Topology",),
    "streammine.operators.api": ("Context", "Mapper", "Operator", "Reducer"),
    "streammine.operators.state": ("List", "Map", "Queue", "Value", "Window"),
    "streammine.operators.timers": ("Timers",),
    "streammine.session": ("Result", "output_files", "read_output", "read_topology", "run"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ClusterError",
    "Context",
    "InputError",
    "JobFailedError",
    "List",
    "Map",
    "Mapper",
    "Operator",
    "OutputError",
    "Queue",
    "Reducer",
    "Result",
    "StateVersionError",
    "StreammineError",
    "Timers",
    "Topology",
    "TopologyError",
    "UserCodeError",
    "Value",
    "Window",
    "output_files",
    "read_output",
    "read_topology",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'streammine' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
