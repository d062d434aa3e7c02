"""The join: pairs of rows of two streams, or of a stream and a table."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from streammine.model.suggestions import hint, listed
from streammine.model.topology.join_kinds import JoinKind
from streammine.model.topology.keyed import KEYED_ELSEWHERE, KeyedFields, RowWindowed
from streammine.model.topology.parts import LONGEST_TEXT, Column, Columns, Part, StreamName
from streammine.model.topology.problems import Path, shown, wrong_value
from streammine.model.topology.stateless import OperatorBase
from streammine.model.topology.time_between import (
    TimeBetweenField,
    TimeDistance,
    time_distance,
)

_KINDS = tuple(map(str, JoinKind))


class JoinColumns(Part):
    """The columns that must be equal, pairwise."""

    label: ClassVar[str] = "on"

    left: Columns = Field(min_length=1, description="Columns of the left input.")
    right: Columns = Field(
        min_length=1, description="Columns of the right input or the table, as many."
    )

    @model_validator(mode="after")
    def _pairs(self) -> JoinColumns:
        if len(self.left) != len(self.right):
            raise wrong_value(
                f"left has {len(self.left)} columns and right {len(self.right)}; "
                "they are compared in pairs"
            )
        return self


def _for_both(value: object) -> object:
    return {"left": value, "right": value} if isinstance(value, str | list | tuple) else value


def _kind(value: object) -> object:
    if isinstance(value, str) and value in _KINDS:
        return JoinKind(value)
    suggestion = hint(value, _KINDS) if isinstance(value, str) else "."
    raise wrong_value(f"{shown(value)} can't be used here{suggestion} Allowed: {listed(_KINDS)}")


class VersionColumns(Part):
    """The columns of event time by which a row meets a version of the table."""

    label: ClassVar[str] = "as_of"

    left: Column = Field(description="Column of the left input: when the row happened.")
    right: Column = Field(description="Column of the table: since when its row holds.")


class Joining(Part):
    """Which two streams are joined, and how."""

    label: ClassVar[str] = "join"
    elsewhere: ClassVar[dict[str, str]] = {
        "window": "it stands beside join, not in it",
        "input": "write left: NAME and right: NAME",
        "inputs": "write left: NAME and right: NAME",
        "key": "write on: [columns]",
        "between": "write when: a.ts between b.ts - 5m and b.ts + 30s",
        "time": "write when: a.ts between b.ts - 5m and b.ts + 30s, or as_of: ts for a table",
    }

    left: StreamName = Field(description="Name of the left input.", examples=["orders"])
    right: StreamName | None = Field(
        default=None, description="Name of the right input.", examples=["payments"]
    )
    table: StreamName | None = Field(
        default=None,
        description="Instead of right: name of an input whose rows are a table that is kept for ever. A row "
        "with a key that is known replaces the one before.",
        examples=["limits"],
    )
    on: (
        Annotated[
            JoinColumns,
            BeforeValidator(_for_both),
            WithJsonSchema(
                {
                    "anyOf": [
                        {"type": "string"},
                        {"type": "array", "items": {"type": "string"}, "minItems": 1},
                        {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["left", "right"],
                            "properties": {
                                side: {"type": ["array", "string"], "items": {"type": "string"}}
                                for side in ("left", "right")
                            },
                        },
                    ]
                }
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Columns that must be equal: names that both inputs have, or "
        "{left: [...], right: [...]}. May be left out where there is a when.",
        examples=[["id"], {"left": ["id"], "right": ["order_id"]}],
    )
    when: TimeBetweenField | None = Field(
        default=None,
        description="Instead of a window: how far the event times of two rows may lie apart, bounds "
        "inclusive. Inputs are called by their names, or left and right.",
        examples=["clicks.ts between views.ts - 5m and views.ts + 30s"],
    )
    kind: Annotated[JoinKind, BeforeValidator(_kind)] = Field(
        default=JoinKind.INNER,
        description="inner: pairs leave. left, right, full: so do rows of that side, or of both, that "
        "have no partner, with nulls for the other side. semi: left rows leave that have a partner. anti: "
        "left rows leave that have none. With a table: inner, left, semi or anti.",
        examples=["left"],
    )
    suffix: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)] = Field(
        default="_right",
        description="Put behind a column of the right input whose name the left one has, too.",
    )
    as_of: (
        Annotated[
            VersionColumns,
            BeforeValidator(_for_both),
            WithJsonSchema(
                {
                    "anyOf": [
                        {"type": "string"},
                        {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["left", "right"],
                            "properties": {
                                "left": {"type": "string"},
                                "right": {"type": "string"},
                            },
                        },
                    ]
                }
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="With a table: columns of event time. A row meets the table as it was at the row's "
        "time. Default: as it is when the row's epoch is over.",
        examples=["ts", {"left": "ts", "right": "valid_from"}],
    )
    delete: Column | None = Field(
        default=None,
        description="Boolean column of the table: where it is true, the row takes its key out of it.",
        examples=["gone"],
    )

    @model_validator(mode="after")
    def _one_way(self) -> Joining:
        if (self.right is None) == (self.table is None):
            raise wrong_value(
                "needs 'right': a stream, or 'table': rows that are kept for ever; one of them"
            )
        if self.on is None and self.when is None:
            raise wrong_value(
                "needs 'on': the columns that must be equal, like on: id"
                + ("" if self.table is not None else "; only a join with when can do without")
            )
        if self.table is None:
            for field in ("as_of", "delete"):
                if getattr(self, field) is not None:
                    raise wrong_value(
                        f"{field} is for tables; write table: {self.right}, or take it out"
                    )
            if self.when is not None:
                _ = self.distance
            return self
        if self.when is not None:
            raise wrong_value(
                "when is for two streams; a table's rows hold until others replace them (see as_of)"
            )
        if self.kind in (JoinKind.RIGHT, JoinKind.FULL):
            raise wrong_value(
                f"kind {self.kind} would wait for ever for partners of the table's rows; "
                "with a table, use inner, left, semi or anti"
            )
        return self

    @property
    def distance(self) -> TimeDistance:
        """The condition of an interval join, seen from its inputs."""
        assert self.when is not None
        assert self.right is not None
        return time_distance(self.when, self.left, self.right)

    @property
    def keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The key columns of both sides, in pairs; none where all rows may meet."""
        return ((), ()) if self.on is None else (self.on.left, self.on.right)


class JoinOperator(OperatorBase, KeyedFields, RowWindowed):
    """Pairs rows of two streams that have equal keys: in the same window, or within some time of each
    other; or each row of a stream with the row of a table that has its key."""

    label: ClassVar[str] = "a join"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
        "input": "its inputs are join: {left: NAME, right: NAME}",
        "inputs": "its inputs are join: {left: NAME, right: NAME}",
        "key": "its key is join: {on: [columns]}",
        "on": "it stands inside of join: {on: [columns]}",
        "left": "it stands inside of join: {left: NAME}",
        "right": "it stands inside of join: {right: NAME}",
        "when": "it stands inside of join: {when: a.ts between b.ts - 5m and b.ts + 30s}",
        "combine": "a join's rows can't be combined",
    }
    kind: ClassVar[str] = "join"

    join: Joining = Field(
        description="The two inputs, the columns that must be equal, and how far apart the rows may lie. The "
        "output has the column epoch and, where a window of event time is written, window_start and "
        "window_end; then the columns of both inputs; of semi and anti joins, of the left one.",
        examples=[
            {"left": "orders", "right": "payments", "on": ["id"]},
            {
                "left": "clicks",
                "right": "views",
                "on": "user",
                "when": "clicks.ts between views.ts and views.ts + 30s",
            },
            {"left": "readings", "table": "limits", "on": "plug", "kind": "left"},
        ],
    )

    @model_validator(mode="after")
    def _window_fits(self) -> JoinOperator:
        if self.window is None:
            return self
        if self.join.when is not None:
            raise wrong_value(
                "has both window and when; keep window for rows of one window, or when for rows that lie "
                "near each other"
            )
        if self.join.table is not None:
            raise wrong_value(
                "a table has no window: its rows hold until others replace them; take window out"
            )
        return self

    @property
    def sets_aside(self) -> bool:
        return self.join.when is not None or self.join.table is not None

    @property
    def input_names(self) -> tuple[str, ...]:
        other = self.join.right or self.join.table
        assert other is not None
        return (self.join.left, other)

    def input_place(self, port: int) -> Path:
        return ("join", ("left", "right" if self.join.table is None else "table")[port])

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return self.join.keys
