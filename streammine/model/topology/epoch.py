"""The epoch definition of a topology: by count or by event time."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from streammine.model.epochs import EpochDefinition
from streammine.model.topology.parts import NO_BOOLEAN, Column, DurationField, Part
from streammine.model.topology.problems import wrong_value


class Epoch(Part):
    """How rows are cut into epochs: ``{count: 100000}`` or ``{time: 60s, column: ts}``."""

    label: ClassVar[str] = "epoch"

    count: Annotated[int, Field(ge=1, le=10**12), NO_BOOLEAN] | None = Field(
        default=None,
        description="Rows of each source per epoch, in the source's order.",
        examples=[100_000],
    )
    time: DurationField | None = Field(
        default=None, description="Event time per epoch.", examples=["60s"]
    )
    column: Column | None = Field(
        default=None, description="The event-time column, with time.", examples=["ts"]
    )
    unit: Literal["s", "ms", "us"] | None = Field(
        default=None,
        description="Unit of an event-time column of whole numbers. Default: s. Timestamps and "
        "dates know theirs.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Epoch:
        if (self.count is None) == (self.time is None):
            found = "has both count and time" if self.count else "has neither count nor time"
            raise wrong_value(f"{found}; write {{count: 100000}} or {{time: 60s, column: ts}}")
        if self.count is not None and (self.column is not None or self.unit is not None):
            raise wrong_value("column and unit belong to time epochs: {time: 60s, column: ts}")
        if self.time is not None and self.time.microseconds == 0:
            raise wrong_value("an epoch of time 0 holds nothing; write {time: 60s, column: ts}")
        if self.time is not None and self.column is None:
            raise wrong_value(f"needs the event-time column: {{time: {self.time}, column: ts}}")
        return self

    @property
    def definition(self) -> EpochDefinition:
        if self.count is not None:
            return EpochDefinition("count", self.count)
        assert self.time is not None
        return EpochDefinition("time", self.time.microseconds, self.column, self.unit or "s")
