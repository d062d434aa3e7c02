"""Parcels of a replay on their way into the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streammine.model.ingest_log import Idle, LogState, Parcel, Receipt, Replayed
from streammine.model.replay import HeldLog
from streammine.runtime.sources.live.messages import Message


@dataclass(frozen=True, kw_only=True)
class ParcelMessage(Message):
    """A parcel that was taken in; `held` is what the source has with it."""

    parcel: Parcel
    held: HeldLog


class ReplayIntake:
    """A `receiver.Judge`: what a replay sends was judged when its log was made, and is in order."""

    def take(
        self, messages: Sequence[Message], state: LogState, time_of_day: int
    ) -> tuple[Replayed | None, list[Receipt]]:
        """(the entry, None for no parcels; a receipt for each)."""
        taken = [message for message in messages if isinstance(message, ParcelMessage)]
        assert len(taken) == len(messages), "a replay source is sent parcels"
        if not taken:
            return None, []
        held = taken[-1].held
        assert all((each.held.log, each.held.since) == (held.log, held.since) for each in taken)
        parcels = tuple(each.parcel for each in taken)
        receipts = [Receipt(each.rows, len(each.dead), None) for each in parcels]
        return Replayed(held, parcels), receipts

    def reference(self, state: LogState, time_of_day: int) -> int:
        """See Judge. The epochs of a replay come with it; no clock takes part."""
        return 0

    def idle(self, state: LogState, reference: int, silence: int) -> tuple[Idle | None, int | None]:
        """See Judge."""
        return None, None
