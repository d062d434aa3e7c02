"""One row of many: the first or last of each key, and those that tell something new."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from streammine.model.topology.keyed import (
    EPOCH_COLUMN,
    KEYED_ELSEWHERE,
    CombineField,
    KeyedFields,
    Timed,
    Windowed,
)
from streammine.model.topology.parts import Column, Columns, DurationField, Part
from streammine.model.topology.problems import wrong_key, wrong_value
from streammine.model.topology.stateless import OneInput


class Deduplicating(Part):
    """Which of a key's rows stays."""

    label: ClassVar[str] = "deduplicate"
    elsewhere: ClassVar[dict[str, str]] = {
        "key": "it stands beside deduplicate, not in it",
        "window": "it stands beside deduplicate, not in it",
        "time": "it stands beside deduplicate, not in it",
        "input": "it stands beside deduplicate, not in it",
    }

    keep: Literal["first", "last"] = Field(
        default="first", description="Which row of a key stays: the first or the last one."
    )
    by: Column | None = Field(
        default=None,
        description="Column that tells which row is first. Default: the event time. Of rows that are equal "
        "in it, the one stays that is first in canonical order; a null is neither first nor last where "
        "there are others.",
        examples=["version"],
    )
    within: DurationField | None = Field(
        default=None,
        description="Instead of a window: a row stays with the rows of its key that come less than this "
        "much event time after it. One of them is kept; what comes later begins anew.",
        examples=["1h"],
    )

    @model_validator(mode="after")
    def _one_order(self) -> Deduplicating:
        if self.within is not None and self.by is not None:
            raise wrong_value(
                "within goes by event time, and by by another column; keep one, or name the column of the "
                "event time with time: COLUMN beside deduplicate"
            )
        if self.within is not None and self.within.microseconds < 1:
            raise wrong_value("within must be longer than 0s")
        return self


class DeduplicateOperator(OneInput, KeyedFields, Windowed, Timed):
    """The first or last row of each key."""

    label: ClassVar[str] = "a deduplicate"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
        "inputs": "it has one input; write input: NAME",
        "keep": "it stands inside of deduplicate: {keep: last}",
        "by": "it stands inside of deduplicate: {by: COLUMN}",
        "within": "it stands inside of deduplicate: {within: 1h}",
    }
    kind: ClassVar[str] = "deduplicate"

    key: Columns = Field(
        min_length=1,
        description="Column or columns in which rows are equal of which one stays.",
        examples=["id", ["plug_id", "ts"]],
    )
    deduplicate: Deduplicating = Field(
        description="Which row stays: {keep: first}, in each window, or {keep: first, within: 1h}, in each "
        "hour from a row on. The output has the column epoch, the key columns, then the input's others.",
        examples=[{"keep": "first"}, {"keep": "last", "within": "1h"}],
    )
    combine: CombineField = None

    @model_validator(mode="after")
    def _fits(self) -> DeduplicateOperator:
        _check_no_epoch(self.key)
        if self.deduplicate.by is not None and self.time is not None:
            raise wrong_key(
                "has both time and deduplicate: {by}; the one tells the event time, the other another order: "
                "keep one"
            )
        if self.deduplicate.within is None:
            return self
        if self.window is not None:
            raise wrong_key(
                "has both window and deduplicate: {within}; a window begins at fixed times, within with a "
                "row: keep one"
            )
        if self.combine:
            raise wrong_value(
                "with within, which row stays follows from those before it, so rows can't be combined "
                "before they are sent; take combine out"
            )
        return self

    @property
    def sets_aside(self) -> bool:
        return self.deduplicate.within is not None

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)


class Changing(Part):
    """What counts as a change."""

    label: ClassVar[str] = "changes"
    elsewhere: ClassVar[dict[str, str]] = {
        "key": "it stands beside changes, not in it",
        "window": "it stands beside changes, not in it",
        "input": "it stands beside changes, not in it",
    }

    of: Columns = Field(
        default=(),
        description="Columns whose change counts. Default: all but the key, epoch and those of `ignore`.",
        examples=["percentage"],
    )
    ignore: Columns = Field(
        default=(),
        description="Columns whose change does not count; they leave with the row all the same.",
        examples=[["window_start", "window_end"]],
    )
    by: Column | None = Field(
        default=None,
        description="Column that tells which row of a key is the last one where a window has several. "
        "Default: the column of the epochs, where the input has it.",
        examples=["ts"],
    )
    gone: Column | None = Field(
        default=None,
        description="Name of an output column, false in a row that came in. When a key is missing in the "
        "window after one that had it, a row leaves in which it is true and all but the key is null. "
        "Default: nothing leaves then, and the key's last row is what later ones are compared with.",
        examples=["gone"],
    )
    forget_after: DurationField | None = Field(
        default=None,
        description="A key that has not come for so long, a whole number of windows, is forgotten: it is "
        "new when it comes again. Default: it is never forgotten.",
        examples=["24h"],
    )

    @model_validator(mode="after")
    def _clear(self) -> Changing:
        if self.of and self.ignore:
            raise wrong_value(
                "has both of and ignore; columns that are not in one are in the other"
            )
        if self.gone == EPOCH_COLUMN:
            raise wrong_value(f"the output has a column '{EPOCH_COLUMN}' already; use another name")
        if self.gone is not None and self.forget_after is not None:
            raise wrong_value(
                "with gone a key is forgotten when it is missing; take forget_after out"
            )
        return self


class ChangesOperator(OneInput, KeyedFields, Windowed):
    """Rows that differ from what left for their key before."""

    label: ClassVar[str] = "a changes"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
        "inputs": "it has one input; write input: NAME",
        "of": "it stands inside of changes: {of: COLUMN}",
        "ignore": "it stands inside of changes: {ignore: COLUMN}",
        "gone": "it stands inside of changes: {gone: COLUMN}",
    }
    kind: ClassVar[str] = "changes"

    key: Columns = Field(
        default=(),
        description="Column or columns that tell which rows follow each other. Default: all rows do.",
        examples=["house_id"],
    )
    changes: Changing = Field(
        description="What counts as a change: {of: percentage}, or {} for any column. The output has the "
        "column epoch, the key columns, then the input's others.",
        examples=[{"of": "percentage"}, {}],
    )
    combine: CombineField = None

    @model_validator(mode="after")
    def _fits(self) -> ChangesOperator:
        _check_no_epoch(self.key)
        for name in ("of", "ignore"):
            for column in getattr(self.changes, name):
                if column in (*self.key, EPOCH_COLUMN):
                    raise wrong_value(
                        f"'{column}' stands under changes: {{{name}}}; rows of one key are equal in their "
                        "key, and the epoch is each row's own: neither can change"
                    )
        if self.changes.gone is not None and self.changes.gone in self.key:
            raise wrong_value(
                f"'{self.changes.gone}' is a key column, too; use another name for gone"
            )
        return self

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)


def _check_no_epoch(key: tuple[str, ...]) -> None:
    if EPOCH_COLUMN in key:
        raise wrong_value(
            f"the output has a column '{EPOCH_COLUMN}' already, the epoch in which a row leaves; rename the "
            "input's with a map or an enrich before"
        )
