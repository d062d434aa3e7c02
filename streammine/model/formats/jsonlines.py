"""JSON lines: one row per object, one object per line; keys that the schema lacks are ignored."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as arrow_json

from streammine.model.formats import blocks, conversion
from streammine.model.formats.rejection import Rejections

IntArray = npt.NDArray[np.int64]
Parsed = tuple[pa.RecordBatch, IntArray, int]

_SECOND_VALUE = re.compile(rb"\}\s*n")
"""An object followed by null outside a string. Arrow's parser must never see it: it would crash."""


def _read_as_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind))


@dataclass(frozen=True)
class JsonReader:
    """Converts blocks of lines into rows of `schema`."""

    schema: pa.Schema

    def parse_lines(self, data: bytes, first_row: int, rejections: Rejections) -> Parsed:
        """A block's objects as (batch, row numbers, raw rows); bad lines go to `rejections`."""
        starts, ends = _filled_lines(data)
        count = len(starts)
        if self._is_plain(data, starts, ends):
            try:
                batch = self._convert(data, count)
            except pa.ArrowInvalid:
                pass
            else:
                return batch, np.arange(first_row, first_row + count, dtype=np.int64), count
        return self._sort_out(data, starts, ends, first_row, rejections)

    def _is_plain(self, data: bytes, starts: IntArray, ends: IntArray) -> bool:
        """True when no line needs a closer look before Arrow's parser may see the block.

        Where every line starts with a brace and ends with one, no object can go on over a line end:
        an object does not follow on a closing brace without a comma.
        """
        codes = np.frombuffer(data, np.uint8)
        return (
            bool((codes[starts] == ord("{")).all() and (codes[ends - 1] == ord("}")).all())
            and (len(data) <= blocks.RECORD_LIMIT_BYTES or _longest(starts, ends) <= _limit())
            and _is_utf8(data)
            and _SECOND_VALUE.search(data) is None
        )

    def _convert(self, data: bytes, count: int) -> pa.RecordBatch:
        """`count` lines as a batch; raises ArrowInvalid when one of them can't be used."""
        if count == 0:
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        wanted = pa.schema(
            [
                pa.field(field.name, pa.string() if _read_as_text(field.type) else field.type)
                for field in self.schema
            ]
        )
        table = arrow_json.read_json(
            pa.py_buffer(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != count:
            raise pa.ArrowInvalid("a line holds more than one object")
        arrays = []
        for field in self.schema:
            array = table.column(field.name).combine_chunks()
            if _read_as_text(field.type):
                array = conversion.from_texts(array, field.type)
            if array.null_count and not field.nullable:
                raise pa.ArrowInvalid(f'column "{field.name}" is missing or null')
            arrays.append(array)
        return pa.record_batch(arrays, schema=self.schema)

    def _sort_out(
        self, data: bytes, starts: IntArray, ends: IntArray, first_row: int, rejections: Rejections
    ) -> Parsed:
        """The careful way: find each line that can't be used, convert the others."""
        lines = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        reasons: dict[int, str] = {}
        for number, line in enumerate(lines):
            if (reason := self._sure_reason(line)) is not None:
                reasons[number] = reason
        kept = [number for number in range(len(lines)) if number not in reasons]
        ranges = [(0, len(kept))]
        while ranges:
            first, last = ranges.pop()
            try:
                self._convert(_joined(lines, kept[first:last]), last - first)
            except pa.ArrowInvalid as error:
                if last - first == 1:
                    reasons[kept[first]] = _arrow_reason(error)
                else:
                    middle = (first + last) // 2
                    ranges += [(first, middle), (middle, last)]
        for number, reason in reasons.items():
            rejections.add(first_row + number, reason, lines[number][: _limit()])
        good = [number for number in kept if number not in reasons]
        batch = self._convert(_joined(lines, good), len(good))
        return batch, first_row + np.array(good, dtype=np.int64), len(lines)

    def _sure_reason(self, line: bytes) -> str | None:
        """Why the line can't be used, as far as Python's own parser can tell; None where it can't.

        It refuses nothing that Arrow's would take, so that what becomes of a line is the same
        whether or not its block needed this closer look.
        """
        if len(line) > _limit():
            return f"line is longer than {_limit():,} bytes"
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            return f"line is not UTF-8: {error.reason} at byte {error.start}"
        stripped = text.strip(" \t\r")
        is_object = stripped.startswith("{") and stripped.endswith("}")
        try:
            value = json.loads(stripped)
        except (ValueError, RecursionError) as error:
            # Arrow also takes Inf and NaN, which Python spells otherwise.
            may_be_number = is_object and ("Inf" in text or "NaN" in text)
            if may_be_number and _SECOND_VALUE.search(line) is None:
                return None
            return f"line is not JSON: {error}"
        if not is_object:
            return f"line is no JSON object but {_kind_of(value)}"
        for field in self.schema:
            if (reason := _mismatch(value.get(field.name), field)) is not None:
                return reason
        return None


def _limit() -> int:
    return blocks.RECORD_LIMIT_BYTES


def _longest(starts: IntArray, ends: IntArray) -> int:
    return int((ends - starts).max(initial=0))


def _filled_lines(data: bytes) -> tuple[IntArray, IntArray]:
    """[starts, ends) of the lines that are not blank, without their line ends."""
    codes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(codes == ord("\n")).astype(np.int64, copy=False)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    returns = (ends > starts) & (codes[ends - 1] == ord("\r"))
    ends = ends - returns
    filled = ends > starts
    return starts[filled], ends[filled]


def _is_utf8(data: bytes) -> bool:
    offsets = np.array([0, len(data)], dtype=np.int32)
    text = pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _joined(lines: list[bytes], numbers: list[int]) -> bytes:
    return b"".join(lines[number].strip(b" \t\r") + b"\n" for number in numbers)


def _arrow_reason(error: pa.ArrowInvalid) -> str:
    return "line can't be used: " + str(error).removesuffix(" in row 0")


_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}


def _kind_of(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), "a number")


def _mismatch(value: Any, field: pa.Field) -> str | None:
    """Why the value is surely none of the field's type, or None."""
    kind = field.type
    if value is None:
        return None if field.nullable else f'column "{field.name}" is missing or null'
    if pa.types.is_integer(kind):
        fits = type(value) is int
    elif pa.types.is_floating(kind):
        fits = type(value) in (int, float)
    elif pa.types.is_boolean(kind):
        fits = type(value) is bool
    elif pa.types.is_string(kind) or _read_as_text(kind):
        fits = type(value) is str
    elif pa.types.is_decimal(kind):
        fits = type(value) in (int, float, str)
    else:
        return None
    if fits:
        return None
    shown = json.dumps(value)
    shown = shown if len(shown) <= 100 else shown[:100] + "…"
    return f'column "{field.name}": {shown} is not a value of type {kind}'
