"""Output files as bytes: Parquet, CSV, JSON lines and Arrow IPC, there and back without loss.

CSV can't hold every type. What it can't is written so that people and other tools still can read
it: binary as hexadecimal digits, a duration as the number of its units. Lists and structs are
refused. A null is an empty field, an empty text ``""``. Times are ISO 8601 with a space, as RFC
3339 allows; a time that this has no text for, before the year 1 or after 9999, is refused. Floats are the
shortest decimals that read back as the same number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from streammine.model.errors import OutputError, TopologyError
from streammine.operators.json_lines import decode_json, encode_json
from streammine.operators.text_values import (
    check_times,
    from_text_ready,
    text_ready,
    text_ready_type,
)

SUFFIXES = {"parquet": "parquet", "csv": "csv", "json": "jsonl", "arrow": "arrow"}
"""Formats, with the endings of their files' names."""

_TEXT_FORMATS = ("csv", "json")


def stored_format(sink_format: str) -> str:
    """The format of the files behind a sink: a console has files, too, that hold every type."""
    return "arrow" if sink_format == "console" else sink_format


def require_writable(sink: str, file_format: str, schema: pa.Schema) -> None:
    """Raise TopologyError if a sink of this format can't hold these columns."""
    assert file_format in SUFFIXES, f"unknown format {file_format}"
    for field in schema:
        kind = field.type
        if pa.types.is_map(kind) or pa.types.is_union(kind) or pa.types.is_interval(kind):
            raise TopologyError(
                f"sink {sink}: column {field.name} has type {kind}, which no sink can write"
            )
        if file_format == "csv" and pa.types.is_nested(kind):
            raise TopologyError(
                f"sink {sink}: column {field.name} has type {kind}, which CSV can't hold; "
                "use `format: json` or `format: parquet`"
            )
    if file_format != "arrow" and len(schema) == 0:
        raise TopologyError(f"sink {sink}: its input has no columns")


def encode_file(file_format: str, table: pa.Table) -> pa.Buffer:
    """The bytes of a file that holds these rows in their order. Raises OutputError for a value that the
    format can't hold."""
    if file_format in _TEXT_FORMATS:
        check_times(table)
    return _ENCODERS[file_format](table)


def decode_file(file_format: str, data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """The rows of a file, in `schema`. Raises OutputError if the bytes are not such a file's."""
    try:
        return _DECODERS[file_format](data, schema)
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise OutputError(
            f"not a {file_format} file with columns {schema.names}: {error}"
        ) from error


def _encode_parquet(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    # Measured: a dictionary pays for texts and costs time on numbers. Snappy is read everywhere and
    # takes half of the time of zstd.
    texts = [
        field.name
        for field in table.schema
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    pa.parquet.write_table(
        table, sink, compression="snappy", use_dictionary=texts or False, version="2.6"
    )
    return sink.getvalue()


def _decode_parquet(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    # On this thread alone: after a read by pyarrow's own threads, one process in four was seen to
    # abort while it exited ("terminate called without an active exception").
    with pa.parquet.ParquetFile(pa.BufferReader(data), pre_buffer=False) as file:
        return file.read(use_threads=False).cast(schema)


def _encode_arrow(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _decode_arrow(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    return pa.ipc.open_file(data).read_all().cast(schema)


def _encode_csv(table: pa.Table) -> pa.Buffer:
    ready = pa.table(
        [text_ready(column) for column in table.columns],
        schema=pa.schema([(field.name, text_ready_type(field.type)) for field in table.schema]),
    )
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(ready, sink)
    return sink.getvalue()


def _decode_csv(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    columns = {field.name: text_ready_type(field.type) for field in schema}
    table = pa.csv.read_csv(
        pa.BufferReader(data),
        # One block: a quoted line feed must not be cut, and a file is bounded anyway.
        read_options=pa.csv.ReadOptions(block_size=max(1, min(data.size + 1, 2**31 - 1))),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pa.csv.ConvertOptions(
            column_types=columns,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return pa.table(
        [from_text_ready(table.column(field.name), field.type) for field in schema],
        schema=schema,
    )


_ENCODERS: dict[str, Callable[[pa.Table], Any]] = {
    "parquet": _encode_parquet,
    "csv": _encode_csv,
    "json": encode_json,
    "arrow": _encode_arrow,
}
_DECODERS: dict[str, Callable[[pa.Buffer, pa.Schema], pa.Table]] = {
    "parquet": _decode_parquet,
    "csv": _decode_csv,
    "json": decode_json,
    "arrow": _decode_arrow,
}
