"""What the Spark job behind `streammine replay` is asked for and what it answers.

The job runs in a process of its own (`python -m streammine.pipeline.replay REQUEST.json`), because only
`pipeline` may load PySpark; request and report travel as JSON. No secret stands in them: keys are
named by their file.
"""

from __future__ import annotations

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from streammine.model.epoch_log import EpochSettings


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReplayTarget(_Part):
    """The running source: its name, its slices' own logs in order, columns (an Arrow IPC schema
    message in hex), epochs, and the key file where it listens over TCP."""

    source: str
    logs: tuple[str, ...]
    columns: str
    epoch: EpochSettings
    keys: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """Visible columns of the source."""
        return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(self.columns)))


class ReplayRequest(_Part):
    """Push epochs `from_epoch` to `to_epoch` (None: from the first, to the last) of a log into a source.

    `replay`: a name that no other run of the command has. `speed`: how many times faster than event
    time (None: as fast as the source takes it). `keep_open`: the source is not over afterwards.
    `patience_seconds`: how long a slice may be out of reach.
    """

    log: str
    target: ReplayTarget
    replay: str
    from_epoch: int | None = None
    to_epoch: int | None = None
    speed: float | None = Field(default=None, gt=0)
    keep_open: bool = False
    patience_seconds: float = 120.0
    master: str = "local[*]"


class ReplayReport(_Part):
    """What a replay did; the last line of its standard output.

    `rows_sent` and `rows_dead` count what the tasks' last attempts sent: a slice that had some already
    was not sent them again. `first_epoch` and `last_epoch`: what the source has of the log now; None:
    nothing.
    """

    log: str
    first_epoch: int | None
    last_epoch: int | None
    rows_sent: int
    rows_dead: int
    tasks: int
    slices: int
    ended: bool
    seconds: float
