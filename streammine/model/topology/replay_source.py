"""A source into which `streammine replay` pushes logs while the job runs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import AfterValidator, Field, model_validator

from streammine.model.topology.live_sources import bind_address, is_loopback, split_bind
from streammine.model.topology.parts import (
    MOST_ENTRIES,
    Column,
    ColumnType,
    Part,
    Slices,
    StrictBoolean,
    Text,
)
from streammine.model.topology.problems import wrong_value
from streammine.model.types import arrow_schema


class ReplaySource(Part):
    """Rows with the epochs and positions that a log gave them."""

    label: ClassVar[str] = "a replay source"
    kind: ClassVar[Literal["replay"]] = "replay"
    rate: ClassVar[None] = None
    speed: ClassVar[None] = None

    elsewhere: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("files", "prepare", "merge_by"), "it belongs to a source of files"),
        **dict.fromkeys(
            ("lateness", "ahead", "idle", "format", "delimiter"),
            "a log that is replayed was made with that already",
        ),
        **dict.fromkeys(
            ("rate", "speed"), "the pace is that of the replay; see `streammine replay --speed`"
        ),
        **dict.fromkeys(
            ("replicas", "scheme"),
            "what is replayed goes to one receiver, and what it took is in its log; give it to the "
            "operators behind it",
        ),
        "log": "name it at the command: streammine replay LOG --into JOB/SOURCE",
        "token": "call it keys: FILE; a replay is encrypted with them",
        "end": "the replay ends the source, unless it is given --keep-open",
    }

    type: Literal["replay"] = Field(
        description="replay: `streammine replay` pushes an epoch log or an ingest log into it."
    )
    ingest_log: Text = Field(
        description="Folder or URL of the source's own log, relative to the topology's folder. What "
        "is replayed is durable there before it is acknowledged, and read from there again. It must "
        "be reached from every node, and from where the replay runs.",
        examples=["ingest/readings"],
    )
    slices: Slices = Field(
        default=2,
        description="Number of slices. Partition p of a log goes to slice p modulo the slices.",
    )
    schema_: dict[Column, ColumnType] = Field(
        alias="schema",
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Columns and their types: those of the logs.",
        examples=[{"ts": "timestamp[us]", "plug": "int64", "value": "float64"}],
    )
    bind: Annotated[Text, AfterValidator(bind_address)] | None = Field(
        default=None,
        description="Address to listen at, HOST:PORT; slice i listens at PORT + i. Default: a socket "
        "that only the job's user reaches, on the slice's own machine.",
        examples=["0.0.0.0:9100"],
    )
    keys: Text | None = Field(
        default=None,
        description="Key file of this source (CURVE), readable by its owner only; relative to the "
        "topology's folder, at the same path wherever the replay runs. Not the cluster's own.",
        examples=["secrets/readings.keys"],
    )
    allow_remote: StrictBoolean = Field(
        default=False, description="Listen beyond this machine. Needs keys."
    )

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns."""
        return arrow_schema(self.schema_)

    @property
    def address(self) -> tuple[str, int] | None:
        """(host, port) of slice 0; None: a private socket."""
        return None if self.bind is None else split_bind(self.bind)

    @model_validator(mode="after")
    def _fits(self) -> ReplaySource:
        if self.address is None:
            if self.keys is not None or self.allow_remote:
                raise wrong_value("keys and allow_remote go with bind: HOST:PORT")
            return self
        host, port = self.address
        if port + self.slices - 1 > 65_535:
            raise wrong_value(f"{self.slices} slices from port {port} on go beyond port 65535")
        if self.keys is None:
            raise wrong_value("a source that listens at a port needs keys: FILE")
        if not is_loopback(host) and not self.allow_remote:
            raise wrong_value(
                f"{host} is reached from other machines; leave bind out, or write allow_remote: true"
            )
        return self
