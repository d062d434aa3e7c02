"""The exceptions of streammine.

::

    StreammineError
    ├── PlacedError              knows where in the topology's file the fault stands, if it came from one
    │   ├── TopologyError        a topology, expression or schema is wrong; nothing was started
    │   ├── InputError           a source can't be opened or read (not: a bad row, that is a dead letter)
    │   └── UserCodeError        user code can't be imported, or raised while it ran
    ├── OutputError              a sink or store can't be written (disk full, no permission)
    ├── ClusterError             a node, port, ZooKeeper or Java is not as it must be
    │   ├── StalePlanError       a plan was published by a manager that does not know the newest one
    │   └── UnknownJobError      there is no such job, or nothing is kept of it any more
    ├── ProtocolError            a peer sent what no peer may send
    └── JobFailedError           a job stopped with an error; carries its text

An exception says what was wrong, where, and what would be right. Our own bugs are assertions, not
exceptions of this tree.
"""

from __future__ import annotations

from dataclasses import dataclass


class StreammineError(Exception):
    """Base of every error that streammine raises for a fault of the world."""


@dataclass(frozen=True)
class Location:
    """Where in a file a mistake stands; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class PlacedError(StreammineError):
    """Something is wrong with a part of a topology. `part` is its name, where whoever raises this knows
    which one it is; `location` is where it stands in the topology's file, if it came from one."""

    def __init__(
        self, message: str, location: Location | None = None, *, part: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.part = part

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message


class TopologyError(PlacedError):
    """A topology can't be run."""


class InputError(PlacedError):
    """A source can't be opened or read on."""


class OutputError(StreammineError):
    """A sink or store can't be written."""


class ReplacedError(OutputError):
    """A replica finds that its successor writes in its place: it is fenced, and nothing is wrong."""


class SnapshotDamagedError(StreammineError):
    """A snapshot can't be read back: it is missing, cut short, or its checksum does not fit."""


class StateVersionError(StreammineError):
    """A snapshot was made by another version of the engine or operator, and can't be migrated."""


class UserCodeError(PlacedError):
    """User code can't be imported or raised; the message names operator, slice, epoch and event."""


class ClusterError(StreammineError):
    """Something that the cluster needs is missing or unreachable."""


class StalePlanError(ClusterError):
    """A newer plan stands, or its writer is no member any more: it is not the manager now."""


class UnknownJobError(ClusterError):
    """The cluster has no such job, or it ended so long ago that nothing is kept of it."""


class ProtocolError(StreammineError):
    """A frame or control message breaks the protocol."""


class JobFailedError(StreammineError):
    """A submitted job stopped with an error."""
