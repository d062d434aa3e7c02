"""Edits per channel over the last while: a window that slides with every epoch.

Decisions of this program:

One window per channel
    All edits of the last twenty minutes of event time are kept, so the state grows and shrinks with the rate
    at which people edit. Played at `speed: 60` the window is 20 s long.
One row per epoch and channel
    Only channels that were edited in the epoch have one; what the others had lately is known from their last.
    So a channel's slice need not hear of epochs in which nothing happened to it, and there may be several.
Any order inside an epoch
    Number, distinct users and sum are the same whatever the order of the edits, so the cheapest discipline is
    enough.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from streammine import Operator, Window

WINDOW_SECONDS = 1200


class Trends(Operator):
    """Per channel: how many edits there were lately, by how many users, and how much text they added."""

    output: ClassVar = {
        "channel": "string",
        "edits": "int64",
        "users": "int64",
        "added": "int64",
    }
    needs: ClassVar = ("time", "user", "added")
    state: ClassVar = {"edits": Window(microseconds=WINDOW_SECONDS * 1_000_000)}
    commutative: ClassVar = True

    def process_batch(self, channel: str, edits: pa.RecordBatch, state: Any) -> None:
        times = pc.cast(edits.column("time"), pa.int64()).to_pylist()
        users = edits.column("user").to_pylist()
        added = edits.column("added").to_pylist()
        for time, edit in zip(times, zip(users, added, strict=True), strict=True):
            state.edits.append(time, edit)

    def end_epoch(self, channel: str, state: Any) -> Any:
        edits = state.edits.values()
        return channel, len(edits), len({user for user, _ in edits}), sum(each for _, each in edits)
