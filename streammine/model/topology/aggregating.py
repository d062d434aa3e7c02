"""The aggregate: sums, counts and the like per key and window."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from streammine.model.topology.aggregate_windows import AggregateWindowField, Global, Session
from streammine.model.topology.aggregates import AggregateField
from streammine.model.topology.keyed import (
    EPOCH_COLUMN,
    KEYED_ELSEWHERE,
    SPAN_COLUMNS,
    CombineField,
    KeyedFields,
    Timed,
)
from streammine.model.topology.parts import MOST_ENTRIES, Column, Columns
from streammine.model.topology.problems import wrong_value
from streammine.model.topology.stateless import Expression, OneInput


class AggregateOperator(OneInput, KeyedFields, Timed):
    """Sums, counts and the like per key and window. Exact: any order gives the same bytes."""

    label: ClassVar[str] = "an aggregate"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
        "inputs": "it has one input; write input: NAME",
    }
    kind: ClassVar[str] = "aggregate"

    aggregate: dict[Column, AggregateField] = Field(
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Output columns and what they hold: count(), sum(c), mean(c), min(c), max(c), "
        "variance(c), stddev(c), both also as ..._population(c), median(c), quantile(c, 0.95), "
        "count_distinct(c), first(c), last(c), arg_min(c, by), arg_max(c, by), collect(c). A condition "
        "on the rows that count may follow: sum(c) where d > 3. The output has the column epoch; where "
        "a window of event time is written, window_start and window_end; the key columns, then these.",
        examples=[{"count": "count()", "mean": "mean(value) where property = 1"}],
    )
    key: Columns = Field(
        default=(),
        description="Column or columns to group by. Default: one group of all rows.",
        examples=["word", ["house_id", "plug_id"]],
    )
    window: AggregateWindowField | None = Field(
        default=None,
        description="Of which rows each result is. A length like 5m or 10 epochs: tumbling windows; {length: "
        "10m, slide: 1s}: windows that overlap; {session: 30s}: per key, rows less than the gap apart; "
        "global: all rows. Lengths and slides are whole multiples of a time epoch. Default: one epoch.",
        examples=["5m", {"length": "10m", "slide": "1s"}, {"session": "30s"}, "global"],
    )
    having: Expression | None = Field(
        default=None,
        description="Expression over the output columns; a row leaves where it is true. Default: all "
        "rows leave.",
        examples=["count > 10", "mean >= 0.5 and epoch > 0"],
    )
    combine: CombineField = None

    @model_validator(mode="after")
    def _distinct_output(self) -> AggregateOperator:
        for column in self.aggregate:
            if column in self.key:
                raise wrong_value(f"output column '{column}' is a key column, too; rename it")
        if EPOCH_COLUMN in self.aggregate or EPOCH_COLUMN in self.key:
            raise wrong_value(
                f"the output has a column '{EPOCH_COLUMN}' already, the number of the window's "
                "last epoch; use another name"
            )
        spans = () if self.window is None or isinstance(self.window, Global) else SPAN_COLUMNS
        for column in (*self.aggregate, *self.key):
            if column in spans:
                raise wrong_value(
                    f"the output of an aggregate with a window has a column '{column}' already, when the "
                    "window starts or ends; use another name"
                )
        return self

    @model_validator(mode="after")
    def _time_is_needed(self) -> AggregateOperator:
        if self.time is not None and not isinstance(self.window, Session):
            raise wrong_value(
                "time is for sessions, window: {session: 30s}; other windows are of epochs, which have the "
                "column that epoch names"
            )
        return self

    @model_validator(mode="after")
    def _sessions_combine_nothing(self) -> AggregateOperator:
        if self.combine and isinstance(self.window, Session):
            raise wrong_value(
                "rows of sessions are looked at one by one, so nothing is combined; take combine out"
            )
        return self

    @property
    def sets_aside(self) -> bool:
        return isinstance(self.window, Session)

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)
