"""Live sources: what clients send over TCP, ZeroMQ or HTTP, logged before it is acknowledged."""

from __future__ import annotations

import ipaddress
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from streammine.model.durations import Duration, Size
from streammine.model.topology.parts import (
    MOST_ENTRIES,
    NO_BOOLEAN,
    NOT_READING,
    Column,
    ColumnType,
    DurationField,
    Part,
    Slices,
    StrictBoolean,
    Text,
)
from streammine.model.topology.problems import wrong_value
from streammine.model.types import arrow_schema

LiveFormat = Literal["text", "csv", "json"]
LiveEnd = Literal["never", "on_request"]

TEXT_COLUMNS = pa.schema([pa.field("line", pa.string())])
LARGEST_MESSAGE_BYTES = 16 << 20


def split_bind(text: str) -> tuple[str, int]:
    """(host, port) of ``host:port`` or ``[host]:port``. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise ValueError(text)
    if not 1 <= int(port) <= 65_535:
        raise ValueError(text)
    return host, int(port)


def bind_address(text: str) -> str:
    """The text, which must be an address to listen at."""
    try:
        split_bind(text)
    except ValueError:
        raise wrong_value(
            f"'{text}' is no address to listen at; write HOST:PORT, like 127.0.0.1:9000"
        ) from None
    return text


def is_loopback(host: str) -> bool:
    """Whether only processes of the same machine reach that host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _size(value: object) -> Size:
    size = Size.parse(value)
    if not 1024 <= size.bytes <= LARGEST_MESSAGE_BYTES:
        raise ValueError(f"must lie between 1KiB and 16MiB, and {size} does not")
    return size


SizeField = Annotated[
    Size,
    PlainValidator(_size),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*([kKM]i?B|B)?$"}),
]


class LiveSource(Part):
    """What all live sources have."""

    rate: ClassVar[None] = None
    speed: ClassVar[None] = None

    elsewhere: ClassVar[dict[str, str]] = {
        **NOT_READING,
        **dict.fromkeys(("files", "prepare", "merge_by"), "it belongs to a source of files"),
        **dict.fromkeys(
            ("replicas", "scheme"),
            "clients send to one receiver, and what it took is in the ingest log; give it to the "
            "operators behind it",
        ),
        **dict.fromkeys(("rate", "speed"), "the pace of a live source is that of its clients"),
        "log": "call it ingest_log; log is an epoch log that was prepared",
    }

    bind: Annotated[Text, AfterValidator(bind_address)] = Field(
        description="Address to listen at, HOST:PORT; slice i listens at PORT + i, each on the node "
        "that hosts it.",
        examples=["127.0.0.1:9000"],
    )
    ingest_log: Text = Field(
        description="Folder or URL of the ingest log, relative to the topology's folder. Everything "
        "is durable there before it is acknowledged, and read from there again. It must be reached "
        "from every node.",
        examples=["ingest/readings"],
    )
    slices: Slices = Field(
        default=1,
        description="Number of slices, each with a port and an ingest log of its own. "
        "It stays as it is for a log's life.",
    )
    format: LiveFormat = Field(
        default="json",
        description="json (one object per line), csv (no header: columns as in schema) or text "
        "(one column: line).",
    )
    schema_: dict[Column, ColumnType] | None = Field(
        default=None,
        alias="schema",
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Columns and their types; text has always {line: string}.",
        examples=[{"ts": "timestamp[us]", "plug": "int64", "value": "float64"}],
    )
    delimiter: str = Field(
        default=",",
        min_length=1,
        max_length=1,
        description="The character between two fields of csv.",
        examples=[";"],
    )
    lateness: DurationField = Field(
        default_factory=lambda: Duration(0),
        description="For time epochs: how far a row's time may lie behind the latest one before it "
        "in its ingest log. Later rows become dead letters. Default: 0s.",
        examples=["2s"],
    )
    ahead: DurationField | None = Field(
        default=None,
        description="For time epochs: how far a row's time may lie ahead of the time of day; a row "
        "beyond is a dead letter instead of making all others late. Default: any distance.",
        examples=["1m"],
    )
    idle: DurationField | None = Field(
        default=None,
        description="For time epochs: after so long without an event a slice no longer holds up the "
        "others: its clock goes on as time does, this far behind. Default: it holds them up.",
        examples=["5s"],
    )
    remember_ids: Annotated[int, Field(ge=1, le=10_000_000), NO_BOOLEAN] = Field(
        default=100_000,
        description="How many of the newest messages' ids each slice remembers, to drop messages "
        "that are sent again.",
    )
    largest: SizeField = Field(
        default_factory=lambda: Size(1 << 20),
        description="Longest line (tcp) or message (zeromq, http). Default: 1MiB.",
        examples=["64KiB"],
    )
    end: LiveEnd = Field(
        default="never",
        description="never: only `streammine stop` ends the job. on_request: clients may end the "
        "source for good (tcp and zeromq: !end, http: DELETE).",
    )
    allow_remote: StrictBoolean = Field(
        default=False, description="Listen beyond this machine. Clients must then show a secret."
    )

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns."""
        return TEXT_COLUMNS if self.schema_ is None else arrow_schema(self.schema_)

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) of slice 0."""
        return split_bind(self.bind)

    @model_validator(mode="after")
    def _fits(self) -> LiveSource:
        if self.format == "text":
            if self.schema_ is not None and arrow_schema(self.schema_) != TEXT_COLUMNS:
                raise wrong_value("text has the one column {line: string}; take schema out")
        elif self.schema_ is None:
            raise wrong_value(
                f"{self.format} needs a schema, like schema: {{ts: int64, value: float64}}"
            )
        if self.delimiter in '"\r\n' or not self.delimiter.isascii():
            raise wrong_value(f"{self.delimiter!r} can't be a delimiter")
        host, port = self.address
        if port + self.slices - 1 > 65_535:
            raise wrong_value(f"{self.slices} slices from port {port} on go beyond port 65535")
        if not is_loopback(host):
            self._check_remote(host)
        return self

    def _check_remote(self, host: str) -> None:
        if not self.allow_remote:
            raise wrong_value(
                f"{host} is reached from other machines; listen at 127.0.0.1, or write "
                f"allow_remote: true and {self._secret}: FILE"
            )
        if getattr(self, self._secret) is None:
            raise wrong_value(f"a source that other machines reach needs {self._secret}: FILE")

    _secret: ClassVar[str] = "token"


_TOKEN = Field(
    default=None,
    description="File with the secret that clients must show in its first line, readable by its "
    "owner only; relative to the topology's folder. It travels unencrypted: put TLS in front.",
    examples=["secrets/readings.token"],
)


class TcpSource(LiveSource):
    """Lines over TCP."""

    label: ClassVar[str] = "a TCP source"
    kind: ClassVar[Literal["tcp"]] = "tcp"

    type: Literal["tcp"] = Field(description="tcp: lines over TCP.")
    token: Text | None = _TOKEN
    ids: StrictBoolean = Field(
        default=False,
        description="true: each line is ID<TAB>ROW, and a line whose id came before is dropped "
        "(exactly once). false: a line that is sent again counts again (at least once).",
    )


class ZeroMqSource(LiveSource):
    """Messages to a ZeroMQ ROUTER."""

    label: ClassVar[str] = "a ZeroMQ source"
    kind: ClassVar[Literal["zeromq"]] = "zeromq"
    _secret: ClassVar[str] = "keys"

    type: Literal["zeromq"] = Field(description="zeromq: messages to a ZeroMQ ROUTER.")
    keys: Text | None = Field(
        default=None,
        description="Key file of this source (CURVE), readable by its owner only; relative to the "
        "topology's folder. Its client key lets clients in. Not the cluster's own key file.",
        examples=["secrets/readings.keys"],
    )


class HttpSource(LiveSource):
    """POST requests."""

    label: ClassVar[str] = "an HTTP source"
    kind: ClassVar[Literal["http"]] = "http"

    type: Literal["http"] = Field(description="http: POST requests.")
    token: Text | None = _TOKEN


AnyLiveSource = TcpSource | ZeroMqSource | HttpSource
LIVE_KINDS = ("tcp", "zeromq", "http")
