"""Replication: snapshots, checkpoints, agreement, and how what is lost comes back."""

from replication.checkpointing import Coordinator
from replication.checkpoints import (
    GENERATIONS_PER_ATTEMPT,
    any_checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    first_generation,
    load_run,
    newest_checkpoints,
    next_attempt,
    publish_checkpoint,
    save_run,
)
from replication.collection import Collected, collect
from replication.consensus import Consensus
from replication.control_memory import find_memory, keep_memory
from replication.controller import Controller
from replication.decisions import forgotten_until, seal_decisions, store_decisions
from replication.first_bags import FirstBags
from replication.naming import Term
from replication.recovery_line import recovery_line
from replication.snapshots import (
    Layer,
    LoadedSnapshot,
    load_snapshot,
    verify_snapshot,
    write_snapshot,
)
from replication.terms import begin_term

__all__ = [
    "GENERATIONS_PER_ATTEMPT",
    "Collected",
    "Consensus",
    "Controller",
    "Coordinator",
    "FirstBags",
    "Layer",
    "LoadedSnapshot",
    "Term",
    "any_checkpoint",
    "begin_term",
    "collect",
    "decode_checkpoint",
    "encode_checkpoint",
    "find_memory",
    "first_generation",
    "forgotten_until",
    "keep_memory",
    "load_run",
    "load_snapshot",
    "newest_checkpoints",
    "next_attempt",
    "publish_checkpoint",
    "recovery_line",
    "save_run",
    "seal_decisions",
    "store_decisions",
    "verify_snapshot",
    "write_snapshot",
]
