"""Ordering disciplines: how much order an operator gets."""

from __future__ import annotations

from enum import StrEnum


class Discipline(StrEnum):
    """How much order an operator gets (DESIGN §4). Members stand in the order of their cost."""

    NONE = "none"
    EPOCH = "epoch"
    MERGE = "merge"
    CONSENSUS = "consensus"
    STRICT = "strict"

    @property
    def merges_bags(self) -> bool:
        """An epoch's bags are processed in the order of the channels' numbers, each in its sender's order
        (Martin 2015, chapter 4). With consensus the replicas agree first on whose bags these are."""
        return self in (Discipline.MERGE, Discipline.CONSENSUS)

    @property
    def agrees(self) -> bool:
        """Where receivers of a feed give different bags, all replicas process the same ones. Without, each
        takes what it has first: a yardstick of what agreement costs, and no promise."""
        return self not in (Discipline.NONE, Discipline.MERGE)
