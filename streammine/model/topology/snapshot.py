"""The snapshot settings of a topology: how often, how, and where its state is kept."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from streammine.model.durations import Interval
from streammine.model.snapshots import SnapshotMode
from streammine.model.topology.parts import Part, Text
from streammine.model.topology.problems import shown, wrong_value

DEFAULT_INTERVAL = Interval.parse("1s")

IntervalField = Annotated[
    Interval,
    PlainValidator(Interval.parse),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[0-9]+(\.[0-9]+)?\s*(us|ms|s|m|h|d)$|^[0-9]+\s*epochs?$",
        }
    ),
]


class Snapshot(Part):
    """How a job is made safe: ``{every: 1s, mode: asynchronous, store: FOLDER}``, or ``none``."""

    label: ClassVar[str] = "snapshot"
    elsewhere: ClassVar[dict[str, str]] = {
        "interval": "write every: 1s, or every: 10 epochs",
        "path": "write store: FOLDER_OR_URL",
    }

    every: IntervalField | None = Field(
        default=None,
        description="How long from one checkpoint to the next: a duration, or a number of epochs. "
        "Default: 1s.",
        examples=["1s", "10 epochs"],
    )
    mode: SnapshotMode = Field(
        default="asynchronous",
        description="asynchronous: the job goes on while snapshots are written; synchronous: it "
        "waits for them; none: no snapshots, a crash starts the job from its beginning.",
    )
    store: Text | None = Field(
        default=None,
        description="Folder, relative to the topology's folder, or URL; each run has a folder of "
        "its own in it. Default: .streammine/runs beside the topology.",
        examples=["s3://bucket/runs"],
    )

    @model_validator(mode="after")
    def _none_is_none(self) -> Snapshot:
        if self.mode == "none" and (self.every is not None or self.store is not None):
            extra = "every" if self.every is not None else "store"
            raise wrong_value(
                f"mode none makes no snapshots, so {extra} says nothing; take it out, or write "
                "mode: asynchronous"
            )
        return self

    @property
    def interval(self) -> Interval:
        return self.every or DEFAULT_INTERVAL

    def __str__(self) -> str:
        if self.mode == "none":
            return "none; a crash starts the job from its beginning"
        return f"every {self.interval}, {self.mode}"


def _short_form(value: object) -> object:
    """``snapshot: none`` is ``snapshot: {mode: none}``."""
    if value == "none":
        return {"mode": "none"}
    if isinstance(value, Snapshot | dict):
        return value
    raise wrong_value(
        "must be none, or a mapping like {every: 1s, mode: asynchronous, store: FOLDER}, "
        f"not {shown(value)}"
    )


SnapshotField = Annotated[Snapshot, BeforeValidator(_short_form)]
