"""Where machines, operators, partitioners and stores are wired together. Both shells import this.

`CompiledJob` is what a topology comes to: operators checked against their inputs' schemas, the graph with
its disciplines, and the columns that travel on each edge. `CompiledJob.slice` builds one slice: its pure
machine, and the processor that does its work on what the shell hands in (`Environment`).
"""

from __future__ import annotations

from replication import (
    GENERATIONS_PER_ATTEMPT,
    Controller,
    Coordinator,
    Term,
    any_checkpoint,
    begin_term,
    collect,
    find_memory,
    first_generation,
    forgotten_until,
    keep_memory,
    load_run,
    load_snapshot,
    newest_checkpoints,
    next_attempt,
    publish_checkpoint,
    recovery_line,
    save_run,
    store_decisions,
    write_snapshot,
)
from streammine.assembly.compiled import CompiledJob
from streammine.assembly.declaring import Declaring
from streammine.assembly.environment import AGREEMENT, DEFAULT_READ_ROWS, BuiltSlice, Environment
from streammine.assembly.losing import lost_together, reason_to_keep
from streammine.assembly.seats import Seats
from streammine.assembly.settling import settled
from streammine.assembly.step_times import StepTimes
from streammine.engine.policies import Policies

__all__ = [
    "AGREEMENT",
    "DEFAULT_READ_ROWS",
    "GENERATIONS_PER_ATTEMPT",
    "POLICIES",
    "BuiltSlice",
    "CompiledJob",
    "Declaring",
    "Environment",
    "Seats",
    "StepTimes",
    "Term",
    "any_checkpoint",
    "begin_term",
    "collect",
    "find_memory",
    "first_generation",
    "forgotten_until",
    "keep_memory",
    "load_run",
    "load_snapshot",
    "lost_together",
    "newest_checkpoints",
    "next_attempt",
    "publish_checkpoint",
    "reason_to_keep",
    "save_run",
    "settled",
    "store_decisions",
    "write_snapshot",
]

POLICIES = Policies(Coordinator, recovery_line, Controller)
"""What every node's manager decides by."""
