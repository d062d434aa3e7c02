"""CSV: one row per record, its values in the order of the header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from streammine.model.formats import conversion
from streammine.model.formats.blanks import single_blanks
from streammine.model.formats.blocks import BYTE_ORDER_MARK
from streammine.model.formats.records import BAD_CARRIAGE_RETURN, RecordIndex, index_records
from streammine.model.formats.rejection import Rejections, failing

Parsed = tuple[pa.RecordBatch, npt.NDArray[np.int64], int]


class _NullRefused(pa.ArrowInvalid):  # type: ignore[misc]
    """A column that must hold a value has a null."""


@dataclass(frozen=True)
class CsvReader:
    """Converts blocks of records. `header` names the file's columns, `schema` those that are
    wanted."""

    header: tuple[str, ...]
    schema: pa.Schema
    delimiter: str
    quote: str | None
    null_values: tuple[str, ...]

    def parse_records(self, data: bytes, first_row: int, rejections: Rejections) -> Parsed:
        """A block's records as (batch, row numbers, raw rows); bad ones go to `rejections`."""
        if self.delimiter == " ":
            data = single_blanks(data, self.quote)
        if data.count(b"\r") == data.count(b"\r\n"):
            try:
                batch = self._convert(data)
            except pa.ArrowInvalid:
                pass
            else:
                count = batch.num_rows
                return batch, np.arange(first_row, first_row + count, dtype=np.int64), count
        return self._sort_out(data, first_row, rejections)

    def _read(self, data: bytes, types: dict[str, pa.DataType], names: Sequence[str]) -> pa.Table:
        # Arrow takes a byte-order mark at the front of any buffer off; here it is data. The blank
        # line keeps it, and is no record.
        if data.startswith(BYTE_ORDER_MARK):
            data = b"\n" + data
        return arrow_csv.read_csv(
            pa.py_buffer(data),
            arrow_csv.ReadOptions(
                use_threads=False, column_names=self.header, block_size=len(data) + 1
            ),
            arrow_csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=self.quote or False,
                newlines_in_values=True,
            ),
            arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(names),
                null_values=list(self.null_values),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _convert(self, data: bytes) -> pa.RecordBatch:
        """All records as a batch; raises ArrowInvalid when one can't be used."""
        if not data.strip(b"\r\n"):
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        types = {
            field.name: pa.string() if conversion.is_time(field.type) else field.type
            for field in self.schema
        }
        table = self._read(data, types, self.schema.names)
        arrays = []
        hexadecimal = b"0x" in data or b"0X" in data
        for field, column in zip(self.schema, table.columns, strict=True):
            array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
            if hexadecimal and pa.types.is_signed_integer(field.type):
                cells = self._read(data, {field.name: pa.binary()}, [field.name])
                conversion.refuse_wrapped(cells.column(0).combine_chunks(), array)
            if conversion.is_time(field.type):
                array = conversion.to_timestamps(array, field.type)
            if array.null_count and not field.nullable:
                raise _NullRefused(field.name)
            arrays.append(array)
        return pa.record_batch(arrays, schema=self.schema)

    def _sort_out(self, data: bytes, first_row: int, rejections: Rejections) -> Parsed:
        """The careful way: find each record that can't be used, convert the others."""
        index = index_records(data, self.delimiter, self.quote)
        assert index.rest == len(data), "blocks hold whole records"
        count = len(index.starts)
        good = index.fields == len(self.header)
        for number in np.flatnonzero(~good).tolist():
            reason = self._width_reason(int(index.fields[number]))
            rejections.add(first_row + number, reason, _record(data, index, number))
        kept = np.flatnonzero(good)
        reasons = self._cell_reasons(_records(data, index, good)) if len(kept) else {}
        for place, reason in reasons.items():
            number = int(kept[place])
            good[number] = False
            rejections.add(first_row + number, reason, _record(data, index, number))
        batch = self._convert(_records(data, index, good))
        assert batch.num_rows == good.sum(), "every bad record was found"
        return batch, first_row + np.flatnonzero(good), count

    def _width_reason(self, fields: int) -> str:
        if fields == BAD_CARRIAGE_RETURN:
            return "record has a carriage return outside quotes and not before a line feed"
        return f"record has {fields} values, expected {len(self.header)} ({_listing(self.header)})"

    def _cell_reasons(self, data: bytes) -> dict[int, str]:
        """Why records of the right width can't be used, by their place in `data`."""
        types = dict.fromkeys(self.schema.names, pa.binary())
        table = self._read(data, types, self.schema.names)
        reasons: dict[int, str] = {}
        for field, column in zip(self.schema, table.columns, strict=True):
            cells = column.combine_chunks()
            if not field.nullable:
                empty = cells.is_null().to_numpy(zero_copy_only=False)
                for place in np.flatnonzero(empty).tolist():
                    reasons.setdefault(place, f'column "{field.name}" is empty')
            for place in np.flatnonzero(_refused_cells(cells, field.type)).tolist():
                value = cells[place].as_py().decode(errors="backslashreplace")
                shown = value if len(value) <= 100 else value[:100] + "…"
                reasons.setdefault(
                    place, f'column "{field.name}": "{shown}" is not a value of type {field.type}'
                )
        return reasons


def _listing(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 20 else ", ".join(names[:20]) + ", …"


def _refused_cells(cells: pa.Array, kind: pa.DataType) -> npt.NDArray[np.bool_]:
    """Which cells (binary) have no value of the type; nulls have."""
    refused = np.zeros(len(cells), dtype=np.bool_)
    if pa.types.is_binary(kind):
        return refused
    encoded = cells.dictionary_encode()
    values = encoded.dictionary
    bad = failing(values, lambda texts: pc.cast(texts, pa.string()))
    checked = np.flatnonzero(~bad)
    texts = values.take(pa.array(checked)).cast(pa.string())
    sure = conversion.surely_refused(texts, kind)
    if sure is not None:
        bad[checked[sure.to_numpy(zero_copy_only=False)]] = True
        checked = np.flatnonzero(~bad)
    candidates = values.take(pa.array(checked))
    bad[checked] = failing(candidates, lambda some: conversion.csv_cells(some, kind))
    indices = encoded.indices.fill_null(-1).to_numpy()
    present = indices >= 0
    refused[present] = bad[indices[present]]
    return refused


def _record(data: bytes, index: RecordIndex, number: int) -> bytes:
    return data[index.starts[number] : index.ends[number]]


def _records(data: bytes, index: RecordIndex, good: npt.NDArray[np.bool_]) -> bytes:
    """The bytes of the good records, taken in runs."""
    edges = np.flatnonzero(np.diff(good, prepend=False, append=False))
    runs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return b"".join(data[index.starts[first] : index.ends[last - 1]] for first, last in runs)
