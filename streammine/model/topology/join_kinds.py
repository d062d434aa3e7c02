"""The kinds of joins: which rows leave besides, or instead of, pairs."""

from __future__ import annotations

from enum import StrEnum


class JoinKind(StrEnum):
    """Which rows a join gives. What is said of pairs holds for inner, left, right and full."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def pairs(self) -> bool:
        """Rows of both sides leave together; else left rows leave alone."""
        return self not in (JoinKind.SEMI, JoinKind.ANTI)

    @property
    def left_alone(self) -> bool:
        """A left row leaves that has no partner."""
        return self in (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI)

    @property
    def right_alone(self) -> bool:
        """A right row leaves that has no partner."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)
