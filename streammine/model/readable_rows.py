"""Rows as values of Python for people to read, whatever they hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def readable_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """As `to_pylist`; but values that Python has none for, as times before the year 1, are texts."""
    columns = readable_columns(rows)
    return [{name: values[row] for name, values in columns.items()} for row in range(rows.num_rows)]


def readable_columns(rows: pa.RecordBatch | pa.Table) -> dict[str, list[Any]]:
    """As `to_pydict`, with the same exception."""
    return {
        name: _readable(column)
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    }


def _readable(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        return [_value(each) for each in column]
    return values


def _value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        if isinstance(value, pa.ListScalar):
            return [_value(each) for each in value.values]
        # what stands in the column; structs have no such number
        number = getattr(value, "value", None)
        return f"{value.type} {number}" if isinstance(number, int) else f"a {value.type}"
