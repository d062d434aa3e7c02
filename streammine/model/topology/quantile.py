"""The quantile: exact, per key, over sliding windows of several lengths."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from streammine.model.durations import Duration
from streammine.model.epochs import EpochDefinition
from streammine.model.topology.epoch import Epoch
from streammine.model.topology.keyed import EPOCH_COLUMN, KEYED_ELSEWHERE, KeyedFields
from streammine.model.topology.parts import NO_BOOLEAN, Column, Columns, DurationField, Part
from streammine.model.topology.problems import wrong_value
from streammine.model.topology.stateless import OneInput
from streammine.model.topology.windows import whole_epochs

MOST_WINDOWS = 16
"""Lengths of windows that one operator has."""

_MOST_DIGITS = 9


def _lengths(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


class Quantile(Part):
    """Which quantile of which windows."""

    label: ClassVar[str] = "quantile"
    elsewhere: ClassVar[dict[str, str]] = {
        "key": "it stands beside quantile, not in it",
        "window": "write windows: [LENGTH, ...]",
        "time": "a row belongs to the epoch in which it comes",
    }

    of: Column = Field(
        description="The column of the values: integers of up to 63 bits, float32 or float64. Rows where it "
        "is null are set aside.",
        examples=["load"],
    )
    at: Annotated[float, Field(ge=0, le=1), NO_BOOLEAN] = Field(
        default=0.5,
        description="Which quantile: 0 is the minimum, 0.5 the median, 1 the maximum. Of n values it is the "
        "one at place (n - 1) * at in ascending order, and between two places as far between their values. "
        "Default: 0.5.",
        examples=[0.95],
    )
    windows: Annotated[
        tuple[DurationField, ...],
        BeforeValidator(_lengths),
        WithJsonSchema(
            {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
        ),
    ] = Field(
        min_length=1,
        max_length=MOST_WINDOWS,
        description="Lengths of the windows, whole multiples of the slide. All windows share the rows.",
        examples=[["1h", "24h"], "10m"],
    )
    slide: DurationField | None = Field(
        default=None,
        description="By how much the windows move, a whole multiple of a time epoch. Default: one epoch.",
        examples=["1s"],
    )
    into: Column = Field(
        default="quantile", description="The output column (float64).", examples=["median"]
    )
    emit: Literal["changes", "every_slide"] = Field(
        default="changes",
        description="What leaves with a slide. changes: for every key and window whose quantile differs "
        "from before, a null where no values are left. every_slide: for each key and window with values.",
    )

    @model_validator(mode="after")
    def _clear(self) -> Quantile:
        if len(set(self.windows)) != len(self.windows):
            raise wrong_value("windows has a length twice")
        if self.fraction.denominator > 10**_MOST_DIGITS:
            raise wrong_value(f"at has more than {_MOST_DIGITS} digits behind the point")
        if self.into in (EPOCH_COLUMN, "window_start", "window_end"):
            raise wrong_value(
                f"the output has a column '{self.into}' already, which tells its epoch or window; "
                "name another with into"
            )
        return self

    @property
    def fraction(self) -> Fraction:
        """`at` as it was written: 0.1 is a tenth."""
        return Fraction(repr(self.at))

    def lengths(self, epoch: Epoch | EpochDefinition) -> tuple[tuple[int, ...], int] | str:
        """The windows' lengths, ascending, and the slide in epochs; or a text that says why they can't be."""
        definition = epoch.definition if isinstance(epoch, Epoch) else epoch
        slide = 1 if self.slide is None else whole_epochs(self.slide, epoch, "slide")
        if isinstance(slide, str):
            return slide
        lengths = []
        for window in sorted(self.windows):
            length = whole_epochs(window, epoch)
            if isinstance(length, str):
                return length
            if length % slide:
                return (
                    f"window {window} is no whole multiple of the slide, "
                    f"{Duration(slide * definition.length)}"
                )
            lengths.append(length)
        return tuple(lengths), slide


class QuantileOperator(OneInput, KeyedFields):
    """Exact quantiles per key of the last rows, over windows that slide."""

    label: ClassVar[str] = "a quantile"
    elsewhere: ClassVar[dict[str, str]] = {
        **KEYED_ELSEWHERE,
        "inputs": "it has one input; write input: NAME",
        "combine": "an exact quantile needs all rows",
        "window": "its windows are quantile: {windows: [LENGTH, ...]}",
        "time": "a row belongs to the epoch in which it comes",
        **dict.fromkeys(
            ("of", "at", "windows", "slide", "into", "emit"), "it stands inside of quantile: {...}"
        ),
    }
    kind: ClassVar[str] = "quantile"

    quantile: Quantile = Field(
        description="Of which column, at what share, over which windows. The output has the columns epoch, "
        "window_start and window_end, the key columns, then the quantile.",
        examples=[{"of": "load", "windows": ["1h", "24h"], "slide": "1s", "into": "median"}],
    )
    key: Columns = Field(
        default=(),
        description="Column or columns of the key. Default: one quantile of all rows, in one slice.",
        examples=["sensor", ["house_id", "plug_id"]],
    )

    @model_validator(mode="after")
    def _distinct_output(self) -> QuantileOperator:
        for column in self.key:
            if column in (EPOCH_COLUMN, "window_start", "window_end"):
                raise wrong_value(
                    f"the output has a column '{column}' already, which tells its epoch or window; "
                    "rename the key column with a map before"
                )
        if self.quantile.into in self.key:
            raise wrong_value(
                f"'{self.quantile.into}' is a key column, too; name another with into"
            )
        return self

    @property
    def sets_aside(self) -> bool:
        return True

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,)
